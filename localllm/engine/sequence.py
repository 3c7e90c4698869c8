"""One request as the engine sees it: token ids, counters that catch up, and the text they make.

    tokens          [0 ................ num_tokens)
    in the KV cache [0 .. num_computed)
    still to compute          [num_computed .. num_tokens)
    the prompt      [0 .. num_prompt), what was generated [num_prompt .. num_tokens)

No phases: prefill and decode are both "compute what is pending". Knows nothing of scheduling or of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence as Tokens

import numpy as np

from localllm.engine.sampler import SamplerParams
from localllm.engine.text import TextStream
from localllm.types import FinishReason, ResolvedSampling, Timings, Usage


class Sequence:
    """Mutable; owned by the engine thread."""

    def __init__(
        self,
        id: int,
        prompt: Tokens[int],
        *,
        sampling: ResolvedSampling,
        max_tokens: int | None = None,
        stop: Tokens[str] = (),
        ignore_eos: bool = False,
        logprobs: int | None = None,
        created_s: float = 0.0,
    ) -> None:
        self.id = id
        self.tokens = list(prompt)
        self.num_prompt = len(self.tokens)
        self.prompt = np.asarray(self.tokens, np.int32)
        self.num_computed = 0
        self.num_cached = 0
        """Tokens of the prompt that were in the KV cache already."""
        self.sampling = sampling
        self.max_tokens = max_tokens
        self.ignore_eos = ignore_eos
        self.logprobs = logprobs
        self.text = TextStream(stop)
        self._counts: dict[int, int] = {}
        """Generated token -> how often, if that matters."""
        self.slot: int | None = None
        self.created_s = created_s
        self.admitted_s: float | None = None
        self.first_token_s: float | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.num_prompt

    @property
    def num_pending(self) -> int:
        return len(self.tokens) - self.num_computed

    def sampler_params(self) -> SamplerParams:
        """How to draw its next token."""
        sampling = self.sampling
        return SamplerParams(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            top_n_sigma=sampling.top_n_sigma,
            repeat_penalty=sampling.repeat_penalty,
            repeated=self._repeated(),
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            counts=self._counts,
            bias=sampling.logit_bias,
            seed=sampling.seed,
            draw=self.num_generated,
            num_top=-1 if self.logprobs is None else self.logprobs,
        )

    def append(self, token: int) -> None:
        """Take a generated token."""
        self.tokens.append(token)
        if self.sampling.presence_penalty or self.sampling.frequency_penalty:
            self._counts[token] = self._counts.get(token, 0) + 1

    def _repeated(self) -> list[int]:
        last = self.sampling.repeat_last_n
        if self.sampling.repeat_penalty == 1 or last == 0:
            return []
        return list(set(self.tokens if last < 0 else self.tokens[-last:]))

    def usage(self) -> Usage:
        return Usage(prompt_tokens=self.num_prompt, completion_tokens=self.num_generated, cached_tokens=self.num_cached)

    def timings(self, now_s: float) -> Timings:
        admitted = now_s if self.admitted_s is None else self.admitted_s
        first = now_s if self.first_token_s is None else self.first_token_s
        return Timings(queue_s=admitted - self.created_s, prefill_s=first - admitted, decode_s=now_s - first)

    def limit_reached(self, slot_capacity: int) -> FinishReason | None:
        """`length` when the request's own limit or the slot's end leaves no room for another token."""
        if self.max_tokens is not None and self.num_generated >= self.max_tokens:
            return "length"
        return "length" if self.num_tokens >= slot_capacity else None
