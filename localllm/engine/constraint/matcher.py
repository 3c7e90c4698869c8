"""A constraint that is a grammar of llguidance.

    text taken by the sequence   forced tokens
    ... last                  |  f1 .. fm        the matcher has consumed these too
    mask after each              f1 ..   fm is all it allows; then the matcher's own

Forced tokens are determined once, when a drawn token is taken, and do not change until all of them have come: however
many a step computes, the answer is the same. Knows nothing of how a grammar is written or compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, Self

import numpy as np

from localllm.engine.constraint.budget import ThoughtBudget
from localllm.engine.constraint.closing import Closing
from localllm.engine.constraint.constraint import ConstraintFailed
from localllm.engine.constraint.distinctness import Distinctness
from localllm.engine.sampling.parameters import Mask

_REPEATED = "every continuation would repeat an item of uniqueItems, or a property's name"
FORGETTING = 0.9
"""Factor by which a slow mask's weight decays with every later one."""


class Matcher(Protocol):
    """The part of `llguidance.LLMatcher` in use; its methods never raise: see `is_error`."""

    def is_error(self) -> bool: ...

    def is_stopped(self) -> bool: ...

    def get_error(self) -> str: ...

    def consume_token(self, sampled_token: int) -> bool: ...

    def consume_tokens(self, sampled_tokens: list[int]) -> bool: ...

    def try_consume_tokens(self, tokens: list[int]) -> int: ...

    def is_accepting(self) -> bool: ...

    def validate_tokens(self, tokens: list[int]) -> int: ...

    def rollback(self, num_tokens: int) -> bool: ...

    def deep_copy(self) -> Self: ...

    def compute_ff_tokens(self) -> list[int]: ...

    def compute_ff_bytes(self) -> bytes: ...

    def unsafe_compute_mask_ptr(self, trg_pointer: int, trg_byte_size: int) -> None: ...


