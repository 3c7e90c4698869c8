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
from localllm.engine.speculation.account import Accounts
from localllm.engine.speculation.draft_backend import DraftBackend
from localllm.engine.speculation.draft_cost import PROBED_GUESSES
from localllm.engine.speculation.guessing import DraftableStream, best, guessing
from localllm.engine.speculation.head_streams import HeadStreams as HeadStreams
from localllm.engine.speculation.lengths import Length, Stream, best_length
from localllm.engine.speculation.proposers import DraftTarget
from localllm.engine.speculation.source import DraftedGuesses
from localllm.engine.speculation.streams import DraftStream, DraftStreams
from localllm.engine.threads.team import Team

logger = logging.getLogger("localllm")

MAX_READY_LAG = 16
"""Maximum number of tokens a stream may lag and still draft in the same step, while the other streams wait for it."""
CATCH_UP_S = 0.05
"""Approximate time that a step spends on streams that are further behind."""
MIN_CATCH_UP_TOKENS = 32
"""Minimum number of tokens that such a step catches up, even if they take longer."""
ASSUMED_ANSWER_TOKENS = 128
"""Assumed remaining tokens of an answer without a limit, when deciding whether catching up pays."""
PROBING_SHARE = 0.006
"""Share of the time without drafting that may be spent on checking whether drafting would pay."""
PROBE_TOKENS = 48
"""Number of tokens that a check computes if the draft lags far behind."""
FIRST_REST_STEPS, MAX_REST_STEPS = 4, 16
"""Number of steps until drafting is considered again: after the first decision against it, and after many in a row."""


class _Step(NamedTuple):
    """The previous step."""

    began_s: float
    ids: tuple[int, ...]
    """Ids of the sequences that drew a token in it."""
    num_tokens: int
    """Total number of tokens that these sequences had generated before it."""
    is_drafted: bool


