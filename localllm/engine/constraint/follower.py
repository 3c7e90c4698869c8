"""A sequence's constraint as used by the engine's thread, beside the thread that computes its masks.

Knows nothing of sequences, rows or grammars.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import repeat
from typing import Literal

from localllm.engine.constraint.constraint import Constraint, ConstraintFailed
from localllm.engine.sampling.parameters import Mask
from localllm.engine.speculation.proposals import Proposal

SLOW_S = 0.005
"""A constraint whose masks take longer is slow: other sequences do not wait for it."""
LEARNING = 0.1
"""Weight of one draw in the rate of refused draws."""
AHEAD_S = 0.00015
"""Masks that take more of the average step than this are started before they are needed: handing one to another thread
costs the concurrent decode nearly as much (benchmarks/log/structure.md#masks)."""


class Work:
    """Masks to compute, once, on any thread."""

    def __init__(self, follower: Follower, ahead: tuple[int, ...], num_rows: int) -> None:
        self.follower = follower
        self.ahead = ahead
        self.num_rows = num_rows
        self.num_taken = follower.num_taken
        self.masks: list[Mask] = []
        self.failure: ConstraintFailed | None = None
        self.is_wanted = True
        """Whether its result is still needed."""
        self.is_waited_for = False
        """Whether the engine continued without it and must be woken."""
        self._done = threading.Lock()
        self._done.acquire()

    @property
    def is_done(self) -> bool:
        return not self._done.locked()

    def run(self) -> None:
        if self.is_wanted:
            try:
                self._compute()
            except ConstraintFailed as failure:
                self.failure = failure
            except Exception as error:  # noqa: BLE001  any error fails only this request
                self.failure = ConstraintFailed(f"its mask could not be computed ({type(error).__name__})")
        self._done.release()

    def _compute(self) -> None:
        self.masks = self.follower.masks(self.ahead, self.num_rows)

    def wait(self, seconds: float) -> bool:
        """Whether it is done, after at most `seconds`."""
        if self._done.acquire(timeout=seconds) if seconds > 0 else self._done.acquire(blocking=False):
            self._done.release()
            return True
        return False


class Search(Work):
    """Finds out whether a drawn token leaves the document an end."""

    def __init__(self, follower: Follower, token: int, num_left: int) -> None:
        super().__init__(follower, (), 0)
        self._token = token
        self._num_left = num_left

    def _compute(self) -> None:
        self.follower.look(self._token, self._num_left)


class Follower:
    """Follows the sequence's tokens; used by the engine's thread, except for `masks`."""

    def __init__(self, constraint: Constraint) -> None:
        self.num_taken = 0
        self.refused_rate = 0.0
        """How often a token drawn without a mask is not allowed, so that one has to be drawn with it."""
        self._constraint = constraint
        self._lock = threading.Lock()
        self.work: Work | None = None
        """The latest one requested."""

    @property
    def param(self) -> str:
        return self._constraint.param

    @property
    def cost_s(self) -> float:
        return self._constraint.cost_s

    @property
    def is_slow(self) -> bool:
        """Whether its masks take so long that others continue without it; it then gets only one row."""
        return self._constraint.cost_s > SLOW_S

    @property
    def is_complete(self) -> bool:
        return self._constraint.is_complete

    def take(self, token: int) -> bool:
        """The sequence continues with this token; whether that completes the text. Raises `ConstraintFailed`."""
        with self._lock:
            self.num_taken += 1
            self._constraint.take(token)
            return self._constraint.is_complete

    @property
    def is_cut(self) -> bool:
        """Whether the text is closed early, because of its limit."""
        return self._constraint.is_cut

    @property
    def end_reason(self) -> Literal["stop", "length"]:
        return self._constraint.end_reason

    def is_settled(self, token: int, num_left: int) -> bool:
        """Whether `in_time` answers at once."""
        return self._constraint.is_settled(token, num_left)

    def new_search(self, token: int, num_left: int) -> Search:
        """What has to be computed before `in_time` is asked, for the caller to run."""
        search = Search(self, token, num_left)
        self.drop()
        self.work = search
        return search

    def look(self, token: int, num_left: int) -> None:
        """On any thread."""
        with self._lock:
            self._constraint.look(token, num_left)

    def in_time(self, token: int, num_left: int) -> int:
        """What to take in place of this token, so that the text ends after at most `num_left`."""
        with self._lock:
            return self._constraint.in_time(token, num_left)

    def allows(self, token: int, num_behind: int = 0) -> bool:
        """Whether a drawn token may come after `num_behind` forced ones. Raises `ConstraintFailed`."""
        with self._lock:
            is_allowed = token >= 0 and self._constraint.allows(token, num_behind)
        self.refused_rate += LEARNING * ((not is_allowed) - self.refused_rate)
        return is_allowed

    @property
    def wants_masks_ahead(self) -> bool:
        """Whether masks are worth computing before it is known that they are needed."""
        return not self.is_slow and self.refused_rate * self._constraint.cost_s > AHEAD_S

    @property
    def last_tokens(self) -> Sequence[int]:
        """The forced tokens, if only the end can follow them."""
        return self._constraint.forced if self._constraint.ends_forced else ()

    def proposal(self, guess: Proposal | None) -> Proposal | None:
        """What must come next, followed by what is allowed of the guess."""
        if self.is_slow:
            return None
        forced = tuple(self._constraint.forced)
        if guess is None:
            return Proposal(forced) if forced else None
        tokens = (*guess.forced, *guess.guessed)
        with self._lock:
            tokens = tokens[: self._constraint.num_allowed(tokens)]
        chances = (*repeat(1.0, len(guess.forced)), *guess.chances)
        return Proposal(forced, tokens[len(forced) :], chances[len(forced) : len(tokens)], guess.source)

    @property
    def current_work(self) -> Work | None:
        """The work for the next rows, if masks were requested."""
        return None if self.work is None or self.work.num_taken != self.num_taken else self.work

    def new_work(self, ahead: tuple[int, ...], num_rows: int) -> Work | None:
        """Work that computes the masks of those rows, for the caller to run; None: there is such work already."""
        work = self.work
        if work is not None:
            if (work.num_taken, work.num_rows, work.ahead) == (self.num_taken, num_rows, ahead):
                return None
            work.is_wanted = False
        self.work = Work(self, ahead, num_rows)
        return self.work

    @property
    def is_busy(self) -> bool:
        """Whether another thread is computing a mask."""
        return self._lock.locked()

    def drop(self) -> None:
        """The sequence is gone."""
        if self.work is not None:
            self.work.is_wanted = False

    def masks(self, ahead: Sequence[int], num_rows: int) -> list[Mask]:
        """On any thread. Raises `ConstraintFailed`."""
        with self._lock:
            return self._constraint.masks(ahead, num_rows)

    def may_end(self, mask: Mask) -> bool:
        """Whether it allows an end token."""
        return any(mask[token // 32] >> token % 32 & 1 for token in self._constraint.end_tokens)
