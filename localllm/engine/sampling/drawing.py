"""What each sequence continues with after a decode: tokens drawn row by row, all rows of a step in one call.

A token that a constraint forbids is drawn again among those that its mask allows: as if the mask had been there from
the start, except that filters such as `top_p` still count forbidden tokens, as llama.cpp's do. Of the rows after
guesses, those count whose guess was drawn in the previous row; the others were computed in vain. Knows nothing of what
becomes of a token.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from typing import NamedTuple

from localllm.engine.backend import BatchDecoder
from localllm.engine.constraint.constraint import ConstraintFailed
from localllm.engine.constraint.masking import Masking
from localllm.engine.requests.sequence import Sequence
from localllm.engine.sampling.draws import as_drawn
from localllm.engine.sampling.parameters import Mask
from localllm.engine.sampling.prompt_logprobs import logprob_of
from localllm.engine.sampling.sampler import NOT_FINITE, SampledToken, Sampler, SamplerParams
from localllm.engine.sampling.selection import HUGE, Row
from localllm.engine.scheduling.step_plan import StepPlan
from localllm.engine.speculation.proposals import ONE_ROW, Draft
from localllm.engine.threads.team import Team


class Drawn(NamedTuple):
    """The result for one sequence."""

    sequence: Sequence
    tokens: list[SampledToken]
    """What it takes, forced and drawn; the last one may be a reason for having no token."""
    num_behind: int = 0
    """Tokens that were computed after its last one."""
    slot: int = -1
    """The slot."""
    late_row: Row | None = None
    """The row it will draw from once its mask is known; it takes nothing now."""
    failure: ConstraintFailed | None = None
    """Set where it takes nothing and ends."""
    num_forced: int = 0
    """How many of the first tokens were forced, not drawn."""
    guessed: tuple[int, ...] = ()
    """The guesses for the tokens after those."""
    row: Row | None = None
    """What the first token was drawn from; None: it was forced."""


@dataclass(slots=True)
class _Try:
    """Work in progress for one sequence."""

    sequence: Sequence
    draft: Draft
    slot: int
    rows: list[Row]
    """Rows from which tokens are drawn."""
    scored: list[Row]
    """Rows for log-probabilities of forced tokens."""
    best: list[SampledToken] = field(default_factory=list)
    """The likeliest token of each of those."""
    found: list[SampledToken] = field(default_factory=list)
    is_late: bool = False
    failure: ConstraintFailed | None = None

    @property
    def params(self) -> list[SamplerParams]:
        """One per row."""
        if not self.draft.tokens:
            return [self.sequence.sampler_params()] if self.rows else []
        return self.sequence.row_params(self.draft.tokens)[len(self.draft.forced) :]

    def drawn(self) -> Drawn:
        sequence, draft = self.sequence, self.draft
        if self.failure is not None or self.is_late:
            late_row = self.rows[0] if self.is_late else None
            return Drawn(sequence, [], len(draft.tokens), self.slot, late_row, self.failure)
        tokens = _forced(sequence, draft.forced, [*zip(self.scored, self.best, strict=True)])
        tokens += _verified(draft, self.found)
        tokens = _up_to_a_failure(tokens)
        num_forced, guessed = len(draft.forced), draft.guessed
        row = self.rows[0] if self.rows and not draft.forced else None
        return Drawn(sequence, tokens, len(draft.tokens), self.slot, num_forced=num_forced, guessed=guessed, row=row)


class Drawer:
    """Used by the engine's thread."""

    def __init__(self, decoder: BatchDecoder, sampler: Sampler, masking: Masking, team: Team | None = None) -> None:
        """`team` decides how many threads draw."""
        self._decoder = decoder
        self._masking = masking
        self._sampler = sampler
        self._team = team

    def draw(self, plan: StepPlan, ready: Many[int]) -> list[Drawn]:
        """For the plan's segments with the indexes `ready`, which were just computed."""
        if not plan.drafts:
            return self._draw_last([plan.sequences[index] for index in ready], ready)
        tries = []
        for index in ready:
            sequence, draft = plan.sequences[index], plan.drafts.get(plan.sequences[index].id, ONE_ROW)
            num_scored = len(draft.forced) if sequence.request.reported.logprobs is not None else 0
            rows = list(self._decoder.logits(index)) if num_scored or draft.num_drawn else []
            scored, rows = rows[:num_scored], rows[-draft.num_drawn :] if draft.num_drawn else []
            tries.append(_Try(sequence, draft, plan.segments[index].slot, rows, scored))
        return self._draw(tries)

    def _draw_last(self, sequences: list[Sequence], ready: Many[int]) -> list[Drawn]:
        """The usual case: one row for each."""
        rows, params = [self._decoder.logits(index)[-1] for index in ready], []
        for sequence in sequences:
            if sequence.drawing.follower is not None:
                sequence.drawing.masks = ()
            params.append(sequence.sampler_params())
        drawn, again = [], []
        for place, (sequence, sampled) in enumerate(zip(sequences, self._sample(rows, params), strict=True)):
            drawn.append(Drawn(sequence, [sampled], row=rows[place]))
            follower = sequence.drawing.follower
            if follower is None or sampled.token == NOT_FINITE:
                continue
            failure = None
            try:
                if follower.allows(sampled.token):
                    continue
            except ConstraintFailed as its_failure:
                failure = its_failure
            again.append((place, _Try(sequence, ONE_ROW, -1, [rows[place]], [], found=[sampled], failure=failure)))
        if again:
            self._draw_again([(one, [0]) for _, one in again if one.failure is None])
            for place, one in again:
                drawn[place] = one.drawn()
        return drawn

    def draw_rows(self, kept: Many[tuple[Sequence, Row]]) -> list[Drawn]:
        """For sequences whose rows were computed in earlier steps."""
        return self._draw([_Try(sequence, ONE_ROW, -1, [row], []) for sequence, row in kept])

    def _draw(self, tries: list[_Try]) -> list[Drawn]:
        rows: list[Row] = []
        params: list[SamplerParams] = []
        for one in tries:
            if one.sequence.drawing.follower is not None:
                one.sequence.drawing.masks = ()
            rows += one.scored + one.rows
            if one.scored:
                params += [
                    SamplerParams(temperature=0, num_top=max(1, one.sequence.request.reported.logprobs or 0))
                ] * len(one.scored)
            params += one.params
        sampled = iter(self._sample(rows, params) if rows else ())
        for one in tries:
            one.best = [next(sampled) for _ in one.scored]
            one.found = [next(sampled) for _ in one.rows]
        self._draw_again([(one, refused) for one in tries if (refused := _refused(one))])
        return [one.drawn() for one in tries]

    def _draw_again(self, tries: list[tuple[_Try, list[int]]]) -> None:
        """With masks, from rows from which a forbidden token was drawn."""
        places, rows, params = [], [], []
        for one, refused in tries:
            work = self._masking.needed(one.sequence, one.draft)
            if work is None or work.failure is not None:
                one.is_late, one.failure = work is None, None if work is None else work.failure
                continue
            one.sequence.drawing.masks = [*[None] * len(one.draft.forced), *work.masks]
            of_rows = one.params
            for place in refused:
                places.append((one, place))
                rows.append(one.rows[place])
                params.append(of_rows[place])
        for (one, place), sampled in zip(places, self._sample(rows, params) if rows else (), strict=True):
            one.found[place] = sampled

    def _sample(self, rows: Many[Row], params: Many[SamplerParams]) -> list[SampledToken]:
        threads = None if self._team is None or not rows else self._team.sampler_threads(len(rows), len(rows[0]))
        found = self._sampler.sample(rows, params, threads=threads)
        if any(each.tells_draws for each in params):
            for place, (row, each) in enumerate(zip(rows, params, strict=True)):
                if each.tells_draws:
                    found[place] = as_drawn(row, each, found[place])
        return found


