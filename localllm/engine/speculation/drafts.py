"""Guesses of a draft model, or of the model's own heads, for all streams of a step, as long as that pays.

    a step   [draft: catch up, g1] [g2] ... [gn]   [target: last, g1 .. gn -> rows]   [draw, while that was guessed]

`guessing` computes them; `lengths` decides what is worth its time, with measured costs, including the draft's own.
Where nothing pays, the draft rests, except for a small share of the time: then it checks itself on a few tokens whose
successors are known. If it fails, answers continue without it. Knows nothing of llama.cpp.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.backend import BackendError, Segment
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.row_cost import RowCost
from localllm.engine.speculation.account import Accounts
from localllm.engine.speculation.draft_backend import DraftBackend
from localllm.engine.speculation.draft_cost import PROBED
from localllm.engine.speculation.guessing import Wanted, best, guessing
from localllm.engine.speculation.lengths import Length, Stream, best_length
from localllm.engine.speculation.source import Drafted
from localllm.engine.speculation.streams import DraftStream, DraftStreams
from localllm.engine.threads.team import Team

logger = logging.getLogger("localllm")

READY = 16
"""Tokens by which a stream may be behind and still draft in the same step; the other streams wait for it."""
CATCH_UP_S = 0.05
"""Approximate time that a step spends on streams that are further behind."""
LEAST_CATCH_UP = 32
"""The fewest tokens of such a step."""
ANSWER = 128
"""Assumed remaining tokens of an answer without a limit, when deciding whether catching up pays."""
PROBING = 0.006
"""Share of the time in which nothing pays that may be spent on checking whether it would."""
PROBE = 48
"""Tokens of a check where the draft is far behind."""
RESTS, LONGEST_REST = 4, 16
"""Steps without a new decision after one in which nothing paid, and after many such in a row."""


class _Step(NamedTuple):
    """The previous step."""

    began_s: float
    ids: tuple[int, ...]
    """Ids of its streams."""
    num_tokens: int
    """Tokens that these had generated before it."""
    is_drafted: bool


class Drafts:
    """Implements `engine.proposals.Drafting`."""

    def __init__(
        self,
        backend: DraftBackend,
        *,
        share: float,
        streams: DraftStreams | None = None,
        team: Team | None = None,
        clock: Callable[[], float] = time.perf_counter,
        on_drop: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`share`: cost of a draft step relative to a target step, until it is measured. `streams`: of `backend`, if
        not those of a draft model. `on_drop` is called with the reason if it fails and guesses nothing from then on."""
        self._backend: DraftBackend | None = backend
        self._ready = min(READY, backend.batch_capacity // backend.num_slots)
        self._streams = streams or DraftStreams(backend)
        self._clock = clock
        self._on_drop = on_drop
        self._team = team
        self._guessing = guessing(backend, self._streams, share)
        self._spent = self._guessing.spent
        self._saved_s = 0.0
        """Time available for checks, saved while nothing paid."""
        self._target: RowCost | None = None
        self._max_rollback = 0
        self._rolls_back_equals = False
        self._resting = 0, 0
        """Steps still to rest, and for which number of streams."""
        self._next_rest = RESTS
        self._accounts = Accounts()
        self._last: _Step | None = None

    def weigh(self, target: RowCost, *, max_rollback: int, rolls_back_equals: bool) -> None:
        """The cost of the target's steps, and what its memory can roll back."""
        self._target, self._max_rollback, self._rolls_back_equals = target, max_rollback, rolls_back_equals

    def warm_up(self) -> None:
        """Measure the cost of a decode before anybody waits for it. Raises `BackendError`."""
        assert self._backend is not None
        self._guessing.warm_up(self._timed)
        self._backend.truncate(0, 0)

    def _timed(self, segment: Segment) -> float:
        assert self._backend is not None
        began_s = self._clock()
        self._backend.decode([segment])
        self._backend.synchronize()
        for row in self._backend.logits(0):
            best(row)
        return self._clock() - began_s

    @property
    def is_off(self) -> bool:
        """Whether it failed."""
        return self._backend is None

    def draft(self, running: Many[Sequence]) -> None:
        streams = [sequence for sequence in running if sequence.num_pending]
        for sequence in streams:
            if (drafted := _drafted(sequence)) is not None:
                drafted.learn(sequence.tokens)
        if self._backend is None or self._target is None:
            return
        if any(sequence.num_pending > 1 or sequence.wants_scores for sequence in streams):
            self._last = None
            return  # beside prompts every stream gets one row
        self._settle(streams)
        if not self._target.knows(len(streams)) or not self._accounts.allows(len(streams)):
            return
        num_steps, num_streams = self._resting
        if num_steps and num_streams == len(streams):
            self._resting = num_steps - 1, num_streams
            return
        wanted = [self._wanted(sequence) for sequence in streams]
        if not any(wanted):
            return
        self._streams.release({sequence.id for sequence in running})
        if self._team is not None:
            self._backend.set_threads(self._team.num_threads)
        try:
            self._draft(self._backend, self._target, streams, wanted)
        except BackendError as error:
            self.drop(error)

    def drop(self, error: BackendError) -> None:
        """Guess nothing from now on, and free the memory for it."""
        if self._backend is not None:
            self._backend.free()
        self._backend = None
        logger.warning("draft_dropped", extra={"fields": {"reason": str(error), "effect": "answers go on"}})
        self._on_drop(str(error))

    def _settle(self, streams: Many[Sequence]) -> None:
        """Account for the previous step, if it had the same streams."""
        now_s, last = self._clock(), self._last
        ids = tuple([sequence.id for sequence in streams])
        num_tokens = sum([sequence.num_generated for sequence in streams])
        if last is not None and last.ids == ids:
            came, took_s = num_tokens - last.num_tokens, now_s - last.began_s
            self._accounts.took(len(streams), came, took_s, is_drafted=last.is_drafted)
        self._last = _Step(now_s, ids, num_tokens, is_drafted=False)

    def _wanted(self, sequence: Sequence) -> Wanted | None:
        assert self._backend is not None
        drafted = _drafted(sequence)
        if drafted is None or sequence.guesser is None or not sequence.takes_guesses:
            return None
        if sequence.follower is not None and sequence.follower.is_slow:
            return None  # it proposes nothing
        most = min(sequence.guesser.most, self._max_rollback, self._backend.slot_capacity // 4)
        if sequence.max_tokens is not None:
            most = min(most, sequence.max_tokens - sequence.num_generated - 1)
        if most < 1:
            return None
        looked_up = sequence.guesser.looked_up(sequence)
        if looked_up is not None and looked_up.worth >= drafted.trust.mean / (1 - drafted.trust.mean):
            return None  # it costs nothing
        return Wanted(sequence, drafted, most)

    def _draft(
        self, backend: DraftBackend, target: RowCost, streams: Many[Sequence], wanted: Many[Wanted | None]
    ) -> None:
        parts = [(sequence.held.slot or 0, sequence.num_computed, 1) for sequence in streams]
        plain_s = target.measured(parts)
        self._spent.target_s = plain_s / len(streams)
        asked = [
            Stream(slot, depth, 0.0 if one is None else one.drafted.trust.mean, 0 if one is None else one.most)
            for (slot, depth, _), one in zip(parts, wanted, strict=True)
        ]
        length = best_length(asked, target.measured, self._spent.guesses_s, are_equal=self._rolls_back_equals)
        if length is None:
            num_steps, self._next_rest = self._next_rest, min(2 * self._next_rest, LONGEST_REST)
            self._resting = num_steps - 1, len(streams)
            self._saved_s += num_steps * PROBING * plain_s
            check = self._look_back if self._streams.can_look_back else self._look_ahead
            check(backend, [one for one in wanted if one is not None])
            return
        self._next_rest = RESTS
        chosen = [one for place, one in enumerate(wanted) if one is not None and place in length.places]
        gain = 1 - len(streams) / plain_s / length.rate
        ready = self._catch_up(backend, chosen, gain * plain_s)
        if self._last is not None:
            self._last = self._last._replace(is_drafted=bool(ready))
        if ready:
            self._guess(ready, length)

    def _catch_up(self, backend: DraftBackend, chosen: Many[Wanted], gain_s: float) -> list[tuple[Wanted, DraftStream]]:
        """Streams that are close enough; others catch up, if the time `gain_s` saved per token pays for it."""
        ready, behind = [], []
        for one in chosen:
            sequence = one.sequence
            stream = self._streams.follow(sequence, one.most + 1 + self._ready)
            left = ANSWER if sequence.max_tokens is None else min(ANSWER, sequence.max_tokens - sequence.num_generated)
            earliest = self._streams.earliest(sequence)
            num_all = sequence.num_tokens - earliest
            is_short = stream.first > earliest and num_all + ANSWER <= backend.slot_capacity
            if is_short and self._spent.tokens_s(num_all) < gain_s * left:
                self._streams.begin_at(stream, earliest)  # it holds only the end, from a check
            missing = stream.num_missing(sequence)
            if missing < 1:
                continue  # the stream begins behind the token computed now
            if missing <= self._ready:
                ready.append((one, stream))
            elif self._spent.tokens_s(missing) < gain_s * left:
                behind.append((one, stream))
        room = max(LEAST_CATCH_UP, int(CATCH_UP_S / self._spent.token_s))
        segments: list[Segment] = []
        for one, stream in behind:
            count = min(room, backend.batch_capacity, stream.num_missing(one.sequence) - 1)
            if room <= 0 or sum(len(each.tokens) for each in segments) + count > backend.batch_capacity:
                break
            segments.append(self._segment(one.sequence, stream, count, num_outputs=0))
            room -= count
        if segments:
            self._last = None  # its cost is covered by expected gains, as just computed
            self._decode(backend, segments)
            for (_, stream), segment in zip(behind, segments, strict=False):
                self._streams.computed(stream, list(segment.tokens))
        return ready

    def _segment(self, sequence: Sequence, stream: DraftStream, count: int, *, num_outputs: int) -> Segment:
        start = len(stream.tokens)
        at = stream.first + start
        return Segment(stream.slot, start, sequence.tokens[at : at + count], num_outputs)

    def _decode(self, backend: DraftBackend, segments: list[Segment]) -> float:
        """Duration in seconds. Raises `BackendError`."""
        began_s = self._clock()
        backend.decode(sorted(segments))
        backend.synchronize()
        took_s = self._clock() - began_s
        num_tokens = sum(len(each.tokens) for each in segments)
        self._spent.observe_tokens(num_tokens, took_s, has_guesses=any(each.num_outputs for each in segments))
        return took_s

    def _guess(self, ready: list[tuple[Wanted, DraftStream]], length: Length) -> None:
        """Draft for all of them together. Raises `BackendError`."""
        began_s = self._clock()
        drafts, num_guesses = self._guessing.guess(ready, length)
        self._spent.observe_guesses(len(drafts), num_guesses, self._clock() - began_s)
        for draft in drafts:
            draft.wanted.drafted.draft(draft.wanted.sequence.num_tokens, draft.tokens, draft.probabilities)

    def _look_ahead(self, backend: DraftBackend, wanted: list[Wanted]) -> None:  # noqa: ARG002
        """Guess a token of the stream checked longest ago, if time was saved for that; learned from when it comes."""
        if self._saved_s < self._spent.guesses_s(1, 1):
            return
        streams = [(one, self._streams.follow(one.sequence, one.most + 1)) for one in wanted]
        ready = [(one, stream) for one, stream in streams if stream.num_missing(one.sequence) == 1]
        if not ready:
            return
        one, stream = min(ready, key=lambda each: each[1].last_probed)
        self._last, self._saved_s = None, 0.0
        self._guess([(one._replace(most=1), stream)], Length(1, frozenset(), 0.0, (0.0,)))
        stream.last_probed = self._streams.num_uses

    def _look_back(self, backend: DraftBackend, wanted: list[Wanted]) -> None:
        """Check guesses against known successors, for the stream checked longest ago, if time was saved for that."""
        if self._saved_s < self._spent.probe_s(PROBED) or not wanted:
            return
        streams = [(one, self._streams.follow(one.sequence, one.most + 1 + self._ready)) for one in wanted]
        one, stream = min(streams, key=lambda each: each[1].last_probed)
        sequence, missing = one.sequence, stream.num_missing(one.sequence)
        if missing < PROBED:
            return
        if self._spent.probe_s(missing) > self._saved_s:
            missing = min(missing, PROBE)
            if self._spent.probe_s(missing) > self._saved_s:
                return
            self._streams.begin_at(stream, sequence.num_tokens - missing)
        probe = self._guessing.probe(missing, is_new=stream.first == sequence.num_tokens - missing)
        segment = self._segment(sequence, stream, probe.num_tokens, num_outputs=probe.num_outputs)
        self._last = None
        took_s = self._decode(backend, [segment])
        self._saved_s = max(0.0, min(self._saved_s, self._spent.probe_s(2 * PROBE)) - took_s)
        guessed = stream.first + segment.start + probe.num_before
        self._streams.computed(stream, self._guessing.held(segment.tokens))
        stream.last_probed = self._streams.num_uses
        for row, came in zip(backend.logits(0), sequence.tokens[guessed:], strict=False):
            token, probability = best(row)
            one.drafted.trust.learn(probability, is_right=token == came)
            if token != came and not self._guessing.sees_known:
                break


def _drafted(sequence: Sequence) -> Drafted | None:
    return None if sequence.guesser is None else sequence.guesser.drafted
