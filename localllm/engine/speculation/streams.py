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
    """One KV stream of the draft, and which tokens of which sequence it holds."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.first = 0
        """Index of the first of the sequence's tokens that it holds."""
        self.tokens: list[int] = []
        """The tokens held, from `first` on."""
        self.owner: int | None = None
        """Id of the sequence that uses the stream, or used it last."""
        self.domain: Domain = COMMON
        self.num_agreed = 0
        """Number of held tokens known to equal the sequence's."""
        self.num_shifted = 0
        self.last_used = self.last_probed = 0

    def given_to(self, sequence: Sequence) -> None:
        """Record that this sequence uses the stream from now on."""
        self.owner, self.domain = sequence.id, sequence.request.domain
        self.num_shifted = sequence.progress.num_shifted

    def num_missing(self, sequence: Sequence) -> int:
        """Number of tokens to compute before the next one can be guessed."""
        return sequence.progress.num_tokens - self.first - len(self.tokens)


class DraftStreams:
    """One stream per slot of the target, so that a free one always exists."""

    guesses_at_once = 0
    """Maximum number of guesses per stream in a decode of a block draft; 0: drafts token by token."""
    can_look_back = True
    """Whether the draft can guess tokens that are already known, as a check."""

    def __init__(self, backend: DraftBackend) -> None:
        self._backend = backend
        self._streams = [DraftStream(slot) for slot in range(backend.num_slots)]
        self._of: dict[int, DraftStream] = {}
        self.num_uses = 0

    def release(self, running: Collection[int]) -> None:
        """Streams of sequences not in `running` may be reassigned; until then they keep what they hold."""
        for id in [id for id in self._of if id not in running]:
            del self._of[id]

    def earliest(self, sequence: Sequence) -> int:
        """Index of the first token of the sequence that a stream may begin with: a draft sees no media rows, and so
        nothing before the last of them (benchmarks/log/kv.md#media-rows-among-tokens)."""
        return sequence.progress.spans.end

    def follow(self, sequence: Sequence, room: int) -> DraftStream:
        """The sequence's stream, cut to the tokens they share, at least before its last one, with room for
        `room` more."""
        stream = self._of.get(sequence.id)
        if stream is None:
            stream = self._of[sequence.id] = self._taken(sequence)
        elif stream.num_shifted != sequence.progress.num_shifted:
            self._shift(stream, sequence)
        if stream.first < sequence.progress.spans.end:
            self.begin_at(stream, self.earliest(sequence))
        held, tokens, first = stream.tokens, sequence.progress.tokens, stream.first
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
        """Empty the stream; from then on it holds the sequence's tokens from index `first`."""
        self._cut(stream, 0)
        stream.first = first

    def computed(self, stream: DraftStream, tokens: list[int], *, is_drafted: bool = False) -> None:
        """Record that these tokens are in the stream's cache. `is_drafted`: the sequence may continue differently."""
        stream.tokens += tokens
        if not is_drafted:
            stream.num_agreed = len(stream.tokens)

    def _taken(self, sequence: Sequence) -> DraftStream:
        """The free stream that holds most of its prefix; among equals the least recently used."""
        free = [stream for stream in self._streams if self._of.get(stream.owner or 0) is not stream]
        ids = np.asarray(sequence.progress.tokens, np.int32)

        def agreeing(stream: DraftStream) -> int:
            if stream.first or stream.domain != sequence.request.domain or not sequence.request.reuse.cache_prompt:
                return 0
            return common_prefix(np.asarray(stream.tokens, np.int32), ids)

        found = [(agreeing(stream), -stream.last_used, stream.slot) for stream in free]
        count, _, slot = max(found)
        stream = self._streams[slot]
        stream.given_to(sequence)
        stream.first = 0
        self._cut(stream, count)
        return stream

    def _shift(self, stream: DraftStream, sequence: Sequence) -> None:
        """Tokens were removed from the sequence's middle: remove the same ones here, if all of them are here."""
        drop, keep = sequence.progress.num_shifted - stream.num_shifted, sequence.progress.keep
        stream.num_shifted = sequence.progress.num_shifted
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
