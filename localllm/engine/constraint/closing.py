"""Finds a short end for a document whose tokens run out, so that it is whole when its limit comes.

    {"title": "The sea", "tags": ["salt" | , "waves"]}      where `, "` would leave too few tokens, `]` comes

A drawn token after which the document could not be closed any more is replaced by the first token of an end. What is
found depends only on the tokens so far and their limit. Of JSON it knows only the signs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from localllm.engine.constraint.distinct import Saved
from localllm.engine.constraint.distinctness import Distinctness

SLACK = 16
"""With so many more tokens than the end and a further part may take, a document is not looked at."""
AMPLE = 32
"""With more room than that, a document goes on even if it is too hard to find out whether it can then be closed."""
EVERY = 8
"""How much of the room beside the end is used up before the next look inside a text: one part of so many."""
MAX_TRIED = 400
"""Tokens tried for one end."""
CHEAP = 100
"""An end that took more is not looked for behind each sign."""
MAX_OPTIONS = 3
"""Tokens tried at one place."""
NUM_FIRST = 4_000
"""Tokens looked at before all others."""
MAX_PIECE = 8
"""Longer tokens bring a text no sooner to its end."""
MAX_RUN, SHORT_RUN = 512, 48
"""Repetitions of one token to fill a text: the most, and those that are tried at once."""


class Closed(Protocol):
    """The part of a matcher that is needed."""

    def is_accepting(self) -> bool: ...

    def is_stopped(self) -> bool: ...

    def deep_copy(self) -> Self: ...

    def consume_token(self, sampled_token: int) -> bool: ...

    def consume_tokens(self, sampled_tokens: list[int]) -> bool: ...

    def validate_tokens(self, tokens: list[int]) -> int: ...

    def rollback(self, num_tokens: int) -> bool: ...

    def compute_ff_tokens(self) -> list[int]: ...

    def unsafe_compute_mask_ptr(self, trg_pointer: int, trg_byte_size: int) -> None: ...


class ClosingTokens:
    """The tokens of a vocabulary, those first that bring a document to its end soonest."""

    def __init__(self, num_tokens: int, bytes_of: Callable[[int], bytes], end_tokens: Sequence[int]) -> None:
        self.bytes_of = bytes_of
        pieces = {token: bytes_of(token) for token in range(num_tokens) if token not in end_tokens}

        def ranked(rank: Callable[[bytes], tuple[int, int]]) -> npt.NDArray[np.int64]:
            return np.array(sorted(pieces, key=lambda token: (rank(pieces[token]), token)), np.int64)

        self.between = ranked(_rank_between)
        self.in_text = ranked(_rank_in_text)
        texts = [token for token, piece in pieces.items() if len(piece) == 1 and piece not in _SIGNS]
        self.texts: npt.NDArray[np.int64] = np.array(texts, np.int64)
        """Signs that occur in texts only."""
        marks = [token for token, piece in pieces.items() if len(piece) == 1 and piece in b"@:/.-_+# T"]
        self.marks: npt.NDArray[np.int64] = np.array(marks, np.int64)
        """What separates the parts of addresses, versions and dates."""
        self.signs = frozenset(token for token, piece in pieces.items() if any(sign in piece for sign in b'"{[]},'))
        """Tokens behind which more may have to come than before."""
        self._by_bytes = {piece: token for token, piece in reversed(pieces.items())}
        self.text_ends, self.other_ends = (
            [self._by_bytes[sign] for sign in signs if sign in self._by_bytes]
            for signs in ((b'"',), (b",", b"}", b"]"))
        )
        """What may come behind a text's last character, and behind another value."""
        self.depths = {token: depth for token, piece in pieces.items() if (depth := _depth(piece))}
        """How many more arrays and objects are open behind a token, if it is not within a text."""

    def spelled(self, text: bytes) -> list[int]:
        """Tokens of a text in few pieces; empty if there are none."""
        found: list[int] = []
        while text:
            size = next((size for size in range(min(len(text), MAX_PIECE), 0, -1) if text[:size] in self._by_bytes), 0)
            if not size:
                return []
            found.append(self._by_bytes[text[:size]])
            text = text[size:]
        return found


def _depth(piece: bytes) -> int:
    return sum(map(piece.count, (b"{", b"["))) - sum(map(piece.count, (b"}", b"]")))


_SIGNS = b'"{}[],:-+.0123456789eEtfn \n\t\r'


def _rank_between(piece: bytes) -> tuple[int, int]:
    """Closing signs first, then the comma that ends a number, empty values and short ones."""
    if not piece.strip(b"]}"):
        return 0, -len(piece)
    if piece in (b",", b", "):
        return 1, len(piece)
    if piece[:2] in (b'""', b"[]", b"{}") and not piece[2:].strip(b"]}"):
        return 2, -len(piece)
    return (3, 0) if piece in (b"0", b"1", b"null", b"true", b"false") else (4, len(piece))


