"""Cost of a draft model, measured: guesses for several streams, token by token or in blocks, and a token of a prompt.

Pure: knows nothing of clocks.
"""

from __future__ import annotations

SLOWER, FASTER = 0.1, 0.4
"""Weight of a measurement's error where it took longer than expected, and where it took less: a slow one was usually
held up by other work."""
SLOWEST = 3.0
"""A measurement counts as at most this many times the expected duration."""
PROMPT_SHARE = 0.25
"""Cost of a prompt's token as a share of a decode, until it is measured."""
PROBED = 16
"""Guesses that a check compares with known successors."""
FEWEST_TOKENS = 8
"""Fewer tokens at a time teach nothing: they take as long as reading the weights."""


class DraftCost:
    """All in seconds."""

    def __init__(self, share: float) -> None:
        """`share`: cost relative to a step of the target, before anything was measured."""
        self._share = share
        self.target_s = 0.01
        """A step of the target for one stream, used for what was not measured yet."""
        self._by_count: dict[int, float] = {}
        """Number of streams -> a decode of one token for each, with everything around it."""
        self._token_s: float | None = None

    def decode_s(self, num_streams: int) -> float:
        if num_streams in self._by_count:
            return self._by_count[num_streams]
        if not self._by_count:
            return self._share * self.target_s
        nearest = min(self._by_count, key=lambda count: abs(count - num_streams))
        return self._by_count[nearest]

    def guesses_s(self, num_streams: int, count: int) -> float:
        """Cost of `count` guesses for each of the streams."""
        return count * self.decode_s(num_streams)

    def probe_s(self, num_tokens: int) -> float:
        """Cost of a check in so many tokens."""
        return self.tokens_s(num_tokens)

    @property
    def token_s(self) -> float:
        """Cost per token of many computed together."""
        return PROMPT_SHARE * self.decode_s(1) if self._token_s is None else self._token_s

    def tokens_s(self, count: int) -> float:
        """Cost of `count` tokens of one prompt."""
        return max(self.decode_s(1), count * self.token_s)

    def observe_guesses(self, num_streams: int, count: int, seconds: float) -> None:
        """The longest stream got `count` guesses."""
        known = self._by_count.get(num_streams)
        self._by_count[num_streams] = _learned(known, seconds / count)

    def observe_tokens(self, num_tokens: int, seconds: float, *, has_guesses: bool = False) -> None:  # noqa: ARG002
        """Caps the decode of a single token at this cost, so that one that was slow by accident is tried again."""
        if num_tokens >= FEWEST_TOKENS:
            self._token_s = _learned(self._token_s, seconds / num_tokens)
        self._by_count = {count: min(known, seconds) for count, known in self._by_count.items()}


class BlockCost(DraftCost):
    """Of guesses that one decode makes together: its cost depends on its rows, one for each guess and one per
    stream."""

    def __init__(self, share: float) -> None:
        super().__init__(share)
        self._by_rows: dict[int, float] = {}

    def decode_s(self, num_streams: int) -> float:
        return self.guesses_s(num_streams, 1)

    def guesses_s(self, num_streams: int, count: int) -> float:
        """On the line between the nearest measured numbers of rows, beyond the last on the line through it and the
        first."""
        rows, known = num_streams * (count + 1), self._by_rows
        if not known:
            return self._share * self.target_s
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
        return self.tokens_s(num_tokens) + self.guesses_s(1, PROBED)

    def observe_guesses(self, num_streams: int, count: int, seconds: float) -> None:
        rows = num_streams * (count + 1)
        self._by_rows[rows] = _learned(self._by_rows.get(rows), seconds)

    def observe_tokens(self, num_tokens: int, seconds: float, *, has_guesses: bool = False) -> None:
        """A block among them is much of the time."""
        if num_tokens >= FEWEST_TOKENS and not has_guesses:
            self._token_s = _learned(self._token_s, seconds / num_tokens)


def _learned(known: float | None, seconds: float) -> float:
    if known is None:
        return max(seconds, 1e-7)
    return known + (SLOWER if seconds > known else FASTER) * (min(seconds, SLOWEST * known) - known)
