"""Estimates without a header are near those with one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from gguf import GGMLQuantizationType

from localllm.gguf import read_header
from localllm.gguf.info import model_info
from localllm.planning import needs, rough
from localllm.planning.rough import Figures
from localllm.planning.speed import predict
from localllm.planning.speeds import NotPredicted, Speed, expert_kernel
from localllm.types.load_options import LoadOptions
from tests.models.hollow import SHAPES, write_hollow
from tests.unit.planning.test_speed import KERNEL, MACHINE

FOUR_BILLION = Figures(size_bytes=2_500_000_000, quant="Q4_K_M", num_parameters=4_000_000_000)


def speed(model: Figures) -> Speed:
    found = rough.speed(model, MACHINE)
    assert isinstance(found, Speed), found
    return found


def test_an_answer_takes_as_long_as_reading_the_weights_that_compute_it() -> None:
    read_s = FOUR_BILLION.size_bytes * KERNEL.byte_s
    assert 1 / speed(FOUR_BILLION).answer_tokens_per_s == pytest.approx(read_s, rel=0.05)
    sparse = msgspec.structs.replace(FOUR_BILLION, quant="Q8_0", active_parameters=1_000_000_000)
    assert speed(sparse).answer_tokens_per_s > 3 * speed(FOUR_BILLION).answer_tokens_per_s
    slow = msgspec.structs.replace(KERNEL, byte_s=2 * KERNEL.byte_s)
    machine = msgspec.structs.replace(MACHINE, kernels={"Q8_0": KERNEL, expert_kernel("Q8_0"): slow})
    slower = rough.speed(sparse, machine)
    assert isinstance(slower, Speed)
    assert slower.answer_tokens_per_s < 0.6 * speed(sparse).answer_tokens_per_s, "experts are measured on their own"


def test_what_was_not_measured_is_not_guessed() -> None:
    unknown = msgspec.structs.replace(FOUR_BILLION, quant="MXFP4")
    assert rough.speed(unknown, MACHINE) == NotPredicted("MXFP4 was not measured")


def test_memory_grows_with_the_context_and_is_an_upper_estimate_where_heads_are_unknown() -> None:
    known = msgspec.structs.replace(FOUR_BILLION, kv_bytes_per_token=147_456)  # 36 layers with eight heads of 128
    assert rough.need_bytes(known, 8192) - rough.need_bytes(known, 4096) == 4096 * 147_456
    assert 0.95 < rough.need_bytes(known, 8192) / rough.need_bytes(FOUR_BILLION, 8192) <= 1.0


def test_they_are_near_what_the_header_gives(tmp_path: Path) -> None:
    """Of all shapes, speeds are within 20 % and memory within 16 % (benchmarks/log/tuning.md#rough-speed)."""
    file = write_hollow(tmp_path / "tiny.gguf", SHAPES["TinyLlama"]._replace(layers=22), GGMLQuantizationType.Q8_0)
    info = model_info([read_header(file)])
    model = Figures(
        size_bytes=info.size_bytes, quant="Q8_0", num_parameters=1_100_000_000, kv_bytes_per_token=4 * 22 * 4 * 64
    )
    exact = predict(info, LoadOptions(), MACHINE)
    assert isinstance(exact, Speed), exact
    assert speed(model).answer_tokens_per_s == pytest.approx(exact.answer_tokens_per_s, rel=0.2)
    assert speed(model).prompt_tokens_per_s == pytest.approx(exact.prompt_tokens_per_s, rel=0.2)
    need = needs.need_bytes(info, LoadOptions(ctx=8192, slots=1))
    assert rough.need_bytes(model, 8192) == pytest.approx(need, rel=0.1)


def test_a_model_that_embeds_keeps_nothing() -> None:
    embeds = msgspec.structs.replace(FOUR_BILLION, generates=False)
    assert rough.need_bytes(embeds, 512) == rough.need_bytes(embeds, 8192)
