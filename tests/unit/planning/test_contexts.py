"""How long slots are where nobody said it: as memory allows, in steps, and the same tomorrow."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.planning.contexts import SHARE, STEPS, Memory, on_devices, with_context
from localllm.planning.draft_plan import DraftModel, draft_bytes
from localllm.planning.plan import context_of, cpu_memory_bytes, heads_of, plan
from localllm.settings.config import Settings
from localllm.supervisor.ledger import Ledger
from localllm.supervisor.on_devices import OnDevices
from localllm.supervisor.supervisor import Supervisor
from localllm.system import memory as system_memory
from localllm.types import LayerMemory, ModelInfo
from localllm.types.load_options import LoadOptions
from tests.unit.planning.test_plan import CPU, GPU, MODEL

GIB = 1 << 30
LONG: ModelInfo = msgspec.structs.replace(
    MODEL,
    context_length=131_072,
    size_bytes=1 * GIB,
    feed_forward_length=8192,
    vocabulary_size=32_000,
    layer_memory=(LayerMemory(keys=512, values=512),) * MODEL.num_layers,
)
"""20 KiB a token, of each of four slots."""
DRAFT = DraftModel("draft", Path("draft.gguf"), LONG)
HEADED = msgspec.structs.replace(LONG, heads=LayerMemory(keys=512, values=512))


def chosen(info: ModelInfo, total: int, free: int | None = None, options: LoadOptions | None = None) -> int:
    return context_of(info, with_context(info, options or LoadOptions(), Memory(total, free)))


@given(total=st.integers(0, 512 * GIB), free=st.integers(0, 512 * GIB), slots=st.integers(1, 32))
def test_a_context_is_a_step_that_takes_a_bounded_share_of_memory(total: int, free: int, slots: int) -> None:
    options = with_context(LONG, LoadOptions(slots=slots), Memory(total, free))
    assert options.ctx is None or options.ctx in STEPS
    if options.ctx is not None:
        kept = cpu_memory_bytes(LONG, options)
        assert kept <= total * SHARE
        assert kept + LONG.size_bytes <= free / 2


@given(total=st.integers(0, 512 * GIB), more=st.integers(0, 512 * GIB), free=st.integers(0, 512 * GIB))
def test_more_memory_never_makes_it_shorter(total: int, more: int, free: int) -> None:
    assert chosen(LONG, total, free) <= chosen(LONG, total + more, free) <= chosen(LONG, total + more, free + more)


def test_a_little_less_free_memory_changes_nothing() -> None:
    """Or a model would be loaded with another context each time."""
    assert len({chosen(LONG, 64 * GIB, 50 * GIB + step * 2**20) for step in range(-2048, 2048, 64)}) == 1


def test_agents_get_32_k_and_more_where_the_cache_is_a_small_part_of_memory() -> None:
    assert chosen(LONG, 8 * GIB, 6 * GIB) == 8192
    assert [chosen(LONG, total * GIB, total * GIB) for total in (24, 32, 64, 128)] == list(STEPS)
    window = LayerMemory(keys=512, values=512, is_windowed=True)
    windowed = msgspec.structs.replace(LONG, layer_memory=(window,) * LONG.num_layers, sliding_window=512)
    assert chosen(windowed, 24 * GIB, 20 * GIB) == 131_072, "windows keep few tokens, however long the slot is"


@given(total=st.integers(0, 512 * GIB), free=st.integers(0, 512 * GIB))
def test_what_guesses_takes_part_of_the_share(total: int, free: int) -> None:
    """The model's own NextN layers, or a draft model whose keys and values are as long as the model's."""
    memory = Memory(total, free)
    alone, with_draft = (with_context(LONG, LoadOptions(), memory, draft) for draft in (None, DRAFT))
    headed = with_context(HEADED, LoadOptions(), memory)
    assert max(with_draft.ctx or 0, headed.ctx or 0) <= (alone.ctx or 0)
    if with_draft.ctx is not None:
        weights = LONG.size_bytes + DRAFT.info.size_bytes
        added = draft_bytes(LONG, with_draft, DRAFT) - DRAFT.info.size_bytes
        kept = cpu_memory_bytes(LONG, with_draft) + added
        assert kept <= total * SHARE
        assert kept + weights <= free / 2
    if headed.ctx is not None:
        assert cpu_memory_bytes(HEADED, headed) + heads_of(HEADED, headed).total <= total * SHARE


def test_a_large_draft_has_a_shorter_context_chosen() -> None:
    memory = Memory(64 * GIB, 60 * GIB)
    assert [context_of(LONG, with_context(LONG, LoadOptions(), memory, draft)) for draft in (None, DRAFT)] == [
        65_536, 32_768,
    ]  # fmt: skip


def test_what_is_asked_for_is_left_alone() -> None:
    plenty = Memory(512 * GIB, 512 * GIB)
    for options in (LoadOptions(ctx=2048), LoadOptions(kv_cells=4096)):
        assert with_context(LONG, options, plenty) is options
    encoder = msgspec.structs.replace(LONG, causal=False)
    assert with_context(encoder, LoadOptions(), plenty) == LoadOptions()


@pytest.mark.parametrize(("trained", "expected"), [(4096, 4096), (8192, 8192), (40_960, 32_768), (None, 8192)])
def test_no_context_is_longer_than_the_trained_one(trained: int | None, expected: int) -> None:
    info = msgspec.structs.replace(LONG, context_length=trained)
    assert chosen(info, 512 * GIB, 512 * GIB) == expected


def test_where_the_system_does_not_say_what_memory_it_has_the_context_is_the_usual_one() -> None:
    assert with_context(LONG, LoadOptions(), Memory(None, None)) == LoadOptions()


@given(free=st.integers(0, 48 * GIB))
def test_a_longer_context_takes_no_layer_from_a_gpu(free: int) -> None:
    devices = [CPU, msgspec.structs.replace(GPU, free_bytes=free)]
    long = with_context(LONG, LoadOptions(), Memory(512 * GIB, 512 * GIB))
    kept = on_devices(long, lambda tried: plan(LONG, tried, devices).gpu_layers)
    assert plan(LONG, kept, devices).gpu_layers == plan(LONG, LoadOptions(), devices).gpu_layers
    if not plan(LONG, LoadOptions(), devices).gpu_layers:
        assert kept == long


@given(free=st.integers(0, 48 * GIB))
def test_nor_does_it_take_one_of_a_draft_from_there(free: int) -> None:
    """A draft's keys and values are as long as the model's."""
    devices = [CPU, msgspec.structs.replace(GPU, free_bytes=free, total_bytes=48 * GIB)]
    model = OnDevices(Ledger(), "library", "model", LONG, LoadOptions(), DRAFT)
    long = with_context(LONG, LoadOptions(), Memory(512 * GIB, 512 * GIB))
    kept = on_devices(long, lambda tried: model.layers_with(tried, devices))
    assert model.layers_with(kept, devices) >= model.layers_with(LoadOptions(), devices)


def test_a_context_is_widened_only_where_the_draft_fits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys and values grow with the model's; a draft that cannot guess is for the load to refuse."""
    monkeypatch.setattr(system_memory, "total_memory", lambda: 7 * GIB)
    monkeypatch.setattr(system_memory, "available_memory", lambda: 7 * GIB)
    options, encoder = LoadOptions(), DRAFT._replace(info=msgspec.structs.replace(LONG, causal=False))

    def widened(draft: DraftModel | None) -> int | None:
        return Supervisor(Settings()).widened("model", LONG, options, 32_768, draft).ctx

    assert widened(None) == 32_768
    assert widened(DRAFT) is None
    assert widened(encoder) is None
