"""What each sequence goes on with after a decode: tokens drawn row by row, all rows of a step in one call.

Of the rows behind guesses those count whose guess was drawn in the row before: the others were computed for nothing.
Knows nothing of what becomes of a token.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.backend import Backend
from localllm.engine.proposals import Draft
from localllm.engine.sampling.prompt_logprobs import logprob_of
from localllm.engine.sampling.sampler import NOT_FINITE, Sampled, Sampler, SamplerParams
from localllm.engine.sampling.selection import HUGE, Row
from localllm.engine.scheduling.plan import StepPlan
from localllm.engine.sequence import Sequence
from localllm.engine.team import Team


class Drawn(NamedTuple):
    """Of one sequence."""

    sequence: Sequence
    tokens: list[Sampled]
    """What it takes, forced and drawn; the last may be none, but the reason why."""
    num_behind: int = 0
    """So many tokens were computed behind its last one."""
    slot: int = -1
    """Where."""


class Drawer:
    """Used by the engine's thread."""

    def __init__(self, backend: Backend, sampler: Sampler, team: Team | None = None) -> None:
        """`team`: decides how many threads draw."""
        self._backend = backend
        self._sampler = sampler
        self._team = team

    def draw(self, plan: StepPlan, ready: Many[int]) -> list[Drawn]:
        """For the plan's segments of those numbers, which were just computed."""
        if not plan.drafts:
            sequences = [plan.sequences[index] for index in ready]
            rows = [self._backend.logits(index)[-1] for index in ready]
            params = [sequence.sampler_params() for sequence in sequences]
            sampled = self._sample(rows, params)
            return [Drawn(sequence, [one]) for sequence, one in zip(sequences, sampled, strict=True)]
        rows, params = [], []
        for index in ready:
            its_rows, its_params = self._rows_of(plan, index)
            rows += its_rows
            params += its_params
        each = iter(zip(rows, self._sample(rows, params) if rows else (), strict=True))
        drawn = []
        for index in ready:
            sequence, segment = plan.sequences[index], plan.segments[index]
            draft = plan.drafts.get(sequence.id)
            if draft is None:
                drawn.append(Drawn(sequence, [next(each)[1]]))
                continue
            num_scored = len(draft.forced) if sequence.logprobs is not None else 0
            tokens = _forced(sequence, draft.forced, [next(each) for _ in range(num_scored)])
            found = [next(each)[1] for _ in range(draft.num_drawn)]
            tokens += _verified(sequence, draft, found)
            drawn.append(Drawn(sequence, _up_to_a_failure(tokens), len(draft.tokens), segment.slot))
        return drawn

    def draw_rows(self, kept: Many[tuple[Sequence, Row]]) -> list[Drawn]:
        """For sequences whose rows were computed in earlier steps."""
        sampled = self._sample([row for _, row in kept], [sequence.sampler_params() for sequence, _ in kept])
        return [Drawn(sequence, [one]) for (sequence, _), one in zip(kept, sampled, strict=True)]

    def _sample(self, rows: Many[Row], params: Many[SamplerParams]) -> list[Sampled]:
        if self._team is not None and rows:
            self._sampler.threads = self._team.sampler_threads(len(rows), len(rows[0]))
        return self._sampler.sample(rows, params)

    def _rows_of(self, plan: StepPlan, index: int) -> tuple[Many[Row], list[SamplerParams]]:
        sequence = plan.sequences[index]
        draft = plan.drafts.get(sequence.id)
        if draft is None:
            return self._backend.logits(index)[-1:], [sequence.sampler_params()]
        scored: list[SamplerParams] = []
        if sequence.logprobs is not None:
            scored = [SamplerParams(temperature=0, num_top=max(1, sequence.logprobs))] * len(draft.forced)
        drawn = sequence.row_params(draft.tokens)[len(draft.forced) :]
        rows = self._backend.logits(index) if scored or drawn else ()
        return rows, scored + drawn


def _forced(sequence: Sequence, tokens: Many[int], scored: list[tuple[Row, Sampled]]) -> list[Sampled]:
    """Forced tokens, with log-probabilities if they are wanted: those of the model's own distribution."""
    mu, num_top = sequence.mirostat_mu, sequence.logprobs
    if num_top is None:
        return [Sampled(token, mirostat_mu=mu) for token in tokens]
    return [
        Sampled(token, max(logprob_of(row, token, best), -float(HUGE)), best.top[:num_top], mu)
        if best.token >= 0 and best.top
        else Sampled(NOT_FINITE)
        for token, (row, best) in zip(tokens, scored, strict=True)
    ]


def _verified(sequence: Sequence, draft: Draft, found: list[Sampled]) -> list[Sampled]:
    """What is drawn up to the first that is not what was guessed; the sequence learns how often it is."""
    taken = []
    for place, sampled in enumerate(found):
        taken.append(sampled)
        if place < len(draft.guessed):
            is_right = sampled.token == draft.guessed[place]
            sequence.guessed(is_right=is_right)
            if not is_right:
                break
    return taken


def _up_to_a_failure(tokens: list[Sampled]) -> list[Sampled]:
    return tokens[: next((place + 1 for place, one in enumerate(tokens) if one.token < 0), len(tokens))]
