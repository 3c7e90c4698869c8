"""Predicted tokens per second: more to compute is slower, and what was not measured is not guessed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.planning.speed import kernels, predict
from localllm.planning.speeds import (
    AttentionSpeed,
    AttentionWay,
    KernelSpeed,
    MachineSpeed,
    NotPredicted,
    Speed,
    expert_kernel,
)
from localllm.types import LayerMemory, ModelInfo
from localllm.types.headers.products import Matrices, Products
from localllm.types.load_options import LoadOptions
from tests.unit.planning.test_plan import MODEL

KERNEL = KernelSpeed(cached_byte_s=2e-11, byte_s=5e-11, matrix_s=1e-6, product_s=1e-11, output_s=1e-10, spread=0.05)
WAY = AttentionWay(cached_token_s=1e-8, memory_s=1e-8, prompt_s=3e-9)
MACHINE = MachineSpeed(
    threads=2,
    node_s=1e-6,
    element_s=2e-10,
    kernels={"Q8_0": KERNEL, "Q4_K": KERNEL, expert_kernel("Q8_0"): KERNEL},
    attention={"64": AttentionSpeed(flash=WAY, plain=WAY)},
)


def matrices(count: float = 100, *, side: int = 2048, experts: int = 0, is_head: bool = False) -> Matrices:
    return Matrices(
        type="Q8_0", inputs=side, outputs=side, count=count, bytes=side * side * 34 // 32, experts=experts,
        is_head=is_head,
    )  # fmt: skip


def model(*parts: Matrices, experts_used: int = 0, heads: int = 32) -> ModelInfo:
    size = sum(int(each.count) * each.bytes * (each.experts or 1) for each in parts)
    return msgspec.structs.replace(
        MODEL, size_bytes=size, num_layers=16, num_heads=heads, num_kv_heads=8, experts_used=experts_used,
        layer_memory=(LayerMemory(keys=512, values=512),) * 16,
        products=Products(matrices=parts, num_vectors=33, vector_numbers=33 * 2048),
    )  # fmt: skip


def speed(info: ModelInfo, machine: MachineSpeed = MACHINE, options: LoadOptions | None = None) -> Speed:
    found = predict(info, options or LoadOptions(), machine)
    assert isinstance(found, Speed), found
    return found


def test_a_large_model_answers_as_fast_as_memory_gives_its_weights() -> None:
    info = model(matrices(1000))
    assert speed(info).answer_tokens_per_s == pytest.approx(1 / (info.size_bytes * KERNEL.byte_s), rel=0.05)


@given(count=st.integers(1, 2000), more=st.integers(1, 2000), heads=st.integers(8, 64))
def test_more_of_anything_is_slower(count: int, more: int, heads: int) -> None:
    small = speed(model(matrices(count), heads=heads))
    for info in (model(matrices(count + more), heads=heads), model(matrices(count), heads=heads + 8)):
        other = speed(info)
        assert other.answer_tokens_per_s < small.answer_tokens_per_s
        assert other.prompt_tokens_per_s < small.prompt_tokens_per_s


def test_the_head_is_computed_for_one_token_of_a_prompt() -> None:
    without, head, block = (
        speed(model(matrices(), *more)) for more in ((), (matrices(10, is_head=True),), (matrices(10),))
    )
    assert head.answer_tokens_per_s == block.answer_tokens_per_s
    assert without.prompt_tokens_per_s > head.prompt_tokens_per_s > 1.05 * block.prompt_tokens_per_s


def test_of_a_mixture_only_the_experts_in_use_count() -> None:
    two, four = (
        speed(model(matrices(100, side=1024, experts=16), experts_used=used)).answer_tokens_per_s for used in (2, 4)
    )
    assert 1.5 * four < two < 2 * four


def test_a_noisy_probe_widens_the_error() -> None:
    noisy = msgspec.structs.replace(MACHINE, kernels={"Q8_0": msgspec.structs.replace(KERNEL, spread=0.4)})
    assert speed(model(matrices())).error < speed(model(matrices()), noisy).error <= 0.5


def test_attention_without_flash_is_taken_where_it_is_clearly_faster_or_asked_for() -> None:
    faster = AttentionWay(cached_token_s=1e-9, memory_s=0.0, prompt_s=1e-10)
    machine = msgspec.structs.replace(MACHINE, attention={"64": AttentionSpeed(flash=WAY, plain=faster)})
    info = model(matrices())
    on, off, auto = (
        speed(info, machine, msgspec.convert({"flash_attn": mode}, LoadOptions)) for mode in ("on", "off", "auto")
    )
    assert on.answer_tokens_per_s < off.answer_tokens_per_s == auto.answer_tokens_per_s


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (msgspec.structs.replace(model(matrices()), causal=False), "an encoder"),
        (msgspec.structs.replace(model(matrices()), products=Products()), "nothing is known of its matrices"),
        (msgspec.structs.replace(model(matrices()), layer_memory=(LayerMemory(state=9),) * 16), "recurrent"),
        (msgspec.structs.replace(model(matrices()), layer_memory=(LayerMemory(keys=576),) * 16), "an unsupported kind"),
        (model(msgspec.structs.replace(matrices(), type="IQ1_S")), "not measured: IQ1_S"),
    ],
)
def test_what_was_not_measured_is_not_predicted(info: ModelInfo, reason: str) -> None:
    found = predict(info, LoadOptions(), MACHINE)
    assert isinstance(found, NotPredicted)
    assert reason in found.reason


def test_a_quantized_cache_is_not_predicted() -> None:
    found = predict(model(matrices()), LoadOptions(kv_type="q8_0"), MACHINE)
    assert isinstance(found, NotPredicted)
    assert "q8_0" in found.reason


def test_the_probe_is_asked_for_what_the_model_consists_of() -> None:
    wanted = kernels(model(matrices(), matrices(experts=8)))
    assert not isinstance(wanted, NotPredicted)
    assert wanted.names == ("Q8_0", "Q8_0 experts")
    assert wanted.head_size == 64
