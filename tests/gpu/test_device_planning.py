"""What is planned for each device is what llama.cpp allocates there. Runs as `device.py` says."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from localllm.gguf import read_model_info
from localllm.registry.resolve import carried
from localllm.types.load_options import LoadOptions
from tests.gpu.allocations import MIB, Case, Outcome
from tests.gpu.device import HAS_EXPERT_CACHE, MARKS, PLUGIN_DIR, needs_vulkan
from tests.llama.test_buffer_planning import SMALL, STEPS
from tests.models.hollow import ENCODERS, SHAPES, Shape, write_hollow

pytestmark = MARKS


def allocated(home: Path, cases: list[Case], **environment: str) -> list[Outcome]:
    """In a process of their own."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.gpu.allocations"],
        input=b"".join(msgspec.json.encode(case) + b"\n" for case in cases),
        stdout=subprocess.PIPE,
        env=os.environ | {"LOCALLLM_HOME": str(home), "LOCALLLM_PLUGIN_DIR": str(PLUGIN_DIR or "")} | environment,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    outcomes = [msgspec.json.decode(line, type=Outcome) for line in child.stdout.splitlines()]
    assert len(outcomes) == len(cases)
    return outcomes


def cases_of(path: Path, modes: list[str]) -> list[Case]:
    """None, half and all of its layers on a GPU. Files are read, not mapped: a mapping is as long as its file."""
    every = read_model_info(path).num_layers + 1
    return [
        Case(str(path), msgspec.structs.replace(STEPS[mode], gpu_layers=layers, mmap=False))
        for mode in modes
        for layers in (0, every // 2, "all")
    ]


def check(outcomes: list[Outcome], slack_bytes: int) -> None:
    for outcome in outcomes:
        shares = {share.device: share for share in outcome.placement.shares}
        for device, share in shares.items():
            assert share.layers == outcome.layers.get(device, 0)
            assert share.total == pytest.approx(outcome.bytes.get(device, 0.0), rel=0.1, abs=slack_bytes), device
        together = sum(share.total for share in shares.values())
        assert together == pytest.approx(sum(outcome.bytes.values()), rel=0.1, abs=slack_bytes)


@pytest.mark.parametrize("kind", ["full", "sliding window", "recurrent", "hybrid", "mixture", "demo"])
def test_a_small_model_takes_on_each_device_what_is_planned(home: Path, tmp_path: Path, kind: str) -> None:
    path = SMALL[kind](tmp_path / "a.gguf")
    cases = [
        msgspec.structs.replace(case, options=msgspec.structs.replace(case.options, ctx=512))
        for case in cases_of(path, ["flash", "no flash"])
    ]
    check(allocated(home, cases, GGML_VK_VISIBLE_DEVICES="0"), 4 * MIB)


def test_a_model_of_real_widths_takes_on_each_device_what_is_planned(home: Path, tmp_path: Path) -> None:
    path = write_hollow(tmp_path / "a.gguf", SHAPES["TinyLlama"])
    modes = ["flash", "no flash", "q8_0"]
    check(allocated(home, cases_of(path, modes), GGML_VK_VISIBLE_DEVICES="0"), 0)


def test_a_mixture_takes_on_each_device_what_is_planned_wherever_its_experts_are(home: Path, tmp_path: Path) -> None:
    shape = Shape("qwen3moe", 1024, 512, 16, 4, 64, 32_000, layers=4, experts=64, experts_used=8)
    path, choices = write_hollow(tmp_path / "a.gguf", shape), itertools.product(("all", 3), (0, 2, "all"))
    steps = [LoadOptions(ctx=2048, slots=2, flash_attn=flash, mmap=False) for flash in ("on", "off")]
    cases = [
        Case(str(path), msgspec.structs.replace(step, gpu_layers=layers, n_cpu_moe=stay))
        for layers, stay in choices
        for step in steps
    ]
    check(allocated(home, cases, GGML_VK_VISIBLE_DEVICES="0"), 0)


@pytest.mark.skipif(not HAS_EXPERT_CACHE, reason="this llama.cpp has no expert cache")
def test_the_expert_cache_takes_what_is_planned(home: Path, tmp_path: Path) -> None:
    shape = Shape("qwen3moe", 1024, 512, 16, 4, 64, 32_000, layers=4, experts=64, experts_used=8)
    path = write_hollow(tmp_path / "a.gguf", shape)
    step = LoadOptions(ctx=2048, slots=2, flash_attn="on", mmap=False, gpu_layers="all")
    cases = [
        Case(str(path), msgspec.structs.replace(step, n_cpu_moe=stay, moe_cache_mb=cache))
        for stay, cache in ((2, 40), ("all", 100), ("all", 300))
    ]
    check(allocated(home, cases, GGML_VK_VISIBLE_DEVICES="0"), 0)


@needs_vulkan
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_takes_on_each_device_what_is_planned(home: Path, tmp_path: Path, name: str) -> None:
    """Texts whose scores one buffer of the software device holds: beyond that it leaves them to the CPU."""
    path = write_hollow(tmp_path / "a.gguf", ENCODERS[name])
    steps: list[LoadOptions] = [
        LoadOptions(embedding_ctx=128, flash_attn="on", mmap=False),
        LoadOptions(embedding_ctx=512, flash_attn="off", mmap=False),
        LoadOptions(embedding_ctx=ENCODERS[name].ctx // 4, flash_attn="on", mmap=False),
    ]
    cases = [
        Case(str(path), msgspec.structs.replace(step, gpu_layers=layers, devices=devices))
        for step in steps
        for layers, devices in ((0, None), (1, None), (2, None), ("all", ("Vulkan0",)), ("all", ("Vulkan0", "Vulkan1")))
    ]
    check(allocated(home, cases, GGML_VK_VISIBLE_DEVICES="0,0"), MIB)


@needs_vulkan
def test_layers_are_on_two_devices_as_they_were_planned(home: Path) -> None:
    """One piece of hardware twice: Vulkan's list of devices may name it so."""
    options = LoadOptions(
        ctx=2048, slots=4, flash_attn="on", mmap=False, devices=("Vulkan0", "Vulkan1"), gpu_layers="all"
    )
    shared = msgspec.structs.replace(options, tensor_split=(1.0, 3.0))
    moved = msgspec.structs.replace(options, override_tensor=(("ffn_(up|down)", "cpu"),))
    demo = str(carried("demo.gguf"))
    outcomes = allocated(
        home, [Case(demo, options), Case(demo, shared), Case(demo, moved)], GGML_VK_VISIBLE_DEVICES="0,0"
    )
    check(outcomes, 4 * MIB)
    assert [outcome.layers for outcome in outcomes[:2]] == [{"Vulkan0": 3, "Vulkan1": 2}, {"Vulkan0": 2, "Vulkan1": 3}]
