"""The devices of this machine, for commands that plan a load without a worker. Knows nothing of models."""

from __future__ import annotations

from localllm.cli.shared import report
from localllm.registry.offers import machine
from localllm.registry.offers.machine import MachineReport as MachineReport
from localllm.settings.config import Settings


def seen_of(settings: Settings, *, whole: bool = False) -> MachineReport:
    """As `machine.seen_of`; lines on stderr say if devices cannot be listed, or the self-test's result not stored."""
    seen = machine.seen_of(settings, whole=whole)
    if seen.problem is not None:
        report.say(f"localllm: planning for the CPU, since devices cannot be listed: {seen.problem}")
    if seen.not_stored is not None:
        report.say(f"localllm: the self-test runs again next time, since its result is not stored: {seen.not_stored}")
    return seen
