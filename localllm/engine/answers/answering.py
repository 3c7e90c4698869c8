"""What follows from a sampled token: text, a stop, the end of an answer; also what happens when a sequence fails.

Taking a token decides whether the answer ends and what the next step computes. Reporting it to the request is a
separate step, because the next step need not wait for it. Knows nothing of how tokens are computed or sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat

from localllm.engine.backend import ModelVocabulary
from localllm.engine.cache.kvcache import KvCache
from localllm.engine.constraint.constraint import ConstraintFailed
from localllm.engine.constraint.follower import Follower, Search
from localllm.engine.inbox import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import ReportOptions
from localllm.engine.sampling.drawing import Drawn
from localllm.engine.sampling.sampler import NO_TOKEN, SampledToken
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.errors import InternalError, InvalidParameter
from localllm.types import Delta, Finish, FinishReason, SourceName, TokenLogprob, joined
from localllm.types.states import SourceGuesses

UNLIKELY = -9999.0
"""OpenAI's log-probability of a token that is not among the likeliest."""


@dataclass(slots=True)
class TakenTokens:
    """What a sequence took in a step, until it is reported to the request."""

    sequence: Sequence
    is_first: bool
    """Whether its answer begins with these."""
    tokens: list[SampledToken] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """Text of each token, where text can end the answer; otherwise it is made when reported."""
    end: SampledToken | None = None
    """The token that ended the answer and is not part of it."""
    finish: Finish | None = None
    failure: InvalidParameter | None = None
    is_closing: bool = False
    """Whether what comes next is the end of a document whose tokens run out."""

    @property
    def has_ended(self) -> bool:
        return self.finish is not None or self.failure is not None


