"""The interface of readers of single calls, and their common part. Knows no format."""

from __future__ import annotations

from typing import Literal, Protocol

from localllm.chat.formats.arguments.reading import ArgumentsReader
from localllm.chat.formats.parts.collected import Draft
from localllm.chat.formats.tape import Steps, Tape

CallOutcome = Literal["made", "undeclared", "broken"]
"""Result of reading: a call; a call of an undeclared function; no call."""

MOST_NAME = 256
"""Maximum length of a function's name or a call's id, in characters."""


class CallReading(Protocol):
    """Reads a call after its first literals. `is_guess`: no literal marked it, so it may be text."""

    def read(self, tape: Tape, draft: Draft, *, is_guess: bool) -> Steps[CallOutcome]:
        """Read one call, including the literals after it."""
        ...


def read_arguments(tape: Tape, draft: Draft, reader: ArgumentsReader) -> Steps[bool]:
    """Read the arguments of a call; returns whether they could be read."""
    while True:
        char = yield from tape.char()
        piece = reader.feed(tape.chunk()) if char else reader.flush()
        if draft.put(piece.json):
            tape.recorded()
        if piece.rest is not None:
            tape.back(piece.rest)
            return not piece.is_broken
        if not char:
            draft.is_cut = True
            return draft.is_made
