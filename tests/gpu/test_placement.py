"""Models beside each other on a GPU, and one that finds too little memory there. Runs as `device.py` says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from localllm.errors import DeviceUnavailable, LoadFailed
from localllm.runtime.runtime import Runtime
from localllm.settings.config import load
from localllm.types import CpuMoe, SamplingParams
from localllm.types.load_options import LoadOptions
from tests.asked import complete
from tests.gpu.device import BACKEND, HAS_EXPERT_CACHE, MARKS, PLUGIN_DIR, needs_vulkan
from tests.models.maker import write_llama

pytestmark = MARKS
GREEDY = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
SMALL_STEPS: dict[str, Any] = {"slots": 1, "ctx": 256, "ubatch": 32}


@pytest.fixture
def run(home: Path) -> Callable[[Callable[[Runtime], Awaitable[None]]], None]:
    """Runs a scenario with a runtime of its own."""
    settings = load({"plugin_dir": PLUGIN_DIR}, environ={"LOCALLLM_HOME": str(home)})

    def run(scenario: Callable[[Runtime], Awaitable[None]]) -> None:
        async def whole() -> None:
            runtime = Runtime(settings)
            try:
                await scenario(runtime)
            finally:
                await runtime.aclose()

        asyncio.run(whole())

    return run


@pytest.fixture
def wide_model(tmp_path: Path) -> Path:
    """Eight layers of 3 MiB."""
    return write_llama(tmp_path / "wide.gguf", n_layer=8, n_ff=4096)


async def text_of(runtime: Runtime, id: str, prompt: str = "Once upon a time") -> str:
    return "".join([delta.text async for delta in await complete(runtime, id, prompt, GREEDY)])


def on_gpus(layers: dict[str, int]) -> int:
    return sum(count for device, count in layers.items() if device != "CPU")


@needs_vulkan
def test_out_of_memory_means_fewer_layers_once_and_the_model_says_so(
    run: Callable[[Callable[[Runtime], Awaitable[None]]], None], wide_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is told to give no buffer of 20 MiB: all layers take 24 together, six of nine take 16."""

    async def scenario(runtime: Runtime) -> None:
        whole = await runtime.load(wide_model, LoadOptions(gpu_layers=0, **SMALL_STEPS))
        expected = await text_of(runtime, whole.id)
        await runtime.unload(whole.id)
        monkeypatch.setenv("GGML_VK_FORCE_MAX_BUFFER_SIZE", str(20 * 2**20))
        loaded = await runtime.load(wide_model, LoadOptions(devices=(BACKEND,), **SMALL_STEPS))
        assert on_gpus(loaded.layers_per_device) == 6
        assert "with 9 of 9 layers: 6 of 9 layers there instead" in loaded.placement_note
        assert await text_of(runtime, loaded.id) == expected
        await runtime.unload(loaded.id)
        with pytest.raises(LoadFailed) as caught:  # asked for by name: never fewer
            await runtime.load(wide_model, LoadOptions(gpu_layers="all", **SMALL_STEPS))
        assert str(caught.value.details["out_of_memory_on"]).startswith("Vulkan")

    run(scenario)


def test_two_models_share_a_gpu_and_both_loads_at_once_count_each_other(
    run: Callable[[Callable[[Runtime], Awaitable[None]]], None], tiny_model: Path, wide_model: Path
) -> None:
    async def scenario(runtime: Runtime) -> None:
        options = LoadOptions(devices=(BACKEND,), **SMALL_STEPS)
        one, two = await asyncio.gather(runtime.load(tiny_model, options), runtime.load(wide_model, options))
        assert on_gpus(one.layers_per_device) == 3
        assert on_gpus(two.layers_per_device) == 9
        held = {model.id: sum(model.device_bytes.values()) for model in runtime.running()}
        assert held[two.id] > held[one.id] > 0
        assert all([await text_of(runtime, id) for id in held])

    run(scenario)


def test_experts_anywhere_and_cached_give_the_same_text(
    run: Callable[[Callable[[Runtime], Awaitable[None]]], None], tmp_path: Path
) -> None:
    """Four layers with 64 experts each, of which a token needs eight; caches for some and for all of them. A short
    prompt: Mesa 22.3 crashes in products of experts with about 17 rows, cached or not."""
    path = write_llama(tmp_path / "mixture.gguf", n_layer=4, n_ff=64, n_expert=64, n_expert_used=8)

    async def scenario(runtime: Runtime) -> None:
        texts: dict[str, str] = {}
        choices: list[tuple[CpuMoe, int]] = [("auto", 0), (2, 0), ("all", 0), (2, 1), ("all", 1), ("all", 50)]
        for stay, cache in choices:
            options = LoadOptions(
                devices=(BACKEND,), gpu_layers="all", n_cpu_moe=stay, moe_cache_mb=cache, **SMALL_STEPS
            )
            if cache and not HAS_EXPERT_CACHE:
                with pytest.raises(LoadFailed, match=r"moe_cache_mb needs llama.cpp 0.6"):
                    await runtime.load(path, options)
                continue
            loaded = await runtime.load(path, options)
            assert loaded.cpu_experts == {"auto": 0, 2: 2, "all": 4}[stay]
            texts[f"{stay}, {cache} MB"] = await text_of(runtime, loaded.id, "Once")
            await runtime.unload(loaded.id)
        assert len(set(texts.values())) == 1, texts

    run(scenario)


def test_the_cpu_that_is_asked_for_is_all_that_computes_and_a_gpu_that_cannot_divide_rows_says_so(
    run: Callable[[Callable[[Runtime], Awaitable[None]]], None], tiny_model: Path
) -> None:
    async def scenario(runtime: Runtime) -> None:
        loaded = await runtime.load(tiny_model, LoadOptions(devices=("cpu",), **SMALL_STEPS))
        assert loaded.layers_per_device == {"CPU": 3}
        await runtime.unload(loaded.id)
        with pytest.raises(DeviceUnavailable, match="cannot split a model by rows"):
            await runtime.load(tiny_model, LoadOptions(split="row", **SMALL_STEPS))

    run(scenario)
