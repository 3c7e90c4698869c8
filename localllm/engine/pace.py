"""How many tokens a step may take and still end in time: learned from the steps before, since no machine is known."""

from __future__ import annotations

import math

ASSUMED_TOKENS_PER_S = 214
"""Before anything is measured: what a 1.2 B model computes on two cores."""
TILE = 64
"""llama.cpp's attention is fast from so many rows on; larger batches are whole numbers of these."""
TELLING = 32
"""Steps of fewer tokens tell little: they read all weights for almost nothing."""


LEAST_CHUNK = 32
"""Tokens of prompts that ride along in any case if the step may be that long: they cost little more than none."""


class Pace:
    """Keeps steps under `max_step_s` seconds, so that a cancel or a new request never waits longer; and those that
    compute prompts while answers stream under `prefill_step_s`, so that the streams flow."""

    def __init__(self, *, max_step_s: float, batch_capacity: int, prefill_step_s: float = math.inf) -> None:
        self._max_step_s = max_step_s
        self._prefill_step_s = min(prefill_step_s, max_step_s)
        self._batch_capacity = batch_capacity
        self._token_s: float | None = None

    def budget(self, num_streams: int = 0) -> int:
        """Tokens that the next step may have, at least one, while so many answers stream."""
        most = self._tokens_in(self._max_step_s)
        if num_streams == 0:
            return most
        return min(most, max(self._tokens_in(self._prefill_step_s), LEAST_CHUNK + num_streams))

    def _tokens_in(self, seconds: float) -> int:
        tokens = int(seconds * (ASSUMED_TOKENS_PER_S if self._token_s is None else 1 / self._token_s))
        if tokens > TILE:
            tokens -= tokens % TILE
        return max(1, min(tokens, self._batch_capacity))

    def observe(self, num_tokens: int, seconds: float) -> None:
        """A step of so many tokens took so long. Slower than thought counts at once, faster soon."""
        if num_tokens < min(TELLING, self._tokens_in(self._max_step_s)):
            return
        token_s = max(seconds, 1e-9) / num_tokens
        known = self._token_s
        self._token_s = token_s if known is None or token_s > known else 0.3 * known + 0.7 * token_s
