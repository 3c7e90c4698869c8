"""Forbids tokens with which a document would repeat what must be distinct, beside the grammar of a matcher.

A token that closes a repetition is never taken: the last choice before it is made again without it. A token after which
only repetitions could follow is forbidden, too, as far as that is seen by looking ahead within bounds. Knows nothing of
JSON (`distinct` does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from localllm.engine.constraint.distinct import DistinctTracker, Saved
from localllm.engine.sampling.parameters import Mask

MAX_FEW = 48
"""Up to this many allowed tokens are examined one by one."""
MAX_TRIED = 400
"""Tokens examined for one decision."""
MAX_DEPTH = 12
MAX_TOKEN_BYTES = 24
"""Longer tokens are not examined."""


class Followed(Protocol):
    """The part of a matcher that looking ahead needs."""

    def consume_token(self, sampled_token: int) -> bool: ...

    def rollback(self, num_tokens: int) -> bool: ...

    def unsafe_compute_mask_ptr(self, trg_pointer: int, trg_byte_size: int) -> None: ...


class TokenBytes:
    """The bytes of a vocabulary's tokens, and those tokens with which a value may end."""

    def __init__(self, num_tokens: int, bytes_of: Callable[[int], bytes], end_tokens: Sequence[int]) -> None:
        self.bytes_of = bytes_of
        self.end_tokens = frozenset(end_tokens)
        pieces = [bytes_of(token) for token in range(num_tokens)]
        self.by_bytes = {piece: token for token, piece in enumerate(pieces)}
        closing = b'",]}'
        counts = [sum(map(closing.__contains__, piece)) for piece in pieces]
        self.closing: npt.NDArray[np.int64] = np.flatnonzero(counts)
        self.closing_several: npt.NDArray[np.int64] = np.flatnonzero(np.array(counts) > 1)
        """Tokens in which a whole value or name can stand."""


class Distinctness:
    """Of one document; its tracker is as far as the matcher."""

    def __init__(self, tracker: DistinctTracker, tokens: TokenBytes, mask_bytes: int) -> None:
        self._tracker = tracker
        self._tokens = tokens
        self._mask_bytes = mask_bytes
        self._num_left = 0

    def save(self) -> Saved:
        """For `restore`, after further tokens."""
        return self._tracker.save()

    def restore(self, saved: Saved) -> None:
        self._tracker.restore(saved)

    def feed(self, token: int) -> bool:
        """The document continues with this token; false at a repetition."""
        return self._tracker.feed(self._tokens.bytes_of(token))

    def num_allowed(self, tokens: Sequence[int]) -> int:
        """How many of these may come next, one after the other."""
        saved, count = self._tracker.save(), 0
        while count < len(tokens) and self.feed(tokens[count]):
            count += 1
        self._tracker.restore(saved)
        return count

    def allows(self, token: int, matcher: Followed) -> bool:
        """Whether this token, which the matcher has just consumed, may come."""
        self._num_left = MAX_TRIED
        saved = self._tracker.save()
        is_allowed = self.feed(token) and not self._is_dead(matcher, 0)
        self._tracker.restore(saved)
        return is_allowed

    def forbid(self, mask: Mask, matcher: Followed, ahead: Sequence[int]) -> bool:
        """Remove tokens from the mask of what follows these tokens, which the matcher has consumed. Returns whether any
        token remains."""
        saved = self._tracker.save()
        self._num_left = MAX_TRIED
        for token in ahead:
            if not self.feed(token):
                break
        else:
            self._forbid(mask, matcher)
        self._tracker.restore(saved)
        return bool(mask.any())

    def _forbid(self, mask: Mask, matcher: Followed) -> None:
        few = self._few(mask)
        if few is not None and self._tracker.is_at_risk:
            for token in few:
                if token not in self._tokens.end_tokens and not self._leads_on(token, matcher, 0):
                    mask[token // 32] &= ~np.uint32(1 << token % 32)
            return
        tracker, tokens = self._tracker, self._tokens
        closing = tokens.closing if tracker.has_items or tracker.repetitions() else tokens.closing_several
        allowed = closing[(mask[closing // 32] >> (closing % 32).astype(np.uint32)) & 1 == 1]
        for token in allowed.tolist():
            if not self._tracker.allows(self._tokens.bytes_of(token)):
                mask[token // 32] &= ~np.uint32(1 << token % 32)
        for token in self._towards_repetitions():
            if mask[token // 32] >> token % 32 & 1 and not self._leads_on(token, matcher, 0):
                mask[token // 32] &= ~np.uint32(1 << token % 32)

    def _towards_repetitions(self) -> list[int]:
        """Tokens with which an earlier item or name goes on."""
        found: dict[int, None] = {}
        for rest in self._tracker.repetitions():
            for length in range(1, min(len(rest), MAX_TOKEN_BYTES) + 1):
                token = self._tokens.by_bytes.get(rest[:length])
                if token is not None:
                    found[token] = None
        return [*found]

    def _leads_on(self, token: int, matcher: Followed, depth: int) -> bool:
        """Whether this token may come, and something after it."""
        saved = self._tracker.save()
        leads_on = self.feed(token)
        if leads_on and self._tracker.is_at_risk and matcher.consume_token(token):
            leads_on = not self._is_dead(matcher, depth + 1)
            matcher.rollback(1)
        self._tracker.restore(saved)
        return leads_on

    def _is_dead(self, matcher: Followed, depth: int) -> bool:
        """Whether only repetitions can follow; false, too, if that takes too much to find out."""
        if not self._tracker.is_at_risk or depth > MAX_DEPTH or self._num_left <= 0:
            return False
        mask = np.zeros((self._mask_bytes + 3) // 4, np.uint32)
        matcher.unsafe_compute_mask_ptr(mask.ctypes.data, self._mask_bytes)
        few = self._few(mask)
        if few is None:
            return False
        self._num_left -= len(few)
        return bool(few) and not any(
            token in self._tokens.end_tokens or self._leads_on(token, matcher, depth) for token in few
        )

    def _few(self, mask: Mask) -> list[int] | None:
        """The tokens of a mask; None if there are many."""
        if int(np.bitwise_count(mask).sum() if hasattr(np, "bitwise_count") else MAX_FEW + 1) > MAX_FEW:
            return None
        return [int(word) * 32 + bit for word in np.flatnonzero(mask) for bit in range(32) if mask[word] >> bit & 1]
