"""What is said of a running pull: bytes so far, speed, and which host is silent.

Knows nothing of how it is shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from localllm.registry.remote import PullPlan
from localllm.types.states import PullState

OnState = Callable[[PullState], None]

STATE_EVERY_S = 0.2
SPEED_OVER_S = 5.0


def tell_waiting(on_state: OnState, state: PullState, host: str, seconds: float, why: str) -> None:
    """Publishes that a host has not responded for so long."""
    if seconds >= 1:
        on_state(msgspec.structs.replace(state, waiting_for=host, waiting_s=round(seconds, 1), waiting_why=why))


class Meter:
    """Sums bytes reported by several threads, and publishes a state now and then."""

    def __init__(self, plan: PullPlan, on_state: OnState) -> None:
        self._plan = plan
        self._on_state = on_state
        self._lock = threading.Lock()
        self._done = 0
        self._others = 0
        self._waiting = "", 0.0
        self._reported_at = 0.0
        self._history: list[tuple[float, int]] = []

    def add(self, num_bytes: int) -> None:
        with self._lock:
            self._done += num_bytes
            self._others = 0
            self._waiting = "", 0.0
        self.report("downloading")

    def others(self, num_bytes: int) -> None:
        """Reports how much of the file another pull has fetched while we wait for it."""
        with self._lock:
            self._others = num_bytes
        self.report("downloading")

    def waiting(self, host: str, seconds: float, _: str) -> None:
        """Reports how long the host has sent nothing."""
        self._waiting = host, seconds
        self.report("downloading", force=True)

    def report(self, phase: Any, *, force: bool = False) -> None:
        now = time.monotonic()
        with self._lock:
            if not force and now - self._reported_at < STATE_EVERY_S:
                return
            self._reported_at = now
            done = self._done + self._others
            self._history = [(then, had) for then, had in self._history if now - then <= SPEED_OVER_S] + [(now, done)]
            then, had = self._history[0]
            speed = (done - had) / (now - then) if now - then >= STATE_EVERY_S and phase == "downloading" else None
        plan = self._plan
        self._on_state(
            PullState(
                phase=phase,
                id=plan.name,
                done_bytes=done,
                total_bytes=plan.size_bytes,
                bytes_per_s=None if speed is None else max(0.0, round(speed, 1)),
                quant=plan.quant,
                license=plan.license,
                why=plan.why,
                notices=plan.notices,
                waiting_for=self._waiting[0] or None,
                waiting_s=round(self._waiting[1], 1),
            )
        )
