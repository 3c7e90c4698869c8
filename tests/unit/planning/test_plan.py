"""Placement: what fits goes where it was asked, and what cannot be had is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from localllm.engine.scheduling.rows import MOST_ROWS
from localllm.errors import DeviceUnavailable, InvalidParameter, LoadFailed
from localllm.planning.placing import DRIVER_BYTES
from localllm.planning.plan import MAX_DEFAULT_EMBEDDING_CTX, SLOT_OUTPUTS, plan
from localllm.types import DeviceInfo, LayerMemory, ModelInfo
from localllm.types.load_options import LoadOptions
from tests.worker.conftest import INFO

MB = 1 << 20
CPU = DeviceInfo("CPU", "a CPU", "cpu", "CPU", 8 << 30, 16 << 30)
GPU = DeviceInfo("Vulkan0", "a GPU", "gpu", "Vulkan", 8 << 30, 8 << 30)
MODEL: ModelInfo = msgspec.structs.replace(
    INFO, context_length=4096, num_layers=10, layer_bytes=(100 * MB,) * 10, other_bytes=200 * MB,
    embedding_length=1024, num_heads=16, num_kv_heads=4, layer_memory=(LayerMemory(keys=256, values=256),) * 10,
)  # fmt: skip
KV_MB = 4096 * 2 * (256 + 256) // MB
"""One slot's keys and values of one layer: 4,096 tokens, 256 numbers each, F16."""


def gpu_with(free_bytes: int) -> DeviceInfo:
    return msgspec.structs.replace(GPU, free_bytes=free_bytes)


def test_without_a_gpu_everything_runs_on_the_cpu() -> None:
    placement = plan(MODEL, LoadOptions(), [CPU])
    assert (placement.gpu_layers, placement.devices, placement.must_offload) == (0, (), False)


def test_auto_offloads_everything_that_fits_the_output_layer_counted() -> None:
    placement = plan(MODEL, LoadOptions(slots=1), [CPU, GPU])
    assert (placement.gpu_layers, placement.devices) == (11, ("Vulkan0",))


@pytest.mark.parametrize("fitting", [1, 4, 9])
def test_auto_offloads_as_many_layers_as_the_free_memory_holds(fitting: int) -> None:
    some = plan(MODEL, LoadOptions(slots=1, gpu_layers=fitting + 1), [CPU, GPU]).shares[0]
    assert (some.weights, some.kv) == ((200 + fitting * 100) * MB, fitting * KV_MB * MB)
    free = some.total + DRIVER_BYTES
    assert plan(MODEL, LoadOptions(slots=1), [CPU, gpu_with(free)]).gpu_layers == fitting + 1
    assert plan(MODEL, LoadOptions(slots=1), [CPU, gpu_with(free - 1)]).gpu_layers == fitting


def test_a_gpu_without_room_is_not_used_by_auto_but_is_an_error_when_it_was_named() -> None:
    small = gpu_with(100 * MB)
    assert plan(MODEL, LoadOptions(), [CPU, small]).gpu_layers == 0
    with pytest.raises(DeviceUnavailable, match="fits on Vulkan0"):
        plan(MODEL, LoadOptions(devices=("vulkan0",)), [CPU, small])


@pytest.mark.parametrize("asked", [1, "all", 99])
def test_layers_asked_for_without_a_gpu_are_an_error_never_a_silent_cpu(asked: int) -> None:
    with pytest.raises(DeviceUnavailable, match="no GPU"):
        plan(MODEL, LoadOptions(gpu_layers=asked), [CPU])


def test_layers_asked_for_by_number_are_insisted_on() -> None:
    assert plan(MODEL, LoadOptions(gpu_layers=3), [CPU, GPU]).gpu_layers == 3
    assert plan(MODEL, LoadOptions(gpu_layers=3), [CPU, GPU]).must_offload
    assert plan(MODEL, LoadOptions(gpu_layers=99), [CPU, GPU]).gpu_layers == 11
    assert plan(MODEL, LoadOptions(gpu_layers=0), [CPU, GPU]).devices == ()


def test_attention_is_left_to_the_worker_to_measure_unless_it_is_settled_or_asked_for() -> None:
    def mode(devices: list[DeviceInfo], **options: object) -> str:
        return plan(MODEL, msgspec.convert(options, LoadOptions), devices).flash_attn

    assert mode([CPU]) == "auto", "the worker measures"
    assert mode([CPU], ctx=512) == "on", "little is looked at"
    assert mode([CPU], kv="unified") == "on", "others' cells are skipped"
    assert mode([CPU], kv_type="q8_0") == "on", "llama.cpp needs it"
    assert mode([CPU, GPU]) == "auto", "llama.cpp knows what the device can"
    assert [mode([CPU, GPU], flash_attn=asked) for asked in ("on", "off")] == ["on", "off"]


@pytest.mark.parametrize(("ctx", "rows"), [(1024, 512), (4096, 512), (32_768, 256), (1 << 20, 32)])
def test_scores_are_bounded_by_fewer_rows_at_once(ctx: int, rows: int) -> None:
    info = msgspec.structs.replace(MODEL, context_length=1 << 20)
    assert plan(info, LoadOptions(ctx=ctx, slots=1, flash_attn="off"), [CPU]).ubatch_tokens == rows
    measured = plan(info, LoadOptions(ctx=ctx, slots=1), [CPU])
    assert measured.plain_ubatch_tokens == rows, "for the worker, if it finds that faster"
    assert plan(info, LoadOptions(ctx=ctx, slots=1, flash_attn="on"), [CPU]).ubatch_tokens == 512
    unified = LoadOptions(ctx=1024, kv_cells=max(ctx, 1024), flash_attn="off")
    assert plan(info, unified, [CPU]).ubatch_tokens == rows, "a row looks at all slots' cells"


