"""Remembers outcomes of the self-test in one small JSON file, keyed by everything that could change them.

A memory that cannot be read or written costs a second self-test and a warning, nothing else. Two processes may write
at once: each replaces the whole file, so the file is always one of theirs. Does not know how an outcome comes about.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from localllm.llama.library import CpuChoice

FILE_NAME = "selftest.json"
MAX_OUTCOMES = 16
log = logging.getLogger(__name__)

Result = Literal["ok", "died", "hung", "wrong", "failed"]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What one candidate did in its child process."""

    choice: CpuChoice
    result: Result
    detail: str
    """For people: `signal SIGILL`, `3 of 81 tokens differ`; empty when ok."""
    seconds: float
    prefill_tokens_per_s: float = 0.0
    """One thread, batches of 65 tokens of the carried model; compare with other trials only."""
    decode_tokens_per_s: float = 0.0

    @property
    def speed(self) -> float:
        """Prefill and decode in one number, neither outweighing the other: their geometric mean."""
        return math.sqrt(self.prefill_tokens_per_s * self.decode_tokens_per_s)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The choice, and how it was reached."""

    choice: CpuChoice
    tried: tuple[Trial, ...]
    """In the order of trying."""
    from_cache: bool = False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    outcomes: dict[str, Outcome] = {}
    """Oldest first."""


def key(*parts: str) -> str:
    """One name for a library build, a CPU, a self-test file and our own version."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


class Memory:
    """The file in a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE_NAME

    def get(self, wanted: str) -> Outcome | None:
        """The remembered outcome, marked as such."""
        outcome = self._read().outcomes.get(wanted)
        return None if outcome is None else msgspec.structs.replace(outcome, from_cache=True)

    def put(self, name: str, outcome: Outcome) -> None:
        """Remember this outcome, besides the last few of other builds and CPUs."""
        content = self._read()
        content.outcomes.pop(name, None)
        content.outcomes[name] = outcome
        for oldest in list(content.outcomes)[:-MAX_OUTCOMES]:
            del content.outcomes[oldest]
        try:
            self._replace(msgspec.json.encode(content))
        except OSError as error:
            log.warning("the self-test's outcome is not remembered path=%s reason=%s", self.path, error)

    def _read(self) -> _File:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_File)
        except FileNotFoundError:
            return _File()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("the self-test's memory is unreadable and made anew path=%s reason=%s", self.path, error)
            return _File()

    def _replace(self, content: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=FILE_NAME, dir=self.path.parent)
        try:
            with open(handle, "wb") as file:
                file.write(content)
            os.replace(name, self.path)
        except OSError:
            os.unlink(name)
            raise
