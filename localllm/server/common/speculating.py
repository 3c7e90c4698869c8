"""What a request says of guesses: OpenAI's `prediction`, and whether and how far tokens are guessed at all.

Neither changes an answer. Knows nothing of how guesses are made.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.types import SourceName, Speculative


class PredictedPart(msgspec.Struct, frozen=True):
    type: Literal["text"]
    text: str


class Prediction(msgspec.Struct, frozen=True):
    """OpenAI's: most of the answer is expected to be this."""

    type: Literal["content"]
    content: str | list[PredictedPart]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class SpeculativeField(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    n_max: int | None = None
    """The most tokens to guess in a step; 0: none."""
    sources: list[SourceName] | None = None
    """Who may guess; without: everybody."""


def speculative_of(field: bool | SpeculativeField | None) -> Speculative:
    """Raises `InvalidParameter`."""
    if field is None or isinstance(field, bool):
        return Speculative(n_max=0) if field is False else Speculative()
    return Speculative(n_max=field.n_max, sources=None if field.sources is None else tuple(field.sources))
