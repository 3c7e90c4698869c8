"""Tokens that a step computes after a sequence's last one: who proposes them, and hooks around a decode.

    tokens of the sequence   forced                    guessed
    ... last              |  f1 .. fm               |  g1 .. gn
    row after each        f1 ..  fm, then draws:    g1? ..  gn?, one more

Forced tokens are certain (a grammar allows nothing else): they are taken without being drawn. Guessed tokens are taken
as long as the draw equals the guess, so the text is the same as without guesses. The protocols say nothing of how
tokens are found.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import TYPE_CHECKING, NamedTuple, Protocol

from localllm.types import SourceName

if TYPE_CHECKING:
    from localllm.engine.scheduling.plan import StepPlan
    from localllm.engine.scheduling.row_cost import RowCost
    from localllm.engine.sequence import Sequence


ASSUMED_CHANCE = 0.8
"""Assumed probability that a guess is right, if its source gives none."""


class Proposal(NamedTuple):
    """Possible next tokens of a sequence; the scheduler decides how many of them are computed."""

    forced: tuple[int, ...] = ()
    guessed: tuple[int, ...] = ()
    """After the forced ones."""
    chances: tuple[float, ...] = ()
    """Probability that each guess is right, given that those before it are; `ASSUMED_CHANCE` for missing ones."""
    source: SourceName | None = None
    """Source of the guesses, if there are any."""

    def draft(self, num_rows: int) -> Draft:
        """For a step in which the sequence gets `num_rows` rows, at least one."""
        return Draft((*self.forced, *self.guessed)[: num_rows - 1], self.forced[:num_rows])


class Draft(NamedTuple):
    """The part of a proposal that one step computes."""

    tokens: tuple[int, ...]
    """Computed after the sequence's last token."""
    forced: tuple[int, ...]
    """Taken without being drawn: the first of `tokens`, and possibly one after them."""

    @property
    def guessed(self) -> tuple[int, ...]:
        return self.tokens[len(self.forced) :]

    @property
    def num_drawn(self) -> int:
        """Rows from which a token is drawn: the last ones."""
        return len(self.tokens) + 1 - len(self.forced)


ONE_ROW = Draft((), ())
"""Nothing is computed after the last token."""


class Proposer(Protocol):
    """Asked before every step, on the engine's thread, about each sequence whose next step computes its last token."""

    def propose(self, sequence: Sequence) -> Proposal | None:
        """Possible next tokens; None or an empty proposal if there are none."""
        ...


class Drafting(Protocol):
    """Guesses for all sequences of a step together. Called on the engine's thread, before any `propose`."""

    def weigh(self, target: RowCost, *, max_rollback: int, rolls_back_equals: bool) -> None:
        """Receives, once and first of all, the cost of the steps that verify guesses, and what their memory can roll
        back: see `Backend`."""
        ...

    def draft(self, running: Many[Sequence]) -> None:
        """Draft for those that draw a token in the next step. Never raises: after a failure it stops drafting."""
        ...


class DecodeHook(Protocol):
    """Called on the engine's thread. For work on other threads while the backend computes: masks, drafts."""

    def before_decode(self, plan: StepPlan) -> None:
        """The plan is about to be computed."""
        ...

    def after_decode(self, plan: StepPlan) -> None:
        """It was computed and no token is drawn yet; `Sequence.masks` are read next. Not called if the decode
        failed."""
        ...
