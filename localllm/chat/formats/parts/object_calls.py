"""Reads a call that is a JSON object, with keys in any order. Unknown members stay text."""

from __future__ import annotations

import json
from typing import Any

from localllm.chat.formats.arguments.json_arguments import JsonReader
from localllm.chat.formats.arguments.json_scan import JsonScanner, value_of
from localllm.chat.formats.parts.call_reading import MOST_NAME, CallOutcome, read_arguments
from localllm.chat.formats.parts.collected import Draft
from localllm.chat.formats.tape import CHUNK, Steps, Tape, parts_of
from localllm.types.formats import ObjectCall, SlotKind

ALIASES: dict[str, SlotKind] = {"name": "name", "arguments": "arguments", "parameters": "arguments", "id": "id"}
"""Keys that models write instead of those of their format."""
WRAPPER = "function"
"""Key of a nested object with name and arguments, as in the chat API."""
_TYPES = ('"function"', '"tool_call"', '"function_call"')
MOST_BRACKETS = 3
VALUE_STARTS = '"{[-0123456789tfn'


class ObjectReading:
    """Reads calls of one format."""

    def __init__(self, call: ObjectCall) -> None:
        self._after = parts_of(call.after)
        self._literal = call.after
        self._is_keyed_by_name = not call.keys
        own = {key: kind for kind, key in call.keys}
        self._kinds = {**ALIASES, **own} if own else {}

    def read(self, tape: Tape, draft: Draft, *, is_guess: bool) -> Steps[CallOutcome]:
        """Read one call, including the literals after it."""
        is_whole = yield from _Object(tape, draft, self._kinds, self._literal, is_guess=is_guess).read()
        if draft.is_made:
            if not draft.is_cut:
                yield from self._behind(tape)
            return "made"
        if not is_whole or not draft.name:
            return "broken"
        yield from tape.parts(self._after)
        return "undeclared"

    def _behind(self, tape: Tape) -> Steps[None]:
        """Read the literals after a call, and superfluous brackets before them."""
        if not self._after or (yield from tape.parts(self._after)):
            return
        gap = yield from tape.space()
        for _ in range(MOST_BRACKETS):
            bracket = yield from tape.literal("}")
            gap += bracket + (yield from tape.space())
        if not (yield from tape.parts(self._after)):
            tape.back(gap)


class _Object:
    def __init__(self, tape: Tape, draft: Draft, kinds: dict[str, SlotKind], end: str, *, is_guess: bool) -> None:
        self._tape = tape
        self._draft = draft
        self._kinds = kinds
        self._end = end
        self._is_guess = is_guess
        self._depth = 0
        self._early = ""
        """Arguments that came before the name."""

    def read(self) -> Steps[bool]:
        """Read the object; returns whether it is one, and complete."""
        tape = self._tape
        while True:
            yield from tape.space()
            char = yield from tape.char()
            if char == "{" and self._depth == 0:
                self._depth = 1
            elif char == "}" and self._depth:
                self._depth -= 1
            elif char != "," or not self._depth:
                if char != '"' or not self._depth or not (yield from self._entry()):
                    return False
                continue
            tape.take(1)
            if self._depth == 0:
                return self._ended()

    def _ended(self) -> bool:
        """Without arguments it is still a call, if it has a name and no invalid arguments came before it."""
        if self._draft.function is not None and not self._draft.is_made and not self._early:
            self._draft.put("{}")
            self._tape.recorded()
        return True

    def _entry(self) -> Steps[bool]:
        """Read a key and its value; returns whether they are complete and valid."""
        tape, draft = self._tape, self._draft
        key = yield from self._string()
        yield from tape.space()
        if key is None or not (yield from tape.literal([":"])):
            return False
        yield from tape.space()
        char = yield from tape.char()
        if not char or char not in VALUE_STARTS:
            return False
        if not self._kinds and not draft.name:
            return self._named(key) and (yield from self._arguments())
        if key == WRAPPER and not draft.name:
            if char == "{":
                tape.take(1)
                self._depth += 1
                return True
            kind: SlotKind | None = "name"
        else:
            kind = self._kinds.get(key)
        if kind == "name" and not draft.name:
            name = yield from self._string()
            return name is not None and self._named(name)
        if kind == "arguments" and not draft.is_made:
            return (yield from self._arguments())
        is_type = key == "type" and char == '"'
        if kind is None and not is_type and self._is_guess and not draft.is_made:
            return False
        value = yield from self._value()
        if kind == "id" and value is not None:
            draft.identified(value.strip('"'))
        elif value is not None and kind != "number" and not (is_type and value in _TYPES):
            draft.members.append(f"{json.dumps(key, ensure_ascii=False)}: {value}")
        return value is not None

    def _named(self, name: str) -> bool:
        draft = self._draft
        draft.named(name)
        if draft.function is None:
            return bool(draft.name) and not self._is_guess
        if self._early:
            piece = JsonReader().feed(self._early + " ")
            if piece.rest is None or piece.is_broken:
                return False
            if draft.put(piece.json):
                self._tape.recorded()
        return True

    def _arguments(self) -> Steps[bool]:
        if self._draft.function is not None:
            return (yield from read_arguments(self._tape, self._draft, JsonReader(self._end)))
        if self._early:
            return False
        value = yield from self._value()
        self._early = value or ""
        return value is not None

    def _string(self) -> Steps[str | None]:
        """Read a short JSON string."""
        if (yield from self._tape.char()) != '"':
            return None
        try:
            value: Any = value_of((yield from self._value(MOST_NAME)) or "")
        except ValueError:
            return None
        return value if isinstance(value, str) else None

    def _value(self, most: int = 0) -> Steps[str | None]:
        """Read a JSON value; None if it does not end (within `most` characters)."""
        scanner, found, size = JsonScanner(), [], 0
        tape = self._tape
        while (not most or size < most) and (yield from tape.char()):
            text = tape.chunk(min(CHUNK, most - size)) if most else tape.chunk()
            value, end = scanner.feed(text)
            found.append(value)
            if end is not None:
                tape.back(text[end:])
                return "".join(found)
            size += len(text)
        return None