class Drafts:
    """Implements `engine.speculation.proposers.Drafting`."""

    def __init__(
        self,
        backend: DraftBackend,
        target: DraftTarget,
        *,
        share: float,
        streams: DraftStreams | None = None,
        team: Team | None = None,
        clock: Callable[[], float] = time.perf_counter,
        on_drop: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`share`: cost of a draft step relative to a target step, until measured. `streams`: the streams of `backend`;
        None: those of a draft model. `on_drop` is called with the reason when the draft fails and is dropped."""
        self._backend: DraftBackend | None = backend
        self._ready = min(MAX_READY_LAG, backend.batch_capacity // backend.num_slots)
        self._streams = streams or DraftStreams(backend)
        self._clock = clock
        self._on_drop = on_drop
        self._team = team
        self._guessing = guessing(backend, self._streams, share)
        self._spent = self._guessing.spent
        self._saved_s = 0.0
        """Time available for checks; accumulates while nothing is drafted."""
        self._target = target
        self._resting = 0, 0
        """Number of steps left without a new decision, and the number of streams for which the last one was made."""
        self._next_rest = FIRST_REST_STEPS
        self._accounts = Accounts()
        self._last: _Step | None = None

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
        """Whether the draft failed and was dropped."""
        return self._backend is None

    def draft(self, running: Many[Sequence]) -> None:
        streams = [one for one in running if one.progress.num_pending and not one.progress.lacks_rows]
        for sequence in streams:
            if (drafted := _drafted(sequence)) is not None:
                drafted.learn(sequence.progress.tokens)
        if self._backend is None:
            return
        if any(one.progress.num_pending > 1 or one.wants_scores or one.progress.next_span for one in streams):
            self._last = None
            return  # beside prompts every stream gets one row
        self._settle(streams)
        if not self._target.cost.knows(len(streams)) or not self._accounts.allows(len(streams)):
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
            self._draft(self._backend, streams, wanted)
        except BackendError as error:
            self.drop(error)

    def drop(self, error: BackendError) -> None:
        """Stop drafting for good and free the draft's memory."""
        if self._backend is not None:
            self._backend.free()
        self._backend = None
        logger.warning("draft_dropped", extra={"fields": {"reason": str(error), "effect": "answers go on"}})
        self._on_drop(str(error))

    def _settle(self, streams: Many[Sequence]) -> None:
        """Record how long the previous step took, if it had the same streams."""
        now_s, last = self._clock(), self._last
        ids = tuple([sequence.id for sequence in streams])
        num_tokens = sum([sequence.progress.num_generated for sequence in streams])
        if last is not None and last.ids == ids:
            came, took_s = num_tokens - last.num_tokens, now_s - last.began_s
            self._accounts.took(len(streams), came, took_s, is_drafted=last.is_drafted)
        self._last = _Step(now_s, ids, num_tokens, is_drafted=False)

    def _wanted(self, sequence: Sequence) -> DraftableStream | None:
        assert self._backend is not None
        drafted = _drafted(sequence)
        guesser, follower = sequence.drawing.guesser, sequence.drawing.follower
        if drafted is None or guesser is None:
            return None
        if follower is not None and follower.is_slow:
            return None  # it proposes nothing
        most, max_tokens = guesser.most, sequence.request.max_tokens
        most = min(most, self._target.max_rollback, self._backend.slot_capacity // 4)
        if max_tokens is not None:
            most = min(most, max_tokens - sequence.progress.num_generated - 1)
        if most < 1:
            return None
        looked_up = guesser.looked_up(sequence)
        if looked_up is not None and looked_up.worth >= drafted.trust.mean / (1 - drafted.trust.mean):
            return None  # it costs nothing
        return DraftableStream(sequence, drafted, most)

    def _draft(self, backend: DraftBackend, streams: Many[Sequence], wanted: Many[DraftableStream | None]) -> None:
        parts = [(sequence.progress.held.slot or 0, sequence.progress.num_computed, 1) for sequence in streams]
        cost = self._target.cost
        plain_s = cost.measured(parts)
        self._spent.beside(plain_s / len(streams))
        asked = [
            Stream(slot, depth, 0.0 if one is None else one.drafted.trust.mean, 0 if one is None else one.most)
            for (slot, depth, _), one in zip(parts, wanted, strict=True)
        ]
        length = best_length(asked, cost.measured, self._spent.guesses_s, are_equal=self._target.rolls_back_equals)
        if length is None:
            num_steps, self._next_rest = self._next_rest, min(2 * self._next_rest, MAX_REST_STEPS)
            self._resting = num_steps - 1, len(streams)
            self._saved_s += num_steps * PROBING_SHARE * plain_s
            check = self._look_back if self._streams.can_look_back else self._look_ahead
            check(backend, [one for one in wanted if one is not None])
            return
        self._next_rest = FIRST_REST_STEPS
        chosen = [one for place, one in enumerate(wanted) if one is not None and place in length.places]
        gain = 1 - len(streams) / plain_s / length.rate
        ready = self._catch_up(backend, chosen, gain * plain_s)
        if self._last is not None:
            self._last = self._last._replace(is_drafted=bool(ready))
        if ready:
            self._guess(ready, length)

    def _catch_up(
        self, backend: DraftBackend, chosen: Many[DraftableStream], gain_s: float
    ) -> list[tuple[DraftableStream, DraftStream]]:
        """The streams that can draft now. The others catch up, if the `gain_s` saved per token pays for that."""
        ready, behind = [], []
        for one in chosen:
            sequence = one.sequence
            stream = self._streams.follow(sequence, one.most + 1 + self._ready)
            most = sequence.request.max_tokens
            remaining = (
                ASSUMED_ANSWER_TOKENS
                if most is None
                else min(ASSUMED_ANSWER_TOKENS, most - sequence.progress.num_generated)
            )
            earliest = self._streams.earliest(sequence)
            num_all = sequence.progress.num_tokens - earliest
            is_short = stream.first > earliest and num_all + ASSUMED_ANSWER_TOKENS <= backend.slot_capacity
            if is_short and self._spent.tokens_s(num_all) < gain_s * remaining:
                self._streams.begin_at(stream, earliest)  # it holds only the end, from a check
            missing = stream.num_missing(sequence)
            if missing < 1:
                continue  # the stream begins behind the token computed now
            if missing <= self._ready:
                ready.append((one, stream))
            elif self._spent.tokens_s(missing) < gain_s * remaining:
                behind.append((one, stream))
        room = max(MIN_CATCH_UP_TOKENS, int(CATCH_UP_S / self._spent.token_s))
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
        return Segment(stream.slot, start, sequence.progress.tokens[at : at + count], num_outputs)

    def _decode(self, backend: DraftBackend, segments: list[Segment]) -> float:
        """Decode the segments and return the duration in seconds. Raises `BackendError`."""
        began_s = self._clock()
        backend.decode(sorted(segments))
        backend.synchronize()
        took_s = self._clock() - began_s
        num_tokens = sum(len(each.tokens) for each in segments)
        self._spent.observe_tokens(num_tokens, took_s, has_guesses=any(each.num_outputs for each in segments))
        return took_s

    def _guess(self, ready: list[tuple[DraftableStream, DraftStream]], length: Length) -> None:
        """Draft for all ready streams together and hand out the guesses. Raises `BackendError`."""
        began_s = self._clock()
        drafts, num_guesses = self._guessing.guess(ready, length)
        self._spent.observe_guesses(len(drafts), num_guesses, self._clock() - began_s)
        for draft in drafts:
            draft.wanted.drafted.draft(draft.wanted.sequence.progress.num_tokens, draft.tokens, draft.probabilities)

    def _look_ahead(self, backend: DraftBackend, wanted: list[DraftableStream]) -> None:  # noqa: ARG002
        """Guess the next token of the stream checked longest ago, if there is time for checks.

        The guess is judged when the actual token is drawn.
        """
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

    def _look_back(self, backend: DraftBackend, wanted: list[DraftableStream]) -> None:
        """Guess tokens already known of the stream checked longest ago, if there is time for checks, and judge them."""
        if self._saved_s < self._spent.probe_s(PROBED_GUESSES) or not wanted:
            return
        streams = [(one, self._streams.follow(one.sequence, one.most + 1 + self._ready)) for one in wanted]
        one, stream = min(streams, key=lambda each: each[1].last_probed)
        sequence, missing = one.sequence, stream.num_missing(one.sequence)
        if missing < PROBED_GUESSES:
            return
        if self._spent.probe_s(missing) > self._saved_s:
            missing = min(missing, PROBE_TOKENS)
            if self._spent.probe_s(missing) > self._saved_s:
                return
            self._streams.begin_at(stream, sequence.progress.num_tokens - missing)
        probe = self._guessing.probe(missing, is_new=stream.first == sequence.progress.num_tokens - missing)
        segment = self._segment(sequence, stream, probe.num_tokens, num_outputs=probe.num_outputs)
        self._last = None
        took_s = self._decode(backend, [segment])
        self._saved_s = max(0.0, min(self._saved_s, self._spent.probe_s(2 * PROBE_TOKENS)) - took_s)
        guessed = stream.first + segment.start + probe.num_before
        self._streams.computed(stream, self._guessing.held(segment.tokens))
        stream.last_probed = self._streams.num_uses
        for row, came in zip(backend.logits(0), sequence.progress.tokens[guessed:], strict=False):
            token, probability = best(row)
            one.drafted.trust.learn(probability, is_right=token == came)
            if token != came and not self._guessing.sees_known:
                break


def _drafted(sequence: Sequence) -> DraftedGuesses | None:
    return None if sequence.drawing.guesser is None else sequence.drawing.guesser.drafted
