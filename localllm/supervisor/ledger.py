"""Memory of devices that our models hold, and what is free for the next load. GPU memory is planned like main memory.

A driver may report what is free now, or always report all of it as free. So the free memory of a device is its total
less two parts: what other programs hold, measured while no load of ours is in progress, and what is planned for our
models, whether they have allocated it yet or not. Used on one event loop. Knows models by name and plan only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from localllm.planning.placing import DRIVER_BYTES
from localllm.types import DeviceInfo
from localllm.types.placement import DeviceShare

CPU_KINDS = ("cpu", "accel")


@dataclass
class _Holding:
    """What one model holds."""

    bytes: dict[str, int]
    """Bytes by `memory_key`."""
    is_allocated: bool = False


@dataclass
class Ledger:
    """One for all models of a supervisor."""

    _holdings: dict[str, _Holding] = field(default_factory=dict)
    _others: dict[str, int] = field(default_factory=dict)
    """Bytes per memory that other programs hold."""
    _seen: dict[str, tuple[DeviceInfo, ...]] = field(default_factory=dict)
    """Devices as a worker last reported them, by the library that shows them."""

    def see(self, library: str, devices: Sequence[DeviceInfo], loading: str) -> None:
        """Record what a worker reports before it loads the model `loading`."""
        self._seen[library] = tuple(devices)
        if any(not held.is_allocated for id, held in self._holdings.items() if id != loading):
            return  # an unknown part of what is taken is already ours
        for device in _gpus(devices):
            ours = self._held(device.memory_key, {loading})
            self._others[device.memory_key] = max(0, device.total_bytes - device.free_bytes - ours)

    def known(self, library: str, without: Collection[str] = ()) -> tuple[DeviceInfo, ...]:
        """Devices with their free memory, as if the models in `without` were gone. Empty until a worker has
        reported."""
        return self.free(self._seen.get(library, ()), without)

    def free(self, devices: Iterable[DeviceInfo], without: Collection[str] = ()) -> tuple[DeviceInfo, ...]:
        """These devices, just reported, with their free memory as if the models in `without` were gone."""
        return tuple(
            msgspec.structs.replace(device, free_bytes=self._free(device, without)) if _is_gpu(device) else device
            for device in devices
        )

    def hold(self, id: str, shares: Iterable[DeviceShare], devices: Iterable[DeviceInfo]) -> None:
        """Count these shares as taken by a model whose load begins."""
        keys = {device.name: device.memory_key for device in _gpus(devices)}
        planned: dict[str, int] = {}
        for share in shares:
            if share.device in keys and share.total:
                planned[keys[share.device]] = planned.get(keys[share.device], 0) + share.total + DRIVER_BYTES
        self._holdings[id] = _Holding(planned)

    def allocated(self, id: str) -> None:
        """Record that a model's load is complete, so that its memory is in what devices report."""
        if id in self._holdings:
            self._holdings[id].is_allocated = True

    def freed(self, id: str, shares: Iterable[DeviceShare], devices: Iterable[DeviceInfo]) -> None:
        """Take these shares from what a model holds. The driver keeps its part until the process ends."""
        keys = {device.name: device.memory_key for device in _gpus(devices)}
        held = self._holdings[id].bytes if id in self._holdings else {}
        for share in shares:
            key = keys.get(share.device)
            if key in held:
                held[key] = max(0, held[key] - share.total)

    def release(self, id: str) -> None:
        """Free a model's memory after its process has ended."""
        self._holdings.pop(id, None)

    def holders(self) -> dict[str, int]:
        """Model -> bytes on GPUs."""
        return {id: total for id, held in self._holdings.items() if (total := sum(held.bytes.values()))}

    def _free(self, device: DeviceInfo, without: Collection[str]) -> int:
        key = device.memory_key
        others = self._others.get(key, max(0, device.total_bytes - device.free_bytes - self._held(key, ())))
        return max(0, device.total_bytes - others - self._held(key, without))

    def _held(self, key: str, without: Collection[str]) -> int:
        return sum(held.bytes.get(key, 0) for id, held in self._holdings.items() if id not in without)


def _is_gpu(device: DeviceInfo) -> bool:
    return device.kind not in CPU_KINDS


def _gpus(devices: Iterable[DeviceInfo]) -> list[DeviceInfo]:
    return [device for device in devices if _is_gpu(device)]
