"""Layers on a GPU backend that is loaded as a plugin: the same text as on the CPU, and no silent CPU.

Runs where LOCALLLM_PLUGIN_DIR names a folder with a ggml backend plugin; with Mesa's software Vulkan device set
GGML_VK_VISIBLE_DEVICES=0 too, because ggml leaves devices of type "CPU" out otherwise.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from localllm.errors import DeviceUnavailable
from localllm.runtime.runtime import Runtime
from localllm.settings.config import load
from localllm.types import GpuLayers, LoadedModel, SamplingParams
from localllm.types.load_options import LoadOptions
from tests.asked import complete

PLUGIN_DIR = os.environ.get("LOCALLLM_PLUGIN_DIR")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not PLUGIN_DIR, reason="LOCALLLM_PLUGIN_DIR names no folder with a GPU backend plugin"),
]


Answer = tuple[str, LoadedModel]


@pytest.fixture
def answer(home: Path, tiny_model: Path) -> Callable[..., Answer]:
    """Loads the tiny model with these layers on these devices and continues a prompt greedily."""
    settings = load({"plugin_dir": Path(PLUGIN_DIR or "")}, environ={"LOCALLLM_HOME": str(home)})

    async def scenario(options: LoadOptions) -> Answer:
        runtime = Runtime(settings)
        try:
            model = await runtime.load(tiny_model, options)
            params = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True)
            text = ""
            async for delta in await complete(runtime, model.id, "Once upon a time", params):
                text += delta.text
            return text, model
        finally:
            await runtime.aclose()

    def ask(layers: GpuLayers, devices: tuple[str, ...] | None = None) -> Answer:
        return asyncio.run(scenario(LoadOptions(gpu_layers=layers, devices=devices, slots=1)))

    return ask


def test_no_one_and_all_layers_on_the_gpu_give_the_same_text(answer: Callable[..., Answer]) -> None:
    on_cpu, model = answer(0)
    every = model.info.num_layers + 1
    assert model.layers_per_device == {"CPU": every}
    every_choice: list[GpuLayers] = [1, "all"]
    for layers in every_choice:
        text, model = answer(layers)
        (gpu,) = model.layers_per_device.keys() - {"CPU"}
        assert model.layers_per_device[gpu] == (every if layers == "all" else 1)
        assert sum(model.layers_per_device.values()) == every
        assert text == on_cpu


def test_auto_uses_the_gpu_that_is_there(answer: Callable[..., Answer]) -> None:
    _, model = answer("auto")
    assert model.layers_per_device.keys() != {"CPU"}


def test_a_device_is_chosen_by_name_and_an_unknown_one_refused(answer: Callable[..., Answer]) -> None:
    _, model = answer("all")
    (gpu,) = model.layers_per_device.keys() - {"CPU"}
    assert answer("all", (gpu.lower(),))[1].layers_per_device == model.layers_per_device
    with pytest.raises(DeviceUnavailable, match=gpu):
        answer("all", (f"{gpu}9",))
