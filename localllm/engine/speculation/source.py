"""What makes guesses: one small protocol. Knows nothing of how guesses are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from localllm.types import SourceName


class Guess(NamedTuple):
    """What may come next."""

    tokens: tuple[int, ...]
    chances: tuple[float, ...]
    """Of each, that it is right if those before it are."""
    source: SourceName
    """Whose it is."""

    @property
    def worth(self) -> float:
        """Tokens to expect of it."""
        right, total = 1.0, 0.0
        for chance in self.chances:
            right *= chance
            total += right
        return total


class Source(Protocol):
    """Of one sequence. Catches up with its tokens by itself, and learns from each whether it would have been right."""

    @property
    def name(self) -> SourceName: ...

    def propose(self, tokens: Sequence[int], most: int) -> Guess | None:
        """At most so many tokens that may follow these, of which those of the call before are the first."""
        ...
