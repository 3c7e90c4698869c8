"""One request as the engine sees it: token ids, counters that catch up, and the text they make.

    tokens          [0 ................ num_tokens)
    in the KV cache [0 .. num_computed)      as its slot's `Held` says
    still to compute          [num_computed .. num_tokens)
    the prompt      [0 .. num_prompt), what was generated [num_prompt .. num_tokens)

No phases: prefill and decode are both "compute what is pending". Knows nothing of scheduling or of llama.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Tokens
from typing import TYPE_CHECKING

import numpy as np

from localllm.engine.cache.domain import Domain
from localllm.engine.cache.held import NOWHERE, Held
from localllm.engine.sampling.distinct import Distinct
from localllm.engine.sampling.dry import Dry
from localllm.engine.sampling.sampler import SamplerParams
from localllm.engine.text import TextStream
from localllm.types import FinishReason, ResolvedSampling, Timings, Usage

if TYPE_CHECKING:
    from localllm.engine.scheduling.waits import Wait

SHIFTED_ANSWER = 8
"""An answer without a limit of its own ends after so many times its slot's tokens, where the context shifts."""


class Sequence:
    """Mutable; owned by the engine thread."""

    def __init__(
        self,
        id: int,
        prompt: Tokens[int],
        *,
        sampling: ResolvedSampling,
        min_tokens: int = 0,
        max_tokens: int | None = None,
        stop: Tokens[str] = (),
        stop_tokens: Tokens[int] = (),
        end_tokens: Tokens[int] = (),
        ignore_eos: bool = False,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        dry: Dry | None = None,
        cache_prompt: bool = True,
        cache_salt: str = "",
        pauses: Tokens[int] = (),
        keep: int = 0,
        priority: int = 0,
        created_s: float = 0.0,
        deadline_s: float = math.inf,
        queue_deadline_s: float = math.inf,
    ) -> None:
        """`pauses`: places in the prompt, in tokens, where a memory that cannot rewind makes a checkpoint. `keep`: so
        many tokens at the beginning stay when the context is shifted. `end_tokens` are what `min_tokens` forbids; `dry`
        has seen the prompt; times are the engine's clock's.
        """
        self.id = id
        self.tokens = list(prompt)
        self.num_prompt = len(self.tokens)
        self.prompt = np.asarray(self.tokens, np.int32)
        self.num_shifted = 0
        """Tokens that were taken out of its middle."""
        self.keep = keep
        self.num_cached = 0
        """Tokens of the prompt that were in the KV cache already."""
        self.sampling = sampling
        self.min_tokens = min_tokens
        self.max_tokens = max_tokens
        self.stop_tokens = frozenset(stop_tokens)
        self.ignore_eos = ignore_eos
        self.logprobs = logprobs
        self.prompt_logprobs = prompt_logprobs
        self.num_scored = 0
        """Tokens of the prompt whose log-probabilities were reported, if they are wanted."""
        self.text = TextStream(stop)
        self._dry = dry
        self._counts: dict[int, int] = {}
        """Generated token -> how often, if that matters."""
        self._repeated = self._first_repeated()
        self._sampler_params = self._first_params(end_tokens)
        self.held: Held = NOWHERE
        """What is in the KV cache of it: its slot's, or nothing."""
        self.leaders: set[int] = set()
        """Ids of the sequences whose work on the same prefix it has waited for."""
        self.wait: Wait | None = None
        """What it waits for, as far as that is known."""
        self.reading_since_s: float | None = None
        """When it first waited for the disk."""
        self.cache_prompt = cache_prompt
        self.domain = Domain.of(cache_salt=cache_salt)
        self.pauses = {*pauses, self.num_prompt - 1} if cache_prompt and not pauses else set(pauses)
        self.priority = priority
        self.created_s = created_s
        self.deadline_s = deadline_s
        self.queue_deadline_s = queue_deadline_s
        self.admitted_s: float | None = None
        self.first_token_s: float | None = None

    @property
    def slot(self) -> int | None:
        return self.held.slot

    @property
    def num_computed(self) -> int:
        """Tokens that are in the KV cache: written down there alone."""
        return self.held.length

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.num_prompt + self.num_shifted

    @property
    def num_pending(self) -> int:
        return len(self.tokens) - self.held.length

    @property
    def next_deadline_s(self) -> float:
        """When its time is over: all of it, or what it may wait for a slot."""
        return min(self.deadline_s, self.queue_deadline_s) if self.held.slot is None else self.deadline_s

    @property
    def wants_scores(self) -> bool:
        """Whether log-probabilities of its prompt are still to be reported."""
        return self.prompt_logprobs is not None and self.num_scored < self.num_prompt

    def can_score(self, end: int) -> int:
        """Of how many tokens of the prompt the log-probabilities are known once `[0, end)` are computed."""
        return min(end + 1, self.num_prompt)

    def sampler_params(self) -> SamplerParams:
        """How to draw its next token; the same object every time."""
        params = self._sampler_params
        params.draw = self.num_generated
        if self._repeated is not None:
            params.repeated = self._repeated.tokens()
        if self._dry is not None:
            params.lessened = self._dry.penalties()
        if self.min_tokens and self.num_generated == self.min_tokens:
            params.bias = self.sampling.logit_bias
        return params

    def pause_at(self, num_tokens: int) -> None:
        """Others want to start from there."""
        self.pauses.add(num_tokens)

    def append(self, token: int) -> None:
        """Take a generated token."""
        self.tokens.append(token)
        if self.sampling.presence_penalty or self.sampling.frequency_penalty:
            self._counts[token] = self._counts.get(token, 0) + 1
        if self._repeated is not None:
            self._repeated.append(token)
        if self._dry is not None:
            self._dry.append(token)

    def shift(self, drop: int) -> None:
        """Forget `drop` tokens after those to keep; nobody else's prompt is compared with what is left."""
        del self.tokens[self.keep : self.keep + drop]
        self.prompt = self.prompt[: self.keep]
        self.num_shifted += drop
        self._repeated = self._first_repeated()

    def sampled(self, mirostat_mu: float) -> None:
        """Take the sampler's state for the next token."""
        self._sampler_params.mirostat_mu = mirostat_mu

    @property
    def may_end(self) -> bool:
        """Whether what was generated, the token just drawn included, is enough."""
        return self.num_generated >= self.min_tokens

    def _first_params(self, end_tokens: Tokens[int]) -> SamplerParams:
        sampling = self.sampling
        held_open = dict.fromkeys(end_tokens, -math.inf) if self.min_tokens else {}
        return SamplerParams(
            temperature=sampling.temperature,
            dynatemp_range=sampling.dynatemp_range,
            dynatemp_exponent=sampling.dynatemp_exponent,
            top_k=sampling.top_k,
            typical_p=sampling.typical_p,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            top_n_sigma=sampling.top_n_sigma,
            xtc_probability=sampling.xtc_probability,
            xtc_threshold=sampling.xtc_threshold,
            mirostat=sampling.mirostat,
            mirostat_tau=sampling.mirostat_tau,
            mirostat_eta=sampling.mirostat_eta,
            mirostat_mu=2 * sampling.mirostat_tau,
            repeat_penalty=sampling.repeat_penalty,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            counts=self._counts,
            bias={**sampling.logit_bias, **held_open},
            seed=sampling.seed,
            num_top=-1 if self.logprobs is None else self.logprobs,
        )

    def _first_repeated(self) -> Distinct | None:
        if self.sampling.repeat_penalty == 1:
            return None
        return Distinct(self.tokens, self.sampling.repeat_last_n)

    def usage(self) -> Usage:
        return Usage(self.num_prompt, self.num_generated, self.num_cached, self.num_shifted)

    def timings(self, now_s: float) -> Timings:
        admitted = now_s if self.admitted_s is None else self.admitted_s
        first = now_s if self.first_token_s is None else self.first_token_s
        return Timings(queue_s=admitted - self.created_s, prefill_s=first - admitted, decode_s=now_s - first)

    def limit_reached(self, slot_capacity: int, *, shifts: bool = False) -> FinishReason | None:
        """`length` when the request's own limit or the slot's end leaves no room for another token.

        Where the context `shifts` there always is room, and an answer without a limit of its own gets one.
        """
        most = SHIFTED_ANSWER * slot_capacity if shifts and self.max_tokens is None else self.max_tokens
        if most is not None and self.num_generated >= most:
            return "length"
        return "length" if self.num_tokens >= slot_capacity and not shifts else None
