"""The devices of this machine, for commands that plan a load without a worker. Knows nothing of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from localllm import osdep
from localllm.cli import report
from localllm.errors import InvalidParameter
from localllm.settings.config import Settings
from localllm.types import DeviceInfo


class Seen(NamedTuple):
    """What a worker would say of itself."""

    devices: Sequence[DeviceInfo]
    backend: str = ""
    """As `CpuChoice.label` has it; empty: nobody was asked."""
    fingerprint: str = ""
    """Of the library; likewise."""


def devices_of(settings: Settings) -> Sequence[DeviceInfo]:
    """As a worker would see them: its library is asked in a child process. Nobody asks where only the CPU is meant."""
    return seen_of(settings).devices


def seen_of(settings: Settings, *, whole: bool = False) -> Seen:
    """`whole`: the library is wanted, though only the CPU is meant."""
    is_on_cpu = settings.gpu_layers == 0 or (
        settings.devices and [each.lower() for each in settings.devices] == ["cpu"]
    )
    if is_on_cpu and not whole:
        cpu = DeviceInfo("CPU", "CPU", "cpu", "CPU", osdep.available_memory() or 0, osdep.total_memory() or 0)
        return Seen((cpu,))
    from localllm.cli.doctor import examine

    found = examine(settings, fresh=False)
    if not found.works:
        if settings.devices:
            raise InvalidParameter(
                f"devices cannot be listed: {found.error}; `localllm doctor` has details", param="device"
            )
        report.say(f"localllm: planned for the CPU, no device can be asked: {found.error}")
    return Seen(tuple(found.devices), found.used or "", found.fingerprint or "")
