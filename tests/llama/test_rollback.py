"""Taking back what the last decode computed: what comes then is as if it had never been there, on every memory.

Far beyond a window of 16 tokens, by every number of rows that the backend says it can take back, at every step.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from localllm.engine.backend import Segment
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.types import KvType
from tests.llama.test_rows import TOLERANCE, WRITERS
from tests.models import families
from tests.models.maker import write_llama

CTX, SLOTS, MOST = 512, 3, 6
"""Rows beyond the first in a step."""


class Kind(NamedTuple):
    memory: str
    kv_type: KvType = "f16"
    is_unified: bool = False
    ubatch_tokens: int = 64
    snapshots: int = 5


def write(kind: Kind, path: Path) -> Path:
    """With heads of 32 or 64 where keys and values are quantized."""
    if kind.kv_type == "f16":
        return WRITERS[kind.memory](path)
    if kind.memory == "attention":
        return write_llama(path, n_embd=256, n_head=4, n_kv=2)
    if kind.memory == "window":
        return families.write_sliding_window(path, head_size=32)
    return families.write_gated_delta(path, shape=families.GatedShape(head_size=32))


KINDS = [
    Kind("attention"),
    Kind("attention", is_unified=True),
    Kind("attention", kv_type="q8_0"),
    Kind("attention", kv_type="q4_0"),
    Kind("attention", kv_type="q8_0", is_unified=True),
    Kind("window"),
    Kind("window", ubatch_tokens=16),
    Kind("window", kv_type="q8_0"),
    Kind("gated"),
    Kind("gated", ubatch_tokens=24, snapshots=1),
    Kind("gated", kv_type="q8_0"),
    Kind("short"),
    Kind("kda"),
    Kind("kda", ubatch_tokens=24, snapshots=1),
    Kind("mamba 2"),
    Kind("mamba 2", ubatch_tokens=24, snapshots=1),
]


@pytest.fixture(scope="module", params=KINDS, ids=lambda each: "-".join(map(str, each)))
def backend(
    request: pytest.FixtureRequest, loaded_library: library.Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlamaBackend]:
    kind: Kind = request.param
    path = write(kind, tmp_path_factory.mktemp("rollback") / "model.gguf")
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    try:
        backend = open_backend(
            loaded_library,
            model,
            KvMemory(
                CTX,
                SLOTS,
                num_cells=CTX * SLOTS if kind.is_unified else None,
                kv_type=kind.kv_type,
                snapshots=kind.snapshots,
            ),
            Batching(128, ubatch_tokens=kind.ubatch_tokens),
            threads=1,
        )
        yield backend
        backend.free()
    finally:
        model.close()


Row = npt.NDArray[np.float32]


def text(seed: int, count: int) -> list[int]:
    chooser = random.Random(seed)
    return [chooser.randrange(5, 90) for _ in range(count)]


def plain(backend: LlamaBackend, tokens: list[int], slot: int) -> list[Row]:
    """The row behind each token, in steps of one after a first of 40."""
    backend.cells.truncate(slot, 0)
    backend.decoder.decode([Segment(slot, 0, tokens[:40], 1)])
    rows = [backend.decoder.logits(0)[0].copy()]
    for start, token in enumerate(tokens[40:], start=40):
        backend.decoder.decode([Segment(slot, start, [token], 1)])
        rows.append(backend.decoder.logits(0)[0].copy())
    return rows


def test_rows_are_taken_back_as_if_they_had_never_been(backend: LlamaBackend) -> None:
    """One slot, 300 tokens, wrong ones behind the right ones in every step."""
    tokens, chooser = text(1, 300), random.Random(2)
    expected = plain(backend, tokens, 1)
    most = min(MOST, backend.cells.max_rollback)
    assert most > 0
    backend.cells.truncate(1, 0)
    backend.decoder.decode([Segment(1, 0, tokens[:40], 1)])
    place, taken_back = 40, [0] * (most + 1)
    while place < len(tokens):
        num_right = chooser.randrange(1, most + 2)
        right = tokens[place : place + num_right]
        wrong = [(token + 1) % 80 + 5 for token in tokens[place + num_right :][: most + 1 - len(right)]]
        backend.decoder.decode([Segment(1, place, [*right, *wrong], len(right) + len(wrong))])
        for row, single in zip(backend.decoder.logits(0), expected[place - 39 :][: len(right)], strict=False):
            np.testing.assert_allclose(row, single, rtol=0, atol=TOLERANCE)
        place += len(right)
        assert backend.cells.least(1) <= place, "the rows can be taken back"
        backend.cells.truncate(1, place)
        assert backend.cells.length(1) == place
        taken_back[len(wrong)] += 1
    assert all(taken_back[1:])
    backend.cells.truncate(1, 0)


def test_rows_of_several_slots_are_taken_back_beside_each_other(backend: LlamaBackend) -> None:
    """Unequal guesses made equally long by padding; slots leave and come back, and states are saved and restored."""
    chooser, most = random.Random(3), min(MOST, backend.cells.max_rollback)
    texts = [text(10 + slot, 160) for slot in range(SLOTS)]
    expected = [plain(backend, each, 0) for each in texts]
    for slot in range(SLOTS):
        backend.cells.truncate(slot, 0)
    places = [40] * SLOTS
    for slot in (2, 0, 1):
        backend.decoder.decode([Segment(slot, 0, texts[slot][:40], 1)])
    for step in range(200):
        chosen = [[0, 1, 2], [0, 1], [1, 2], [2], [0]][chooser.randrange(5)]
        chosen = [slot for slot in chosen if places[slot] < 150]
        is_equal = backend.cells.rolls_back_equals or step % 2
        if not chosen or (backend.cells.rolls_back_equals and chosen == [0, 2]):
            continue
        segments, rights = [], []
        for slot in chosen:
            num_right, num_wrong = chooser.randrange(1, most + 2), chooser.randrange(most + 1)
            right = texts[slot][places[slot] : places[slot] + num_right]
            rows = (right + [7] * num_wrong)[: most + 1]
            padding = most + 1 - len(rows) if is_equal and backend.cells.num_cells is None else 0
            segments.append(Segment(slot, places[slot], rows, len(rows), padding))
            rights.append(len(right))
        backend.decoder.decode(segments)
        for index, (slot, num_right) in enumerate(zip(chosen, rights, strict=True)):
            singles = expected[slot][places[slot] - 39 :]
            for row, single in zip(backend.decoder.logits(index)[:num_right], singles, strict=False):
                np.testing.assert_allclose(row, single, rtol=0, atol=TOLERANCE)
            places[slot] += num_right
            assert backend.cells.least(slot) <= places[slot]
            backend.cells.truncate(slot, places[slot])
            assert backend.cells.length(slot) == places[slot]
            if step % 7 == 3:  # with what was taken back still to be carried out
                state = backend.cells.save(slot)
                backend.cells.restore(slot, state, places[slot])
            if step % 7 == 5 and not backend.cells.can_rewind:
                backend.cells.rewind(slot, backend.cells.checkpoint(slot), places[slot])
    assert min(places) > 140
    for slot in range(SLOTS):
        backend.cells.truncate(slot, 0)


@pytest.mark.parametrize(
    "backend",
    [kind for kind in KINDS if kind.memory == "attention" and not kind.is_unified],
    indirect=True,
    ids=lambda kind: kind.kv_type,
)
def test_rows_are_taken_back_behind_a_shift(backend: LlamaBackend) -> None:
    """Keys move with the decode in which the rows are computed; and the next shift comes right after a cut."""
    assert backend.cells.can_shift
    tokens, expected = text(1, 150), []
    for guesses in (False, True):
        backend.cells.truncate(1, 0)
        backend.decoder.decode([Segment(1, 0, tokens[:100], 0)])
        place, dropped, rows = 100, 0, []
        while place < len(tokens):
            if place % 10 == 0:
                backend.cells.shift(1, 10, 20)
                dropped += 20
            right = tokens[place : place + (min(3, 10 - place % 10) if guesses else 1)]
            wrong = [7, 8, 9] if guesses else []
            backend.decoder.decode([Segment(1, place - dropped, [*right, *wrong], len(right) + len(wrong))])
            rows += [row.copy() for row in backend.decoder.logits(0)[: len(right)]]
            place += len(right)
            backend.cells.truncate(1, place - dropped)
            assert backend.cells.length(1) == place - dropped
        if not guesses:
            expected = rows
    for row, single in zip(rows, expected, strict=False):
        np.testing.assert_allclose(row, single, rtol=0, atol=TOLERANCE)
    backend.cells.truncate(1, 0)


@pytest.mark.parametrize("backend", [Kind("gated"), Kind("short")], indirect=True, ids=lambda kind: kind.memory)
def test_unequal_rows_of_recurrent_states_are_never_taken_back(backend: LlamaBackend) -> None:
    """llama.cpp would, and be wrong in 3 of 100 random cases: a later pass moves states without their snapshots."""
    for slot in (2, 0, 1):
        backend.cells.truncate(slot, 0)
        backend.decoder.decode([Segment(slot, 0, text(slot, 20), 0)])
    assert backend.cells.rolls_back_equals
    backend.decoder.decode([Segment(0, 20, [5] * 3, 1), Segment(1, 20, [5], 1), Segment(2, 20, [5] * 2, 1)])
    assert [backend.cells.least(slot) for slot in range(3)] == [23, 21, 22]
    with pytest.raises(AssertionError, match="cannot shorten"):
        backend.cells.truncate(0, 22)
    for slot in range(3):
        backend.cells.truncate(slot, 0)
