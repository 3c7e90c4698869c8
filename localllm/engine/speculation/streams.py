"""What a draft model's KV cache holds of each sequence; it follows a sequence by going back to the common prefix.

    tokens of the sequence   [0 ......... first ................... num_tokens)
    in the draft's stream               [first .... held)             what it drafted after that is cut
    still to compute                              [held .......... num_tokens)

A sequence keeps its stream while it runs; afterwards the next turn of its conversation finds it by its tokens. A draft
with a smaller context than the target's holds the last tokens only. Knows nothing of guesses.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.requests.sequence import Sequence
from localllm.engine.speculation.draft_backend import DraftBackend
from localllm.kvdisk.prefix import common_prefix


class DraftStream:
    """One stream."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.first = 0
        """Index of the first of the sequence's tokens that it holds."""
        self.tokens: list[int] = []
        """Tokens held, from that one on."""
        self.owner: int | None = None
        """Id of the sequence that has it, or had it last."""
        self.domain: Domain = COMMON
        self.num_agreed = 0
        """How many of those held are known to be the sequence's."""
        self.num_shifted = 0
        self.last_used = self.last_probed = 0

    def num_missing(self, sequence: Sequence) -> int:
        """Tokens to compute before the next one is guessed."""
        return sequence.num_tokens - self.first - len(self.tokens)


class DraftStreams:
    """As many as the target has slots, so that one is always available."""

    guesses_at_once = 0
    """The most tokens that a decode guesses for each stream, if it guesses blocks; 0: it guesses token by token."""
    can_look_back = True
    """Whether guesses can be made of tokens that have come."""

    def __init__(self, backend: DraftBackend) -> None:
        self._backend = backend
        self._streams = [DraftStream(slot) for slot in range(backend.num_slots)]
        self._of: dict[int, DraftStream] = {}
        self.num_uses = 0

    def release(self, running: Collection[int]) -> None:
        """Streams of sequences not in `running` may be reassigned; until then they keep what they hold."""
        for id in [id for id in self._of if id not in running]:
            del self._of[id]

    def earliest(self, sequence: Sequence) -> int:  # noqa: ARG002  heads need it
        """The first of its tokens that a stream may begin with."""
        return 0

    def follow(self, sequence: Sequence, room: int) -> DraftStream:
        """The sequence's stream, cut to the tokens they share, at least before its last one, with room for
        `room` more."""
        stream = self._of.get(sequence.id)
        if stream is None:
            stream = self._of[sequence.id] = self._taken(sequence)
        elif stream.num_shifted != sequence.num_shifted:
            self._shift(stream, sequence)
        held, tokens, first = stream.tokens, sequence.tokens, stream.first
        most = max(0, min(len(held), len(tokens) - 1 - first))
        count = min(stream.num_agreed, most)
        while count < most and held[count] == tokens[first + count]:
            count += 1
        self._cut(stream, count)
        spare = self._backend.slot_capacity - room
        if len(tokens) - first > spare:  # half of it, so that the same is not due again with the next token
            self.begin_at(stream, len(tokens) - min(len(tokens), max(1, spare // 2)))
        self.num_uses += 1
        stream.last_used = self.num_uses
        return stream

    def begin_at(self, stream: DraftStream, first: int) -> None:
        """Empty it; from then on it holds the sequence's tokens from `first`."""
        self._cut(stream, 0)
        stream.first = first

    def computed(self, stream: DraftStream, tokens: list[int], *, is_drafted: bool = False) -> None:
        """These tokens are now in its cache. If `is_drafted`, the sequence may continue with others."""
        stream.tokens += tokens
        if not is_drafted:
            stream.num_agreed = len(stream.tokens)

    def _taken(self, sequence: Sequence) -> DraftStream:
        """The free stream that holds most of its prefix; among equals the least recently used."""
        free = [stream for stream in self._streams if self._of.get(stream.owner or 0) is not stream]
        ids = np.asarray(sequence.tokens, np.int32)

        def agreeing(stream: DraftStream) -> int:
            if stream.first or stream.domain != sequence.domain or not sequence.cache_prompt:
                return 0
            return common_prefix(np.asarray(stream.tokens, np.int32), ids)

        found = [(agreeing(stream), -stream.last_used, stream.slot) for stream in free]
        count, _, slot = max(found)
        stream = self._streams[slot]
        stream.owner, stream.domain, stream.num_shifted = sequence.id, sequence.domain, sequence.num_shifted
        stream.first = 0
        self._cut(stream, count)
        return stream

    def _shift(self, stream: DraftStream, sequence: Sequence) -> None:
        """Tokens were removed from the sequence's middle: remove the same ones here, if all of them are here."""
        drop, keep = sequence.num_shifted - stream.num_shifted, sequence.keep
        stream.num_shifted = sequence.num_shifted
        if self._backend.can_shift and not stream.first and stream.num_agreed >= keep + drop:
            self._backend.shift(stream.slot, keep, drop)
            del stream.tokens[keep : keep + drop]
            stream.num_agreed -= drop
        else:
            self.begin_at(stream, 0)

    def _cut(self, stream: DraftStream, count: int) -> None:
        if count < len(stream.tokens):
            self._backend.truncate(stream.slot, count)
            del stream.tokens[count:]
        stream.num_agreed = count
