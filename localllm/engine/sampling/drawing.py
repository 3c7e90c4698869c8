"""What each sequence goes on with after a decode: tokens drawn row by row, all rows of a step in one call.

What a constraint does not allow is drawn again, of what its mask allows: as if the mask had been there from the first,
but for filters such as `top_p`, which count what may not come, as llama.cpp's do.
Of the rows behind guesses those count whose guess was drawn in the row before: the others were computed for nothing.
Knows nothing of what becomes of a token.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from typing import NamedTuple

from localllm.engine.backend import Backend
from localllm.engine.constraint.constraint import ConstraintFailed
from localllm.engine.constraint.masking import Masking
from localllm.engine.proposals import ONE_ROW, Draft
from localllm.engine.sampling.draws import as_drawn
from localllm.engine.sampling.parameters import Mask
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
    late_row: Row | None = None
    """From which it draws when its mask is known; it takes nothing now."""
    failure: ConstraintFailed | None = None
    """It takes nothing: this is the end of it."""
    num_forced: int = 0
    """Of the tokens, the first that were not drawn."""
    guessed: tuple[int, ...] = ()
    """What the next ones were taken to be."""


@dataclass(slots=True)
class _Try:
    """What is drawn of one sequence."""

    sequence: Sequence
    draft: Draft
    slot: int
    rows: list[Row]
    """From which tokens are drawn."""
    scored: list[Row]
    """Of which log-probabilities of forced tokens are wanted."""
    best: list[Sampled] = field(default_factory=list)
    """The likeliest of each of those."""
    found: list[Sampled] = field(default_factory=list)
    is_late: bool = False
    failure: ConstraintFailed | None = None

    @property
    def params(self) -> list[SamplerParams]:
        """One for each row."""
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
        return Drawn(sequence, tokens, len(draft.tokens), self.slot, num_forced=num_forced, guessed=guessed)


class Drawer:
    """Used by the engine's thread."""

    def __init__(self, backend: Backend, sampler: Sampler, masking: Masking, team: Team | None = None) -> None:
        """`team`: decides how many threads draw."""
        self._backend = backend
        self._masking = masking
        self._sampler = sampler
        self._team = team

    def draw(self, plan: StepPlan, ready: Many[int]) -> list[Drawn]:
        """For the plan's segments of those numbers, which were just computed."""
        if not plan.drafts:
            return self._draw_last([plan.sequences[index] for index in ready], ready)
        tries = []
        for index in ready:
            sequence, draft = plan.sequences[index], plan.drafts.get(plan.sequences[index].id, ONE_ROW)
            num_scored = len(draft.forced) if sequence.logprobs is not None else 0
            rows = list(self._backend.logits(index)) if num_scored or draft.num_drawn else []
            scored, rows = rows[:num_scored], rows[-draft.num_drawn :] if draft.num_drawn else []
            tries.append(_Try(sequence, draft, plan.segments[index].slot, rows, scored))
        return self._draw(tries)

    def _draw_last(self, sequences: list[Sequence], ready: Many[int]) -> list[Drawn]:
        """As most steps: one row of each."""
        rows, params = [self._backend.logits(index)[-1] for index in ready], []
        for sequence in sequences:
            if sequence.follower is not None:
                sequence.masks = ()
            params.append(sequence.sampler_params())
        drawn, again = [], []
        for place, (sequence, sampled) in enumerate(zip(sequences, self._sample(rows, params), strict=True)):
            drawn.append(Drawn(sequence, [sampled]))
            follower = sequence.follower
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
            if one.sequence.follower is not None:
                one.sequence.masks = ()
            rows += one.scored + one.rows
            if one.scored:
                params += [SamplerParams(temperature=0, num_top=max(1, one.sequence.logprobs or 0))] * len(one.scored)
            params += one.params
        sampled = iter(self._sample(rows, params) if rows else ())
        for one in tries:
            one.best = [next(sampled) for _ in one.scored]
            one.found = [next(sampled) for _ in one.rows]
        self._draw_again([(one, refused) for one in tries if (refused := _refused(one))])
        return [one.drawn() for one in tries]

    def _draw_again(self, tries: list[tuple[_Try, list[int]]]) -> None:
        """Of what the masks allow, from rows from which a token was drawn that may not come."""
        places, rows, params = [], [], []
        for one, refused in tries:
            work = self._masking.needed(one.sequence, one.draft)
            if work is None or work.failure is not None:
                one.is_late, one.failure = work is None, None if work is None else work.failure
                continue
            one.sequence.masks = [*[None] * len(one.draft.forced), *work.masks]
            of_rows = one.params
            for place in refused:
                places.append((one, place))
                rows.append(one.rows[place])
                params.append(of_rows[place])
        for (one, place), sampled in zip(places, self._sample(rows, params) if rows else (), strict=True):
            one.found[place] = sampled

    def _sample(self, rows: Many[Row], params: Many[SamplerParams]) -> list[Sampled]:
        if self._team is not None and rows:
            self._sampler.threads = self._team.sampler_threads(len(rows), len(rows[0]))
        found = self._sampler.sample(rows, params)
        if any(each.tells_draws for each in params):
            for place, (row, each) in enumerate(zip(rows, params, strict=True)):
                if each.tells_draws:
                    found[place] = as_drawn(row, each, found[place])
        return found


def _refused(one: _Try) -> list[int]:
    """The rows from which tokens were drawn that may not come."""
    follower, found = one.sequence.follower, one.found
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


def _forced(sequence: Sequence, tokens: Many[int], scored: list[tuple[Row, Sampled]]) -> list[Sampled]:
    """Forced tokens, with log-probabilities if they are wanted: those of the model's own distribution, or, where those
    of draws are told, that of a draw among one."""
    mu, num_top = sequence.mirostat_mu, sequence.logprobs
    if num_top is None:
        return [Sampled(token, mirostat_mu=mu) for token in tokens]
    if sequence.tells_draws:
        return [
            Sampled(token, 0.0, ((token, 0.0),)[:num_top], mu) if best.token >= 0 else Sampled(NOT_FINITE)
            for token, (_, best) in zip(tokens, scored, strict=True)
        ]
    return [
        Sampled(token, max(logprob_of(row, token, best), -float(HUGE)), best.top[:num_top], mu)
        if best.token >= 0 and best.top
        else Sampled(NOT_FINITE)
        for token, (row, best) in zip(tokens, scored, strict=True)
    ]


def _verified(draft: Draft, found: list[Sampled]) -> list[Sampled]:
    """What is drawn up to the first that is not what was guessed."""
    taken = []
    for place, sampled in enumerate(found):
        taken.append(sampled)
        if place < len(draft.guessed) and sampled.token != draft.guessed[place]:
            break
    return taken


def _up_to_a_failure(tokens: list[Sampled]) -> list[Sampled]:
    return tokens[: next((place + 1 for place, one in enumerate(tokens) if one.token < 0), len(tokens))]
