"""A base class for readers of arguments that are generators over a tape. Knows no format."""

from __future__ import annotations

from typing import Literal

from localllm.chat.formats.arguments.reading import Piece
from localllm.chat.formats.tape import Steps, Tape

Outcome = Literal["whole", "cut", "broken"]


class SteppedReader:
    """Reader for one call. A subclass implements `read`, which reads `tape` and appends JSON to `out`."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.out: list[str] = []
        self._steps: Steps[Outcome] | None = None

    def read(self) -> Steps[Outcome]:
        """Read all arguments."""
        raise NotImplementedError

    def feed(self, text: str) -> Piece:
        self.tape.feed(text)
        return self._step()

    def flush(self) -> Piece:
        self.tape.is_ended = True
        return self._step()

    def _step(self) -> Piece:
        if self._steps is None:
            self._steps = self.read()
        outcome: Outcome | None = None
        try:
            next(self._steps)
        except StopIteration as stop:
            outcome = stop.value
        found = "".join(self.out)
        self.out.clear()
        if outcome is None or outcome == "cut":
            return Piece(found)
        return Piece(found, self.tape.take(self.tape.size), outcome == "broken")
