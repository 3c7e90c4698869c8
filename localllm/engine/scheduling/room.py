"""How many cores other work leaves for computing: pure, fed with CPU times.

While we compete with others for a core they get less than they want: half of it, with one thread on each side. So the
CPU time that our own threads lacked is added to what others used. Where the system does not report the use by others,
what our threads lacked stands for both; a single thread lacks nothing, so after a while more are tried again. Knows
nothing of steps, and reads no clock.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SMOOTHING_S = 0.2
"""Time over which readings are averaged: their resolution is hundredths of a second."""
GIVES_WAY, COMES_BACK = 0.65, 0.35
"""A core is left to others when they want more of it than the first share, and taken back below the second."""
HOLD_S, LONGEST_HOLD_S = 0.3, 30.0
"""How long cores must be free before they are used again; doubled each time that proves too early."""
SETTLED_S = 1.0
"""Work that took cores away this long ago is not short, unlike handing over a request."""
TOO_EARLY_S = 5.0
"""A core that has to be given up again within this time was taken back too early."""


class Usage(NamedTuple):
    """CPU time of a period, in seconds."""

    wall_s: float
    others_s: float | None
    """Used by everything but computing the model, on the CPUs that this process may use; None: unknown."""
    wanted_s: float
    """What our own threads would have used, had each had a core while a step ran."""
    had_s: float


class Room:
    """As many of `num_cpus` as others leave free, at least one, at most `most`."""

    def __init__(self, most: int, num_cpus: int) -> None:
        self._most = most
        self._num_cpus = max(num_cpus, most)
        self.demand = 0.0
        """Cores that others want."""
        self.threads = most
        self._free_since_s: float | None = None
        self._hold_s = HOLD_S
        self._grown_s = -math.inf
        self._shrunk_s = -math.inf

    def observe(self, usage: Usage, now_s: float) -> None:
        """Take in what was used since the last call."""
        if usage.wall_s <= 0:
            return
        self._learn(usage)
        fewer, more = self._within(GIVES_WAY), self._within(COMES_BACK)
        if more <= self.threads:
            self._free_since_s = None
        elif self._free_since_s is None:
            self._free_since_s = now_s - usage.wall_s
        if fewer < self.threads:
            self._shrink(fewer, now_s)
        elif self._free_since_s is not None and now_s - self._free_since_s >= self._hold_s:
            if now_s - self._shrunk_s > LONGEST_HOLD_S:
                self._hold_s = HOLD_S
            self.threads, self._grown_s, self._free_since_s = more, now_s, None

    def may_soon_grow(self, now_s: float) -> bool:
        """Whether cores were given up so recently that they may be free again in a moment."""
        return self.threads < self._most and now_s - self._shrunk_s < SETTLED_S

    def _shrink(self, threads: int, now_s: float) -> None:
        if now_s - self._grown_s < TOO_EARLY_S:
            self._hold_s = min(2 * self._hold_s, LONGEST_HOLD_S)
        self.threads, self._shrunk_s = threads, now_s

    def _learn(self, usage: Usage) -> None:
        lacked_s = max(0.0, usage.wanted_s - usage.had_s)
        # Threads that wait for a disk lack time, too: the time lacked counts only up to what others used.
        others_s = lacked_s if usage.others_s is None else max(usage.others_s, 0.0)
        wanted = (others_s + min(lacked_s, others_s)) / usage.wall_s
        weight = -math.expm1(-usage.wall_s / SMOOTHING_S)
        self.demand += weight * (min(wanted, float(self._num_cpus)) - self.demand)

    def _within(self, slack: float) -> int:
        return max(1, min(self._most, math.floor(self._num_cpus - self.demand + slack + 1e-9)))
