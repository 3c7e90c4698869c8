"""Results of the self-test, and the file in the data directory that stores them.

Does not know how an outcome is reached.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import msgspec

from localllm.errors import sentence_of
from localllm.llama.library import CpuChoice
from localllm.measuring.result_store import ResultStore

FILE_NAME = "selftest.json"
MAX_OUTCOMES = 16

Result = Literal["ok", "died", "hung", "wrong", "failed"]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What one candidate did in its child process."""

    choice: CpuChoice
    result: Result
    detail: str
    """For people: `signal SIGILL`, `3 of 81 tokens differ`; empty when ok."""
    seconds: float
    prefill_tokens_per_s: float = 0.0
    """One thread, batches of 65 tokens of the bundled model; compare with other trials only."""
    decode_tokens_per_s: float = 0.0
    absent: tuple[str, ...] = ()
    """Why device backends do not load here, one sentence each."""
    lacks: tuple[str, ...] = ()
    """As in `lacking`."""
    build: str = ""
    """The `Build.version` of the library."""

    @property
    def speed(self) -> float:
        """Prefill and decode combined with equal weight: their geometric mean."""
        return math.sqrt(self.prefill_tokens_per_s * self.decode_tokens_per_s)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The choice, and how it was reached."""

    choice: CpuChoice
    tried: tuple[Trial, ...]
    """All trials, in the order in which they were made."""
    from_cache: bool = False
    not_stored: str | None = None
    """Why the next process has to try again: a sentence."""

    @property
    def trial(self) -> Trial:
        """The trial of the chosen candidate."""
        return next(trial for trial in self.tried if trial.choice == self.choice)


class Memory:
    """The file in a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE_NAME
        self._file = ResultStore(self.path, Outcome, most=MAX_OUTCOMES, subject="the self-test's outcome")

    def get(self, wanted: str) -> Outcome | None:
        """The remembered outcome, marked as such."""
        outcome = self._file.get(wanted)
        return None if outcome is None else msgspec.structs.replace(outcome, from_cache=True)

    def put(self, name: str, outcome: Outcome) -> Outcome:
        """Store this outcome beside those of other builds and CPUs; returns it, with `not_stored` if that failed."""
        error = self._file.put(name, outcome)
        return outcome if error is None else msgspec.structs.replace(outcome, not_stored=sentence_of(error))
