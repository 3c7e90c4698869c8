"""The encoder of pictures: where it goes, and that it is counted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from localllm.errors import DeviceUnavailable
from localllm.planning.contexts import Memory, with_context
from localllm.planning.main_memory import MainMemory
from localllm.planning.memory_fit import fit_in_memory
from localllm.planning.placing import DRIVER_BYTES
from localllm.planning.plan import plan
from localllm.planning.projector_plan import (
    PROCESS_BYTES,
    Projector,
    fitted,
    misfit,
    place_projector,
    projector_bytes,
    with_rows,
)
from localllm.supervisor.ledger import Ledger
from localllm.supervisor.on_devices import OnDevices
from localllm.types import ProjectorInfo, VisionEncoder
from localllm.types.load_options import LoadOptions
from tests.unit.planning.test_plan import CPU, GPU, MB, MODEL, gpu_with

VISION = VisionEncoder(
    type="gemma4v", image_size=0, patch_size=16, max_rows=1120, span_rows=1120, span_patches=10080, is_causal=False
)
PROJECTOR = Projector(
    Path("mmproj.gguf"),
    ProjectorInfo(
        name=None, file_type="F16", size_bytes=300 * MB, num_parameters=1, width=1024, vision=VISION,
        compute_bytes=100 * MB,
    ),
)  # fmt: skip
NEED = 400 * MB + DRIVER_BYTES


@pytest.mark.parametrize(
    ("options", "free", "device"),
    [
        ({}, 2 * NEED, "Vulkan0"),
        ({}, 2 * NEED - 1, "CPU"),
        ({"projector": "cpu"}, 8 << 30, "CPU"),
        ({"projector": "gpu"}, NEED, "Vulkan0"),
        ({"gpu_layers": 0}, 8 << 30, "CPU"),
        ({"gpu_layers": 0, "projector": "gpu"}, 8 << 30, "Vulkan0"),
        ({"devices": ("cpu",)}, 8 << 30, "CPU"),
    ],
)
def test_the_encoder_goes_where_it_was_asked_or_where_there_is_room(
    options: dict[str, object], free: int, device: str
) -> None:
    placed = place_projector(PROJECTOR, LoadOptions(**options), [CPU, gpu_with(free)])  # type: ignore[arg-type]
    assert (placed.load.device, placed.load.share.total) == (device, 400 * MB)
    left = next(each for each in placed.devices if each.kind == "gpu").free_bytes
    assert left == (free if device == "CPU" else free - NEED)


@pytest.mark.parametrize(("devices", "says"), [([CPU], "no GPU is in use"), ([CPU, gpu_with(NEED - 1)], "--projector")])
def test_a_gpu_that_was_asked_for_and_is_not_there_is_an_error(devices: list[object], says: str) -> None:
    with pytest.raises(DeviceUnavailable, match=says):
        place_projector(PROJECTOR, LoadOptions(projector="gpu"), devices)  # type: ignore[arg-type]


def test_it_is_counted_where_it_is_by_fit_and_by_a_load() -> None:
    options = LoadOptions(ctx=1024, slots=1)
    alone = projector_bytes(PROJECTOR, options)
    assert alone == 400 * MB + PROCESS_BYTES + 256 * 10**6
    without = fit_in_memory(MODEL, with_rows(options, PROJECTOR), free_bytes=None)
    on_cpu = fit_in_memory(MODEL, options, free_bytes=None, projector=PROJECTOR)
    assert on_cpu.need_bytes == without.need_bytes + alone
    on_gpu = fit_in_memory(MODEL, options, devices=[CPU, GPU], free_bytes=None, projector=PROJECTOR)
    assert [share.needs.projector for share in on_gpu.shares] == [NEED, PROCESS_BYTES + 256 * 10**6]
    assert MainMemory(MODEL, options, None, (), PROJECTOR).projector_bytes == alone
    ledger = Ledger()
    loaded = OnDevices(ledger, "library", "m", MODEL, options, None, PROJECTOR)
    planned = OnDevices(Ledger(), "library", "m", MODEL, options)
    loaded.place([CPU, GPU])
    planned.place([CPU, GPU])
    assert loaded.device_bytes()["Vulkan0"] == planned.device_bytes()["Vulkan0"] + 400 * MB
    assert loaded.main_bytes(2 << 30) == planned.main_bytes(2 << 30) - 400 * MB
    loaded.free_projector()
    assert loaded.device_bytes() == planned.device_bytes(), "a worker that reads text only needs no encoder"


def test_rows_that_see_each_other_are_one_ubatch_whatever_else_is_asked() -> None:
    for options in (LoadOptions(), LoadOptions(ubatch=64), LoadOptions(flash_attn="off", ctx=4096)):
        placement = plan(MODEL, with_rows(options, PROJECTOR), [CPU])
        assert placement.ubatch_tokens >= 1120
        assert placement.plain_ubatch_tokens >= 1120
    assert plan(MODEL, LoadOptions(), [CPU]).ubatch_tokens == 512
    small = fitted(msgspec.structs.replace(MODEL, embedding_length=1536), PROJECTOR.info)
    assert small.ubatch_rows == 0, "the smallest two of Gemma 4 see a picture as text"
    assert fitted(MODEL, PROJECTOR.info).ubatch_rows == 1120


def test_a_projector_that_does_not_say_its_width_has_that_of_its_model() -> None:
    unknown = msgspec.structs.replace(PROJECTOR.info, width=0)
    assert misfit(MODEL, unknown) == ""
    assert fitted(MODEL, unknown).width == MODEL.embedding_length


def test_a_context_is_chosen_that_leaves_room_for_the_encoder() -> None:
    info = msgspec.structs.replace(MODEL, context_length=131_072)
    free = 10 << 30
    alone = with_context(info, LoadOptions(), Memory(32 << 30, free)).ctx
    beside = with_context(info, LoadOptions(), Memory(32 << 30, free - (8 << 30))).ctx
    assert (alone or 0) > (beside or 0)
