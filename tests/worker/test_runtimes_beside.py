"""A llama.cpp of its own for each model, and devices that one of them does not have. Real workers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from localllm.errors import DeviceUnavailable, LoadFailed
from localllm.runtime.runtime import Runtime
from localllm.settings.config import load
from localllm.types import LoadedModel, SamplingParams
from localllm.types.load_options import LoadOptions
from tests.asked import complete


async def _text(runtime: Runtime, model: LoadedModel) -> str:
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    return "".join([delta.text async for delta in await complete(runtime, model.id, "Once upon a time", params)])


def test_two_models_with_two_runtimes_are_served_beside_each_other(tmp_path: Path, tiny_model: Path) -> None:
    (tmp_path / "config.toml").write_text('[models."demo"]\nruntime = "wheel"\n')
    settings = load({"runtime": None}, environ={"LOCALLLM_HOME": str(tmp_path)})

    async def scenario() -> None:
        runtime = Runtime(settings)
        try:
            demo = await runtime.load("demo", LoadOptions(slots=1))
            tiny = await runtime.load(tiny_model, LoadOptions(slots=1))
            assert demo.backend.startswith("wheel: ")
            assert ":" not in tiny.backend
            first, other = await asyncio.gather(_text(runtime, demo), _text(runtime, tiny))
            assert first
            assert other
        finally:
            await runtime.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("setting", "options", "error", "words"),
    [
        ({"runtime": "wheel"}, LoadOptions(devices=("vulkan0",)), LoadFailed, "wheel.* has no Vulkan.*build vulkan"),
        ({}, LoadOptions(devices=("CUDA0",)), LoadFailed, "has no CUDA.*runtime build cuda"),
        ({"runtime": "wheel", "rpc": "127.0.0.1:1"}, LoadOptions(), LoadFailed, "wheel.* has no RPC.*build rpc"),
        ({}, LoadOptions(devices=("nothing0",)), DeviceUnavailable, "nothing0.*localllm doctor"),
        ({"runtime": "none"}, LoadOptions(), LoadFailed, "no runtime 'none' here; there are: .*wheel"),
    ],
)
def test_a_device_that_a_runtime_lacks_is_an_error_with_the_remedy(
    home: Path,
    tiny_model: Path,
    setting: dict[str, str],
    options: LoadOptions,
    error: type[LoadFailed],
    words: str,
) -> None:
    settings = load(setting, environ={"LOCALLLM_HOME": str(home)})

    async def scenario() -> None:
        runtime = Runtime(settings)
        try:
            with pytest.raises(error, match=words):
                await runtime.load(tiny_model, options)
        finally:
            await runtime.aclose()

    asyncio.run(scenario())
