"""How people name devices and say what goes where: every word is understood, or refused with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from localllm.errors import DeviceUnavailable, InvalidParameter
from localllm.settings.config import load
from localllm.types import DeviceInfo
from localllm.types.devices import named, parse_overrides
from localllm.types.load_options import LoadOptions

DEVICES = [
    DeviceInfo("CPU", "a CPU", "cpu", "CPU", 1, 1),
    DeviceInfo("Vulkan0", "one GPU", "gpu", "Vulkan", 1, 1),
    DeviceInfo("Vulkan1", "another", "gpu", "Vulkan", 1, 1),
    DeviceInfo("CUDA10", "a third", "gpu", "CUDA", 1, 1),
    DeviceInfo("MTL0", "Apple M9", "gpu", "MTL", 1, 1),
    DeviceInfo("RPC0", "RPC[10.0.0.2:50052]", "gpu", "RPC", 1, 1),
    DeviceInfo("RPC1", "RPC[10.0.0.2:5005]", "gpu", "RPC", 1, 1),
]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("VULKAN1", ["Vulkan1"]),
        ("vulkan", ["Vulkan0", "Vulkan1"]),
        ("cuda10", ["CUDA10"]),
        ("metal", ["MTL0"]),
        ("metal0", ["MTL0"]),
        ("rpc:10.0.0.2:50052", ["RPC0"]),
        ("rpc:10.0.0.2:5005", ["RPC1"]),
        ("cpu", ["CPU"]),
    ],
)
def test_a_device_is_meant_by_its_name_its_backends_or_its_address_in_any_case(name: str, meant: list[str]) -> None:
    assert [device.name for device in named(name, DEVICES)] == meant


@pytest.mark.parametrize("name", ["cuda0", "cuda1", "vulkan2", "rpc:10.0.0.2", "rpc:0.0.2:50052", "", "gpu"])
def test_a_device_that_is_not_there_is_an_error_that_names_those_that_are(name: str) -> None:
    with pytest.raises(DeviceUnavailable, match="Vulkan0, Vulkan1"):
        named(name, DEVICES)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"device": "auto"}, {"devices": None}),
        ({"device": "CPU"}, {"devices": ("CPU",)}),
        ({"device": "cuda0,cuda1", "split": "row"}, {"devices": ("cuda0", "cuda1"), "split": "row"}),
        ({"tensor_split": "3, 1"}, {"tensor_split": (3.0, 1.0)}),
        (
            {"override_tensor": r"ffn_.*_exps=CPU,blk\.1=cuda0"},
            {"override_tensor": (("ffn_.*_exps", "CPU"), (r"blk\.1", "cuda0"))},
        ),
        ({"mmap": "false", "mlock": "true"}, {"mmap": False, "mlock": True}),
        ({"numa": "isolate", "direct_io": "true"}, {"numa": "isolate", "direct_io": True}),
        ({"split": "none", "main_gpu": "Vulkan1"}, {"split": "none", "main_gpu": "Vulkan1"}),
    ],
)
def test_settings_say_how_a_model_is_loaded(given: dict[str, str], wanted: dict[str, Any]) -> None:
    options = load(given, environ={}).load_options()
    assert {name: getattr(options, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("given", "param", "words"),
    [
        ({"device": "auto,cuda0"}, "device", "cannot be combined"),
        ({"device": "cpu,cuda0"}, "device", "cannot be combined"),
        ({"split": "columns"}, "split", "layer, row, tensor, none"),
        ({"main_gpu": "1"}, "main_gpu", "no effect with split layer"),
        ({"tensor_split": "3,x"}, "tensor_split", "list of numbers, one per device"),
        ({"tensor_split": "0,0"}, "tensor_split", "above 0"),
        ({"tensor_split": "1,nan"}, "tensor_split", "0 or more"),
        ({"tensor_split": "1", "split": "none"}, "tensor_split", "leave one out"),
        ({"override_tensor": "exps"}, "override_tensor", "PATTERN=DEVICE"),
        ({"override_tensor": "exps="}, "override_tensor", "PATTERN=DEVICE"),
        ({"override_tensor": "(exps=cpu"}, "override_tensor", "not a regular expression"),
        ({"override_tensor": "ü=cpu"}, "override_tensor", "not a regular expression"),
        ({"direct_io": "true", "mlock": "true"}, "direct_io", "leave one out"),
        ({"direct_io": "true", "mmap": "true"}, "direct_io", "leave one out"),
        ({"repack": "on", "mlock": "true"}, "repack", "leave one out"),
        ({"numa": "mirror"}, "numa", "distribute, isolate, numactl"),
    ],
)
def test_what_excludes_each_other_or_says_nothing_is_refused(given: dict[str, str], param: str, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words) as caught:
        load(given, environ={}).load_options()
    assert caught.value.param == param


def test_a_pattern_may_hold_an_equals_sign() -> None:
    assert parse_overrides("a=b=cpu") == (("a=b", "cpu"),)
    with pytest.raises(InvalidParameter):
        LoadOptions(override_tensor=(("x" * 1001, "cpu"),))
