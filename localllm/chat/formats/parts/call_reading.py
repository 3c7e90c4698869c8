"""What all ways of reading a call have in common. Knows no format."""

from __future__ import annotations

from typing import Literal, Protocol

from localllm.chat.formats.arguments.reading import ArgumentsReader
from localllm.chat.formats.parts.collected import Draft
from localllm.chat.formats.tape import Steps, Tape

CallOutcome = Literal["made", "undeclared", "broken"]
"""Of what was read: a call; one whose function nobody declared; none."""

MOST_NAME = 256
"""Characters of a function's name or a call's id."""


class CallReading(Protocol):
    """Reads a call behind its first literals. `is_guess`: nothing marked it, so it may be text just as well."""

    def read(self, tape: Tape, draft: Draft, *, is_guess: bool) -> Steps[CallOutcome]:
        """One call, with the literals behind it."""
        ...


def read_arguments(tape: Tape, draft: Draft, reader: ArgumentsReader) -> Steps[bool]:
    """Reads the arguments of a call. Whether they could be read."""
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
