"""How many threads compute the next step: as many as are fastest, on cores that no other work wants.

    room      how many cores are free         (spare_cores.py: from CPU times)
    lent      how many of our own work beside the steps has, such as encoding pictures
    trials    how many of the rest are fastest    (trials.py: compares steps with equally many tokens)

Prompts use all free cores: their matrices are large enough for any number of threads. Small steps have separate trials
for every number of tokens. Pure: fed with times, reads no clock. Knows nothing of llama.cpp or of the system.
"""

from __future__ import annotations

from localllm.engine.threads.spare_cores import CoreUsage, SpareCores
from localllm.engine.threads.trials import Trials

MOST_TRIED_TOKENS = 32
"""Maximum number of tokens of a small step; larger steps are prompts."""
OTHER_CONDITIONS = 0.25
"""Change in cores wanted by others, since all trials were restarted, that restarts them again."""
LOGITS_A_THREAD = 400_000
"""Sampling from this many logits takes several times as long as waking a sleeping thread."""


class Governor:
    """Chooses the number of threads. Call `threads` before each step, `observe` after it, and `used` now and then."""

    def __init__(
        self, most: int, *, most_batch: int | None = None, num_cpus: int | None = None, first: int | None = None
    ) -> None:
        """This process may use `num_cpus`, of which at most `most` compute small steps and `most_batch` prompts; None:
        the same number. `first`: a guess for small steps."""
        self._most_small, self._most_batch = most, most_batch or most
        self.most = max(self._most_small, self._most_batch)
        self.room = SpareCores(self.most, num_cpus or self.most)
        self._small_now, self._batch_now = self._most_small, self._most_batch
        """The same, less what is lent. Written by the thread that borrows."""
        self._first = first
        self._trials: dict[int, Trials] = {}
        self._last = (0, most)
        """Number of tokens of the last step, and of cores that were free for it."""
        self._demand = 0.0
        """Number of cores wanted by others when all trials were last restarted."""

    def threads(self, num_tokens: int) -> int:
        """Number of threads for a step of `num_tokens`."""
        free = min(self.room.threads, self._small_now if num_tokens <= MOST_TRIED_TOKENS else self._batch_now)
        if self._last != (num_tokens, free):
            self._interrupt()
            self._last = num_tokens, free
        trials = self._trials_of(num_tokens)
        return free if trials is None else trials.threads(free)

    def observe(self, num_tokens: int, threads: int, seconds: float, *, is_comparable: bool = True) -> None:
        """The step took `seconds`. `is_comparable`: it did nothing but compute these tokens."""
        trials = self._trials_of(num_tokens)
        if not is_comparable:
            self._interrupt()
        elif trials is not None:
            trials.observe(threads, seconds, self._last[1])

    def used(self, usage: CoreUsage, now_s: float) -> None:
        """Record the CPU time used since the last call."""
        self.room.observe(usage, now_s)
        if abs(self.room.demand - self._demand) > OTHER_CONDITIONS:
            self._demand = self.room.demand
            for trials in self._trials.values():
                trials.retry()

    def lend(self, *, is_alone: bool) -> int:
        """Threads for work beside the steps until `take_back`; `is_alone`: there are no steps now.

        Then it gets all, and steps that begin meanwhile get half of the cores. Otherwise it gets those of which small
        steps make no use, but at least half. May be called on another thread than the rest.
        """
        wanted = max((trials.best or self.most for trials in tuple(self._trials.values())), default=self.most)
        kept = max(1, min(wanted, self.most - self.most // 2))
        self._small_now, self._batch_now = min(self._most_small, kept), min(self._most_batch, kept)
        return self.most if is_alone else max(1, self.most - kept)

    def take_back(self) -> None:
        """What was lent is not used any more. On the thread that called `lend`."""
        self._small_now, self._batch_now = self._most_small, self._most_batch

    def _interrupt(self) -> None:
        if (trials := self._trials.get(self._last[0])) is not None:
            trials.interrupt()

    def _trials_of(self, num_tokens: int) -> Trials | None:
        if num_tokens > MOST_TRIED_TOKENS:
            return None
        trials = self._trials.get(num_tokens)
        if trials is None:
            known = min(self._trials, key=lambda other: abs(other - num_tokens), default=None)
            like = None if known is None else self._trials[known]
            trials = Trials(self._first) if like is None else Trials(like.best, like.pause)
            self._trials[num_tokens] = trials
        return trials


def sampler_threads(num_rows: int, vocabulary: int, most: int) -> int:
    """Number of sampling threads where a GPU computes and cores sleep: one, and more only for many logits."""
    return max(1, min(most, num_rows, num_rows * vocabulary // LOGITS_A_THREAD))
