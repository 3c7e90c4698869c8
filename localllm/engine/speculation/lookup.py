"""Guesses by looking up: where the last tokens stand in a text, what comes there comes again.

    text     ... a b c d e f g h ...          the answer  ... x b c d
                   ^^^^^ ^ at                                   ^^^^^ agree: e is expected, then f, g, h

The text is the sequence's own (its prompt, in which a conversation's past is, and what it has answered), or one that
the answer is predicted to be. A hash table of `NGRAM` tokens to the last place behind them is filled at once for what
is there, and token by token for what comes: linear, 16 bytes a token at most. Where the answer leaves the text, the
place is found again a little further on: an edit. Knows nothing of sequences, and of whether a guess is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.speculation.rates import DOUBTFUL, LONGEST, Rates
from localllm.engine.speculation.source import Guess
from localllm.types import SourceName

NGRAM = 3
"""Tokens that have to agree."""
MOST_ENTRIES = 1 << 19
"""Of the table, 4 bytes each. Places whose entry a later one takes are lost: another is found a token later."""
REACH = 48
"""So far behind the place where the answer left the text it is looked for with fewer tokens."""
LOST_FOR = 24
"""For so many tokens."""
NEAR = 6
"""So near with a single one; and for so many tokens, as many others are taken to stand for them, whatever they are."""
PREDICTED = 8
"""Somebody expects the beginning of a prediction: as if so many tokens before it had agreed."""
FIRST_DOUBT = 2
"""So often a token has to be right where another one stood, before its place is believed in as others are: that of a
value behind a key."""
TRUSTED = 4
"""A text that agreed for fewer tokens is not looked for again so eagerly when it is left."""
_FACTORS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_WORD = (1 << 32) - 1


class Lookup:
    """A `Source`."""

    def __init__(
        self,
        name: SourceName,
        rates: Rates,
        tokens: Sequence[int],
        text: Sequence[int] | None = None,
        num_before: int | None = None,
    ) -> None:
        """In `text`, of which the answer is expected to begin with the beginning, behind the first `num_before` of the
        sequence's `tokens` (None: all there are). Without a text, in these tokens.
        """
        self.name: SourceName = name
        self._rates = rates
        self._grows = text is None
        self._text = tokens if text is None else text
        self._num_seen = len(tokens) if text is None or num_before is None else num_before
        """Of the sequence."""
        self._at = -1 if self._grows else 0
        """In the text: the token that is expected next; -1: none is."""
        self._num_agreed = 0 if self._grows else PREDICTED
        self._lost_at = -1
        """In the text: where the answer left it."""
        self._lost_since = 0
        self._doubts = bytearray(len(self._text))
        """Of each place in the text: how often the token there has to be right before it is believed in again."""
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
        if self._grows and len(found) < most:  # it repeats itself: what is guessed is text as well
            times = most // len(found) + 1
            found, doubts = (found * times)[:most], (doubts * times)[:most]
        return Guess(found, self._rates.chances(self._num_agreed, doubts), self.name)

    def _take(self, tokens: Sequence[int], place: int) -> None:
        """The token at that place has come."""
        at, token, text = self._at, tokens[place], self._text
        if self._grows and place >= NGRAM:
            self._table[_hash(tokens, place) >> self._shift] = place
        if at >= len(text):  # of a prediction that the answer goes beyond
            at = -1
        if at >= 0:
            is_right, doubts = text[at] == token, self._doubts
            self._rates.learn(DOUBTFUL if doubts[at] else self._num_agreed, is_right=is_right)
            doubts[at] = max(0, doubts[at] - 1) if is_right else FIRST_DOUBT
            if self._grows:  # it may be a value, and the text may be copied again
                doubts.append(doubts[at])
            if is_right:
                self._at, self._num_agreed = at + 1, self._num_agreed + 1
                return
            if self._num_agreed >= TRUSTED:
                self._lost_at, self._lost_since = at, place
        elif self._grows:
            self._doubts.append(FIRST_DOUBT if self._lost_at >= 0 else 0)
        self._look_up(tokens, place + 1)

    def _look_up(self, tokens: Sequence[int], end: int) -> None:
        """What the `tokens` before `end` are followed by in the text."""
        self._at = -1
        if self._lost_at >= 0:
            if end - self._lost_since > LOST_FOR:
                self._lost_at = -1
            elif end > 1 and self._look_near(tokens, end) and self._num_agreed > 1:
                return
        if end < NGRAM:
            return
        at = self._table[_hash(tokens, end) >> self._shift]
        num_agreed = self._agreeing(tokens, end, at) if at else 0
        if num_agreed >= NGRAM:  # better than a single one that was found near
            self._at, self._num_agreed = at, num_agreed

    def _look_near(self, tokens: Sequence[int], end: int) -> bool:
        """Whether it may go on a little behind where the answer left it: with other tokens, with fewer, with more."""
        text, lost_at, num_lost = self._text, self._lost_at, end - self._lost_since
        token, before = tokens[end - 1], tokens[end - 2]
        known = end if self._grows else len(text)  # several may have come at once
        last, found = min(lost_at + REACH, known - 1), -1
        for place in range(max(lost_at, 1), last):
            if text[place] == token:
                if text[place - 1] == before:
                    self._at, self._num_agreed = place + 1, 2
                    return True
                if found < 0 and place <= lost_at + NEAR:
                    found = place
        if found >= 0:
            self._at, self._num_agreed = found + 1, 1
        elif num_lost <= NEAR and lost_at + num_lost < known:
            self._at, self._num_agreed = lost_at + num_lost, 0
        return self._at >= 0

    def _agreeing(self, tokens: Sequence[int], end: int, at: int) -> int:
        text, most = self._text, min(end, at, LONGEST)
        count = 0
        while count < most and text[at - 1 - count] == tokens[end - 1 - count]:
            count += 1
        return count


def _hash(tokens: Sequence[int], end: int) -> int:
    """Of the n-gram that ends there, 32 bits."""
    return (tokens[end - 3] * _FACTORS[0] + tokens[end - 2] * _FACTORS[1] + tokens[end - 1] * _FACTORS[2]) & _WORD


def _table(text: Sequence[int]) -> tuple[memoryview, int]:
    """Hash of an n-gram, shifted, to the place behind where it stands last in the text, if anything is there."""
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
