"""Layers on a GPU backend that is loaded as a plugin: the same text as on the CPU, and no silent CPU. Runs as
`device.py` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from localllm.errors import DeviceUnavailable
from localllm.llama.probes import device_trials
from localllm.runtime.runtime import Runtime
from localllm.settings.config import load
from localllm.types import GpuLayers, LoadedModel, SamplingParams
from localllm.types.load_options import LoadOptions
from tests.asked import complete
from tests.gpu.device import BACKEND, MARKS, PLUGIN_DIR

pytestmark = MARKS


Answer = tuple[str, LoadedModel]


@pytest.fixture
def answer(home: Path, tiny_model: Path) -> Callable[..., Answer]:
    """Loads the tiny model with these layers on these devices and continues a prompt greedily."""
    settings = load({"plugin_dir": PLUGIN_DIR}, environ={"LOCALLLM_HOME": str(home)})

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


def test_auto_uses_a_gpu_exactly_if_it_was_seen_to_be_faster_than_the_cpu(
    answer: Callable[..., Answer], home: Path
) -> None:
    """Which Mesa's software device is not. A wish for layers or devices is met in any case."""
    _, model = answer("auto")
    trials = msgspec.json.decode((home / device_trials.FILE_NAME).read_bytes())["outcomes"].values()
    is_faster = any(not each["problem"] and each["prompt_times"] * each["answer_times"] > 1 for each in trials)
    assert trials
    assert (model.layers_per_device.keys() != {"CPU"}) is is_faster
    assert answer("auto", (BACKEND,))[1].layers_per_device.keys() != {"CPU"}


def test_a_device_is_chosen_by_name_and_an_unknown_one_refused(answer: Callable[..., Answer]) -> None:
    _, model = answer("all")
    (gpu,) = model.layers_per_device.keys() - {"CPU"}
    assert answer("all", (gpu.lower(),))[1].layers_per_device == model.layers_per_device
    with pytest.raises(DeviceUnavailable, match=gpu):
        answer("all", (f"{gpu}9",))
