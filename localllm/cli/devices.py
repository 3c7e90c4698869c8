"""The devices of this machine, for commands that plan a load without a worker. Knows nothing of models."""

from __future__ import annotations

from localllm.cli import report
from localllm.offers import machine
from localllm.offers.machine import Seen as Seen
from localllm.settings.config import Settings


def seen_of(settings: Settings, *, whole: bool = False) -> Seen:
    """As `machine.seen_of`; a line on stderr says if devices cannot be listed."""
    seen = machine.seen_of(settings, whole=whole)
    if seen.problem is not None:
        report.say(f"localllm: planning for the CPU, since devices cannot be listed: {seen.problem}")
    return seen
