"""Interface of all readers of answers. Knows no format."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from localllm.types import CallDelta


class Read(NamedTuple):
    """New parts of an answer, in the order reasoning, text, calls."""

    text: str = ""
    thought: str = ""
    calls: tuple[CallDelta, ...] = ()
    notes: tuple[str, ...] = ()
    """On text that could not be read as a call."""


class Reader(Protocol):
    """One answer: `feed` it as it arrives, `flush` at its end. The sum is the same however it is cut into pieces."""

    @property
    def is_thinking(self) -> bool:
        """Whether what comes next belongs to the reasoning, as far as known."""
        ...

    def feed(self, text: str) -> Read:
        """What is known of the text so far; nothing is held back longer than it may still become a marker."""
        ...

    def flush(self) -> Read:
        """The rest."""
        ...
