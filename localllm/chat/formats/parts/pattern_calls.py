"""Reads a call that consists of literals with slots between them."""

from __future__ import annotations

import re

from localllm.chat.formats.arguments.kinds import argument_openings, arguments_reader
from localllm.chat.formats.parts.call_reading import MOST_NAME, CallOutcome, read_arguments
from localllm.chat.formats.parts.collected import Draft
from localllm.chat.formats.tape import Markers, Steps, Tape, parts_of
from localllm.types.formats import Arguments, PatternCall

_NUMBER = re.compile(r"^[0-9]*$|index=\"[0-9]+$")
"""The number of a call, or Kimi K3's attributes in another order."""


class PatternReading:
    """Reads calls of one format."""

    def __init__(self, call: PatternCall, arguments: Arguments) -> None:
        self._slots = call.slots
        self._prefix = re.split(r"[>\]\s]", call.before)[-1]
        """The part of the text before the first slot that may belong to an id."""
        self._kind = arguments
        self._behind = [parts_of(slot.behind) for slot in call.slots]
        self._last = next((at for at, slot in enumerate(call.slots) if slot.kind == "arguments"), len(call.slots))
        """Index of the slot for the arguments."""
        ends = self._behind[self._last][:1] if self._last < len(call.slots) else ()
        lines = [slot.behind for slot in call.slots[: self._last] if slot.behind == "\n"]
        self._starts = {*argument_openings(arguments), *ends, *lines}
        """Literals that end a slot before the arguments even if its own literal is missing."""

    def read(self, tape: Tape, draft: Draft, *, is_guess: bool) -> Steps[CallOutcome]:
        """Read one call, including the literals after it."""
        at = 0
        while at < self._last:
            found = yield from (self._guessed(tape, draft, at) if is_guess else self._slot(tape, draft, at))
            if found is None:
                return "broken"
            at = found
        if not draft.name:
            return "broken"
        slot = self._slots[self._last]
        reader = arguments_reader(self._kind, draft.function, slot.behind)
        is_read = yield from read_arguments(tape, draft, reader)
        if not draft.is_made and (not is_read or draft.is_cut):
            return "broken"
        if is_read and not draft.is_cut:
            yield from tape.parts(self._behind[self._last])
        return "made" if draft.is_made else "undeclared"

    def _guessed(self, tape: Tape, draft: Draft, at: int) -> Steps[int | None]:
        """Read a name where text may occur as well: it must be that of a declared function, followed by its literal."""
        name = yield from tape.literal(draft.declared)
        draft.named(name)
        is_name = bool(name) and self._slots[at].kind == "name"
        return at + 1 if is_name and (yield from tape.parts(self._behind[at], needs_last=True)) else None

    def _slot(self, tape: Tape, draft: Draft, at: int) -> Steps[int | None]:
        """Read a slot and the literal after it; returns the index of the next slot, or None if it is not a call."""
        ends = {self._behind[each][0]: each for each in range(self._last - 1, at - 1, -1) if self._behind[each]}
        yield from tape.space()
        text, literal = yield from tape.until(Markers([*ends, *self._starts]), MOST_NAME)
        if not literal or not text.strip():
            return None
        if self._slots[at].kind == "name":
            draft.named(text)
        elif self._slots[at].kind == "id":
            draft.identified(text.strip())
        elif self._slots[at].kind == "number" and at and self._slots[at - 1].kind == "name" and not draft.id:
            draft.id = (
                f"{self._prefix}{draft.name}{self._slots[at - 1].behind}{text.strip()}"  # the form of Kimi K2's ids
            )
        if self._slots[at].kind == "number" and not _NUMBER.search(text.strip()):
            draft.members.append(text.strip())
        if literal not in ends:
            return self._last
        tape.take(len(literal))
        yield from tape.parts(self._behind[ends[literal]][1:])
        return ends[literal] + 1
