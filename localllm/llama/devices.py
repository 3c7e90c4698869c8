"""ggml's registry of backends and devices: which devices there are, their memory, and handles for choosing them.

Binds the ggml functions that llama_cpp leaves out. Knows nothing of models; does not decide what is used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from localllm.errors import DeviceUnavailable, LoadFailed
from localllm.llama.layouts import DeviceProperties
from localllm.system import libraries, memory
from localllm.types import DeviceInfo

CPU, GPU, IGPU, ACCEL = range(4)
"""GGML_BACKEND_DEVICE_TYPE_*, which the bindings lack. A device of type META wraps others and is not listed."""
_KINDS: dict[int, Literal["cpu", "gpu", "igpu", "accel"]] = {CPU: "cpu", GPU: "gpu", IGPU: "igpu", ACCEL: "accel"}

_POINTER, _STRING, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ggml_commit": (_STRING, []),
    "ggml_version": (_STRING, []),
    "ggml_backend_load": (_POINTER, [_STRING]),
    "ggml_backend_dev_count": (_SIZE, []),
    "ggml_backend_dev_get": (_POINTER, [_SIZE]),
    "ggml_backend_dev_name": (_STRING, [_POINTER]),
    "ggml_backend_dev_description": (_STRING, [_POINTER]),
    "ggml_backend_dev_type": (ctypes.c_int, [_POINTER]),
    "ggml_backend_dev_memory": (None, [_POINTER, ctypes.POINTER(_SIZE), ctypes.POINTER(_SIZE)]),
    "ggml_backend_dev_get_props": (None, [_POINTER, ctypes.POINTER(DeviceProperties)]),
    "ggml_backend_dev_backend_reg": (_POINTER, [_POINTER]),
    "ggml_backend_dev_buffer_type": (_POINTER, [_POINTER]),
    "ggml_backend_reg_get_proc_address": (_POINTER, [_POINTER, _STRING]),
    "ggml_backend_reg_name": (_STRING, [_POINTER]),
    "ggml_backend_reg_by_name": (_POINTER, [_STRING]),
    "ggml_backend_register": (None, [_POINTER]),
    "ggml_get_name": (_STRING, [_POINTER]),
    "ggml_get_data": (_POINTER, [_POINTER]),
    "ggml_nelements": (ctypes.c_int64, [_POINTER]),
}


class Ggml:
    """The ggml functions of the libraries that libllama uses, by name without the `ggml_` prefix."""

    def __init__(self, llama: ctypes.CDLL, library_dir: Path) -> None:
        self._libraries = libraries.symbol_libraries(llama, library_dir, ("ggml", "ggml-base", "ggml-cpu"))
        self._functions: dict[str, Any] = {}
        self.bind(_SIGNATURES)

    def bind(self, signatures: Mapping[str, tuple[Any, list[Any]]]) -> None:
        """Bind more functions: name -> result and arguments. Raises `LoadFailed` for one that this llama.cpp lacks."""
        for name, (restype, argtypes) in signatures.items():
            function = next((getattr(each, name) for each in self._libraries if hasattr(each, name)), None)
            if function is None:
                raise LoadFailed(f"this llama.cpp lacks the function {name}; `localllm runtime list` shows others")
            function.restype, function.argtypes = restype, argtypes
            self._functions[name.removeprefix("ggml_")] = function

    def __getattr__(self, name: str) -> Any:
        try:
            return self._functions[name]
        except KeyError:
            raise AttributeError(f"ggml_{name} is not bound; add it to _SIGNATURES") from None

    def text(self, name: str, *args: Any) -> str:
        """Calls a function that returns a C string."""
        return (getattr(self, name)(*args) or b"").decode("utf-8", "replace")

    def device_pointers(self) -> list[int]:
        """Every registered `ggml_backend_dev_t`."""
        return [self.backend_dev_get(index) for index in range(self.backend_dev_count())]

    def has_cpu(self) -> bool:
        """Whether a CPU backend is registered; nothing computes without one."""
        return any(self.backend_dev_type(pointer) == CPU for pointer in self.device_pointers())

    def has_numa(self) -> bool:
        """Whether the CPU backend knows several NUMA nodes; `llama_numa_init` detects them."""
        cpu = next((pointer for pointer in self.device_pointers() if self.backend_dev_type(pointer) == CPU), None)
        address = None if cpu is None else self._extension(cpu, b"ggml_backend_cpu_is_numa")
        return address is not None and bool(ctypes.CFUNCTYPE(ctypes.c_bool)(address)())

    def splits_rows(self, device: int) -> bool:
        """Whether its backend can split matrices by rows over its devices."""
        return self._extension(device, b"ggml_backend_split_buffer_type") is not None

    def _extension(self, device: int, name: bytes) -> int | None:
        """Address of a function that only some backends have."""
        address: int | None = self.backend_reg_get_proc_address(self.backend_dev_backend_reg(device), name)
        return address


def list_devices(ggml: Ggml) -> tuple[DeviceInfo, ...]:
    """All devices with the memory that is free now."""
    return tuple(
        _describe(ggml, pointer) for pointer in ggml.device_pointers() if ggml.backend_dev_type(pointer) in _KINDS
    )


def device_array(ggml: Ggml, names: Sequence[str]) -> ctypes.Array[ctypes.c_void_p]:
    """The NULL-terminated array for `llama_model_params.devices`; empty `names`: only the CPU.

    The caller keeps it alive until the model is loaded. Raises `DeviceUnavailable` for an unknown name.
    """
    known = {ggml.text("backend_dev_name", pointer): pointer for pointer in ggml.device_pointers()}
    for name in names:
        if name not in known:
            raise DeviceUnavailable(
                f"there is no device {name!r} here; `localllm doctor` lists devices: {', '.join(known)}",
                param="device",
            )
    return (ctypes.c_void_p * (len(names) + 1))(*(known[name] for name in names), None)


def buffer_types(ggml: Ggml) -> dict[str, int]:
    """Device -> the `ggml_backend_buffer_type_t` of its own memory."""
    return {
        ggml.text("backend_dev_name", pointer): ggml.backend_dev_buffer_type(pointer)
        for pointer in ggml.device_pointers()
    }


def asynchronous_devices(ggml: Ggml) -> frozenset[str]:
    """Names of devices that compute a graph asynchronously once it was submitted."""
    names = set()
    for pointer in ggml.device_pointers():
        properties = DeviceProperties()
        ggml.backend_dev_get_props(pointer, ctypes.byref(properties))
        if properties.is_async:
            names.add(ggml.text("backend_dev_name", pointer))
    return frozenset(names)


def _describe(ggml: Ggml, pointer: int) -> DeviceInfo:
    properties = DeviceProperties()
    ggml.backend_dev_get_props(pointer, ctypes.byref(properties))
    kind = _KINDS[ggml.backend_dev_type(pointer)]
    free_bytes, total_bytes = properties.memory_free, properties.memory_total
    if kind == "cpu" and (available := memory.available_memory()) is not None:
        free_bytes = min(available, total_bytes)  # ggml reports all of the memory as free
    return DeviceInfo(
        name=ggml.text("backend_dev_name", pointer),
        description=ggml.text("backend_dev_description", pointer).strip(),
        kind=kind,
        backend=ggml.text("backend_reg_name", ggml.backend_dev_backend_reg(pointer)),
        free_bytes=free_bytes,
        total_bytes=total_bytes,
        id=(properties.device_id or b"").decode("utf-8", "replace"),
        splits_rows=ggml.splits_rows(pointer),
    )
