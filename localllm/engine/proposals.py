"""Tokens that a step computes behind a sequence's last one: who proposes them, and what is called around a decode.

    tokens of the sequence   forced                    guessed
    ... last              |  f1 .. fm               |  g1 .. gn
    row behind each       f1 ..  fm, then draws:    g1? ..  gn?, one more

Forced tokens are certain (a grammar allows nothing else): they are taken without being drawn. Guessed ones are taken as
long as what is drawn equals the guess, so that the text is the one without guesses, whoever guesses. The protocols say
nothing of how tokens are found.
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
"""Of a guess to be right, where nobody says."""


class Proposal(NamedTuple):
    """What a sequence may go on with; how much of it is computed is the scheduler's decision."""

    forced: tuple[int, ...] = ()
    guessed: tuple[int, ...] = ()
    """Behind the forced ones."""
    chances: tuple[float, ...] = ()
    """Of each guessed one, that it is right if those before it are; of what is missing, `ASSUMED_CHANCE`."""
    source: SourceName | None = None
    """Who guessed, if anybody did."""

    def draft(self, num_rows: int) -> Draft:
        """Of a step in which the sequence gets so many rows, at least one."""
        return Draft((*self.forced, *self.guessed)[: num_rows - 1], self.forced[:num_rows])


class Draft(NamedTuple):
    """What one step computes of a proposal."""

    tokens: tuple[int, ...]
    """Computed behind the sequence's last one."""
    forced: tuple[int, ...]
    """Taken without being drawn: the first of those, and perhaps one behind them."""

    @property
    def guessed(self) -> tuple[int, ...]:
        return self.tokens[len(self.forced) :]

    @property
    def num_drawn(self) -> int:
        """Rows from which a token is drawn: the last ones."""
        return len(self.tokens) + 1 - len(self.forced)


ONE_ROW = Draft((), ())
"""Where nothing is computed behind the last token."""


class Proposer(Protocol):
    """Asked before every step, on the engine's thread, about each sequence whose next step computes its last token."""

    def propose(self, sequence: Sequence) -> Proposal | None:
        """What it may go on with; None or nothing where nobody knows."""
        ...


class Drafting(Protocol):
    """Guesses for all sequences of a step together. Called on the engine's thread, before any is asked what it has."""

    def weigh(self, target: RowCost) -> None:
        """What the steps cost that check the guesses: told once, before anything else."""
        ...

    def draft(self, running: Many[Sequence]) -> None:
        """For those of them that draw a token in the next step. Raises nothing: who fails stops drafting."""
        ...


class DecodeHook(Protocol):
    """Called on the engine's thread. For what takes time on other threads while the backend computes: masks, drafts."""

    def before_decode(self, plan: StepPlan) -> None:
        """The plan is about to be computed."""
        ...

    def after_decode(self, plan: StepPlan) -> None:
        """It was computed, and no token is drawn yet: `Sequence.masks` are looked at next. Not called if it failed."""
        ...
