"""How a model is split over devices and read from its file, as fields of `llama_model_params`.

Checks in llama.cpp's own log that it complied: it warns and continues where we must not. Does not decide what goes
where.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from localllm.errors import DeviceUnavailable, InvalidParameter, LoadFailed
from localllm.llama import log_text
from localllm.llama.devices import Ggml, buffer_types
from localllm.llama.enums import numa_strategy, split_mode
from localllm.llama.layouts import BufferOverride
from localllm.types import Repack
from localllm.types.devices import Numa, Split


class Spread(NamedTuple):
    """The requested split and way of reading. Defaults are llama.cpp's."""

    split: Split = "layer"
    main_gpu: int = 0
    tensor_split: tuple[float, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()
    """Pattern of tensors' names -> device."""
    mmap: bool | None = None
    mlock: bool = False
    direct_io: bool = False
    repack: Repack = "auto"
    """Whether weights are rearranged for the CPU's fastest code (`LlamaModel`)."""

    def apply(self, api: Any, params: Any, ggml: Ggml) -> list[Any]:
        """Writes it into `params`; the result must live until the model is loaded. Raises `LoadFailed`."""
        params.split_mode, params.main_gpu = split_mode(api, self.split), self.main_gpu
        params.load_mode = self._load_mode(api)
        shares = (ctypes.c_float * api.LLAMA_MAX_DEVICES)(*self.tensor_split)
        if self.tensor_split:
            params.tensor_split = shares
        if not self.overrides:
            return [shares]
        types = buffer_types(ggml)
        pairs = [(pattern.encode(), types[device]) for pattern, device in self.overrides]
        # Terminated by zeros.
        overrides = (BufferOverride * (len(pairs) + 1))(*(BufferOverride(*pair) for pair in pairs))
        params.tensor_buft_overrides = ctypes.cast(overrides, ctypes.c_void_p)
        return [shares, overrides, pairs]

    def check(self, lines: Sequence[str]) -> None:
        """Raises `LoadFailed` or `InvalidParameter` for anything that llama.cpp did not do, according to its log."""
        if self.mlock and (reason := log_text.why_not_locked(lines)):
            raise LoadFailed(
                f"the weights cannot be locked in memory: {reason}; raise the limit (`ulimit -l "
                "unlimited`, systemd's LimitMEMLOCK=, Docker's ulimit memlock=-1), or leave out --mlock",
                param="mlock",
            )
        if self.direct_io and log_text.is_buffered(lines):
            raise LoadFailed(
                "the file cannot be read directly: its file system does not support that; leave out --direct-io",
                param="direct_io",
            )
        moved = log_text.moved_tensors(lines)
        for pattern, _ in self.overrides:
            if not any(re.search(pattern, name) for name in moved):
                raise InvalidParameter(
                    f"override_tensor: llama.cpp moved no tensor for {pattern!r}; this model's tensors do not match it",
                    param="override_tensor",
                )

    def _load_mode(self, api: Any) -> int:
        if self.direct_io:
            if not hasattr(os, "O_DIRECT"):
                raise LoadFailed(
                    "llama.cpp reads files directly on Linux only; leave out --direct-io", param="direct_io"
                )
            return int(api.LLAMA_LOAD_MODE_DIRECT_IO)
        if self.mlock:
            return int(api.LLAMA_LOAD_MODE_MLOCK if self.mmap is False else api.LLAMA_LOAD_MODE_MMAP_MLOCK)
        if self.mmap is None:
            return int(api.LLAMA_LOAD_MODE_AUTO)
        return int(api.LLAMA_LOAD_MODE_MMAP if self.mmap else api.LLAMA_LOAD_MODE_NONE)


AS_USUAL = Spread()


def use_numa(api: Any, ggml: Ggml, numa: Numa) -> None:
    """Call once per process, before a model is loaded. Raises `DeviceUnavailable` on a machine with one node."""
    api.llama_numa_init(numa_strategy(api, numa))
    if not ggml.has_numa():
        raise DeviceUnavailable(
            f"numa {numa} was requested, but this machine has a single NUMA node; leave out --numa", param="numa"
        )
