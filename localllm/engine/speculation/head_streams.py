"""Streams of a model's own NextN layers, or of a draft that guesses from its hidden states: as those of a draft model,
but each slot of the model has one of its own.

Heads need vectors that the model computed. So a stream begins where these begin, and what heads guessed is computed
again from the model's vectors once it has come. Knows nothing of guesses.
"""

from __future__ import annotations

from typing import Protocol

from localllm.engine.requests.sequence import Sequence
from localllm.engine.speculation.draft_backend import DraftBackend
from localllm.engine.speculation.streams import DraftStream, DraftStreams


class Heads(DraftBackend, Protocol):
    """NextN layers of the model that they guess for, or a draft that guesses from its hidden states."""

    @property
    def guesses_at_once(self) -> int:
        """The most tokens that a decode guesses; 0: a segment's outputs are as in `Backend`. Otherwise they are guesses
        of the tokens after its last one, as many for all segments that have any, and nothing of that token is kept."""
        ...

    @property
    def sees_last_only(self) -> bool:
        """Whether a stream can begin with the text's last token only: then none is ever behind."""
        ...

    def earliest(self, slot: int) -> int:
        """The first token of the text that the slot's stream may begin with."""
        ...

    def begins(self, slot: int, first: int) -> None:
        """The slot's stream, which is empty, begins with this token of the text."""
        ...


class HeadStreams(DraftStreams):
    """As many as the model has slots."""

    def __init__(self, heads: Heads) -> None:
        super().__init__(heads)
        self._heads = heads
        for stream in self._streams:
            heads.begins(stream.slot, 0)
        self.guesses_at_once, self.can_look_back = heads.guesses_at_once, not heads.sees_last_only

    def earliest(self, sequence: Sequence) -> int:
        assert sequence.slot is not None
        return self._heads.earliest(sequence.slot)

    def follow(self, sequence: Sequence, room: int) -> DraftStream:
        known = self._of.get(sequence.id)
        if known is not None and known.slot != sequence.slot:
            del self._of[sequence.id]
        elif known is not None:
            self._cut(known, known.num_agreed)
        stream, earliest = super().follow(sequence, room), self.earliest(sequence)
        if stream.first + len(stream.tokens) < earliest:
            self.begin_at(stream, earliest)
        return stream

    def begin_at(self, stream: DraftStream, first: int) -> None:
        super().begin_at(stream, first)
        self._heads.begins(stream.slot, first)

    def _taken(self, sequence: Sequence) -> DraftStream:
        """Its slot's."""
        assert sequence.slot is not None
        stream = self._streams[sequence.slot]
        self._of = {id: other for id, other in self._of.items() if other is not stream}
        may_share = stream.domain == sequence.domain and sequence.cache_prompt
        stream.owner, stream.domain, stream.num_shifted = sequence.id, sequence.domain, sequence.num_shifted
        stream.num_agreed = 0
        if not may_share or stream.first >= sequence.num_tokens - 1:
            self.begin_at(stream, 0)
        return stream
