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


class Family(NamedTuple):
    """CPU time of siblings: other processes of ours that compute models, in seconds."""

    stepped_s: float = 0.0
    """Of the period, what steps of our own took."""
    had_s: float = 0.0
    """What siblings had meanwhile. What they had between our steps does not count: nobody of us wanted a core."""


class Usage(NamedTuple):
    """CPU time of a period, in seconds."""

    wall_s: float
    others_s: float | None
    """Of everything that does not compute a model of ours, on the CPUs that this process may use; None: not known."""
    wanted_s: float
    """What our own threads would have used, had each had a core while a step ran."""
    had_s: float
    family: Family = Family()


class Room:
    """Of `num_cpus` as many as are not others', at least one, at most `most`.

    What siblings want is known at any moment, of other programs it is guessed from the past. So cores that siblings
    took are used again soon after they are free, however often that was too early.
    """

    def __init__(self, most: int, num_cpus: int) -> None:
        self._most = most
        self._num_cpus = max(num_cpus, most)
        self._others = self._siblings = 0.0
        """Cores that each want."""
        self.threads = most
        self._free_since_s: float | None = None
        self._hold_s = HOLD_S
        self._is_siblings = False
        """Whether others alone would have left the cores that were given up last."""
        self._grown_s = -math.inf
        self._shrunk_s = -math.inf

    @property
    def demand(self) -> float:
        """Cores that are wanted by all but ourselves."""
        return self._others + self._siblings

    def observe(self, usage: Usage, now_s: float) -> None:
        """Take in what was used since the last call."""
        if usage.wall_s <= 0:
            return
        self._learn(usage)
        fewer, more = self._within(GIVES_WAY, self.demand), self._within(COMES_BACK, self.demand)
        if more <= self.threads:
            self._free_since_s = None
        elif self._free_since_s is None:
            self._free_since_s = now_s - usage.wall_s
        if fewer < self.threads:
            self._shrink(fewer, now_s)
        elif self._free_since_s is not None and now_s - self._free_since_s >= self._wait_s:
            if now_s - self._shrunk_s > LONGEST_HOLD_S:
                self._hold_s = HOLD_S
            self.threads, self._free_since_s = more, None
            self._grown_s = -math.inf if self._is_siblings else now_s

    def may_soon_grow(self, now_s: float) -> bool:
        """Whether cores were given up so recently that they may be free again in a moment."""
        return self.threads < self._most and now_s - self._shrunk_s < SETTLED_S

    @property
    def _wait_s(self) -> float:
        """For which cores have to be free."""
        return HOLD_S if self._is_siblings else self._hold_s

    def _shrink(self, threads: int, now_s: float) -> None:
        self._is_siblings = self._within(GIVES_WAY, self._others) >= self.threads
        if now_s - self._grown_s < TOO_EARLY_S and not self._is_siblings:
            self._hold_s = min(2 * self._hold_s, LONGEST_HOLD_S)
        self.threads, self._shrunk_s = threads, now_s

    def _learn(self, usage: Usage) -> None:
        lacked_s = max(0.0, usage.wanted_s - usage.had_s)
        stepped_s, siblings_s = usage.family
        siblings_s = max(0.0, siblings_s)
        # Threads that wait for a disk lack time, too: never more than others took counts as lost to them.
        to_siblings_s = min(lacked_s, siblings_s)
        lacked_s -= to_siblings_s
        others_s = lacked_s if usage.others_s is None else max(usage.others_s, 0.0)
        self._others = self._mean(self._others, others_s + min(lacked_s, others_s), usage.wall_s)
        # Without a step nothing is known of what siblings want while there is one.
        if stepped_s > 0:
            self._siblings = self._mean(self._siblings, siblings_s + to_siblings_s, stepped_s)

    def _mean(self, before: float, wanted_s: float, seconds: float) -> float:
        weight = -math.expm1(-seconds / SMOOTHING_S)
        return before + weight * (min(wanted_s / seconds, float(self._num_cpus)) - before)

    def _within(self, slack: float, demand: float) -> int:
        return max(1, min(self._most, math.floor(self._num_cpus - demand + slack + 1e-9)))
