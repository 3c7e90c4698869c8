"""Request fields for speculative decoding: OpenAI's `prediction`, and limits of guessing.

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
    """OpenAI's: text that the answer is expected to contain mostly."""

    type: Literal["content"]
    content: str | list[PredictedPart]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class SpeculativeField(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    n_max: int | None = None
    """Maximum number of guessed tokens per step; 0: none."""
    sources: list[SourceName] | None = None
    """The sources that may guess; default: all."""


def speculative_of(field: bool | SpeculativeField | None) -> Speculative:
    """Raises `InvalidParameter`."""
    if field is None or isinstance(field, bool):
        return Speculative.switched(field)
    sources = None if field.sources is None else tuple(field.sources)
    return Speculative(n_max=field.n_max, sources=sources, is_named=True)
