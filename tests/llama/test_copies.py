"""Copies between slots, with the next decode or through a state: in any order each slot holds what it should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localllm.engine.backend import Segment
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.cells import STATE_COPY_SHARE
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.states import save_buffers

SLOTS, CAPACITY = 4, 256
SHORT, LONG = CAPACITY // STATE_COPY_SHARE - 20, CAPACITY // STATE_COPY_SHARE + 20


@pytest.fixture(scope="module", params=["on", "off"], ids=lambda mode: f"flash-{mode}")
def backend(
    request: pytest.FixtureRequest, loaded_library: library.Library, tiny_model: Path
) -> Iterator[LlamaBackend]:
    model = LlamaModel(loaded_library, tiny_model, gpu_layers=0, devices=(), must_offload=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(save_buffers, "LEAST_BYTES", 1)  # the tiny model's states, too, lie in the pool
        backend = open_backend(
            loaded_library,
            model,
            KvMemory(CAPACITY, SLOTS, states_bytes=16 * 2**20),
            Batching(256),
            threads=2,
            attention=Attention(request.param),
        )
        yield backend
        backend.free()
        model.close()


def tokens_of(number: int, count: int) -> list[int]:
    return [(7 * number + 3 * place) % 60 + 5 for place in range(count)]


def row(backend: LlamaBackend, slot: int, tokens: list[int]) -> npt.NDArray[np.float32]:
    """Of one more token behind those, as the slot holds them."""
    backend.decoder.decode([Segment(slot, len(tokens), [9], num_outputs=1)])
    return backend.decoder.logits(0)[-1].copy()


copies = st.tuples(st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1), st.floats(0.2, 1.0))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.sampled_from([5, SHORT, LONG]), min_size=SLOTS, max_size=SLOTS),
    moves=st.lists(copies, min_size=1, max_size=5),
)
def test_copies_without_a_decode_between_them(
    backend: LlamaBackend, lengths: list[int], moves: list[tuple[int, int, float]]
) -> None:
    held = [tokens_of(slot, count) for slot, count in enumerate(lengths)]
    for slot, tokens in enumerate(held):
        backend.cells.truncate(slot, 0)
        backend.decoder.decode([Segment(slot, 0, tokens, num_outputs=0)])
    for source, slot, share in moves:
        if source != slot:
            count = max(1, int(share * len(held[source])))
            backend.cells.copy(source, slot, count)
            held[slot] = held[source][:count]
    assert [backend.cells.length(slot) for slot in range(SLOTS)] == list(map(len, held))
    rows = [row(backend, slot, tokens) for slot, tokens in enumerate(held)]
    for tokens, copied in zip(held, rows, strict=True):
        backend.cells.truncate(0, 0)
        backend.decoder.decode([Segment(0, 0, tokens, num_outputs=0)])
        assert np.abs(row(backend, 0, tokens) - copied).max() < 0.05


def test_a_copy_of_a_slot_that_holds_little_is_there_at_once(backend: LlamaBackend) -> None:
    for slot in range(SLOTS):
        backend.cells.truncate(slot, 0)
    backend.decoder.decode([Segment(0, 0, tokens_of(1, SHORT), num_outputs=0)])
    backend.cells.copy(0, 3, SHORT)
    state = backend.cells.save(3)  # no decode before: of a copy that is still to come these would be the old cells
    backend.cells.restore(1, state, SHORT)
    tokens = tokens_of(1, SHORT)
    assert np.abs(row(backend, 1, tokens) - row(backend, 0, tokens)).max() < 1e-3


def test_memory_is_made_ready_for_what_slots_hold(backend: LlamaBackend) -> None:
    """To the byte: what is expected of a slot is what its state takes."""
    for slot in range(SLOTS):
        backend.cells.truncate(slot, 0)
    for slot in (0, 2):
        backend.decoder.decode([Segment(slot, 0, tokens_of(slot, 100 + slot), num_outputs=0)])
    sizes = [backend.cells.state_bytes(slot) for slot in (0, 2)]
    assert sizes[1] > sizes[0]
    pool = backend.cells._states.pool
    assert pool._expected == (sizes[1], sum(sizes))
    before = pool.held_bytes
    state = backend.cells.save(2)
    assert len(state) == sizes[1]
    assert pool.held_bytes - before == save_buffers.BLOCK_BYTES * -(-sizes[1] // save_buffers.BLOCK_BYTES)
    del state
    assert pool.held_bytes == before
