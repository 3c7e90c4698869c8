"""DRY: a penalty that grows with the length of the repetition a token would go on with (p-e-w, 2024).

As `llama_sampler_dry` of llama.cpp, but for breakers, which are looked for in the text and not among the tokens, so
that every way of cutting a text into tokens is alike. Pure; knows nothing of requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from localllm.types import DrySampling

_LARGEST_PENALTY_LOG = 88.7228391
"""Of the largest float32."""


class Dry:
    """The last tokens of one answer and its prompt."""

    def __init__(self, sampling: DrySampling, token_bytes: Callable[[int], bytes], tokens: Sequence[int]) -> None:
        self._sampling = sampling
        self._token_bytes = token_bytes
        self._breakers = tuple(breaker.encode() for breaker in sampling.sequence_breakers)
        self._tail_bytes = max(map(len, self._breakers), default=1) - 1
        growth = math.log(sampling.base)
        self._longest = sampling.allowed_length + (int(_LARGEST_PENALTY_LOG / growth) if growth > 1e-6 else 0)
        """Longer repetitions are penalized alike."""
        self._tokens = np.asarray(tokens, np.int32)
        self._num_tokens = len(tokens)
        self._since_breaker = 0
        self._tail = b""
        for token in tokens[-self._longest - self._tail_bytes - 1 :]:
            self._look_for_breaker(token)

    def append(self, token: int) -> None:
        """Take a generated token."""
        if self._num_tokens == len(self._tokens):
            self._tokens = np.concatenate((self._tokens, np.zeros(self._num_tokens + 64, np.int32)))
        self._tokens[self._num_tokens] = token
        self._num_tokens += 1
        self._look_for_breaker(token)

    def penalties(self) -> dict[int, float]:
        """Token -> what to take from its logit."""
        sampling = self._sampling
        limit = min(self._since_breaker, self._longest)
        if limit < sampling.allowed_length:
            return {}
        tokens = self._tokens[: self._num_tokens]
        if sampling.penalty_last_n >= 0:
            tokens = tokens[max(0, len(tokens) - sampling.penalty_last_n) :]
        if len(tokens) < 2:
            return {}
        penalties: dict[int, float] = {}
        ends = np.flatnonzero(tokens[:-1] == tokens[-1])  # where what was said last was said before
        for length in range(1, limit + 1):
            if length > 1:
                ends = ends[ends >= length - 1]
                ends = ends[tokens[ends - length + 1] == tokens[-length]]
            if len(ends) == 0:
                break
            if length >= sampling.allowed_length:
                penalty = sampling.multiplier * sampling.base ** (length - sampling.allowed_length)
                for token in set(tokens[ends + 1].tolist()):
                    penalties[token] = penalty
        return {token: penalty for token, penalty in penalties.items() if not self._breaks(self._token_bytes(token))}

    def _breaks(self, text: bytes) -> bool:
        return any(breaker in text for breaker in self._breakers)

    def _look_for_breaker(self, token: int) -> None:
        text = self._tail + self._token_bytes(token)
        ends = [at + len(breaker) for breaker in self._breakers if (at := text.rfind(breaker)) >= 0]
        self._since_breaker = 0 if ends else self._since_breaker + 1
        text = text[max(ends, default=0) :]
        self._tail = text[len(text) - self._tail_bytes :] if len(text) > self._tail_bytes else text
