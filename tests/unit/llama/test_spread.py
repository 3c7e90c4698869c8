"""What llama.cpp logs is read: a lock that was refused, a shortage, tensors that were moved."""

from __future__ import annotations

import pytest

from localllm.errors import InvalidParameter, LoadFailed
from localllm.llama.log_text import shortage
from localllm.llama.spread import Spread

MOVED = "tensor blk.0.ffn_up.weight (0 MiB q8_0) buffer type overridden to CPU"


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("llama_model_load: error loading model: unable to allocate Vulkan0 buffer", "Vulkan0"),
        ("alloc_buffer: allocating 900.00 MiB on device 1: cudaMalloc failed: out of memory", "Vulkan0"),
        ("alloc_tensor_range: failed to allocate Vulkan1 buffer of size 94371840", "Vulkan1"),
        ("ggml_vulkan: Device memory allocation of size 94371840 failed.", "Vulkan0"),
        ("ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory", "Vulkan0"),
        ("alloc_tensor_range: failed to allocate CPU buffer of size 94371840", None),
        ("llama_model_load: error loading model: tensor 'blk.1' data is not within the file bounds", None),
        ("llama_model_load: error loading model: unknown model architecture: 'x'", None),
    ],
)  # fmt: skip
def test_a_device_that_had_too_little_memory_is_told_from_other_errors(line: str, device: str | None) -> None:
    assert shortage(["loading", line], ("Vulkan0", "Vulkan1")).get("out_of_memory_on") == device
    assert shortage([line], ()) == {}, "without devices none had too little"


def test_a_lock_that_the_system_refuses_is_an_error_that_says_how_to_raise_the_limit() -> None:
    line = "warning: failed to mlock 104857600-byte buffer (after previously locking 0 bytes): Cannot allocate memory"
    with pytest.raises(LoadFailed, match=r"Cannot allocate memory at 105 MB; raise the limit .*ulimit -l") as caught:
        Spread(mlock=True).check([line])
    assert caught.value.param == "mlock"
    Spread().check([line])


def test_a_file_system_that_cannot_read_directly_is_an_error() -> None:
    line = "Failed to open file 'a.gguf' with error: Invalid argument. Falling back to buffered I/O"
    with pytest.raises(LoadFailed, match="leave out --direct-io"):
        Spread(direct_io=True).check([line])


def test_a_pattern_for_which_nothing_was_moved_is_an_error() -> None:
    Spread(overrides=(("ffn_up", "CPU"),)).check([MOVED])
    with pytest.raises(InvalidParameter, match="moved no tensor for 'exps'"):
        Spread(overrides=(("ffn_up", "CPU"), ("exps", "CPU"))).check([MOVED])
