"""Derives a description of calls from a rendering: the literals around names and arguments, between calls, and around
all of them.

The result is unverified; the caller checks that it writes and reads the rendering.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import NamedTuple

from localllm.types.conversation import ToolCall
from localllm.types.formats import (
    Arguments,
    Calls,
    JsonArguments,
    ObjectCall,
    PatternCall,
    PythonArguments,
    Slot,
    SlotKind,
    TaggedArguments,
)

_DECODER = json.JSONDecoder()


class CallText(NamedTuple):
    """The part of a rendered answer that contains its calls, and the calls themselves."""

    text: str
    calls: tuple[ToolCall, ...]


class Around(NamedTuple):
    """Literals around the members of a row: `begin`, then `before` member `after` for each, `between` them, `end`."""

    begin: str
    before: str
    between: str
    after: str
    end: str


class CallParts(NamedTuple):
    """A rendered call: the text before it, its description, and the offset of its end."""

    prefix: str
    call: PatternCall | ObjectCall
    arguments: Arguments
    end: int


def built(one: CallText, two: CallText | None) -> Calls | None:
    """The description derived from an answer with one call of two arguments, and one with two calls.

    `two` None: the format allows only one call.
    """
    first = _object(one.text, one.calls[0], 0, 0) or _pattern(one.text, one.calls[0], 0, 0)
    if first is None:
        return None
    suffix = one.text[first.end :]
    if two is None:
        around = Around("", first.prefix.lstrip(), "", suffix, "")
    else:
        make = _object if isinstance(first.call, ObjectCall) else _pattern
        earlier = make(two.text, two.calls[0], 0, 0)
        later = earlier and make(two.text, two.calls[1], earlier.end, 1)
        if earlier is None or later is None:
            return None
        around = around_of(first.prefix.lstrip(), later.prefix, two.text[later.end :])
    call, arguments = first.call, first.arguments
    if isinstance(call, ObjectCall):
        call = ObjectCall(before=around.before, after=around.after, keys=call.keys)
    else:
        slots = (*call.slots[:-1], Slot("arguments", call.slots[-1].behind + around.after))
        call = PatternCall(before=around.before, slots=slots)
    begin, between, end = around.begin, around.between, around.end
    return Calls(call=call, arguments=arguments, begin=begin, between=between, end=end, is_single=two is None)


def around_of(prefix: str, middle: str, suffix: str) -> Around:
    """The literals of a row, from the text before its first member, between two, and after the last."""
    after = re.sub(r"<[^<>]*$", "", common_start(middle, suffix))
    after = after if after.strip() else ""
    rest = middle[len(after) :]
    before = re.sub(r"^[^<>]*>", "", common_end(prefix, rest)) if "<" in prefix else common_end(prefix, rest)
    before = before if before.strip() else ""
    return Around(
        begin=prefix[: len(prefix) - len(before)],
        before=before,
        between=rest[: len(rest) - len(before)],
        after=after,
        end=suffix[len(after) :],
    )


def common_start(one: str, other: str) -> str:
    """The common prefix of both."""
    length = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def common_end(one: str, other: str) -> str:
    """The common suffix of both."""
    return common_start(one[::-1], other[::-1])[::-1]


def _object(text: str, call: ToolCall, start: int, number: int) -> CallParts | None:
    """Describe a call as the smallest JSON object that contains the name and the arguments."""
    name = text.find(call.name, start)
    where = text.rfind("{", start, name)
    while name >= 0 and where >= 0:
        decoded = _decoded(text, where)
        if decoded is not None and decoded[1] > name:
            keys = _keys(decoded[0], call, number)
            if keys is None:
                return None
            return CallParts(text[start:where], ObjectCall(keys=keys), JsonArguments(), decoded[1])
        where = text.rfind("{", start, where)
    return None


def _keys(made: dict[str, object], call: ToolCall, number: int) -> tuple[tuple[SlotKind, str], ...] | None:
    arguments = json.loads(call.arguments)
    if made == {call.name: arguments}:
        return ()
    kinds: list[tuple[SlotKind, str]] = []
    for key, value in made.items():
        if value == call.name:
            kinds.append(("name", key))
        elif value == arguments:
            kinds.append(("arguments", key))
        elif value == call.id:
            kinds.append(("id", key))
        elif value == number and not isinstance(value, bool):
            kinds.append(("number", key))
        else:
            return None
    return tuple(kinds) if {"name", "arguments"} <= {kind for kind, _ in kinds} else None


def _pattern(text: str, call: ToolCall, start: int, number: int) -> CallParts | None:
    """Describe a call as literals around the name, possibly an id or a number, and the arguments."""
    name = text.find(call.name, start)
    if name < 0:
        return None
    behind = name + len(call.name)
    where = text.find("{", behind)
    while where >= 0:
        decoded = _decoded(text, where)
        if decoded is not None and decoded[0] == json.loads(call.arguments):
            slots = (*_slots(text[behind:where], call, number), Slot("arguments"))
            return CallParts(text[start:name], PatternCall(before="", slots=slots), JsonArguments(), decoded[1])
        where = text.find("{", where + 1)
    return _tagged(text, call, start, name)


def _slots(between: str, call: ToolCall, number: int) -> tuple[Slot, ...]:
    """The slot of the name, and that of an id or a number between the name and the arguments."""
    for kind, value in (("id", call.id), ("number", str(number))):
        before, is_there, after = between.partition(value)
        if is_there and kind == "id":
            return Slot("name", before), Slot("id", after)
        if is_there and not re.search(r"\d", before + after):
            return Slot("name", before), Slot("number", after)
    return (Slot("name", between),)


def _tagged(text: str, call: ToolCall, start: int, name: int) -> CallParts | None:
    """Describe a call whose arguments are each enclosed in literals, or are in Python syntax."""
    places: list[tuple[int, int]] = [(name, name + len(call.name))]
    for key, value in json.loads(call.arguments).items():
        for part in (key, value):
            where = text.find(part, places[-1][1])
            if where < 0:
                return None
            places.append((where, where + len(part)))
    gaps = [text[end:begin] for (_, end), (begin, _) in itertools.pairwise(places)]
    if len(gaps) < 4 or gaps[1] != gaps[3]:
        return None
    rest = text[places[-1][1] :]
    if gaps[1] in ("='", '="') and gaps[0] == "(" and rest[1:2] == ")":
        slots = Slot("name", "("), Slot("arguments", ")")
        return CallParts(text[start:name], PatternCall(before="", slots=slots), PythonArguments(), places[-1][1] + 2)
    around = around_of(gaps[0], gaps[2], rest)
    if not around.before or not around.after or not gaps[1]:
        return None
    arguments = TaggedArguments(before=around.before, behind_key=gaps[1], after=around.after, between=around.between)
    slots = Slot("name", around.begin), Slot("arguments")
    end = places[-1][1] + len(around.after)
    return CallParts(text[start:name], PatternCall(before="", slots=slots), arguments, end)


def _decoded(text: str, where: int) -> tuple[dict[str, object], int] | None:
    try:
        made, end = _DECODER.raw_decode(text, where)
    except (ValueError, RecursionError):
        return None
    return (made, end) if isinstance(made, dict) else None
