"""Finds out about this machine in a child process, because loading llama.cpp's libraries may crash.

Knows nothing of models, nor of how a report is printed.
"""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import msgspec

from localllm import __version__
from localllm.errors import InvalidParameter
from localllm.settings.config import Settings
from localllm.system import machine, memory, processes
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
        fresh=fresh,
        verbose=settings.verbose,
    )
    try:
        child = subprocess.run(
            child_command(),
            input=msgspec.json.encode(question),
            stdout=subprocess.PIPE,
            timeout=TIMEOUT_S,
            **processes.own_process_group(),
        )
        lines, failure = child.stdout.splitlines(), _failure(child.returncode)
    except subprocess.TimeoutExpired as error:
        lines, failure = (error.stdout or b"").splitlines(), f"the library did not respond within {TIMEOUT_S:g} s"
    report = _last_report(lines)
    if failure is None and not report.works and report.error is None:
        failure = "the doctor's process ended without a report"
    return report if failure is None else msgspec.structs.replace(report, works=False, error=failure)


def _failure(returncode: int) -> str | None:
    return None if returncode == 0 else f"the doctor's process ended early ({processes.exit_reason(returncode)})"


def _last_report(lines: list[bytes]) -> Report:
    for line in reversed(lines):
        try:
            return msgspec.json.decode(line, type=Report)
        except msgspec.MsgspecError:
            continue  # cut off by the crash
    return Report(localllm=__version__, python=sys.version.split()[0], platform=machine.platform_name(), cpu="unknown")
