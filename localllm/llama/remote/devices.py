"""Devices of other machines through llama.cpp's RPC backend, and this machine's own devices for others.

The backend aborts the process if a server is unreachable, so each is asked first (`rpc.hello`). Knows nothing of
models.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from localllm.errors import DeviceUnavailable, InternalError, LoadFailed
from localllm.llama.devices import CPU, GPU, IGPU, Ggml
from localllm.llama.vtables import TakeBack, are_functions, replace, slots
from localllm.rpc.hello import ask
from localllm.system import memory
from localllm.types.rpc_endpoints import Endpoint

BACKEND = "RPC"
"""Its name in ggml's registry."""
_GET_NAME, _GET_MEMORY, _GET_TYPE = 0, 2, 3
"""Places of functions in `ggml_backend_device_i` (ggml-backend-impl.h), with which a device begins."""
_MEMORY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t))


def connect(ggml: Ggml, endpoints: Sequence[Endpoint], protocol: tuple[int, int]) -> None:
    """Registers the devices of each server: `RPC0`, `RPC1` ..., whose description is `HOST:PORT`.

    Raises `LoadFailed`, which names the setting, without a long wait.
    """
    if not endpoints:
        return
    add = _function(ggml, "ggml_backend_rpc_add_server", ctypes.c_void_p, [ctypes.c_char_p])
    for endpoint in endpoints:
        ask(endpoint, protocol)
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
    array = (ctypes.c_void_p * len(devices))(*devices)
    start(str(endpoint).encode(), None if cache_dir is None else str(cache_dir).encode(), threads, len(devices), array)
    raise InternalError(f"llama.cpp's RPC server could not listen on {endpoint}")


def pointers(ggml: Ggml, names: Sequence[str] | None) -> list[int]:
    """Pointers of the named devices; None: all GPUs, or the CPU without any. Raises `DeviceUnavailable`."""
    known = {ggml.text("backend_dev_name", pointer): pointer for pointer in ggml.device_pointers()}
    if names is None:
        kinds = {pointer: ggml.backend_dev_type(pointer) for pointer in known.values()}
        gpus = [pointer for pointer, kind in kinds.items() if kind in (GPU, IGPU)]
        return gpus or [pointer for pointer, kind in kinds.items() if kind == CPU]
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


@contextlib.contextmanager
def available_memory_reported(ggml: Ggml, devices: Sequence[int]) -> Iterator[bool]:
    """Inside, the CPU reports as free what the system can give, not all of main memory: clients plan with that.

    Yields False if it is among the devices and does not.
    """
    cpus = [pointer for pointer in devices if ggml.backend_dev_type(pointer) == CPU]
    replaced = [report_available_memory(ggml, pointer) for pointer in cpus]
    try:
        yield None not in replaced
    finally:
        for take_back in filter(None, replaced):
            take_back()


def report_available_memory(ggml: Ggml, device: int) -> TakeBack | None:
    """Replaces the function that tells a CPU device's memory. Returns what takes that back, to be kept until then.

    None if nothing was changed: the system does not tell, or the device's table of functions is not the one that is
    expected, and is left as it was.
    """
    if memory.available_memory() is None or not _has_known_table(ggml, device):
        return None
    ggml_says = _MEMORY(slots(device, _GET_TYPE + 1)[_GET_MEMORY])
    num_calls = 0

    def get_memory(device: int, free: Any, total: Any) -> None:
        nonlocal num_calls
        num_calls += 1
        ggml_says(device, free, total)
        available = memory.available_memory()
        if available is not None:
            free[0] = min(available, total[0])

    def works() -> bool:
        free_bytes, total_bytes = _memory(ggml.backend_dev_memory, device)
        return num_calls == 1 and free_bytes <= total_bytes == total_before

    _, total_before = _memory(ggml.backend_dev_memory, device)
    return replace(device, _GET_MEMORY, _MEMORY(get_memory), works)


def _has_known_table(ggml: Ggml, device: int) -> bool:
    """Whether the device begins with the functions for its name, description, memory and type.

    They are called directly only if they all may be functions, and must answer as ggml's own calls do.
    """
    functions = slots(device, _GET_TYPE + 1)
    if not are_functions(functions):
        return False
    name = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(functions[_GET_NAME])
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(functions[_GET_TYPE])
    return (
        name(device) == ggml.backend_dev_name(device)
        and kind(device) == ggml.backend_dev_type(device)
        and _memory(_MEMORY(functions[_GET_MEMORY]), device)[1] == _memory(ggml.backend_dev_memory, device)[1]
    )


def _memory(function: Any, device: int) -> tuple[int, int]:
    """Free and total bytes."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    function(device, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value
