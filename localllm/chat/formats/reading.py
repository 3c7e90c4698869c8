"""What every reader of answers gives, and what it is made for. Knows no format."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from localllm.types import CallDelta


class Read(NamedTuple):
    """What is new of an answer, in the order thought, text, calls."""

    text: str = ""
    thought: str = ""
    calls: tuple[CallDelta, ...] = ()
    notes: tuple[str, ...] = ()
    """On what could not be read as a call and is text."""


class Reader(Protocol):
    """One answer: `feed` it as it comes, `flush` it at its end. The sum is the same however it is cut into pieces."""

    @property
    def is_thinking(self) -> bool:
        """Whether what comes next belongs to a thought, as far as is known."""
        ...

    def feed(self, text: str) -> Read:
        """What is known of the text so far; nothing is held back longer than it may still become a marker."""
        ...

    def flush(self) -> Read:
        """The rest of it."""
        ...
