"""Whether a worker process is alive and its threads make progress. Counts beats; knows no clock and no process.

Time is counted in beats that really took place, each worth one interval. After a suspended machine or a blocked event
loop one beat is added, not the hours that the clock shows, and answers that arrived meanwhile are read first.
"""

from __future__ import annotations

import math

from localllm.worker.messages import Ping, Pong

BEATS = 10
"""Beats in the shorter of the two timeouts: this many must pass without an answer."""
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.05, 5.0


class Heartbeat:
    """Call `beat` every `interval_s` and pass replies to `take`."""

    def __init__(self, *, worker_timeout_s: float, step_timeout_s: float) -> None:
        """How long a ping may go unanswered, and how long a busy thread may take for a step; 0: no limit."""
        self._worker_timeout_s = worker_timeout_s
        self._step_timeout_s = step_timeout_s
        shortest_s = min((limit for limit in (worker_timeout_s, step_timeout_s) if limit), default=0.0)
        self.interval_s = min(MAX_INTERVAL_S, max(MIN_INTERVAL_S, shortest_s / BEATS))
        self.is_needed = shortest_s > 0
        self._silent_beats = 0
        """Beats since the unanswered ping was sent."""
        self._stuck_beats = 0
        self._unprepared_beats = 0
        self._number = 0
        self._is_answered = True
        self._last: Pong | None = None

    def beat(self, *, has_unprepared: bool = False) -> str | None:
        """The reason to end the process, if there is one. `has_unprepared`: some requests are neither accepted nor
        rejected."""
        if not self._is_answered:
            self._silent_beats += 1
        elif self._last is not None and self._last.is_busy:
            self._stuck_beats += 1
        self._unprepared_beats = self._unprepared_beats + 1 if has_unprepared else 0
        if self._is_over(self._silent_beats, self._worker_timeout_s):
            return f"it did not answer for {self._worker_timeout_s:g} s (worker_timeout_s)"
        if self._is_over(self._stuck_beats, self._step_timeout_s):
            return f"a step of the model did not end within {self._step_timeout_s:g} s (step_timeout_s)"
        if self._is_over(self._unprepared_beats, self._step_timeout_s):
            return f"it neither accepted nor rejected a request for {self._step_timeout_s:g} s (step_timeout_s)"
        return None

    def prepared(self) -> None:
        """A request was accepted or rejected."""
        self._unprepared_beats = 0

    @property
    def is_silent(self) -> bool:
        """Whether a ping has been unanswered for at least one beat."""
        return self._silent_beats > 0

    def _is_over(self, beats: int, limit_s: float) -> bool:
        return limit_s > 0 and beats >= math.ceil(limit_s / self.interval_s - 1e-6)

    def next_ping(self) -> Ping | None:
        """The ping to send after a beat; None while the previous one is unanswered."""
        if not self._is_answered:
            return None
        self._is_answered = False
        self._number += 1
        return Ping(self._number)

    def take(self, pong: Pong) -> None:
        if pong.number != self._number:
            return  # the answer to an earlier heartbeat
        self._is_answered, self._silent_beats = True, 0
        last, self._last = self._last, pong
        if last is None or not pong.is_busy or pong.num_advances != last.num_advances:
            self._stuck_beats = 0
