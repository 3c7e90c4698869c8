"""What one sequence may continue with: the best guess of its sources.

Texts are indexed when the first token has come, so that waiting requests hold nothing. How many guessed tokens are
computed, if any, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence as Tokens

from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.rows import MAX_STREAM_ROWS
from localllm.engine.speculation.lookup import Lookup
from localllm.engine.speculation.proposals import Proposal
from localllm.engine.speculation.rates import Rates
from localllm.engine.speculation.source import DraftedGuesses, Guess, Source
from localllm.engine.speculation.trust import Trust
from localllm.types import SourceName, Speculative

MIN_GUESS_CHANCE = 0.08
"""Minimum probability of the first guess; less likely ones are not proposed."""


class Experience:
    """What a model's sequences pass on to later ones."""

    def __init__(self, *, drafted_by: SourceName | None = None) -> None:
        """`drafted_by`: the source that guesses in advance for all sequences together."""
        self._rates: dict[SourceName, Rates] = {}
        self.drafted_by = drafted_by
        self._trust = Trust()

    def rates(self, name: SourceName) -> Rates:
        """Success rates of this source that a new sequence starts with."""
        return Rates(self._rates.setdefault(name, Rates()))

    def drafted(self) -> DraftedGuesses | None:
        """Draft source for a new sequence; None if nothing drafts."""
        return None if self.drafted_by is None else DraftedGuesses(Trust(self._trust), self.drafted_by)


class Guesser:
    """Guesses the tokens that follow those of one sequence."""

    def __init__(
        self,
        wanted: Speculative,
        experience: Experience,
        *,
        prediction: Tokens[int] = (),
    ) -> None:
        """`prediction`: text that the answer may resemble."""
        self.most = MAX_STREAM_ROWS - 1 if wanted.n_max is None else min(wanted.n_max, MAX_STREAM_ROWS - 1)
        """Maximum number of guesses in a step."""
        by = experience.drafted_by
        self.drafted = experience.drafted() if by is not None and wanted.takes(by) else None
        """The source of guesses drafted in advance; None: the request wants none."""
        self._texts: dict[SourceName, Tokens[int] | None] = {}
        if prediction and wanted.takes("prediction"):
            self._texts["prediction"] = prediction
        if wanted.takes("lookup"):
            self._texts["lookup"] = None
        self._rates = {name: experience.rates(name) for name in self._texts}
        self._num_shifted = 0
        self._sources: list[Source] | None = None

    def propose(self, sequence: Sequence) -> Proposal | None:
        best = self.looked_up(sequence)
        drafted = None if self.drafted is None else self.drafted.propose(sequence.progress.tokens, self.most)
        if (
            drafted is not None
            and drafted.chances[0] >= MIN_GUESS_CHANCE
            and (best is None or drafted.worth > best.worth)
        ):
            best = drafted
        return None if best is None else Proposal((), *best)

    def looked_up(self, sequence: Sequence) -> Guess | None:
        """The best guess from the texts."""
        if self._sources is None or sequence.progress.num_shifted != self._num_shifted:
            self._num_shifted = sequence.progress.num_shifted
            self._sources = self._made(sequence)
            if self.drafted is not None:
                self.drafted.forget()
        best: Guess | None = None
        for source in self._sources:
            guess = source.propose(sequence.progress.tokens, self.most)
            if guess is None or guess.chances[0] < MIN_GUESS_CHANCE:
                continue
            if best is None or guess.worth > best.worth:
                best = guess
        return best

    def _made(self, sequence: Sequence) -> list[Source]:
        tokens = sequence.progress.tokens
        num_before = len(tokens) if sequence.progress.num_shifted else sequence.progress.num_prompt
        return [Lookup(name, self._rates[name], tokens, text, num_before) for name, text in self._texts.items()]


class Speculator:
    """A `Proposer`: asks each sequence's own guesser."""

    def propose(self, sequence: Sequence) -> Proposal | None:
        return None if sequence.drawing.guesser is None else sequence.drawing.guesser.propose(sequence)
