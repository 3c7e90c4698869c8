"""Finds out about this machine in a child process, because loading llama.cpp's libraries may crash.

Knows nothing of models, nor of how a report is printed.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import msgspec

from localllm import __version__
from localllm.errors import InvalidParameter
from localllm.measuring import probe
from localllm.settings.config import Settings
from localllm.system import machine, memory
from localllm.system.programs import own_command
from localllm.types import DeviceInfo
from localllm.types.diagnosis import Question, Report

TIMEOUT_S = 600.0


def child_command() -> list[str]:
    """The command of the doctor's child process."""
    return own_command("localllm.llama.probes.doctor")


class MachineReport(NamedTuple):
    """What a worker's library reports about this machine."""

    devices: tuple[DeviceInfo, ...]
    backend: str = ""
    """As in `CpuChoice.label`; empty if the library was not asked."""
    fingerprint: str = ""
    """Of the library; likewise."""
    problem: str | None = None
    """Why only the CPU is known, if the library could not list its devices."""
    not_stored: str | None = None
    """Why the self-test has to run again next time: a sentence with the remedy."""


def seen_of(settings: Settings, *, whole: bool = False) -> MachineReport:
    """The devices as a worker would see them, from a child process unless only the CPU is to be used.

    `whole`: always ask the library. Raises `InvalidParameter` if devices are named but cannot be listed.
    """
    is_on_cpu = settings.gpu_layers == 0 or (
        settings.devices and [each.lower() for each in settings.devices] == ["cpu"]
    )
    if is_on_cpu and not whole:
        cpu = DeviceInfo("CPU", "CPU", "cpu", "CPU", memory.available_memory() or 0, memory.total_memory() or 0)
        return MachineReport((cpu,))
    report = examine(settings, fresh=False)
    if not report.works and settings.devices:
        raise InvalidParameter(
            f"devices cannot be listed: {report.error}; `localllm doctor` has details", param="device"
        )
    problem = None if report.works else report.error
    return MachineReport(tuple(report.devices), report.used or "", report.fingerprint or "", problem, report.not_stored)


def examine(settings: Settings, *, fresh: bool) -> Report:
    """Asks the child process. If it crashes, returns its last report with the crash as the error."""
    question = Question(
        data_dir=str(settings.data_dir),
        runtime=settings.runtime,
        plugin_dir=None if settings.plugin_dir is None else str(settings.plugin_dir),
        devices=settings.devices or (),
        rpc=settings.rpc,
        gpus=settings.devices is None and settings.gpu_layers not in ("auto", 0),
        fresh=fresh,
        verbose=settings.verbose,
    )
    report, failure = probe.ask(child_command(), question, Report, TIMEOUT_S, shows_errors=True)
    if report is None:
        python = sys.version.split()[0]
        report = Report(localllm=__version__, python=python, platform=machine.platform_name(), cpu="unknown")
    if failure is None:
        return report
    return msgspec.structs.replace(report, works=False, error=f"the doctor's process ended early ({failure.detail})")
