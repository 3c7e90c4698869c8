"""Writes answers as models were trained to write them; a reader of the same description reads them back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from localllm.chat.formats.arguments.json_scan import value_of
from localllm.chat.formats.arguments.kinds import written_arguments
from localllm.types.conversation import ToolCall
from localllm.types.formats import Calls, ChatFormat, ObjectCall, PatternCall


def written_calls(calls: Calls, made: Sequence[ToolCall]) -> str:
    """All calls of an answer. Raises ValueError if the arguments of one are not a JSON object."""
    each_call = [_call(calls, call, number) for number, call in enumerate(made)]
    return calls.begin + calls.between.join(each_call) + calls.end if each_call else ""


def written(format: ChatFormat, thought: str, text: str, calls: Sequence[ToolCall] = ()) -> str:
    """A whole answer. Raises ValueError for a part that the format cannot express."""
    found = ""
    if thought:
        if format.thought is None:
            raise ValueError(f"the format {format.name!r} has no thoughts")
        found += format.thought.opening + thought + format.thought.closing + format.behind_thought
    if text:
        found += format.text.opening + text + format.text.closing if format.text is not None else text
    if calls:
        if format.calls is None:
            raise ValueError(f"the format {format.name!r} has no calls")
        found += written_calls(format.calls, calls)
    return found


def _call(calls: Calls, made: ToolCall, number: int) -> str:
    arguments = value_of(made.arguments or "{}")
    if not isinstance(arguments, dict):
        raise ValueError(f"the arguments of {made.name!r} are not an object")
    if isinstance(calls.call, ObjectCall):
        return _object(calls.call, made, arguments, number)
    return _pattern(calls.call, calls, made, arguments, number)


def _object(call: ObjectCall, made: ToolCall, arguments: Mapping[str, Any], number: int) -> str:
    values = {
        "name": made.name,
        "arguments": arguments,
        "id": made.id or str(call.first_number + number),
        "number": call.first_number + number,
    }
    fields = {key: values[kind] for kind, key in call.keys} or {made.name: arguments}
    return call.before + json.dumps(fields, ensure_ascii=False) + call.after


def _pattern(call: PatternCall, calls: Calls, made: ToolCall, arguments: Mapping[str, Any], number: int) -> str:
    values = {
        "name": made.name,
        "id": made.id or str(call.first_number + number),
        "number": str(call.first_number + number),
        "arguments": written_arguments(calls.arguments, arguments),
    }
    return call.before + "".join(values[slot.kind] + slot.behind for slot in call.slots)
