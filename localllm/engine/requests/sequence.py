"""One request as the engine computes it: what it wants, how far it is, and what its next tokens are drawn with.

Answers the questions that need more than one of these. Knows nothing of scheduling or of llama.cpp.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence as Tokens
from typing import TYPE_CHECKING

from localllm.engine.constraint.constraint import Constraint
from localllm.engine.drawing_state import DrawingState
from localllm.engine.requests.terms import Request
from localllm.engine.sampling.dry import Dry
from localllm.engine.sampling.sampler import SamplerParams
from localllm.engine.sequence_progress import SequenceProgress
from localllm.types import Delta, Timings, Usage
from localllm.types.states import SlotStatus

if TYPE_CHECKING:
    from localllm.engine.speculation.guesser import Guesser

SHIFTED_ANSWER = 8
"""With context shift, an answer without a limit of its own ends after this many times its slot's tokens."""


class Sequence:
    """Owned by the engine thread, except for the request, which never changes."""

    def __init__(
        self,
        request: Request,
        *,
        dry: Dry | None = None,
        constraint: Constraint | None = None,
        guesser: Guesser | None = None,
    ) -> None:
        """`dry` has seen the prompt."""
        self.id = request.id
        self.request = request
        self.progress = SequenceProgress(request)
        self.drawing = DrawingState(request, dry=dry, constraint=constraint, guesser=guesser)
        self.unsent: list[Delta] = []
        """Pieces of an answer that is reported whole."""

    @property
    def slot(self) -> int | None:
        return self.progress.held.slot

    @property
    def next_deadline_s(self) -> float:
        """Its next deadline: for the whole request, or for waiting for a slot."""
        due = self.request.due
        return due.deadline_s if self.progress.was_admitted else min(due.deadline_s, due.queue_deadline_s)

    @property
    def wants_scores(self) -> bool:
        """Whether log-probabilities of its prompt are still to be reported."""
        if self.request.reported.prompt_logprobs is None:
            return False
        return self.progress.num_scored < self.progress.num_prompt

    @property
    def may_end(self) -> bool:
        """Whether enough was generated, including the token just drawn."""
        return self.progress.num_generated >= self.request.ending.min_tokens

    def sampler_params(self) -> SamplerParams:
        """How to draw its next token; the same object every time."""
        return self.drawing.parameters.next(self.progress.num_generated, self.drawing.masks)

    def row_params(self, assumed: Tokens[int]) -> list[SamplerParams]:
        """How to draw its next token, and one after each of the `assumed` ones, as if these had been taken."""
        return self.drawing.parameters.rows(self.progress.num_generated, assumed, self.drawing.masks)

    def append(self, token: int) -> None:
        """Take a generated token."""
        self.progress.tokens.append(token)
        self.drawing.parameters.append(token)

    def shift(self, keep: int, drop: int) -> None:
        """Drop `drop` tokens after the first `keep`."""
        self.progress.shift(keep, drop)
        self.drawing.parameters.shifted(self.progress.tokens)

    def slot_status(self) -> SlotStatus:
        """What its slot holds, and how far it is."""
        of = self.progress
        return SlotStatus(self.id, of.held.length, of.num_prompt, of.num_cached, of.num_computed, of.num_generated)

    def usage(self) -> Usage:
        progress, drawing = self.progress, self.drawing
        return Usage(
            progress.num_prompt,
            progress.num_generated,
            progress.num_cached,
            progress.num_shifted,
            accepted_guesses=drawing.num_right_guesses,
            rejected_guesses=drawing.num_guesses - drawing.num_right_guesses,
        )

    def timings(self, now_s: float) -> Timings:
        progress = self.progress
        admitted = now_s if progress.admitted_s is None else progress.admitted_s
        first = now_s if progress.first_token_s is None else progress.first_token_s
        return Timings(
            queue_s=admitted - self.request.due.created_s, prefill_s=first - admitted, decode_s=now_s - first
        )

    def num_left(self, slot_capacity: int, *, shifts: bool = False) -> int:
        """How many more tokens the request's own limit and the slot's end allow.

        Where the context `shifts`, there is always room, and an answer without a limit of its own gets one.
        """
        progress, most = self.progress, self.request.max_tokens
        if shifts and most is None:
            most = SHIFTED_ANSWER * slot_capacity
        room = sys.maxsize if shifts else slot_capacity - progress.num_tokens
        return room if most is None else min(room, most - progress.num_generated)
