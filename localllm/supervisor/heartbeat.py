"""Whether a worker's process lives, and whether its threads get on. Counts beats; knows no clock and no process.

Time is counted in beats that were really given, each worth one interval. A machine that was suspended, or an event
loop that was held up, adds one beat and not the hours that the clock shows; what was answered meanwhile is seen first.
"""

from __future__ import annotations

import math

from localllm.worker.messages import Ping, Pong

BEATS = 10
"""In the shorter of the two times: so many have to pass without an answer."""
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.05, 5.0


class Heartbeat:
    """Call `beat` every `interval_s`, and `take` what it brings back."""

    def __init__(self, *, worker_timeout_s: float, step_timeout_s: float) -> None:
        """For a ping to be answered, and for a busy thread to get on; 0: any time."""
        self._worker_timeout_s = worker_timeout_s
        self._step_timeout_s = step_timeout_s
        shortest_s = min((limit for limit in (worker_timeout_s, step_timeout_s) if limit), default=0.0)
        self.interval_s = min(MAX_INTERVAL_S, max(MIN_INTERVAL_S, shortest_s / BEATS))
        self.is_needed = shortest_s > 0
        self._silent_beats = 0
        """Since it was asked something that it has not answered."""
        self._stuck_beats = 0
        self._unprepared_beats = 0
        self._number = 0
        self._is_answered = True
        self._last: Pong | None = None

    def beat(self, *, has_unprepared: bool = False) -> str | None:
        """The reason to end the process, if there is one. `has_unprepared`: requests neither taken nor refused."""
        if not self._is_answered:
            self._silent_beats += 1
        elif self._last is not None and self._last.is_busy:
            self._stuck_beats += 1
        self._unprepared_beats = self._unprepared_beats + 1 if has_unprepared else 0
        if self._is_over(self._silent_beats, self._worker_timeout_s):
            return f"it answered nothing for {self._worker_timeout_s:g} s (worker_timeout_s)"
        if self._is_over(self._stuck_beats, self._step_timeout_s):
            return f"a step of the model was not over after {self._step_timeout_s:g} s (step_timeout_s)"
        if self._is_over(self._unprepared_beats, self._step_timeout_s):
            return f"it took and refused no request for {self._step_timeout_s:g} s (step_timeout_s)"
        return None

    def prepared(self) -> None:
        """A request was taken or refused."""
        self._unprepared_beats = 0

    @property
    def is_silent(self) -> bool:
        """Whether it has left something unanswered for a beat and more."""
        return self._silent_beats > 0

    def _is_over(self, beats: int, limit_s: float) -> bool:
        return limit_s > 0 and beats >= math.ceil(limit_s / self.interval_s - 1e-6)

    def next_ping(self) -> Ping | None:
        """What to send after a beat; None while the last one is not answered."""
        if not self._is_answered:
            return None
        self._is_answered = False
        self._number += 1
        return Ping(self._number)

    def take(self, pong: Pong) -> None:
        if pong.number != self._number:
            return  # of a heartbeat before this one
        self._is_answered, self._silent_beats = True, 0
        last, self._last = self._last, pong
        if last is None or not pong.is_busy or pong.num_advances != last.num_advances:
            self._stuck_beats = 0