class MatcherConstraint:
    """Owns its matcher, which has consumed nothing, and computes its first mask at once."""

    def __init__(
        self,
        matcher: Matcher,
        *,
        num_tokens: int,
        end_tokens: Sequence[int],
        param: str = "response_format",
        notes: tuple[str, ...] = (),
        budget: ThoughtBudget | None = None,
        distinctness: Distinctness | None = None,
        closing: Closing | None = None,
        can_roll_back: bool = True,
        row_length: int | None = None,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """`num_tokens`: size of the tokenizer's vocabulary; `row_length`: of a row of logits, if longer; `budget`: for
        the reasoning before the text, with nothing taken yet; `distinctness`: of its document, which has not begun;
        `closing`: closes it before the sequence's limit, if that comes after the reasoning, which `budget` follows;
        `can_roll_back`: whether the matcher can give up tokens; if not, a copy of it looks ahead; `clock`: CPU time of
        the calling thread, so that a busy machine makes no constraint look slow.

        Raises `ConstraintFailed` if no text satisfies it, or its first mask exceeds its limits.
        """
        self.param = param
        self.notes = notes
        """Parts of the request that it does not enforce."""
        self.end_tokens = tuple(end_tokens)
        self._budget = budget
        self._distinctness = distinctness
        self._closing = closing
        self._looked: tuple[int, int, list[int]] = -1, 0, []
        """The last token that was looked at, how many tokens were left with it, and the end to take in its place."""
        self.is_cut = False
        self._can_roll_back = can_roll_back
        self.cost_s = 0.0
        self._matcher = matcher
        self._mask_bytes = (num_tokens + 31) // 32 * 4
        self._num_words = (max(num_tokens, row_length or 0) + 31) // 32
        self._clock = clock
        self._forced: list[int] = []
        self._place = 0
        """How many of the forced tokens were taken."""
        self._drawn = -1
        """A token the matcher has consumed as well, to find out whether it may come."""
        self._is_healing = False
        """Whether the next token must begin with certain bytes, as the tokenizer would have it."""
        self._is_stopped = False
        """Whether the matcher has stopped, after the forced tokens."""
        self._buffers: list[Mask] = []
        self._first: list[Mask] = []
        """What `masks` returns while nothing was taken."""
        self._consumed()
        if not self.is_complete:
            first = self.masks((), 1)
            self._first, self._buffers = first, []

    @property
    def is_complete(self) -> bool:
        return self._is_stopped and self._place == len(self._forced)

    @property
    def forced(self) -> Sequence[int]:
        return self._forced[self._place :]

    @property
    def ends_forced(self) -> bool:
        return self._is_stopped

    @property
    def end_reason(self) -> Literal["stop", "length"]:
        return "length" if self.is_cut and self._closing is not None and not self._closing.is_asked else "stop"

    def take(self, token: int) -> None:
        self._first = []
        if self._place < len(self._forced):
            if token != self._forced[self._place]:
                raise ConstraintFailed("a token came that its grammar does not allow")
            self._place += 1
            return
        if token != self._drawn and (self._drawn >= 0 or not self._matcher.consume_token(token)):
            raise self._failure()
        if self._budget is not None:
            self._budget.take(token)
        self._follow(token)
        self._consumed()

    def is_settled(self, token: int, num_left: int) -> bool:
        closing = self._closing
        if closing is None or self._place < len(self._forced) or self._is_stopped or token in self.end_tokens:
            return True
        if self._budget is not None and not self._budget.is_over:
            return True
        return self._looked[:2] == (token, num_left) or not closing.is_due(token, num_left - 1)

    def look(self, token: int, num_left: int) -> None:
        self._looked = token, num_left, self._end_instead(token, num_left)

    def _end_instead(self, token: int, num_left: int) -> list[int]:
        closing, matcher = self._closing, self._matcher
        assert closing is not None
        if self._drawn != token:
            self._undraw()
            if not matcher.try_consume_tokens([token]):
                return []
            self._drawn = token
        if closing.end(matcher, num_left - 1, token) is not None:
            return []
        self._undraw()
        return closing.instead(matcher, num_left) or []

    def in_time(self, token: int, num_left: int) -> int:
        if not self.is_settled(token, num_left):
            self.look(token, num_left)
        looked, left, end = self._looked
        if (looked, left) != (token, num_left) or not end or self.is_cut:
            return token
        self._undraw()
        self._forced, self._place = [], 0
        self._force(end)
        self.is_cut = self._is_stopped = True
        return end[0]

    def _undraw(self) -> None:
        if self._drawn >= 0:
            self._matcher.rollback(1)
        self._drawn = -1

    def allows(self, token: int, num_behind: int) -> bool:
        place = self._place + num_behind
        if place < len(self._forced):
            return token == self._forced[place]
        self._undraw()  # it was drawn from a row that was discarded
        if token in self.end_tokens:
            return self._matcher.is_accepting()
        if self._is_healing:
            mask = self.masks(self.forced, 1)[0]
            if not mask[token // 32] >> token % 32 & 1:
                return False
        if not self._can_roll_back:
            return self._matcher.validate_tokens([token]) == 1
        if self._matcher.try_consume_tokens([token]):
            if self._distinctness is not None and not self._distinctness.allows(token, self._matcher):
                self._matcher.rollback(1)
                return False
            self._drawn = token
            return True
        if self._matcher.is_error():
            raise self._failure()
        return False

    def num_allowed(self, tokens: Sequence[int]) -> int:
        self._undraw()  # an end is still looked for behind it
        forced = self.forced
        for place, (token, must) in enumerate(zip(tokens, forced, strict=False)):
            if token != must:
                return place
        if len(tokens) <= len(forced):
            return len(tokens)
        end = next((place for place, token in enumerate(tokens) if token in self.end_tokens), len(tokens))
        guessed = self._within_budget(tokens[len(forced) : end])
        guessed = guessed[: self._matcher.validate_tokens(guessed)]
        return len(forced) + (len(guessed) if self._distinctness is None else self._distinctness.num_allowed(guessed))

    def masks(self, ahead: Sequence[int], num_rows: int) -> list[Mask]:
        if self._first and not ahead and num_rows == 1:
            return self._first
        self._undraw()
        while len(self._buffers) < num_rows:
            self._buffers.append(np.zeros(self._num_words, np.uint32))
        began_s, longest_s = self._clock(), 0.0
        forced, first = self.forced, len(ahead) + 1 - num_rows
        budget = None if self._budget is None or self._budget.is_over else self._budget.copy()
        matcher, num_consumed = self._matcher, 0
        if not self._can_roll_back and len(ahead) > len(forced):
            matcher = matcher.deep_copy()
        for place in range(min(first, len(forced)), len(ahead) + 1):
            if place >= first:
                mask = self._buffers[place - first]
                must = forced[place:] if place < len(forced) else () if budget is None else budget.must
                if must:
                    mask[:] = 0
                    mask[must[0] // 32] = 1 << must[0] % 32
                else:
                    matcher.unsafe_compute_mask_ptr(mask.ctypes.data, self._mask_bytes)
                    self._forbid(mask, ahead[len(forced) : place])
            if len(forced) <= place < len(ahead):
                if not matcher.validate_tokens([ahead[place]]) or not matcher.consume_token(ahead[place]):
                    break
                num_consumed += 1
                if budget is not None:
                    budget.take(ahead[place])
            ended_s = self._clock()
            began_s, longest_s = ended_s, max(longest_s, ended_s - began_s)
        is_kept = not num_consumed or matcher is not self._matcher or matcher.rollback(num_consumed)
        if matcher.is_error() or not is_kept:
            raise self._failure()
        self.cost_s = max(longest_s, self._clock() - began_s, self.cost_s * FORGETTING)
        return self._buffers[:num_rows]

    def _consumed(self) -> None:
        """The matcher has consumed what the sequence took: let it advance as long as only one token is possible."""
        matcher = self._matcher
        self._forced, self._place, self._drawn = [], 0, -1
        if not matcher.is_stopped():
            self._force(matcher.compute_ff_tokens())
            if self._budget is not None and (must := self._budget.must):
                if matcher.validate_tokens([*must]) == len(must):
                    self._force([*must])
                    self._force(matcher.compute_ff_tokens())
                else:
                    self._budget.give_up()
        self._is_stopped = matcher.is_stopped()
        if self._is_stopped and matcher.is_error():
            raise self._failure()
        self._is_healing = not self._is_stopped and len(matcher.compute_ff_bytes()) > 0

    def _forbid(self, mask: Mask, ahead: Sequence[int]) -> None:
        """Remove tokens with which the document would repeat something."""
        may_follow = self._distinctness is None or self._distinctness.forbid(mask, self._matcher, ahead)
        if not may_follow and not ahead:
            raise ConstraintFailed(_REPEATED)

    def _follow(self, token: int) -> None:
        if self._closing is not None:
            self._closing.feed(token)
        if self._distinctness is not None and not self._distinctness.feed(token):
            raise ConstraintFailed(_REPEATED)

    def _force(self, tokens: list[int]) -> None:
        if tokens:
            self._matcher.consume_tokens(tokens)
            self._forced += tokens
            for token in tokens:
                self._follow(token)
            if self._budget is not None:
                for token in tokens:
                    self._budget.take(token)

    def _within_budget(self, tokens: Sequence[int]) -> list[int]:
        """The leading tokens that the budget lets pass uninterrupted."""
        found = [*tokens]
        if self._budget is None or self._budget.is_over:
            return found
        budget = self._budget.copy()
        for place, token in enumerate(found):
            if (must := budget.must) and token != must[0]:
                return found[:place]
            budget.take(token)
        return found

    def _failure(self) -> ConstraintFailed:
        """In our words: the matcher's own message repeats its grammar, the text and the parser's state."""
        if self._matcher.get_error().startswith(("lexer error: ", "parser error: ")):
            return ConstraintFailed("its grammar takes more work for a token than the limits allow; simplify it")
        return ConstraintFailed("its grammar allows no continuation here")
