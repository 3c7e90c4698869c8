"""What is kept of conversations, embeddings and guesses, with every layer on a GPU: as on the CPU.

Runs as `device.py` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from localllm.registry.resolve import carried
from localllm.runtime.runtime import Runtime
from localllm.settings.config import load
from localllm.types import GenerationRequest, SamplingParams, Usage
from localllm.types.embeddings import EmbeddingRequest
from localllm.types.load_options import LoadOptions
from tests.gpu.device import MARKS, PLUGIN_DIR
from tests.homes import share_findings
from tests.models import families

pytestmark = MARKS
GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
STORY = "Once upon a time there was a small house. A girl named Mia lived there, and she had a cat. " * 3
OTHER = "The sea is deep and blue. Ships sail on it every day, and fish live in it. " * 3


class Seen(NamedTuple):
    texts: list[str]
    usages: list[Usage]
    vectors: list[Any]


@pytest.fixture
def ask(home: Path) -> Callable[..., Seen]:
    """One slot: two stories by turns, the first saved, erased and restored, one that is predicted, and vectors."""

    async def scenario(path: Path, options: LoadOptions) -> Seen:
        seen = Seen([], [], [])
        own = {"plugin_dir": PLUGIN_DIR, "kv_disk_mb": 200, "home": home}
        runtime = Runtime(load(own, environ={}))

        async def continued(id: str, prompt: str, **fields: Any) -> str:
            (answer,) = await runtime.submit(id, [GenerationRequest(prompt=prompt, params=GREEDY, **fields)])
            deltas = [delta async for delta in answer]
            assert deltas[-1].finish is not None
            seen.texts.append("".join(delta.text for delta in deltas))
            seen.usages.append(deltas[-1].finish.usage)
            return seen.texts[-1]

        try:
            id = (await runtime.load(path, options)).id
            first = await continued(id, STORY)
            await continued(id, OTHER)
            await continued(id, STORY + first)
            await runtime.save_slot(id, 0, "story")
            await runtime.erase_slot(id, 0)
            await runtime.restore_slot(id, 0, "story")
            await continued(id, STORY + first + ".")
            await continued(id, STORY, prediction=first)
            found = await runtime.embed(id, EmbeddingRequest(texts=(STORY, OTHER)))
            seen.vectors.append(np.frombuffer(found.data, np.float32).reshape(-1, found.dimensions))
            return seen
        finally:
            await runtime.aclose()

    def ask(path: Path, layers: Any) -> Seen:
        options = LoadOptions(gpu_layers=layers, slots=1, ctx=512, kv_disk_mb=200)
        return asyncio.run(scenario(path, options))

    return ask


def test_states_leave_a_gpu_and_come_back_and_answers_and_vectors_are_those_of_the_cpu(
    ask: Callable[..., Seen],
) -> None:
    path = carried("demo.gguf")
    on_cpu, on_gpu = ask(path, 0), ask(path, "all")
    assert on_gpu.texts == on_cpu.texts
    for seen in (on_cpu, on_gpu):
        returned, restored = seen.usages[2], seen.usages[3]
        assert returned.cached_tokens > returned.prompt_tokens / 2, "from main memory: the slot had another meanwhile"
        assert restored.cached_tokens > restored.prompt_tokens / 2, "from the file"
        assert seen.texts[4] == seen.texts[0], "guesses change nothing"
    assert on_gpu.vectors[0] == pytest.approx(on_cpu.vectors[0], abs=0.02)


def test_checkpoints_of_a_sliding_window_come_back_to_a_gpu(ask: Callable[..., Seen], tmp_path: Path) -> None:
    path = families.write_sliding_window(tmp_path / "a.gguf")
    on_cpu, on_gpu = ask(path, 0), ask(path, "all")
    assert on_gpu.texts == on_cpu.texts
    assert [usage.cached_tokens for usage in on_gpu.usages] == [usage.cached_tokens for usage in on_cpu.usages]


def test_what_other_devices_computed_is_not_taken_from_the_disk(home: Path, tmp_path: Path) -> None:
    """They round differently: an answer from such a state is not one that this placement gives."""
    share_findings(home, tmp_path)
    own = {"plugin_dir": PLUGIN_DIR, "kv_disk_mb": 200, "home": tmp_path}

    async def cached(layers: Any) -> int:
        """Tokens of the story that are known, in a new process."""
        runtime = Runtime(load(own, environ={}))
        try:
            options = LoadOptions(gpu_layers=layers, slots=1, ctx=512, kv_disk_mb=200)
            id = (await runtime.load(carried("demo.gguf"), options)).id
            (answer,) = await runtime.submit(id, [GenerationRequest(prompt=STORY, params=GREEDY)])
            finishes = [delta.finish async for delta in answer]
            assert finishes[-1] is not None
            return finishes[-1].usage.cached_tokens
        finally:
            await runtime.aclose()

    assert [asyncio.run(cached(layers)) for layers in (0, 3, "all")] == [0, 0, 0]
    assert all(asyncio.run(cached(layers)) > 0 for layers in (0, 3, "all")), "each its own"
