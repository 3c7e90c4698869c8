"""How many states of a recurrent memory are kept of each slot: few where they are large, or none."""

from __future__ import annotations

import msgspec
import pytest

from localllm.planning.snapshots import LARGEST_SHARE, MOST, snapshots_of
from localllm.types import LayerMemory, ModelInfo
from tests.worker.conftest import INFO


def info(architecture: str, *, state: int, size_bytes: int, windowed: bool = False) -> ModelInfo:
    layers = (LayerMemory(state=state), LayerMemory(keys=64, values=64, is_windowed=windowed))
    return msgspec.structs.replace(INFO, architecture=architecture, size_bytes=size_bytes, layer_memory=layers)


@pytest.mark.parametrize(
    ("state", "slots", "ubatch_tokens", "expected"),
    [
        (1000, 4, 512, MOST),
        (1000, 4, 16, 3),  # a ubatch holds as many rows of every slot
        (1000, 1, 5, 3),  # and llama.cpp aborts unless it is longer than they are
        (1000, 4, 4, 0),
        (1_000_000, 4, 512, 1_000_000_000 // LARGEST_SHARE // 16_000_000),
        (10_000_000, 4, 512, 0),
    ],
)
def test_they_take_an_eighth_of_the_file_at_most(state: int, slots: int, ubatch_tokens: int, expected: int) -> None:
    model = info("qwen35", state=state, size_bytes=1_000_000_000)
    found = snapshots_of(model, slots=slots, ubatch_tokens=ubatch_tokens)
    assert found == min(MOST, expected)
    assert 4 * state * slots * found * LARGEST_SHARE <= model.size_bytes


@pytest.mark.parametrize("architecture", ["mamba", "jamba", "rwkv7", "falcon-h1", "qwen3next", "llama"])
def test_none_are_planned_of_what_writes_none(architecture: str) -> None:
    assert snapshots_of(info(architecture, state=1000, size_bytes=10**9), slots=4, ubatch_tokens=512) == 0


def test_none_are_planned_beside_a_window() -> None:
    model = info("lfm2", state=1000, size_bytes=10**9, windowed=True)
    assert snapshots_of(model, slots=4, ubatch_tokens=512) == 0
