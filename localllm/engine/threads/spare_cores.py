"""Estimates how many cores other work leaves to inference, from CPU times. Pure.

When our threads compete with others for a core, the others get less than they want: half of it, with one thread on each
side. So the CPU time that our own threads lacked is added to what others used. If the system does not report the usage
of others, our threads' lack stands for both; since a single thread lacks nothing, more are tried again after a while.
Knows nothing of steps, and reads no clock.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SMOOTHING_S = 0.2
"""Time constant for averaging the demand; readings have a resolution of 10 ms."""
GIVES_WAY, COMES_BACK = 0.65, 0.35
"""Hysteresis: a core is yielded when others want more than the first share of it, and reclaimed below the second."""
HOLD_S, LONGEST_HOLD_S = 0.3, 30.0
"""Time that cores must be free before they are reclaimed: at first, and at most. Doubled whenever it is too short."""
SETTLED_S = 1.0
"""Work that has occupied cores for this long is not a brief burst such as handing over a request."""
TOO_EARLY_S = 5.0
"""A core that must be yielded again within this time was reclaimed too early."""


class Family(NamedTuple):
    """CPU time of siblings (our other model workers), in seconds."""

    stepped_s: float = 0.0
    """Part of the period during which a step of ours was running."""
    had_s: float = 0.0
    """CPU time of siblings during our steps. Between steps it does not matter, since we want no core then."""


class CoreUsage(NamedTuple):
    """CPU times over a period, in seconds."""

    wall_s: float
    others_s: float | None
    """CPU time of everything but our model workers, on the CPUs that this process may use; None: unknown."""
    wanted_s: float
    """CPU time of our threads had each had its own core during steps."""
    had_s: float
    family: Family = Family()


class SpareCores:
    """The number of threads to use: cores that others leave of `num_cpus`, at least one and at most `most`.

    The demand of siblings is known at any moment; that of other programs is estimated from the past. So cores yielded
    to siblings are reclaimed soon after they are free, however often that was too early.
    """

    def __init__(self, most: int, num_cpus: int) -> None:
        self._most = most
        self.num_cpus = max(num_cpus, most)
        self._others = self._siblings = 0.0
        """Number of cores wanted by other programs and by siblings."""
        self.threads = most
        self._free_since_s: float | None = None
        self._hold_s = HOLD_S
        self._is_siblings = False
        """Whether the last cores were yielded because of siblings: others alone would have left them."""
        self._grown_s = -math.inf
        self._shrunk_s = -math.inf

    @property
    def demand(self) -> float:
        """Number of cores wanted by everything but this process."""
        return self._others + self._siblings

    def observe(self, usage: CoreUsage, now_s: float) -> None:
        """Update the demand with the usage since the last call."""
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
        """Whether cores were yielded so recently that they may soon be free again."""
        return self.threads < self._most and now_s - self._shrunk_s < SETTLED_S

    @property
    def _wait_s(self) -> float:
        """Time that cores must currently be free before they are reclaimed."""
        return HOLD_S if self._is_siblings else self._hold_s

    def _shrink(self, threads: int, now_s: float) -> None:
        self._is_siblings = self._within(GIVES_WAY, self._others) >= self.threads
        if now_s - self._grown_s < TOO_EARLY_S and not self._is_siblings:
            self._hold_s = min(2 * self._hold_s, LONGEST_HOLD_S)
        self.threads, self._shrunk_s = threads, now_s

    def _learn(self, usage: CoreUsage) -> None:
        lacked_s = max(0.0, usage.wanted_s - usage.had_s)
        stepped_s, siblings_s = usage.family
        siblings_s = max(0.0, siblings_s)
        # Threads that wait for a disk lack time, too, so no more than others used counts as lost to them.
        to_siblings_s = min(lacked_s, siblings_s)
        lacked_s -= to_siblings_s
        others_s = lacked_s if usage.others_s is None else max(usage.others_s, 0.0)
        self._others = self._mean(self._others, others_s + min(lacked_s, others_s), usage.wall_s)
        # Only steps show how much siblings want during steps.
        if stepped_s > 0:
            self._siblings = self._mean(self._siblings, siblings_s + to_siblings_s, stepped_s)

    def _mean(self, before: float, wanted_s: float, seconds: float) -> float:
        weight = -math.expm1(-seconds / SMOOTHING_S)
        return before + weight * (min(wanted_s / seconds, float(self.num_cpus)) - before)

    def _within(self, slack: float, demand: float) -> int:
        return max(1, min(self._most, math.floor(self.num_cpus - demand + slack + 1e-9)))
