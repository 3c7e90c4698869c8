"""What may be guessed for an answer, so that several of its tokens are computed at a time: the answer stays the same.

Plain frozen data, a part of `types`. Knows nothing of how guesses are made or checked.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.types.ranges import check_range

SourceName = Literal["lookup", "prediction", "draft"]
"""Who guesses: what the prompt and the answer say already; the text that a request predicts; a draft model."""
MAX_GUESSES = 64
"""That a request may allow for a step; how many of them are computed is decided by what that costs."""


class Speculative(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Of one request."""

    n_max: int | None = None
    """The most tokens to guess in a step; 0: none; None: as many as pay."""
    sources: tuple[SourceName, ...] | None = None
    """None: all there are."""

    def __post_init__(self) -> None:
        check_range("speculative.n_max", self.n_max, 0, MAX_GUESSES)

    @property
    def is_off(self) -> bool:
        return self.n_max == 0 or self.sources == ()

    def takes(self, source: SourceName) -> bool:
        """Whether that one may guess."""
        return not self.is_off and (self.sources is None or source in self.sources)
