"""What goes where on several devices: everything once, as llama.cpp divides it, and only where there is room."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import DeviceUnavailable, InvalidParameter
from localllm.planning.placing import DRIVER_BYTES, divided
from localllm.planning.plan import memory_bytes, plan
from localllm.types import DeviceInfo, ModelInfo
from localllm.types.load_options import LoadOptions
from tests.unit.planning.test_plan import CPU, GPU, MB, MODEL

TENSORS = {
    "token_embd.weight": 90 * MB,
    "output.weight": 100 * MB,
    "output_norm.weight": 10 * MB,
    **{f"blk.{layer}.attn.weight": 40 * MB for layer in range(10)},
    **{f"blk.{layer}.ffn_up.weight": 60 * MB for layer in range(10)},
}
NAMED: ModelInfo = msgspec.structs.replace(MODEL, tensors=TENSORS, size_bytes=sum(TENSORS.values()))
MIXTURE: ModelInfo = msgspec.structs.replace(
    NAMED, tensors={name.replace("ffn_up", "ffn_up_exps"): size for name, size in TENSORS.items()}
)
ONE = LoadOptions(slots=1)


def gpu(name: str, free_bytes: int = 8 << 30, **other: object) -> DeviceInfo:
    return DeviceInfo(name, name, "gpu", "Vulkan", free_bytes, max(free_bytes, 8 << 30), **other)  # type: ignore[arg-type]


def options(**given: object) -> LoadOptions:
    return msgspec.convert({"slots": 1, **given}, LoadOptions)


@given(
    rooms=st.lists(st.integers(0, 3000), min_size=1, max_size=4),
    layers=st.sampled_from(["auto", "all", 0, 1, 5, 10]),
    shares=st.none() | st.lists(st.floats(0, 8), min_size=4, max_size=4).filter(lambda them: them[0] > 0),
    on_cpu=st.sampled_from(["auto", "all", 0, 3]),
    info=st.sampled_from([NAMED, MIXTURE]),
)
def test_every_tensor_and_cell_is_somewhere_once_and_auto_goes_only_where_there_is_room(
    rooms: list[int], layers: int | str, shares: list[float] | None, on_cpu: int | str, info: ModelInfo
) -> None:
    gpus = [gpu(f"Vulkan{index}", room * MB) for index, room in enumerate(rooms)]
    split = None if shares is None else shares[: len(gpus)]
    wanted = options(gpu_layers=layers, tensor_split=split, n_cpu_moe=on_cpu)
    placement = plan(info, wanted, [CPU, *gpus])
    there = {share.device: share for share in placement.shares}
    assert sum(share.layers for share in placement.shares) == 11
    assert sum(share.weights for share in placement.shares) == info.size_bytes
    assert sum(share.kv for share in placement.shares) == sum(memory_bytes(info, wanted, flash=True))
    assert there["CPU"].weights >= TENSORS["token_embd.weight"], "it is read on the CPU"
    if layers == "auto":
        for one in gpus:
            if one.name in there and there[one.name].total:
                assert there[one.name].total + DRIVER_BYTES <= one.free_bytes
    if len(placement.devices) > 1 and placement.tensor_split:
        told = divided(placement.gpu_layers, placement.tensor_split)
        assert told == tuple(there[name].layers for name in placement.devices), "llama.cpp is told the same"


def test_an_embedding_that_is_the_output_head_too_is_there_twice() -> None:
    tied = msgspec.structs.replace(NAMED, tensors={k: v for k, v in TENSORS.items() if k != "output.weight"})
    first, cpu = plan(tied, ONE, [CPU, GPU]).shares
    assert first.weights == (1000 + 10 + 90) * MB
    assert cpu.weights == 90 * MB


def test_shares_that_are_asked_for_are_kept_and_their_number_is_that_of_the_devices() -> None:
    two = [CPU, gpu("Vulkan0"), gpu("Vulkan1")]
    placement = plan(NAMED, options(tensor_split=(3, 1)), two)
    assert [share.layers for share in placement.shares] == [9, 2, 0]
    with pytest.raises(InvalidParameter, match=r"3 shares for 2 devices in use \(Vulkan0, Vulkan1\)"):
        plan(NAMED, options(tensor_split=(1, 1, 1)), two)


def test_layers_are_divided_by_free_memory() -> None:
    placement = plan(NAMED, ONE, [CPU, gpu("Vulkan0", 6 << 30), gpu("Vulkan1", 2 << 30)])
    assert [share.layers for share in placement.shares][:2] == [9, 2]


def test_split_none_takes_the_device_with_most_room_or_the_one_asked_for() -> None:
    two = [CPU, gpu("Vulkan0", 2 << 30), gpu("Vulkan1", 4 << 30)]
    assert plan(NAMED, options(split="none"), two).devices == ("Vulkan1",)
    assert plan(NAMED, options(split="none", main_gpu="0"), two).devices == ("Vulkan0",)
    assert plan(NAMED, options(split="none", main_gpu="vulkan0"), two).devices == ("Vulkan0",)
    for wrong in ("2", "Vulkan2", "CPU"):
        with pytest.raises(DeviceUnavailable) as caught:
            plan(NAMED, options(split="none", main_gpu=wrong), two)
        assert caught.value.param == "main_gpu"


def test_rows_are_divided_by_backends_that_can_and_refused_elsewhere() -> None:
    can = [CPU, gpu("CUDA0", splits_rows=True), gpu("CUDA1", splits_rows=True)]
    placement = plan(NAMED, options(split="row", main_gpu="1"), can)
    assert (placement.main_gpu, placement.tensor_split) == (1, (1.0, 1.0))
    with pytest.raises(DeviceUnavailable, match=r"Vulkan0 \(Vulkan\) cannot split a model by rows") as caught:
        plan(NAMED, options(split="row"), [CPU, gpu("Vulkan0"), gpu("Vulkan1")])
    assert caught.value.param == "split"


def test_tensors_go_where_their_pattern_says_and_make_room_for_layers() -> None:
    small = gpu("Vulkan0", 1100 * MB)
    without = plan(NAMED, ONE, [CPU, small]).gpu_layers
    assert 0 < without < 11
    placement = plan(NAMED, options(override_tensor=[("ffn", "cpu")]), [CPU, small])
    assert placement.gpu_layers == 11
    on_gpu, on_cpu = placement.shares
    assert (on_gpu.weights, on_cpu.weights) == (510 * MB, 690 * MB)
    moved = plan(NAMED, options(gpu_layers=0, override_tensor=[("blk.0.ffn", "vulkan0")]), [CPU, GPU])
    assert (moved.devices, moved.gpu_layers, moved.shares[0].weights) == (("Vulkan0",), 0, 60 * MB)


def test_a_pattern_without_a_tensor_and_a_device_out_of_use_are_errors() -> None:
    with pytest.raises(InvalidParameter, match=r"no tensor's name matches 'exprts'; names look like output\.weight"):
        plan(NAMED, options(override_tensor=[("exprts", "cpu")]), [CPU, GPU])
    with pytest.raises(DeviceUnavailable, match="Vulkan1, which is not in use"):
        plan(
            NAMED,
            options(devices=["Vulkan0"], override_tensor=[("ffn", "Vulkan1")]),
            [CPU, gpu("Vulkan0"), gpu("Vulkan1")],
        )


def test_one_piece_of_hardware_is_used_once_though_two_backends_show_it() -> None:
    twice = [CPU, gpu("CUDA0", id="0000:01:00.0"), gpu("Vulkan0", id="0000:01:00.0")]
    assert plan(NAMED, ONE, twice).devices == ("CUDA0",)
    half = [CPU, *(gpu(name, 1200 * MB, id="same") for name in ("CUDA0", "Vulkan0"))]
    asked = plan(NAMED, options(devices=["CUDA0", "Vulkan0"]), half)
    assert 0 < asked.gpu_layers < 11, "their memory is one"


def test_the_cpu_that_is_asked_for_stays_without_devices_whatever_there_is() -> None:
    placement = plan(NAMED, options(devices=["cpu"]), [CPU, GPU])
    assert (placement.devices, placement.gpu_layers) == ((), 0)
    with pytest.raises(DeviceUnavailable, match="no GPU is in use"):
        plan(NAMED, options(devices=["cpu"], gpu_layers="all"), [CPU, GPU])
