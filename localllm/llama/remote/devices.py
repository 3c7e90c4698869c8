"""Devices of other machines through llama.cpp's RPC backend, and this machine's own devices for others.

The backend aborts the process if a server is unreachable, so each is asked first (`rpc.hello`). Knows nothing of
models.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from localllm.errors import DeviceUnavailable, InternalError, LoadFailed
from localllm.llama.devices import Ggml
from localllm.rpc.hello import ask
from localllm.system import memory
from localllm.types.rpc_endpoints import Endpoint

BACKEND = "RPC"
"""Its name in ggml's registry."""
_CPU = 0
_GET_MEMORY = 2
"""Index of the pointer in a `ggml_backend_device` (ggml-backend-impl.h) that queries its memory."""
_keep_alive: list[Any] = []


def connect(ggml: Ggml, endpoints: Sequence[Endpoint]) -> None:
    """Registers the devices of each server: `RPC0`, `RPC1` ..., whose description is `HOST:PORT`.

    Raises `LoadFailed`, which names the setting, without a long wait.
    """
    if not endpoints:
        return
    add = _function(ggml, "ggml_backend_rpc_add_server", ctypes.c_void_p, [ctypes.c_char_p])
    for endpoint in endpoints:
        ask(endpoint)
    for endpoint in endpoints:
        registered = add(str(endpoint).encode())
        if not registered:
            raise LoadFailed(f"rpc: {endpoint} has no device", param="rpc", public="a machine of rpc has no device")
        ggml.backend_register(registered)


def serve(ggml: Ggml, endpoint: Endpoint, devices: Sequence[int], *, threads: int, cache_dir: Path | None) -> NoReturn:
    """Serves these `ggml_backend_dev_t` to one client at a time, as long as the process lives.

    Raises `InternalError` if it cannot listen.
    """
    start = _function(
        ggml,
        "ggml_backend_rpc_start_server",
        None,
        [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p],
    )
    for pointer in devices:
        _report_available_memory(ggml, pointer)
    array = (ctypes.c_void_p * len(devices))(*devices)
    start(str(endpoint).encode(), None if cache_dir is None else str(cache_dir).encode(), threads, len(devices), array)
    raise InternalError(f"llama.cpp's RPC server could not listen on {endpoint}")


def pointers(ggml: Ggml, names: Sequence[str] | None) -> list[int]:
    """Pointers of the named devices; None: all GPUs, or the CPU without any. Raises `DeviceUnavailable`."""
    known = {ggml.text("backend_dev_name", pointer): pointer for pointer in ggml.device_pointers()}
    if names is None:
        kinds = {pointer: ggml.backend_dev_type(pointer) for pointer in known.values()}
        gpus = [pointer for pointer, kind in kinds.items() if kind in (1, 2)]
        return gpus or [pointer for pointer, kind in kinds.items() if kind == _CPU]
    by_name = {name.lower(): pointer for name, pointer in known.items()}
    for name in names:
        if name.lower() not in by_name:
            raise DeviceUnavailable(
                f"there is no device {name!r} here; `localllm doctor` lists devices: {', '.join(known)}",
                param="device",
            )
    return [by_name[name.lower()] for name in names]


def _function(ggml: Ggml, name: str, result: Any, arguments: list[Any]) -> Any:
    registry = ggml.backend_reg_by_name(BACKEND.encode())
    address = ggml.backend_reg_get_proc_address(registry, name.encode()) if registry else None
    if not address:
        raise LoadFailed(
            "rpc: this llama.cpp has no RPC backend; `localllm runtime build rpc` makes one that has it", param="rpc"
        )
    return ctypes.CFUNCTYPE(result, *arguments)(address)


def _report_available_memory(ggml: Ggml, pointer: int) -> None:
    """ggml reports all of main memory as free: clients would plan with memory that is in use."""
    if ggml.backend_dev_type(pointer) != _CPU:
        return
    slot = ctypes.c_void_p.from_address(pointer + _GET_MEMORY * ctypes.sizeof(ctypes.c_void_p))
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t))
    ggml_says = kind(slot.value or 0)

    def get_memory(device: int, free: Any, total: Any) -> None:
        ggml_says(device, free, total)
        available = memory.available_memory()
        if available is not None:
            free[0] = min(available, total[0])

    callback = kind(get_memory)
    _keep_alive.append(callback)
    slot.value = ctypes.cast(callback, ctypes.c_void_p).value
