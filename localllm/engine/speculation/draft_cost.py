"""Cost of a draft model, measured: guesses for several streams, token by token or in blocks, and a token of a prompt.

Pure: knows nothing of clocks.
"""

from __future__ import annotations

SLOWER_GAIN, FASTER_GAIN = 0.1, 0.4
"""Weight of a measurement that is slower than expected, and of one that is faster: a slow one was usually held up by
other work."""
MAX_SLOWDOWN = 3.0
"""A measurement counts as at most this many times the expected duration."""
PROMPT_SHARE = 0.25
"""Cost of a prompt's token as a share of a decode, until it is measured."""
PROBED_GUESSES = 16
"""Guesses that a check compares with known successors."""
MIN_LEARNED_TOKENS = 8
"""Minimum number of tokens of a measured decode: fewer take as long as reading the weights."""


class DraftCost:
    """Durations of the draft's work, learned while running; all in seconds."""

    def __init__(self, share: float) -> None:
        """`share`: cost relative to a step of the target, before anything was measured."""
        self._share = share
        self._target_s = 0.01
        """Duration of a target step per stream; stands in for what was not measured yet."""
        self._by_count: dict[int, float] = {}
        """Number of streams -> duration of a decode of one token for each, with everything around it."""
        self._token_s: float | None = None

    def beside(self, target_s: float) -> None:
        """Record the current duration of a target step per stream."""
        self._target_s = target_s

    def decode_s(self, num_streams: int) -> float:
        if num_streams in self._by_count:
            return self._by_count[num_streams]
        if not self._by_count:
            return self._share * self._target_s
        nearest = min(self._by_count, key=lambda count: abs(count - num_streams))
        return self._by_count[nearest]

    def guesses_s(self, num_streams: int, count: int) -> float:
        """Cost of `count` guesses for each of the streams."""
        return count * self.decode_s(num_streams)

    def probe_s(self, num_tokens: int) -> float:
        """Cost of a check that computes this many tokens."""
        return self.tokens_s(num_tokens)

    @property
    def token_s(self) -> float:
        """Cost per token when many are computed together."""
        return PROMPT_SHARE * self.decode_s(1) if self._token_s is None else self._token_s

    def tokens_s(self, count: int) -> float:
        """Cost of `count` tokens of one prompt."""
        return max(self.decode_s(1), count * self.token_s)

    def observe_guesses(self, num_streams: int, count: int, seconds: float) -> None:
        """Record that guessing took `seconds` for these streams, of which the longest draft has `count` guesses."""
        known = self._by_count.get(num_streams)
        self._by_count[num_streams] = _learned(known, seconds / count)

    def observe_tokens(self, num_tokens: int, seconds: float, *, has_guesses: bool = False) -> None:  # noqa: ARG002
        """Record a decode of prompt tokens. Its duration caps that of a single-token decode, so that a slow outlier is
        measured again."""
        if num_tokens >= MIN_LEARNED_TOKENS:
            self._token_s = _learned(self._token_s, seconds / num_tokens)
        self._by_count = {count: min(known, seconds) for count, known in self._by_count.items()}


class BlockCost(DraftCost):
    """Cost of a block draft, which makes all guesses in one decode: depends on its rows, one per guess and one per
    stream."""

    def __init__(self, share: float) -> None:
        super().__init__(share)
        self._by_rows: dict[int, float] = {}

    def decode_s(self, num_streams: int) -> float:
        return self.guesses_s(num_streams, 1)

    def guesses_s(self, num_streams: int, count: int) -> float:
        """Interpolated between the nearest measured numbers of rows; beyond the largest, extrapolated from the smallest
        and the largest."""
        rows, known = num_streams * (count + 1), self._by_rows
        if not known:
            return self._share * self._target_s
        below, above = [each for each in known if each <= rows], [each for each in known if each > rows]
        if not below:
            return known[min(above)]
        lower = max(below)
        if above:
            slope = (known[min(above)] - known[lower]) / (min(above) - lower)
        else:
            slope = max(0.0, (known[lower] - known[min(known)]) / max(1, lower - min(known)))
        return known[lower] + slope * (rows - lower)

    def probe_s(self, num_tokens: int) -> float:
        return self.tokens_s(num_tokens) + self.guesses_s(1, PROBED_GUESSES)

    def observe_guesses(self, num_streams: int, count: int, seconds: float) -> None:
        rows = num_streams * (count + 1)
        self._by_rows[rows] = _learned(self._by_rows.get(rows), seconds)

    def observe_tokens(self, num_tokens: int, seconds: float, *, has_guesses: bool = False) -> None:
        """Record a decode of prompt tokens, unless it also computed a block, which takes much of its time."""
        if num_tokens >= MIN_LEARNED_TOKENS and not has_guesses:
            self._token_s = _learned(self._token_s, seconds / num_tokens)


def _learned(known: float | None, seconds: float) -> float:
    if known is None:
        return max(seconds, 1e-7)
    return known + (SLOWER_GAIN if seconds > known else FASTER_GAIN) * (min(seconds, MAX_SLOWDOWN * known) - known)
