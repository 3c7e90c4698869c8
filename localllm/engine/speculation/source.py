"""The protocol for sources of guesses. Knows nothing of how guesses are verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from localllm.engine.speculation.trust import Trust
from localllm.types import SourceName


class Guess(NamedTuple):
    """Tokens that may come next."""

    tokens: tuple[int, ...]
    chances: tuple[float, ...]
    """Probability that each token is right, given that those before it are."""
    source: SourceName
    """Name of the source that made the guess."""

    @property
    def worth(self) -> float:
        """Expected number of right tokens."""
        right, total = 1.0, 0.0
        for chance in self.chances:
            right *= chance
            total += right
        return total


class Source(Protocol):
    """Guesses for one sequence. Processes its new tokens at each call and learns whether it would have guessed them."""

    @property
    def name(self) -> SourceName: ...

    def propose(self, tokens: Sequence[int], most: int) -> Guess | None:
        """At most `most` tokens that may follow `tokens`, which begin with those of the previous call."""
        ...


class DraftedGuesses:
    """A `Source`: what a draft model, or the model's heads, guessed in advance for one sequence, together with all
    others."""

    def __init__(self, trust: Trust, name: SourceName) -> None:
        self.trust = trust
        self.name: SourceName = name
        self._place = 0
        """Number of the sequence's tokens before the drafted ones."""
        self._tokens: list[int] = []
        self._probabilities: list[float] = []

    def draft(self, place: int, tokens: list[int], probabilities: list[float]) -> None:
        """Take guesses for the tokens after the sequence's first `place`; `learn` judges them later."""
        self._place, self._tokens, self._probabilities = place, tokens, probabilities

    def learn(self, tokens: Sequence[int]) -> None:
        """Compare the last draft with the tokens generated since, and learn how good it was."""
        both = zip(self._tokens, self._probabilities, strict=True)
        for place, (token, probability) in enumerate(both, start=self._place):
            if place >= len(tokens):
                return  # none has come, so the draft remains usable
            is_right = tokens[place] == token
            self.trust.learn(probability, is_right=is_right)
            if not is_right:
                break
        self.forget()

    def forget(self) -> None:
        """Discard the draft, since a context shift moved the sequence's tokens."""
        self._tokens, self._probabilities = [], []

    def propose(self, tokens: Sequence[int], most: int) -> Guess | None:
        if not self._tokens or self._place != len(tokens):
            return None
        chances = tuple([self.trust.chance(each) for each in self._probabilities[:most]])
        return Guess(tuple(self._tokens[:most]), chances, self.name)
