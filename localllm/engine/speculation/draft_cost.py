"""What a draft model takes, measured: a decode of a token for so many streams, and a token of a prompt.

Pure: knows nothing of clocks.
"""

from __future__ import annotations

SLOWER, FASTER = 0.1, 0.4
"""How much of the error one measurement changes that took longer than expected, or less: what holds one up is others'
work."""
SLOWEST = 3.0
"""One that took so many times as long says no more than that."""
PROMPT_SHARE = 0.25
"""Of a decode: what a token of a prompt takes, before that was measured."""
FEWEST_TOKENS = 8
"""Of fewer at a time nothing is learned: they take what the weights take."""


class DraftCost:
    """All in seconds."""

    def __init__(self, share: float) -> None:
        """`share`: of what a step of the target takes, before anything was measured."""
        self._share = share
        self.target_s = 0.01
        """A step of the target for one stream, for what was not measured yet."""
        self._by_count: dict[int, float] = {}
        """Streams -> a decode of one token for each, what is around it counted."""
        self._token_s: float | None = None

    def decode_s(self, num_streams: int) -> float:
        if num_streams in self._by_count:
            return self._by_count[num_streams]
        if not self._by_count:
            return self._share * self.target_s
        nearest = min(self._by_count, key=lambda count: abs(count - num_streams))
        return self._by_count[nearest]

    @property
    def token_s(self) -> float:
        """Of many tokens computed together, each."""
        return PROMPT_SHARE * self.decode_s(1) if self._token_s is None else self._token_s

    def tokens_s(self, count: int) -> float:
        """So many of one prompt."""
        return max(self.decode_s(1), count * self.token_s)

    def observe_guesses(self, num_streams: int, num_decodes: int, seconds: float) -> None:
        known = self._by_count.get(num_streams)
        self._by_count[num_streams] = _learned(known, seconds / num_decodes)

    def observe_tokens(self, num_tokens: int, seconds: float) -> None:
        """No decode of a single token takes longer: so one that was slow by accident is tried again."""
        if num_tokens >= FEWEST_TOKENS:
            self._token_s = _learned(self._token_s, seconds / num_tokens)
        self._by_count = {count: min(known, seconds) for count, known in self._by_count.items()}


def _learned(known: float | None, seconds: float) -> float:
    if known is None:
        return max(seconds, 1e-7)
    return known + (SLOWER if seconds > known else FASTER) * (min(seconds, SLOWEST * known) - known)
