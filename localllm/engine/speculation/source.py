"""What makes guesses: one small protocol. Knows nothing of how guesses are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from localllm.engine.speculation.trust import Trust
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


class Drafted:
    """A `Source`: what a draft model guessed for one sequence, beside all others, before anybody asked."""

    name: SourceName = "draft"

    def __init__(self, trust: Trust) -> None:
        self.trust = trust
        self._place = 0
        """Tokens of the sequence before those that were drafted."""
        self._tokens: list[int] = []
        self._probabilities: list[float] = []

    def draft(self, place: int, tokens: list[int], probabilities: list[float]) -> None:
        """That is what may come behind the sequence's first `place` tokens; learned from when these have come."""
        self._place, self._tokens, self._probabilities = place, tokens, probabilities

    def learn(self, tokens: Sequence[int]) -> None:
        """What has come since then says how good the draft was."""
        both = zip(self._tokens, self._probabilities, strict=True)
        for place, (token, probability) in enumerate(both, start=self._place):
            if place >= len(tokens):
                return  # none has come, so that the draft is still of use
            is_right = tokens[place] == token
            self.trust.learn(probability, is_right=is_right)
            if not is_right:
                break
        self.forget()

    def forget(self) -> None:
        """The sequence's tokens were moved."""
        self._tokens, self._probabilities = [], []

    def propose(self, tokens: Sequence[int], most: int) -> Guess | None:
        if not self._tokens or self._place != len(tokens):
            return None
        chances = tuple([self.trust.chance(each) for each in self._probabilities[:most]])
        return Guess(tuple(self._tokens[:most]), chances, self.name)
