"""Collects the parts of an answer until they are taken, and numbers its calls. Knows no format."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable

from localllm.chat.formats.arguments.json_scan import is_object
from localllm.chat.formats.arguments.reading import LOST
from localllm.chat.formats.reading import NewParts
from localllm.types.conversation import CallDelta, Function

USABLE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
MOST_NOTES = 20
MOST_SHOWN = 100
"""Maximum number of characters of a name in a note."""


class AnswerParts:
    """The unread parts of one answer."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.thought: list[str] = []
        self._notes: list[str] = []
        self._noted: set[str] = set()
        self._calls: list[CallDelta] = []
        self._ids: set[str] = set()
        self.num_calls = 0

    def note(self, text: str) -> None:
        """Add a note on the answer; duplicates are ignored."""
        if text not in self._noted and len(self._noted) < MOST_NOTES:
            self._noted.add(text)
            self._notes.append(text)

    def begin(self, name: str, call_id: str) -> int:
        """Add a call; returns its index."""
        if not USABLE_ID.fullmatch(call_id) or call_id in self._ids:
            call_id = f"call_{secrets.token_hex(12)}"
        self._ids.add(call_id)
        self._calls.append(CallDelta(self.num_calls, name=name, id=call_id))
        self.num_calls += 1
        return self.num_calls - 1

    def arguments(self, index: int, json: str) -> None:
        """Add a piece of the arguments of a call."""
        last = self._calls[-1] if self._calls else None
        if last is not None and last.index == index:
            self._calls[-1] = CallDelta(index, last.arguments + json, last.name, last.id)
        else:
            self._calls.append(CallDelta(index, json))

    def read(self) -> NewParts:
        """Take everything added since the last `read`."""
        found = NewParts("".join(self.text), "".join(self.thought), tuple(self._calls), tuple(self._notes))
        for each in (self.text, self.thought, self._calls, self._notes):
            each.clear()
        return found


class Draft:
    """A call that is being read. It becomes a call when the first piece of its arguments arrives."""

    def __init__(self, functions: Iterable[Function], out: AnswerParts) -> None:
        self._declared = {each.name: each for each in functions}
        self._out = out
        self._json: list[str] = []
        self._index: int | None = None
        self.members: list[str] = []
        """What was read that is neither its name nor its arguments, nor an id that can be used."""
        self.name = ""
        self.id = ""
        self.function: Function | None = None
        self.is_cut = False

    @property
    def declared(self) -> Iterable[str]:
        """Names of declared functions."""
        return self._declared.keys()

    @property
    def is_made(self) -> bool:
        """Whether it has become a call."""
        return self._index is not None

    def named(self, name: str) -> None:
        """Set the function's name, as the model wrote it."""
        name = name.strip()
        self.name = name if name in self._declared else name.strip("\"'").removeprefix("functions.")
        self.function = self._declared.get(self.name)

    def identified(self, id: str) -> None:
        """Set the call's id, as the model wrote it."""
        self.id = id
        if not USABLE_ID.fullmatch(id):
            self.members.append(id)

    def put(self, json: str) -> bool:
        """Add a piece of its arguments; returns whether that made it a call."""
        if not json or self.function is None:
            return False
        is_first = self._index is None
        if self._index is None:
            self._index = self._out.begin(self.name, self.id)
        self._out.arguments(self._index, json)
        self._json.append(json)
        return is_first

    def close(self) -> None:
        """Finish, and note arguments that are incomplete or invalid."""
        if self._index is None:
            return
        if self.is_cut:
            self._out.note(f"the answer ended within the arguments of call {self._index}")
        elif not is_object("".join(self._json)):
            self._out.note(LOST.format(index=self._index))

    def note_undeclared(self) -> None:
        """Note that its function is not declared."""
        name = self.name if len(self.name) <= MOST_SHOWN else self.name[:MOST_SHOWN] + "..."
        self._out.note(f"a call of undeclared function {name!r} is in the text")
