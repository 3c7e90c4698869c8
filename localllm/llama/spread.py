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
from localllm.llama.devices import Ggml, buffer_types
from localllm.types.devices import Numa, Split

_SPLITS: dict[Split, int] = {"none": 0, "layer": 1, "row": 2, "tensor": 3}
"""LLAMA_SPLIT_MODE_*."""
_NUMA: dict[Numa, int] = {"distribute": 1, "isolate": 2, "numactl": 3}
"""GGML_NUMA_STRATEGY_*."""
AUTO, READ, MAPPED, LOCKED, MAPPED_LOCKED, DIRECT = -1, 0, 1, 2, 3, 4
"""LLAMA_LOAD_MODE_*."""
MAX_DEVICES = 16
"""llama_max_devices()."""
_MOVED = re.compile(r"^tensor (\S+) \(.*\) buffer type overridden to")
_UNLOCKED = re.compile(r"failed to (?:mlock|VirtualLock) (\d+)-byte buffer.*?: (.*)|mlock not supported")
_SHORT = re.compile(
    r"unable to allocate (\S+) buffer|failed to allocate (\S+) buffer|allocat\w* .*failed.*out of (?:device )?memory"
    r"|out of memory|ErrorOutOf(?:Device|Host)Memory|failed to allocate (?:compute|buffer)|Device memory allocation"
)


class Override(ctypes.Structure):
    """llama_model_tensor_buft_override."""

    _fields_ = [("pattern", ctypes.c_char_p), ("buft", ctypes.c_void_p)]


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

    def apply(self, params: Any, ggml: Ggml) -> list[Any]:
        """Writes it into `params`; the result must live until the model is loaded. Raises `LoadFailed`."""
        params.split_mode, params.main_gpu = _SPLITS[self.split], self.main_gpu
        params.load_mode = self._load_mode()
        shares = (ctypes.c_float * MAX_DEVICES)(*self.tensor_split)
        if self.tensor_split:
            params.tensor_split = shares
        if not self.overrides:
            return [shares]
        types = buffer_types(ggml)
        pairs = [(pattern.encode(), types[device]) for pattern, device in self.overrides]
        overrides = (Override * (len(pairs) + 1))(*(Override(*pair) for pair in pairs))  # terminated by zeros
        params.tensor_buft_overrides = ctypes.cast(overrides, ctypes.c_void_p)
        return [shares, overrides, pairs]

    def check(self, lines: Sequence[str]) -> None:
        """Raises `LoadFailed` or `InvalidParameter` for anything that llama.cpp did not do, according to its log."""
        if self.mlock and (found := next(filter(None, map(_UNLOCKED.search, lines)), None)) is not None:
            reason = f"{found[2].strip()} at {int(found[1]) / 1e6:,.0f} MB" if found[1] else "unsupported here"
            raise LoadFailed(
                f"the weights cannot be locked in memory: {reason}; raise the limit (`ulimit -l "
                "unlimited`, systemd's LimitMEMLOCK=, Docker's ulimit memlock=-1), or leave out --mlock",
                param="mlock",
            )
        if self.direct_io and any("Falling back to buffered I/O" in line for line in lines):
            raise LoadFailed(
                "the file cannot be read directly: its file system does not support that; leave out --direct-io",
                param="direct_io",
            )
        moved = [found[1] for line in lines if (found := _MOVED.match(line))]
        for pattern, _ in self.overrides:
            if not any(re.search(pattern, name) for name in moved):
                raise InvalidParameter(
                    f"override_tensor: llama.cpp moved no tensor for {pattern!r}; this model's tensors do not match it",
                    param="override_tensor",
                )

    def _load_mode(self) -> int:
        if self.direct_io:
            if not hasattr(os, "O_DIRECT"):
                raise LoadFailed(
                    "llama.cpp reads files directly on Linux only; leave out --direct-io", param="direct_io"
                )
            return DIRECT
        if self.mlock:
            return LOCKED if self.mmap is False else MAPPED_LOCKED
        return {None: AUTO, True: MAPPED, False: READ}[self.mmap]


AS_USUAL = Spread()


def use_numa(api: Any, ggml: Ggml, numa: Numa) -> None:
    """Call once per process, before a model is loaded. Raises `DeviceUnavailable` on a machine with one node."""
    api.llama_numa_init(_NUMA[numa])
    if not ggml.has_numa():
        raise DeviceUnavailable(
            f"numa {numa} was requested, but this machine has a single NUMA node; leave out --numa", param="numa"
        )


def shortage(lines: Sequence[str], devices: Sequence[str]) -> dict[str, str]:
    """The error detail `out_of_memory_on`, from llama.cpp's log; empty: no device ran out of memory."""
    for line in lines:
        found = _SHORT.search(line)
        if found is None:
            continue
        named = next((device for device in devices if device.lower() in line.lower()), None)
        on_cpu = any(word is not None and word.upper().startswith("CPU") for word in found.groups())
        if named is not None or (devices and not on_cpu):
            return {"out_of_memory_on": named or devices[0]}
    return {}
