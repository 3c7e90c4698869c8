"""Speculative decoding: which sources may guess tokens of an answer. Guesses never change the answer.

Plain frozen data, a part of `types`. Knows nothing of how guesses are made or verified.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.types.ranges import check_range

SourceName = Literal["lookup", "prediction", "draft", "mtp"]
"""Sources of guesses: the prompt and the answer so far; the text predicted by the request; a draft model;
the model's own NextN layers (multi-token prediction)."""
MAX_GUESSES = 64
"""Maximum per step that a request may allow; how many are computed depends on their cost."""


class Speculative(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Settings of one request."""

    n_max: int | None = None
    """Maximum number of guesses per step; 0: none; None: as many as pay off."""
    sources: tuple[SourceName, ...] | None = None
    """None: all available ones."""
    is_named: bool = False
    """Whether the request set it, so that the answer reports if nothing can be guessed."""

    def __post_init__(self) -> None:
        check_range("speculative.n_max", self.n_max, 0, MAX_GUESSES)

    @classmethod
    def switched(cls, on: bool | None) -> Speculative:
        """On or off as a request said; None: it said nothing."""
        return cls(n_max=0) if on is False else cls(is_named=on is True)

    @property
    def is_off(self) -> bool:
        return self.n_max == 0 or self.sources == ()

    def takes(self, source: SourceName) -> bool:
        """Whether this source may guess."""
        return not self.is_off and (self.sources is None or source in self.sources)