def _rank_in_text(piece: bytes) -> tuple[int, int]:
    """The text's end first, then what fills it soonest."""
    if piece.startswith(b'"') and not piece.strip(b'"]}'):
        return 0, -len(piece)
    return (1, -len(piece)) if len(piece) <= MAX_PIECE and piece.isalnum() else (2, len(piece))


class _Place(NamedTuple):
    """Where a search goes on."""

    matcher: Closed
    """Behind all but the new tokens."""
    saved: Saved | None
    tokens: list[int]
    new: list[int]
    mask: int
    """What identifies the mask before the new tokens."""
    seen: frozenset[int] = frozenset()
    """The masks since the last sign."""


class Closing:
    """Of one document."""

    def __init__(
        self,
        tokens: ClosingTokens,
        mask_bytes: int,
        distinctness: Distinctness | None,
        *,
        part: int,
        words: Sequence[bytes] = (),
        is_asked: bool = True,
    ) -> None:
        """`part`: about the most tokens by which a property or an item brings the end further away; `words`: what a
        text may lack to be whole; `is_asked`: whether the request asked to close the document."""
        self.is_asked = is_asked
        self._tokens = tokens
        self._words = [spelled for word in words if (spelled := tokens.spelled(word))]
        self._mask = np.zeros((mask_bytes + 3) // 4, np.uint32)
        self._mask_bytes = mask_bytes
        self._distinctness = distinctness
        self._part = part
        self._num_to_end = part
        """How long the end was at the last look; before that, as long as that of the shortest document."""
        self._depth = self._deepest = 0
        """How many more arrays and objects are open than at the last look, and the most that were."""
        self._due: float = math.inf
        """Inside texts, it looks again when no more tokens than these are left."""
        self._is_hard = False
        """Whether the end took long to find: it is not looked for behind each sign."""
        self._found: list[int] | None = None
        """The end found at the last look, if no token was drawn since without one."""
        self._before: list[int] | None = None
        """The end in place of the token for which it looked last, if known."""
        self._left = 0
        """How many tokens were left then."""
        self._num_tried = 0
        self._gave_up = False
        """Whether there may be an end, though none was found."""

    def feed(self, token: int) -> None:
        """The document continues with this token."""
        if depth := self._tokens.depths.get(token, 0):
            self._depth += depth
            self._deepest = max(self._deepest, self._depth)

    def is_due(self, token: int, num_left: int) -> bool:
        """Whether to look for an end before this token is taken, which leaves so many."""
        is_due = num_left <= self._num_to_end + self._part * (self._deepest + 1) + SLACK and (
            num_left <= self._due or (token in self._tokens.signs and not self._is_hard)
        )
        if not is_due:
            self._found = None
        return is_due

    def end(self, matcher: Closed, num_left: int, token: int) -> list[int] | None:
        """A short end of at most `num_left` tokens, for a matcher that has just consumed `token`; None: none is
        found."""
        self._before = None if self._found is None else self._found[self._left - num_left - 1 :]
        if self._before is not None and self._before[:1] == [token]:
            return self._keep(self._before[1:], num_left)
        distinctness = self._distinctness
        if distinctness is None:
            return self._keep(self._shortest(matcher, None, num_left), num_left)
        before = distinctness.save()
        is_distinct = distinctness.feed(token)
        end = self._shortest(matcher, distinctness.save(), num_left) if is_distinct else None
        distinctness.restore(before)
        return self._keep(end, num_left)

    def instead(self, matcher: Closed, num_left: int) -> list[int] | None:
        """The tokens with which to close a document now, without the token behind which no end was found; None: it goes
        on."""
        gave_up = self._gave_up
        if self._before is None and not (gave_up and num_left > AMPLE + self._part):
            saved = None if self._distinctness is None else self._distinctness.save()
            self._before = self._shortest(matcher, saved, num_left)
            if self._distinctness is not None and saved is not None:
                self._distinctness.restore(saved)
        end = self._before
        return None if end is None or (gave_up and num_left - len(end) > AMPLE) else end

    def _keep(self, end: list[int] | None, num_left: int) -> list[int] | None:
        """The end, which is found with so many tokens left."""
        if end is None:
            self._due, self._is_hard = num_left // 2, True
        else:
            self._due = num_left - max(1, (num_left - len(end)) // EVERY)
            self._is_hard = self._num_tried >= CHEAP
            self._num_to_end, self._depth, self._deepest = len(end), 0, 0
        self._found, self._left = end, num_left
        return end

    def _shortest(self, matcher: Closed, saved: Saved | None, num_left: int) -> list[int] | None:
        """A short end, if one is found."""
        for leaves_circles in (False, True):
            if self._distinctness is not None and saved is not None:
                self._distinctness.restore(saved)
            end = self._searched(matcher, saved, num_left, leaves_circles=leaves_circles)
            if end is not None or not self._gave_up:
                return end
        return None

    def _searched(
        self, matcher: Closed, saved: Saved | None, num_left: int, *, leaves_circles: bool
    ) -> list[int] | None:
        """The first end that is found by trying the best tokens first; last those behind which the same may come as
        before them, such as a further digit. `leaves_circles`: also those behind which the same may come as further
        before, such as the dots of `a.b.c.d`."""
        start = saved
        waiting, later, idle = [_Place(matcher, saved, [], [], 0)], deque[_Place](), deque[_Place]()
        self._gave_up = False
        for self._num_tried in range(MAX_TRIED):
            if not waiting and later:
                waiting.append(later.popleft())
            if not waiting:
                if not idle:
                    return None
                waiting += self._filled(idle.popleft(), start, num_left)
                continue
            place = waiting.pop()
            matcher, tokens = place.matcher.deep_copy(), place.tokens + place.new
            if place.new and not self._takes(matcher, place.saved, place.new):
                continue
            forced = [] if matcher.is_stopped() else matcher.compute_ff_tokens()
            if forced and not (matcher.consume_tokens(forced) and self._feeds(forced)):
                continue
            tokens = tokens + forced
            if len(tokens) <= num_left and matcher.is_accepting():
                return tokens
            if len(tokens) < num_left and not matcher.is_stopped():
                saved = None if self._distinctness is None else self._distinctness.save()
                options, mask = self._options(matcher), hash(self._mask.tobytes())
                if mask == place.mask and place.new and not forced and place.new[-1] not in self._tokens.signs:
                    if self._distinctness is None and self._may_end(matcher):
                        continue  # it might have ended before
                    room = num_left - len(tokens)
                    run = self._run(matcher, place.new[-1], min(room, SHORT_RUN))
                    if self._words or len(run) < room:
                        idle.append(_Place(matcher, saved, tokens, [], mask, place.seen))
                    if 0 < len(run) < min(room, SHORT_RUN):
                        waiting.append(_Place(matcher, saved, tokens, run, mask, place.seen))
                else:
                    is_new = bool(forced) or not place.new or place.new[-1] in self._tokens.signs
                    seen = frozenset[int]() if is_new else place.seen
                    ways = [_Place(matcher, saved, tokens, [each], mask, seen | {mask}) for each in options]
                    if leaves_circles and mask in seen:
                        later += ways
                    else:
                        waiting += reversed(ways)
        self._gave_up = True
        return None

    def _filled(self, place: _Place, start: Saved | None, num_left: int) -> list[_Place]:
        """Where to go on from a place at which single tokens changed nothing; the best last."""
        matcher, tokens, saved = place.matcher, place.tokens, None
        if self._distinctness is not None and start is not None:
            self._distinctness.restore(start)  # it follows one branch at a time
            self._feeds(tokens)
            saved = self._distinctness.save()
        room = num_left - len(tokens)
        options = self._options(matcher)
        words = self._words if self._is_in_text() else ()
        ways = [word for word in words if len(word) <= room and matcher.validate_tokens(word) == len(word)]
        ways += [run for option in reversed(options) if (run := self._run(matcher, option, min(room, MAX_RUN)))]
        return [_Place(matcher, saved, tokens, way, place.mask, place.seen) for way in ways]

    def _run(self, matcher: Closed, token: int, most: int) -> list[int]:
        """This token, as often as it takes until the value may end."""
        matcher, found = matcher.deep_copy(), list[int]()
        while len(found) < most and matcher.validate_tokens([token]) and matcher.consume_token(token):
            found.append(token)
            if self._may_end(matcher):
                break
        return found

    def _may_end(self, matcher: Closed) -> bool:
        """Whether a text or another value may, as which of them the mask was computed for."""
        ends = self._tokens.text_ends if self._is_in_text() else self._tokens.other_ends
        return any(matcher.validate_tokens([end]) for end in ends)

    def _takes(self, matcher: Closed, saved: Saved | None, tokens: list[int]) -> bool:
        if not matcher.consume_tokens(tokens):
            return False
        if self._distinctness is None or saved is None:
            return True
        self._distinctness.restore(saved)
        return (len(tokens) > 1 or self._distinctness.allows(tokens[0], matcher)) and self._feeds(tokens)

    def _feeds(self, tokens: list[int]) -> bool:
        return self._distinctness is None or all(map(self._distinctness.feed, tokens))

    def _options(self, matcher: Closed) -> list[int]:
        """The best next tokens; computes the mask."""
        matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask_bytes)
        ranked = self._tokens.in_text if self._is_in_text() else self._tokens.between
        for part in (ranked[:NUM_FIRST], ranked[NUM_FIRST:]):
            allowed: list[int] = self._allowed(part)[:MAX_OPTIONS].tolist()
            if allowed:
                return allowed + [mark for mark in self._allowed(self._tokens.marks).tolist() if mark not in allowed]
        return []

    def _is_in_text(self) -> bool:
        """Whether the next token may come inside a text only."""
        return len(self._allowed(self._tokens.texts)) > 0

    def _allowed(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        is_allowed: npt.NDArray[np.bool_] = (self._mask[tokens // 32] >> (tokens % 32).astype(np.uint32)) & 1 == 1
        return tokens[is_allowed]
