"""Lark rules for calls: opening, name of a function, that function's arguments, closing.

    opening  rest of the first call  (between  opening  rest)*  end

Names are alternatives after the part common to all calls, so that few continuations are open at any token. Knows
nothing of the text around calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from localllm.grammar.rules import Rules
from localllm.grammar.texts.literals import either, joined
from localllm.types.conversation import Function
from localllm.types.formats import Calls, ObjectCall, SlotKind

MAX_ID_CHARS = 64
NUMBER = "/0|[1-9][0-9]{0,3}/"
ID = f"/[A-Za-z0-9_-]{{1,{MAX_ID_CHARS}}}/"

Arguments = Callable[[Function], str]
"""The expression for a function's arguments."""


class _Part(NamedTuple):
    """A part of a call, after its opening."""

    kind: SlotKind | Literal["literal"]
    text: str = ""


class CallRules:
    """Rules for calls of these functions, at least one, in one format."""

    def __init__(self, rules: Rules, calls: Calls, functions: Sequence[Function], arguments: Arguments) -> None:
        self._rules = rules
        self._calls = calls
        self._parts = _parts(calls)
        self._is_json = isinstance(calls.call, ObjectCall)
        tail, self.ends_answer = rules.literals.before_end(self._tail())
        self._from_name = joined([self._named(functions, arguments), rules.literals.written(tail)])
        self._rest = rules.rule(joined([self._before_name(), self._from_name]))
        end, ends = rules.literals.before_end(calls.end)
        self._end = "" if self.ends_answer else rules.literals.written(end)
        self.ends_answer = self.ends_answer or ends
        self.has_end_mark = bool((_mark(calls) + calls.end).strip()) and not self.ends_answer
        """Whether readers can find the end of the calls, so that text may follow."""

    def behind_opening(self, *, may_repeat: bool, is_at_name: bool = False) -> str:
        """An expression for all calls, from the end of the first opening (or from the first name) to the end of the
        last call."""
        calls = self._calls
        more = ""
        if may_repeat and not calls.is_single and not self.ends_answer:
            opening = self._rules.literals.written(calls.between + calls.opening.removeprefix(calls.begin))
            more = f"({joined([opening, self._rest])})*"
        return joined([self._from_name if is_at_name else self._rest, more, self._end])

    def _before_name(self) -> str:
        first = self._span()[0]
        return self._written(self._parts[:first], None, None)

    def _named(self, functions: Sequence[Function], arguments: Arguments) -> str:
        first, last = self._span()
        parts = self._parts[first:last]
        return either([self._written(parts, function, arguments) for function in functions])

    def _tail(self) -> str:
        return "".join(part.text for part in self._parts[self._span()[1] :])

    def _span(self) -> tuple[int, int]:
        """Indexes of the parts that depend on the function."""
        places = [place for place, part in enumerate(self._parts) if part.kind in ("name", "arguments")]
        last = (
            len(self._parts) if any(part.kind in ("id", "number") for part in self._parts[places[-1] :]) else places[-1]
        )
        return places[0], max(last, places[-1] + 1)

    def _written(self, parts: Sequence[_Part], function: Function | None, arguments: Arguments | None) -> str:
        """An expression for the parts in sequence; adjacent texts become one literal."""
        found: list[str] = []
        text = ""
        for part in parts:
            if part.kind == "literal":
                text += part.text
            elif part.kind == "name":
                assert function is not None
                text += _within_json(function.name) if self._is_json else function.name
            else:
                found.append(self._rules.literals.written(text))
                text = ""
                if part.kind == "arguments":
                    assert function is not None
                    assert arguments is not None
                    found.append(arguments(function))
                else:
                    found.append(NUMBER if part.kind == "number" else ID)
        return joined([*found, self._rules.literals.written(text)])


def _parts(calls: Calls) -> list[_Part]:
    call = calls.call
    parts: list[_Part] = []
    if not isinstance(call, ObjectCall):
        for slot in call.slots:
            parts += [_Part(slot.kind), _Part("literal", slot.behind)]
        return parts
    if not call.keys:
        return [_Part("literal", '"'), _Part("name"), _Part("literal", '": '), _Part("arguments"),
                _Part("literal", "}" + call.after)]  # fmt: skip
    for place, (kind, key) in enumerate(call.keys):
        quote = '"' if kind in ("name", "id") else ""
        parts.append(_Part("literal", f"{', ' if place else ''}{json.dumps(key, ensure_ascii=False)}: {quote}"))
        parts += [_Part(kind), _Part("literal", quote)]
    return [*parts, _Part("literal", "}" + call.after)]


def _mark(calls: Calls) -> str:
    """The literal that ends a call."""
    return calls.call.after if isinstance(calls.call, ObjectCall) else calls.call.slots[-1].behind


def _within_json(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)[1:-1]
