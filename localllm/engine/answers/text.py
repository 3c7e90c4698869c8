"""Turns bytes of tokens into text that can be shown: whole UTF-8 characters only, nothing of a stop string.

`feed()` + `flush()`: what they return, concatenated, equals decoding everything at once and cutting before the stop
string that ends first, at every way of splitting the bytes. Knows nothing of tokens or requests.
"""

from __future__ import annotations

import bisect
import codecs
from collections.abc import Sequence


class TextStream:
    """Holds back an incomplete character and any tail that may become a stop string."""

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = frozenset(stop)
        self._in_order = sorted(self._stop)
        self._lengths = sorted(set(map(len, self._stop)), reverse=True)
        self._held = ""
        self.stopped_by: str | None = None
        """The stop string that was seen."""

    @property
    def stopped(self) -> bool:
        """Whether one was."""
        return self.stopped_by is not None

    @property
    def may_stop(self) -> bool:
        """Whether text can end the answer."""
        return bool(self._stop)

    def feed(self, data: bytes, *, may_stop: bool = True) -> str:
        """Text that is safe to show now; once a stop string was seen, `stopped` is true and everything after it is
        dropped.

        What comes before the first text that `may_stop` is not searched.
        """
        text = self._decoder.decode(data)
        return self._release(text) if may_stop else text

    def flush(self) -> str:
        """The rest at the end of generation: a broken character becomes U+FFFD, a partial stop string is text."""
        text = self._release(self._decoder.decode(b"", final=True))
        if self.stopped:
            return text
        rest, self._held = self._held, ""
        return text + rest

    def _release(self, text: str) -> str:
        if self.stopped:
            return ""
        if not self._stop:
            return text
        num_searched = len(self._held)
        self._held += text
        # Of several, the one that ends first wins, whole or in pieces; of two that end together, the longer.
        for end in range(num_searched + 1, len(self._held) + 1):
            for length in self._lengths:
                if length <= end and self._held[end - length : end] in self._stop:
                    self.stopped_by = self._held[end - length : end]
                    shown, self._held = self._held[: end - length], ""
                    return shown
        keep = self._partial_stop_length()
        end = len(self._held) - keep
        shown, self._held = self._held[:end], self._held[end:]
        return shown

    def _partial_stop_length(self) -> int:
        """Length of the longest tail of the held text that begins a stop string."""
        for length in range(min(self._lengths[0] - 1, len(self._held)), 0, -1):
            tail = self._held[-length:]
            at = bisect.bisect_left(self._in_order, tail)  # strings that begin with it come next
            if at < len(self._in_order) and self._in_order[at].startswith(tail):
                return length
        return 0
