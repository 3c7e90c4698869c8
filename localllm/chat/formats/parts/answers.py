"""A base class for readers of answers that are generators over a tape. Knows no format."""

from __future__ import annotations

from localllm.chat.formats.parts.collected import AnswerParts
from localllm.chat.formats.reading import NewParts
from localllm.chat.formats.tape import Steps, Tape


class SteppedAnswer:
    """Reader for one answer. A subclass implements `_read`, which reads `_tape` and fills `_out`."""

    def __init__(self) -> None:
        self._tape = Tape()
        self._out = AnswerParts()
        self._steps: Steps[None] | None = None
        self._is_read = False

    def _read(self) -> Steps[None]:
        """Read the whole answer."""
        raise NotImplementedError

    def feed(self, text: str) -> NewParts:
        self._tape.feed(text)
        return self._step()

    def flush(self) -> NewParts:
        self._tape.is_ended = True
        return self._step()

    def _step(self) -> NewParts:
        if self._steps is None:
            self._steps = self._read()
        if not self._is_read:
            try:
                next(self._steps)
            except StopIteration:
                self._is_read = True
        return self._out.read()
