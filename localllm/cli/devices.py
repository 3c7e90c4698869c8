"""The devices of this machine, for commands that plan a load without a worker. Knows nothing of models."""

from __future__ import annotations

from collections.abc import Sequence

from localllm import osdep
from localllm.cli import report
from localllm.errors import InvalidParameter
from localllm.settings.config import Settings
from localllm.types import DeviceInfo


def devices_of(settings: Settings) -> Sequence[DeviceInfo]:
    """The devices as a worker would see them, found by a child process unless only the CPU is to be used."""
    if settings.gpu_layers == 0 or (settings.devices and [each.lower() for each in settings.devices] == ["cpu"]):
        return (DeviceInfo("CPU", "CPU", "cpu", "CPU", osdep.available_memory() or 0, osdep.total_memory() or 0),)
    from localllm.cli.doctor import examine

    found = examine(settings, fresh=False)
    if not found.works:
        if settings.devices:
            raise InvalidParameter(
                f"devices cannot be listed: {found.error}; `localllm doctor` has details", param="device"
            )
        report.say(f"localllm: planning for the CPU, since devices cannot be listed: {found.error}")
    return tuple(found.devices)
