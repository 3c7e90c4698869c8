"""How many tokens a step may take and still end in time: learned from the steps before, since no machine is known."""

from __future__ import annotations

ASSUMED_TOKENS_PER_S = 214
"""Before anything is measured: what a 1.2 B model computes on two cores."""
TILE = 64
"""llama.cpp's attention is fast from so many rows on; larger batches are whole numbers of these."""
TELLING = 32
"""Steps of fewer tokens tell little: they read all weights for almost nothing."""


class Pace:
    """Keeps steps under `max_step_s` seconds, so that a cancel or a new request never waits longer."""

    def __init__(self, *, max_step_s: float, batch_capacity: int) -> None:
        self._max_step_s = max_step_s
        self._batch_capacity = batch_capacity
        self._token_s: float | None = None

    @property
    def budget(self) -> int:
        """Tokens that the next step may have, at least one."""
        tokens = int(self._max_step_s * (ASSUMED_TOKENS_PER_S if self._token_s is None else 1 / self._token_s))
        if tokens > TILE:
            tokens -= tokens % TILE
        return max(1, min(tokens, self._batch_capacity))

    def observe(self, num_tokens: int, seconds: float) -> None:
        """A step of so many tokens took so long. Slower than thought counts at once, faster soon."""
        if num_tokens < min(TELLING, self.budget):
            return
        token_s = max(seconds, 1e-9) / num_tokens
        known = self._token_s
        self._token_s = token_s if known is None or token_s > known else 0.3 * known + 0.7 * token_s
