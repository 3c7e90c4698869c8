"""Request fields for speculative decoding: OpenAI's `prediction`, and limits of guessing, also llama-server's.

None changes an answer. Knows nothing of how guesses are made.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.types import SourceName, Speculative
from localllm.types.speculation import MAX_GUESSES

LIMIT = "speculative.n_max"
"""llama-server's name for the maximum number of guessed tokens per step."""
NO_EFFECT = {
    "speculative.n_min": "guesses are computed where that saves time, however few they are",
    "speculative.p_min": "what a guess costs and saves decides how likely it must be",
}
"""llama-server's other fields: why they have no effect."""


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


def speculative_of(field: bool | SpeculativeField | None, limit: int | None) -> Speculative:
    """`limit`: llama-server's, clamped as it does, for a field without one. Raises `InvalidParameter`."""
    if field is None or isinstance(field, bool):
        asked = Speculative.switched(field)
    else:
        sources = None if field.sources is None else tuple(field.sources)
        asked = Speculative(n_max=field.n_max, sources=sources, is_named=True)
    if limit is None or asked.n_max is not None:
        return asked
    return msgspec.structs.replace(asked, n_max=min(max(0, limit), MAX_GUESSES))
