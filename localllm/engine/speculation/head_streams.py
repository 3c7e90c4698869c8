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
    """NextN layers of the target model, or a draft that guesses from the target's hidden states."""

    @property
    def guesses_at_once(self) -> int:
        """Maximum number of tokens that a decode guesses; 0: a segment's outputs are as in `BatchDecoder`.

        Otherwise they are guesses of the tokens after its last one, as many for all segments that have any, and nothing
        of that token is kept.
        """
        ...

    @property
    def sees_last_only(self) -> bool:
        """Whether the draft has no KV cache of its own but reads the target model's.

        A stream then begins with the text's last token and never lags.
        """
        ...

    def earliest(self, slot: int) -> int:
        """Index of the first token of the text that the slot's stream may begin with."""
        ...

    def begins(self, slot: int, first: int) -> None:
        """Record that the slot's stream, now empty, begins at this index of the text."""
        ...


class HeadStreams(DraftStreams):
    """One stream per slot of the model."""

    def __init__(self, heads: Heads) -> None:
        super().__init__(heads)
        self._heads = heads
        for stream in self._streams:
            heads.begins(stream.slot, 0)
        self.guesses_at_once, self.can_look_back = heads.guesses_at_once, not heads.sees_last_only

    def earliest(self, sequence: Sequence) -> int:
        assert sequence.slot is not None
        return max(self._heads.earliest(sequence.slot), sequence.progress.spans.end)

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
        """The stream of the sequence's slot; emptied if it holds nothing that the sequence may use."""
        assert sequence.slot is not None
        stream = self._streams[sequence.slot]
        self._of = {id: other for id, other in self._of.items() if other is not stream}
        may_share = stream.domain == sequence.request.domain and sequence.request.reuse.cache_prompt
        stream.given_to(sequence)
        stream.num_agreed = 0
        if not may_share or stream.first >= sequence.progress.num_tokens - 1:
            self.begin_at(stream, 0)
        return stream
