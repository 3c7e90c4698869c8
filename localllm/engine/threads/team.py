"""The threads that compute: reads the clocks around each step for the governor, which decides how many there are.

Knows the system through `Clocks` only, and nothing of llama.cpp.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from localllm.engine.threads.governor import MOST_TRIED_TOKENS, Governor, sampler_threads
from localllm.engine.threads.spare_cores import COMES_BACK, CoreUsage, Family

LOOK_S = 0.1
"""Interval between readings of what other programs use, whose resolution is hundredths of a second."""
IDLE_S = 0.1
"""Length of a pause, such as an agent makes for a tool, after which earlier use by other programs may be over: only
their threads that run now count."""
SAMPLES, SAMPLED_S = 6, 0.0005
"""Number of samples, and the time between them. A thread that runs in all is not just handing over a request."""
MAX_LOOKING_SHARE = 0.005
"""Maximum share of the time that goes into readings, which take longer on machines with many CPUs."""


class Reading(NamedTuple):
    """Values of all clocks at one moment."""

    now: float
    process: float
    helpers: float
    machine: float | None
    siblings: float = 0.0
    borrowers: float = 0.0


@dataclass(frozen=True)
class Clocks:
    """The clocks that a team reads; all in seconds, from an arbitrary start."""

    now: Callable[[], float] = time.perf_counter
    process: Callable[[], float] = time.process_time
    """CPU time of this process."""
    helpers: Callable[[], float] = lambda: 0.0
    """CPU time of threads of this process that do not compute the model but want cores, too."""
    machine: Callable[[], float | None] = lambda: None
    """CPU time of all processes on the CPUs that this process may use; None: unknown."""

    runnable: Callable[[], int | None] = lambda: None
    """Threads of the whole system that are running or runnable now, including the caller; None: unknown."""
    wait: Callable[[float], None] = time.sleep
    siblings: Callable[[], float] = lambda: 0.0
    """CPU time of other processes of ours that compute models. They count only where they want cores while we do: by
    turns each has all of them. Taken for other programs', theirs made each give up cores for half a minute."""

    borrowers: Callable[[], float] = lambda: 0.0
    """CPU time of processes of ours to which `Team.lend` gives cores: what they use needs no estimate."""

    def read(self) -> Reading:
        return Reading(self.now(), self.process(), self.helpers(), self.machine(), self.siblings(), self.borrowers())


class Team:
    """Chooses the threads of each step. Used by the engine's thread: call `begin` and `end` around each step."""

    def __init__(
        self, governor: Governor, clocks: Clocks, *, since: Reading | None = None, is_offloaded: bool = False
    ) -> None:
        """`since`: an earlier reading, so that the use by others is known before the first step.

        `is_offloaded`: a GPU computes layers, so the team sleeps while tokens are sampled.
        """
        self._governor = governor
        self._clocks = clocks
        self._is_offloaded = is_offloaded
        self._threads = governor.most
        self._num_tokens = 0
        self._began_s = self._began_cpu_s = self._began_siblings_s = 0.0
        self._wanted_s = self._had_s = 0.0
        """CPU time of the steps since the last reading, as in `CoreUsage`."""
        self._stepped_s = self._siblings_s = 0.0
        """Time in steps since the last reading, and the CPU time of siblings during them."""
        self._next_look_s = clocks.now()
        self._seen = clocks.read() if since is None else since

    @property
    def num_threads(self) -> int:
        """Threads of the last step."""
        return self._threads

    def may_soon_grow(self) -> bool:
        """Before a step is planned: whether more threads may soon be available, so that the step should be short."""
        now_s = self._clocks.now()
        if now_s >= self._next_look_s:
            self._look()
        return self._governor.room.may_soon_grow(now_s)

    def begin(self, num_tokens: int, *, is_text: bool = False) -> int:
        """Threads for a step of `num_tokens`. `is_text`: a text to embed, whose steps do not compare with others."""
        self._began_s = self._clocks.now()
        if self._began_s >= self._next_look_s:
            self._look()
        self._num_tokens = MOST_TRIED_TOKENS + 1 if is_text else num_tokens
        self._threads = self._governor.threads(self._num_tokens)
        self._began_siblings_s = self._clocks.siblings()
        self._began_cpu_s = self._clocks.process()
        return self._threads

    def end(self, seconds: float, *, is_comparable: bool = True) -> None:
        """The step took `seconds`. `is_comparable`: it did nothing but compute these tokens."""
        self._had_s += self._clocks.process() - self._began_cpu_s
        self._siblings_s += self._clocks.siblings() - self._began_siblings_s
        self._wanted_s += seconds * self._threads
        self._stepped_s += seconds
        self._governor.observe(self._num_tokens, self._threads, seconds, is_comparable=is_comparable)

    def sampler_threads(self, num_rows: int, vocabulary: int) -> int:
        """Threads to sample `num_rows` tokens after the step: those that computed it, which are awake."""
        if not self._is_offloaded:
            return self._threads
        return sampler_threads(num_rows, vocabulary, self._governor.most)

    @contextmanager
    def lend(self, *, is_alone: bool) -> Iterator[int]:
        """Threads that one other process of ours may use meanwhile; see `Governor.lend`. On any thread."""
        try:
            yield self._governor.lend(is_alone=is_alone)
        finally:
            self._governor.take_back()

    def _look(self) -> None:
        before, now = self._seen, self._clocks.read()
        self._seen = now
        wall_s, others_s = now.now - before.now, None
        if before.machine is not None and now.machine is not None:
            helpers_s = max(0.0, now.helpers - before.helpers)  # a thread that ended takes its time with it
            ours_s = now.process - before.process + now.siblings - before.siblings + now.borrowers - before.borrowers
            others_s = now.machine - before.machine - ours_s + helpers_s
            idle_s = wall_s - self._stepped_s
            if idle_s > IDLE_S:
                during_steps_s = max(0.0, self._stepped_s * self._governor.room.num_cpus - self._had_s)
                others_s = min(others_s, during_steps_s + idle_s * self._num_others(others_s / idle_s))
        family = Family(self._stepped_s, self._siblings_s)
        self._governor.used(CoreUsage(wall_s, others_s, self._wanted_s, self._had_s, family), now.now)
        self._wanted_s = self._had_s = self._stepped_s = self._siblings_s = 0.0
        cost_s = self._clocks.now() - now.now
        self._next_look_s = now.now + max(LOOK_S, cost_s / MAX_LOOKING_SHARE)

    def _num_others(self, most: float) -> float:
        """Number of threads of other programs that run now, but at most `most`."""
        for sample in range(SAMPLES):
            if most < COMES_BACK:
                break
            if sample:
                self._clocks.wait(SAMPLED_S)
            runnable = self._clocks.runnable()
            if runnable is None:
                break
            most = min(most, runnable - 1)
        return most
