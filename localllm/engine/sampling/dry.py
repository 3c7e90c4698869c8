"""DRY: a penalty that grows with the length of the repetition that a token would continue (p-e-w, 2024).

As `llama_sampler_dry` of llama.cpp, except that breakers are searched in the text and not among the tokens, so that
every way of tokenizing a text gives the same result. Media rows, whose ids are negative, break as breakers do. Pure;
knows nothing of requests.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from localllm.types import DrySampling

_LARGEST_PENALTY = 3.4028235e38
"""The largest float32."""
_LARGEST_PENALTY_LOG = 88.7228391


class Dry:
    """The last tokens of one answer and its prompt."""

    def __init__(self, sampling: DrySampling, token_bytes: Callable[[int], bytes], tokens: Sequence[int]) -> None:
        self._sampling = sampling
        self._token_bytes = token_bytes
        self._breakers = tuple(breaker.encode() for breaker in sampling.sequence_breakers)
        self._tail_bytes = max(map(len, self._breakers), default=1) - 1
        growth = math.log(sampling.base)
        self._longest = sampling.allowed_length + (int(_LARGEST_PENALTY_LOG / growth) if growth > 1e-6 else 0)
        """Longer repetitions get the same penalty."""
        self._tokens = np.asarray(tokens, np.int32)
        self._num_tokens = len(tokens)
        self._lengths = _common_endings(tokens)
        """For each position before the last: how many tokens up to there equal those at the end."""
        self._is_breaker: dict[int, bool] = {}
        self._since_breaker = 0
        self._tail = b""
        for token in tokens[-self._longest - self._tail_bytes - 1 :]:
            self._look_for_breaker(token)

    def copy(self) -> Dry:
        """A copy that continues with other tokens."""
        other = copy.copy(self)
        other._tokens, other._lengths = self._tokens.copy(), self._lengths.copy()
        return other

    def append(self, token: int) -> None:
        """Take a generated token."""
        if self._num_tokens == len(self._tokens):
            self._tokens = np.concatenate((self._tokens, np.zeros(self._num_tokens + 64, np.int32)))
        if self._num_tokens > len(self._lengths):
            self._lengths = np.concatenate((self._lengths, np.zeros(self._num_tokens + 64, np.int32)))
        end = self._num_tokens
        lengths = self._lengths[:end]
        lengths[1:] = lengths[:-1] + 1
        lengths[:1] = 1
        lengths *= self._tokens[:end] == token
        self._tokens[end] = token
        self._num_tokens += 1
        self._look_for_breaker(token)

    def penalties(self) -> dict[int, float]:
        """Token -> penalty to subtract from its logit."""
        sampling = self._sampling
        limit = min(self._since_breaker, self._longest)
        if limit < sampling.allowed_length:
            return {}
        end = self._num_tokens - 1
        start = 0 if sampling.penalty_last_n < 0 else max(0, self._num_tokens - sampling.penalty_last_n)
        lengths = self._lengths[start : max(start, end)]
        ends = np.flatnonzero(lengths >= sampling.allowed_length)
        lengths = np.minimum(np.minimum(lengths[ends], ends + 1), limit)
        ends, lengths = ends[lengths >= sampling.allowed_length], lengths[lengths >= sampling.allowed_length]
        if len(ends) == 0:
            return {}
        following = self._tokens[start + ends + 1]
        following, lengths = following[following >= 0], lengths[following >= 0]
        if len(following) == 0:
            return {}
        longest = np.zeros(int(following.max()) + 1, np.int64)
        np.maximum.at(longest, following, lengths)
        repeated = np.flatnonzero(longest)
        reached = longest[repeated].tolist()
        penalties = {length: self._penalty(length) for length in set(reached)}
        known = self._is_breaker
        return {
            token: penalties[length]
            for token, length in zip(repeated.tolist(), reached, strict=True)
            if not (known[token] if token in known else self._breaks(token))
        }

    def _penalty(self, length: int) -> float:
        sampling = self._sampling
        return min(sampling.multiplier * sampling.base ** (length - sampling.allowed_length), _LARGEST_PENALTY)

    def _breaks(self, token: int) -> bool:
        text = self._token_bytes(token)
        result = self._is_breaker[token] = any(breaker in text for breaker in self._breakers)
        return result

    def _look_for_breaker(self, token: int) -> None:
        if token < 0:
            self._since_breaker, self._tail = 0, b""
            return
        text = self._tail + self._token_bytes(token)
        ends = [at + len(breaker) for breaker in self._breakers if (at := text.rfind(breaker)) >= 0]
        self._since_breaker = 0 if ends else self._since_breaker + 1
        text = text[max(ends, default=0) :]
        self._tail = text[len(text) - self._tail_bytes :] if len(text) > self._tail_bytes else text


def _common_endings(tokens: Sequence[int]) -> npt.NDArray[np.int32]:
    """For each position but the last: how many tokens up to there equal those at the end. Linear (Z function)."""
    backwards = list(reversed(tokens))
    count = len(backwards)
    lengths = [0] * count
    left = right = 0
    for i in range(1, count):
        length = min(right - i, lengths[i - left]) if i < right else 0
        while i + length < count and backwards[length] == backwards[i + length]:
            length += 1
        lengths[i] = length
        if i + length > right:
            left, right = i, i + length
    return np.array(lengths[:0:-1], np.int32)
