"""The interface of readers of answers. Knows no format."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from localllm.types import CallDelta


class NewParts(NamedTuple):
    """New parts of an answer, in the order reasoning, text, calls."""

    text: str = ""
    thought: str = ""
    calls: tuple[CallDelta, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes on text that could not be read as a call."""


class Reader(Protocol):
    """Reads one answer: `feed` it as it arrives, `flush` at its end. The sum does not depend on where it is cut."""

    @property
    def is_thinking(self) -> bool:
        """Whether the text that follows belongs to the reasoning, as far as known."""
        ...

    def feed(self, text: str) -> NewParts:
        """Read more text. Text is held back only while it may become a marker."""
        ...

    def flush(self) -> NewParts:
        """Read the rest at the end of the answer."""
        ...