def _refused(one: _Try) -> list[int]:
    """The rows from which forbidden tokens were drawn."""
    follower, found = one.sequence.drawing.follower, one.found
    if follower is None or not found:
        return []
    if len(found) > 1:
        masks = [] if follower.work is None else follower.work.masks
        return [row for row, (each, mask) in enumerate(zip(found, masks, strict=True)) if not _allows(mask, each.token)]
    if found[0].token == NOT_FINITE:
        return []
    try:
        return [] if follower.allows(found[0].token, len(one.draft.forced)) else [0]
    except ConstraintFailed as failure:
        one.failure = failure
        return []


def _allows(mask: Mask, token: int) -> bool:
    return token == NOT_FINITE or (token >= 0 and bool(mask[token // 32] >> token % 32 & 1))


def _forced(sequence: Sequence, tokens: Many[int], scored: list[tuple[Row, SampledToken]]) -> list[SampledToken]:
    """Forced tokens, with log-probabilities if wanted: those of the model's own distribution or, where those of draws
    are reported, that of the only possible draw."""
    mu, num_top = sequence.drawing.parameters.mirostat_mu, sequence.request.reported.logprobs
    if num_top is None:
        return [SampledToken(token, mirostat_mu=mu) for token in tokens]
    if sequence.request.reported.tells_draws:
        return [
            SampledToken(token, 0.0, ((token, 0.0),)[:num_top], mu) if best.token >= 0 else SampledToken(NOT_FINITE)
            for token, (_, best) in zip(tokens, scored, strict=True)
        ]
    return [
        SampledToken(token, max(logprob_of(row, token, best), -float(HUGE)), best.top[:num_top], mu)
        if best.token >= 0 and best.top
        else SampledToken(NOT_FINITE)
        for token, (row, best) in zip(tokens, scored, strict=True)
    ]


def _verified(draft: Draft, found: list[SampledToken]) -> list[SampledToken]:
    """The draws up to the first that differs from its guess."""
    taken = []
    for place, sampled in enumerate(found):
        taken.append(sampled)
        if place < len(draft.guessed) and sampled.token != draft.guessed[place]:
            break
    return taken


def _up_to_a_failure(tokens: list[SampledToken]) -> list[SampledToken]:
    return tokens[: next((place + 1 for place, one in enumerate(tokens) if one.token < 0), len(tokens))]
