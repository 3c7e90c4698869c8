"""Guesses by lookup: where the last tokens occur in a text, what follows them there is likely to follow again.

    text     ... a b c d e f g h ...          the answer  ... x b c d
                   ^^^^^ ^ at                                   ^^^^^ agree: e is expected, then f, g, h

The text is the sequence's own (its prompt, with the conversation's past, and what it has answered), or a prediction of
the answer. A hash table from `NGRAM` tokens to the position after their last occurrence is filled at once for existing
text and token by token for new text: linear, at most 16 bytes per token. Where the answer departs from the text, its
place is searched a little further on, as after an edit. Knows nothing of sequences or of whether a guess is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.speculation.rates import DOUBTFUL, MAX_MATCHES, Rates
from localllm.engine.speculation.source import Guess
from localllm.types import SourceName

NGRAM = 3
"""Number of consecutive tokens that must agree for a match."""
MOST_ENTRIES = 1 << 19
"""Size of the table, 4 bytes each. A position overwritten by a later one is lost; another is found a token later."""
SEARCH_DISTANCE = 48
"""Distance after the point of departure within which the place is searched with fewer agreeing tokens."""
SEARCH_TOKENS = 24
"""Number of tokens after a departure for which that search continues."""
NEARBY_TOKENS = 6
"""Distance, and number of tokens, for which one agreeing token suffices, and for which as many different tokens are
assumed to replace those of the text."""
PREDICTION_MATCHES = 8
"""The beginning of a prediction counts as if this many preceding tokens had agreed."""
FIRST_DOUBT = 2
"""How often a token must be right at a place where another one came, before the place is trusted again: for example the
value after a key."""
TRUSTED_MATCHES = 4
"""After fewer agreeing tokens the place is searched less eagerly once the answer departs."""
_FACTORS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_WORD = (1 << 32) - 1


class Lookup:
    """Implements `Source`."""

    def __init__(
        self,
        name: SourceName,
        rates: Rates,
        tokens: Sequence[int],
        text: Sequence[int] | None = None,
        num_before: int | None = None,
    ) -> None:
        """Looks up in `text`, whose beginning the answer is expected to start with, after the first `num_before` of the
        sequence's `tokens` (None: all of them). Without a text, looks up in those tokens."""
        self.name: SourceName = name
        self._rates = rates
        self._grows = text is None
        self._text = tokens if text is None else text
        self._num_seen = len(tokens) if text is None or num_before is None else num_before
        """Number of the sequence's tokens processed so far."""
        self._at = -1 if self._grows else 0
        """Position in the text of the token expected next; -1: none."""
        self._num_agreed = 0 if self._grows else PREDICTION_MATCHES
        self._lost_at = -1
        """Position in the text where the answer departed from it."""
        self._lost_since = 0
        self._doubts = bytearray(len(self._text))
        """For each position in the text: how often its token must still be right before it is trusted again."""
        self._table, self._shift = _table(self._text)
        if self._grows:
            self._look_up(tokens, len(tokens))

    def propose(self, tokens: Sequence[int], most: int) -> Guess | None:
        while self._num_seen < len(tokens):
            self._take(tokens, self._num_seen)
            self._num_seen += 1
        at, text = self._at, self._text
        if at < 0 or at >= len(text):
            return None
        found, doubts = tuple(text[at : at + most]), self._doubts[at : at + most]
        if found and min(found) < 0:  # media rows come next, which nobody guesses
            most = next(place for place, token in enumerate(found) if token < 0)
            if most == 0:
                return None
            found, doubts = found[:most], doubts[:most]
        if self._grows and len(found) < most:  # it repeats itself: guessed tokens serve as text, too
            times = most // len(found) + 1
            found, doubts = (found * times)[:most], (doubts * times)[:most]
        return Guess(found, self._rates.chances(self._num_agreed, doubts), self.name)

    def _take(self, tokens: Sequence[int], place: int) -> None:
        """Compare the sequence's token at this position with the expected one, and learn from it."""
        at, token, text = self._at, tokens[place], self._text
        if self._grows and place >= NGRAM:
            self._table[_hash(tokens, place) >> self._shift] = place
        if at >= len(text):  # the answer has passed the end of the prediction
            at = -1
        if at >= 0:
            is_right, doubts = text[at] == token, self._doubts
            self._rates.learn(DOUBTFUL if doubts[at] else self._num_agreed, is_right=is_right)
            doubts[at] = max(0, doubts[at] - 1) if is_right else FIRST_DOUBT
            if self._grows:  # it may be a changed value in a text that is copied again
                doubts.append(doubts[at])
            if is_right:
                self._at, self._num_agreed = at + 1, self._num_agreed + 1
                return
            if self._num_agreed >= TRUSTED_MATCHES:
                self._lost_at, self._lost_since = at, place
        elif self._grows:
            self._doubts.append(FIRST_DOUBT if self._lost_at >= 0 else 0)
        self._look_up(tokens, place + 1)

    def _look_up(self, tokens: Sequence[int], end: int) -> None:
        """Find what follows the `tokens` before `end` in the text."""
        self._at = -1
        if self._lost_at >= 0:
            if end - self._lost_since > SEARCH_TOKENS:
                self._lost_at = -1
            elif end > 1 and self._look_near(tokens, end) and self._num_agreed > 1:
                return
        if end < NGRAM:
            return
        at = self._table[_hash(tokens, end) >> self._shift]
        num_agreed = self._agreeing(tokens, end, at) if at else 0
        if num_agreed >= NGRAM:  # better than a single one found nearby
            self._at, self._num_agreed = at, num_agreed

    def _look_near(self, tokens: Sequence[int], end: int) -> bool:
        """Whether the text may continue shortly after the point of departure: with other tokens, fewer, or more."""
        text, lost_at, num_lost = self._text, self._lost_at, end - self._lost_since
        token, before = tokens[end - 1], tokens[end - 2]
        known = end if self._grows else len(text)  # several may have come at once
        last, found = min(lost_at + SEARCH_DISTANCE, known - 1), -1
        for place in range(max(lost_at, 1), last):
            if text[place] == token:
                if text[place - 1] == before:
                    self._at, self._num_agreed = place + 1, 2
                    return True
                if found < 0 and place <= lost_at + NEARBY_TOKENS:
                    found = place
        if found >= 0:
            self._at, self._num_agreed = found + 1, 1
        elif num_lost <= NEARBY_TOKENS and lost_at + num_lost < known:
            self._at, self._num_agreed = lost_at + num_lost, 0
        return self._at >= 0

    def _agreeing(self, tokens: Sequence[int], end: int, at: int) -> int:
        text, most = self._text, min(end, at, MAX_MATCHES)
        count = 0
        while count < most and text[at - 1 - count] == tokens[end - 1 - count]:
            count += 1
        return count


def _hash(tokens: Sequence[int], end: int) -> int:
    """32-bit hash of the n-gram that ends at this position."""
    return (tokens[end - 3] * _FACTORS[0] + tokens[end - 2] * _FACTORS[1] + tokens[end - 1] * _FACTORS[2]) & _WORD


def _table(text: Sequence[int]) -> tuple[memoryview, int]:
    """Table from the shifted hash of an n-gram to the position after its last occurrence, if there is one."""
    ids: npt.NDArray[np.uint32] = np.asarray(text, np.int32).view(np.uint32)
    bits = max(10, min(4 * len(ids) + 2048, MOST_ENTRIES).bit_length() - 1)
    table = np.zeros(1 << bits, np.int32)
    shift = 32 - bits
    if len(ids) > NGRAM:
        hashes = np.zeros(len(ids) - NGRAM, np.uint32)
        for offset, factor in enumerate(_FACTORS):
            hashes += ids[offset : offset + len(hashes)] * np.uint32(factor)
        table[hashes >> np.uint32(shift)] = np.arange(NGRAM, len(ids), dtype=np.int32)
    data: Any = table
    return memoryview(data), shift
