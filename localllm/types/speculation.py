"""What may be guessed for an answer, so that several of its tokens are computed at once: the answer stays the same.

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
"""The most that a request may allow per step; how many of them are computed depends on their cost."""


class Speculative(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """For one request."""

    n_max: int | None = None
    """The most tokens to guess in a step; 0: none; None: as many as pay."""
    sources: tuple[SourceName, ...] | None = None
    """None: all available ones."""
    is_named: bool = False
    """The request has a field for it, so that it is told where nothing is guessed."""

    def __post_init__(self) -> None:
        check_range("speculative.n_max", self.n_max, 0, MAX_GUESSES)

    @property
    def is_off(self) -> bool:
        return self.n_max == 0 or self.sources == ()

    def takes(self, source: SourceName) -> bool:
        """Whether this source may guess."""
        return not self.is_off and (self.sources is None or source in self.sources)