def test_a_quantized_cache_without_flash_attention_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="kv_type q4_0 needs flash attention") as caught:
        LoadOptions(kv_type="q4_0", flash_attn="off")
    assert caught.value.param == "flash_attn"


def test_an_unknown_device_is_named_with_those_there_are() -> None:
    with pytest.raises(DeviceUnavailable, match=r"'CUDA7'.*CPU, Vulkan0"):
        plan(MODEL, LoadOptions(devices=("CUDA7",)), [CPU, GPU])


def test_context_defaults_to_the_models_own_up_to_8192_and_is_rounded_up() -> None:
    assert plan(MODEL, LoadOptions(), [CPU]).ctx == 4096
    large = msgspec.structs.replace(MODEL, context_length=131072)
    assert plan(large, LoadOptions(), [CPU]).ctx == 8192
    assert plan(large, LoadOptions(ctx=1000), [CPU]).ctx == 1024


def test_more_context_than_the_model_was_trained_for_is_refused_with_both_numbers() -> None:
    with pytest.raises(InvalidParameter, match=r"5000.*4096") as caught:
        plan(MODEL, LoadOptions(ctx=5000), [CPU])
    assert caught.value.param == "ctx"


def test_an_encoder_gets_no_slots_and_reads_what_it_was_trained_for() -> None:
    encoder = msgspec.structs.replace(MODEL, architecture="bert", causal=False, context_length=512)
    placement = plan(encoder, LoadOptions(ctx=8192, slots=4), [CPU])
    assert (placement.slots, placement.ctx, placement.embedding_ctx, placement.pooling) == (0, 512, 512, "mean")
    assert plan(MODEL, LoadOptions(), [CPU]).embedding_ctx == MAX_DEFAULT_EMBEDDING_CTX
    assert plan(MODEL, LoadOptions(embedding_ctx=4096), [CPU]).embedding_ctx == 4096
    with pytest.raises(InvalidParameter, match=r"4097.*4096") as caught:
        plan(MODEL, LoadOptions(embedding_ctx=4097), [CPU])
    assert caught.value.param == "embedding_ctx"


def test_pooling_is_as_asked_for_else_as_the_model_says_else_as_usual() -> None:
    assert plan(MODEL, LoadOptions(), [CPU]).pooling == "last"
    named = msgspec.structs.replace(MODEL, pooling="cls")
    assert plan(named, LoadOptions(), [CPU]).pooling == "cls"
    assert plan(named, LoadOptions(pooling="mean"), [CPU]).pooling == "mean"


def test_ranking_needs_a_head_for_it() -> None:
    with pytest.raises(InvalidParameter, match="no ranking head"):
        plan(MODEL, LoadOptions(pooling="rank"), [CPU])
    ranker = msgspec.structs.replace(MODEL, pooling="rank")
    with pytest.raises(LoadFailed, match="no ranking head"):
        plan(ranker, LoadOptions(), [CPU])
    assert plan(msgspec.structs.replace(ranker, has_ranking_head=True), LoadOptions(), [CPU]).pooling == "rank"


def test_a_model_without_tokenizer_is_refused_instead_of_crashing_on_its_first_text() -> None:
    with pytest.raises(LoadFailed, match="no tokenizer"):
        plan(msgspec.structs.replace(MODEL, tokenizer="none"), LoadOptions(), [CPU])


def test_as_many_rows_of_logits_are_planned_for_a_slot_as_it_may_get() -> None:
    """The parent plans and imports no engine; llama.cpp ends the process where a batch asks for more."""
    assert SLOT_OUTPUTS == MOST_ROWS


@pytest.mark.parametrize(
    ("wish", "is_used"),
    [
        ({}, False),
        ({"gpu_layers": "all"}, True),
        ({"gpu_layers": 2}, True),
        ({"devices": ("vulkan0",)}, True),
        ({"split": "none"}, True),
        ({"tensor_split": (1.0,)}, True),
        ({"override_tensor": (("ffn_up", "vulkan0"),)}, True),
        ({"override_tensor": (("ffn_up", "cpu"),)}, False),
        ({"gpu_layers": 0}, False),
    ],
)
def test_a_gpu_that_is_slower_than_the_cpu_is_used_only_by_those_who_want_one(
    wish: dict[str, Any], is_used: bool
) -> None:
    slow = msgspec.structs.replace(GPU, is_automatic=False, trial="slower")
    placement = plan(INFO, LoadOptions(**wish), [CPU, slow])
    assert bool(placement.gpu_layers) is is_used


def test_an_integrated_gpu_computes_where_the_dedicated_one_is_slower_than_the_cpu() -> None:
    slow = msgspec.structs.replace(GPU, is_automatic=False)
    integrated = msgspec.structs.replace(GPU, name="Vulkan1", kind="igpu", id="other")
    assert plan(INFO, LoadOptions(), [CPU, slow, integrated]).devices == ("Vulkan1",)