class Answers:
    """Answers of all running sequences; used by the engine's thread."""

    def __init__(
        self,
        vocabulary: ModelVocabulary,
        kv: KvCache,
        scheduler: Scheduler,
        clock: Callable[[], float],
        *,
        shifts: bool,
    ) -> None:
        """`shifts`: a full slot drops the older half of what need not stay."""
        self._vocabulary = vocabulary
        self._kv = kv
        self._scheduler = scheduler
        self._clock = clock
        self._shifts = shifts
        self.unreported: list[TakenTokens] = []
        """Taken since the last `report`."""
        self.guesses: dict[SourceName, SourceGuesses] = {}

    def take_tokens(self, drawn: Drawn) -> bool:
        """Take tokens one by one, up to one that ends the answer or needs a search first; whether all were taken.

        What was computed after the last token taken is cut from the cache.
        """
        sequence, tokens = drawn.sequence, drawn.tokens
        drawing = sequence.drawing
        taken = TakenTokens(sequence, sequence.progress.first_token_s is None)
        self.unreported.append(taken)
        guessed = drawn.guessed and (*repeat(NO_TOKEN, drawn.num_forced), *drawn.guessed)
        drawing.num_guesses += len(drawn.guessed)
        num_right = drawing.num_right_guesses
        self._take_token(taken, tokens[0], is_guess=bool(guessed) and guessed[0] == tokens[0].token)
        num_kept = 0
        for sampled in tokens[1:]:
            if taken.has_ended or taken.is_closing or not self._is_settled(sequence, sampled.token):
                break
            self._scheduler.advance(sequence)
            num_kept += 1
            self._take_token(taken, sampled, is_guess=guessed[num_kept : num_kept + 1] == (sampled.token,))
        drawing.lead += num_kept
        if num_kept < drawn.num_behind:
            self._roll_back(sequence, drawn.slot)
        if drawn.guessed:
            self._count_guesses(sequence, len(drawn.guessed), drawing.num_right_guesses - num_right)
        follower = drawing.follower
        if follower is not None and sequence.request.reported.logprobs is None and not taken.has_ended:
            for token in follower.last_tokens:  # no token is sampled after them, so they are not computed
                if not taken.has_ended:
                    self._take_token(taken, SampledToken(token, mirostat_mu=drawing.parameters.mirostat_mu))
        return num_kept == len(tokens) - 1

    def search(self, sequence: Sequence, token: int) -> Search | None:
        """What has to be computed before this token is taken."""
        if self._is_settled(sequence, token):
            return None
        assert sequence.drawing.follower is not None
        return sequence.drawing.follower.new_search(token, self._num_left(sequence))

    def _is_settled(self, sequence: Sequence, token: int) -> bool:
        follower = sequence.drawing.follower
        return follower is None or token < 0 or follower.is_settled(token, self._num_left(sequence))

    def _num_left(self, sequence: Sequence) -> int:
        return sequence.num_left(self._scheduler.slot_capacity, shifts=self._shifts)

    def _count_guesses(self, sequence: Sequence, num_guesses: int, num_right: int) -> None:
        source = None if sequence.drawing.proposal is None else sequence.drawing.proposal.source
        if source is not None:
            before = self.guesses.get(source, SourceGuesses(source))
            self.guesses[source] = SourceGuesses(
                source, before.num_computed + num_guesses, before.num_right + num_right
            )

    def report(self, output: StepOutput) -> None:
        """Turn what was taken into deltas, in that order."""
        for taken in self.unreported:
            sequence = taken.sequence
            if taken.failure is None or taken.tokens:
                sequence.unsent.append(self._delta(taken))
                if taken.has_ended or not sequence.request.reported.whole:
                    output.deltas.append((sequence.id, _sent(sequence)))
            if taken.failure is not None:
                output.failures.append((taken.sequence.id, taken.failure))
        self.unreported.clear()

    def _delta(self, taken: TakenTokens) -> Delta:
        tokens, texts, vocabulary = taken.tokens, taken.texts, self._vocabulary
        progress, reported = taken.sequence.progress, taken.sequence.request.reported
        if not progress.text_may_end:
            texts = [progress.text.feed(self._bytes(reported, sampled.token)) for sampled in tokens]
        text = "".join(texts)
        if taken.finish is not None and (progress.lines is None or not progress.lines.has_ended):
            text += progress.text.flush()
        logprobs: tuple[TokenLogprob, ...] = ()
        if reported.logprobs is not None:
            logprobs = tuple([self._logprob(sampled, vocabulary.token_bytes) for sampled in tokens])
            # With those of a prompt the end token's log-probability is reported, too: clients count from the end.
            if taken.end is not None and reported.prompt_logprobs is not None:
                logprobs += (self._logprob(taken.end, vocabulary.spelled),)
        tells_ids = reported.detail is not None and reported.detail.tokens
        ids = tuple([sampled.token for sampled in tokens]) if tells_ids else ()
        lengths = tuple([len(each) for each in texts]) if len(tokens) > 1 else ()
        return Delta(text, len(tokens), taken.finish, logprobs, tokens=ids, lengths=lengths)

    def _bytes(self, reported: ReportOptions, token: int) -> bytes:
        """What a token adds to the answer's text."""
        return self._vocabulary.spelled(token) if token in reported.markers else self._vocabulary.token_bytes(token)

    def take_end(self, drawn: Drawn) -> None:
        """Its answer is complete, whether or not it took tokens before that."""
        sequence = drawn.sequence
        if not drawn.tokens:
            self.take_none(drawn)
        is_first = sequence.progress.first_token_s is None
        self.unreported.append(TakenTokens(sequence, is_first, finish=self._end(sequence, "stop")))

    def take_none(self, drawn: Drawn) -> None:
        """What was computed after its last token is cut from the cache."""
        if drawn.num_behind:
            self._roll_back(drawn.sequence, drawn.slot)

    def _roll_back(self, sequence: Sequence, slot: int) -> None:
        if sequence.slot is None:
            self._kv.cut(slot)
        else:
            self._scheduler.roll_back(sequence, sequence.progress.num_computed)

    def _take_token(self, taken: TakenTokens, sampled: SampledToken, *, is_guess: bool = False) -> None:
        """Append a forced or sampled token, or end the answer."""
        sequence, token = taken.sequence, sampled.token
        progress, drawing, request = sequence.progress, sequence.drawing, sequence.request
        drawing.parameters.sampled(sampled.mirostat_mu)
        if progress.first_token_s is None:
            progress.first_token_s = self._clock()
        drawing.num_right_guesses += is_guess
        if drawing.follower is not None and token >= 0:
            in_time = drawing.follower.in_time(token, self._num_left(sequence))
            if in_time != token:
                sampled, token = _instead(sampled, in_time), in_time
            taken.is_closing = drawing.follower.is_cut
        ends = self._vocabulary.ends_generation(token) and not request.ending.ignore_eos
        if ends or token in request.ending.stop_tokens:
            taken.end, taken.finish = sampled, self._end(sequence, "stop")
            return
        sequence.append(token)
        taken.tokens.append(sampled)
        if progress.text_may_end:
            text = progress.text.feed(self._bytes(request.reported, token), may_stop=sequence.may_end)
            if progress.lines is not None:
                text = progress.lines.feed(text, self._clock() - progress.first_token_s)
            taken.texts.append(text)
            if progress.lines is not None and progress.lines.has_ended:
                taken.finish = self._end(sequence, "length")
                return
            if progress.text.stopped:
                taken.finish = self._end(sequence, "stop")
                return
        if drawing.follower is not None and self._follow(taken, drawing.follower, token):
            return
        if sequence.num_left(self._scheduler.slot_capacity, shifts=self._shifts) <= 0:
            taken.finish = self._end(sequence, "length")
        elif progress.num_tokens >= self._scheduler.slot_capacity:
            self._shift(sequence)

    def _follow(self, taken: TakenTokens, follower: Follower, token: int) -> bool:
        """Advance the constraint by the token; whether that ended the answer."""
        sequence = taken.sequence
        try:
            if not follower.take(token):
                return False
            taken.finish = self._end(sequence, follower.end_reason)
        except ConstraintFailed as failure:
            self._scheduler.remove(sequence)
            taken.failure = _constraint_error(sequence, failure)
        return True

    def _shift(self, sequence: Sequence) -> None:
        """Its slot is full: drop the older half of what need not stay."""
        assert sequence.slot is not None
        num_computed = sequence.progress.num_computed
        keep = min(sequence.progress.keep, num_computed // 2)
        most = num_computed - keep
        drop = min(sequence.request.shift.discard, most - 1) or (most + 1) // 2
        spans = sequence.progress.spans
        if spans:
            end = spans.beyond(keep + drop)
            keep = spans.outside(keep)
            drop = end - keep
        self._kv.shift(sequence.slot, keep, drop)
        sequence.shift(keep, drop)

    def _logprob(self, sampled: SampledToken, spell: Callable[[int], bytes]) -> TokenLogprob:
        top = tuple((spell(token), logprob) for token, logprob in sampled.top)
        ids = tuple(token for token, _ in sampled.top)
        return TokenLogprob(spell(sampled.token), sampled.logprob, top, sampled.token, ids)

    def finish(self, sequence: Sequence, reason: FinishReason, last: str = "") -> Delta:
        """End an answer of which everything but its `last` text was reported; the delta to send."""
        sequence.unsent.append(Delta(last, finish=self._end(sequence, reason)))
        return _sent(sequence)

    def _end(self, sequence: Sequence, reason: FinishReason) -> Finish:
        self._scheduler.remove(sequence)
        progress = sequence.progress
        is_full = reason == "length" and not self._shifts and progress.num_tokens >= self._scheduler.slot_capacity
        return Finish(
            reason=reason,
            usage=sequence.usage(),
            timings=sequence.timings(self._clock()),
            stop=progress.text.stopped_by,
            is_context_full=is_full,
            is_closed=sequence.drawing.is_closed,
        )

    def fail_constraint(self, sequence: Sequence, failure: ConstraintFailed, output: StepOutput) -> None:
        """End a sequence that cannot continue, once everything was reported."""
        slot = self._scheduler.remove(sequence)
        if slot is not None:
            self._kv.cut(slot)
        output.failures.append((sequence.id, _constraint_error(sequence, failure)))

    def fail(self, sequence: Sequence, reason: str, output: StepOutput) -> None:
        slot = self._scheduler.remove(sequence)
        if slot is not None:
            self._kv.cut(slot, 0)
        output.failures.append((sequence.id, InternalError(f"the model failed to compute a step: {reason}")))


def _sent(sequence: Sequence) -> Delta:
    """What of it was not sent yet."""
    if len(sequence.unsent) == 1:
        return sequence.unsent.pop()
    unsent, sequence.unsent = sequence.unsent, []
    return joined(unsent)


def _instead(sampled: SampledToken, token: int) -> SampledToken:
    """This token in place of a sampled one, with its log-probability if it is one of the likeliest."""
    return sampled._replace(token=token, logprob=dict(sampled.top).get(token, UNLIKELY))


def _constraint_error(sequence: Sequence, failure: ConstraintFailed) -> InvalidParameter:
    follower = sequence.drawing.follower
    param = "" if follower is None else follower.param
    return InvalidParameter(f"{param} cannot be followed further: {failure}", param=param)
