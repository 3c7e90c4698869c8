"""What comes of a drawn token: text, a stop, the end of an answer; and of a sequence that cannot be computed.

Knows nothing of how tokens are computed or drawn.
"""

from __future__ import annotations

from collections.abc import Callable

from localllm.engine.backend import Backend
from localllm.engine.cache.kvcache import KvCache
from localllm.engine.inbox import StepOutput
from localllm.engine.sampling.drawing import Drawn
from localllm.engine.sampling.sampler import Sampled
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.engine.sequence import Sequence
from localllm.errors import InternalError
from localllm.types import Delta, Finish, FinishReason, TokenLogprob

_EMPTY = Delta()


def _joined(first: Delta, then: Delta) -> Delta:
    """One delta for what two tokens of a step say."""
    return Delta(
        first.text + then.text,
        first.num_tokens + then.num_tokens,
        then.finish,
        first.logprobs + then.logprobs,
    )


class Answers:
    """Of every running sequence; used by the engine's thread."""

    def __init__(
        self, backend: Backend, kv: KvCache, scheduler: Scheduler, clock: Callable[[], float], *, shifts: bool
    ) -> None:
        """`shifts`: a full slot forgets the older half of what it does not have to keep."""
        self._backend = backend
        self._kv = kv
        self._scheduler = scheduler
        self._clock = clock
        self._shifts = shifts

    def take_tokens(self, drawn: Drawn) -> Delta:
        """Take tokens, each as if it had come alone, up to one that ends the answer; the delta to send.

        What was computed behind the last that is taken is cut from the cache.
        """
        sequence, tokens, num_behind, slot = drawn
        delta, num_kept = self._take_token(sequence, tokens[0]), 0
        for sampled in tokens[1:]:
            if delta.finish is not None:
                break
            self._scheduler.advance(sequence)
            num_kept += 1
            delta = _joined(delta, self._take_token(sequence, sampled))
        if num_kept < num_behind:
            self._kv.cut(slot)
        return delta

    def take_none(self, drawn: Drawn) -> None:
        """What was computed behind its last token is cut from the cache."""
        if drawn.num_behind:
            self._kv.cut(drawn.slot)

    def _take_token(self, sequence: Sequence, sampled: Sampled) -> Delta:
        """Append a forced or sampled token; the delta to send."""
        token = sampled.token
        sequence.sampled(sampled.mirostat_mu)
        if sequence.first_token_s is None:
            sequence.first_token_s = self._clock()
        ends = self._backend.ends_generation(token) and not sequence.ignore_eos
        if ends or token in sequence.stop_tokens:
            # Beside those of a prompt the end token's is told too: clients count them from the end.
            told = sequence.prompt_logprobs is not None and sequence.logprobs is not None
            end = (self._logprob(sampled, self._backend.spelled),) if told else ()
            return self.finish(sequence, "stop", Delta(text=sequence.text.flush(), logprobs=end))
        sequence.append(token)
        text = sequence.text.feed(self._backend.token_bytes(token), may_stop=sequence.may_end)
        logprobs = () if sequence.logprobs is None else (self._logprob(sampled, self._backend.token_bytes),)
        if sequence.text.stopped:
            return self.finish(sequence, "stop", Delta(text, 1, logprobs=logprobs))
        reason = sequence.limit_reached(self._scheduler.slot_capacity, shifts=self._shifts)
        if reason is not None:
            return self.finish(sequence, reason, Delta(text + sequence.text.flush(), 1, logprobs=logprobs))
        if sequence.num_tokens >= self._scheduler.slot_capacity:
            self._shift(sequence)
        return Delta(text, 1, logprobs=logprobs)

    def _shift(self, sequence: Sequence) -> None:
        """Its slot is full: forget the older half of what it does not have to keep."""
        assert sequence.slot is not None
        sequence.keep = min(sequence.keep, sequence.num_computed // 2)
        drop = (sequence.num_computed - sequence.keep + 1) // 2
        self._kv.shift(sequence.slot, sequence.keep, drop)
        sequence.shift(drop)

    def _logprob(self, sampled: Sampled, spell: Callable[[int], bytes]) -> TokenLogprob:
        top = tuple((spell(token), logprob) for token, logprob in sampled.top)
        return TokenLogprob(spell(sampled.token), sampled.logprob, top)

    def finish(self, sequence: Sequence, reason: FinishReason, last: Delta = _EMPTY) -> Delta:
        slot = self._scheduler.remove(sequence)  # its slot keeps the KV, for whoever begins alike
        if slot is not None and sequence.num_shifted:
            self._kv.cut(slot, self._kv.residency.held[slot].sound)
        finish = Finish(reason=reason, usage=sequence.usage(), timings=sequence.timings(self._clock()))
        return Delta(last.text, last.num_tokens, finish, last.logprobs)

    def fail(self, sequence: Sequence, reason: str, output: StepOutput) -> None:
        slot = self._scheduler.remove(sequence)
        if slot is not None:
            self._kv.cut(slot, 0)
        output.failures.append((sequence.id, InternalError(f"the model failed to compute a step: {reason}")))
