"""Matches tool results to calls when clients rewrite ids, omit them, or send names only.

Knows nothing of any API's JSON.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from localllm.types import Message, ToolCall


def with_ids(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Gives every call an id, and every result the id of an earlier call: the one it names, else a call of the same
    tool, else the first call without a result. Results that match no call stay unchanged.
    """
    matched = list(messages)
    known: set[str] = set()
    for place, message in enumerate(messages):
        if not message.tool_calls:
            continue
        calls = tuple(
            call if call.id else replace(call, id=f"call_{place}_{number}")
            for number, call in enumerate(message.tool_calls)
        )
        known.update(call.id for call in calls)
        matched[place] = replace(message, tool_calls=calls)
        _match(matched, place + 1, calls, known)
    return tuple(matched)


def _match(messages: list[Message], start: int, calls: Sequence[ToolCall], known: set[str]) -> None:
    """The results of these calls, up to the next message with calls."""
    unmatched: list[int] = []
    answered: set[str] = set()
    for place in range(start, len(messages)):
        message = messages[place]
        if message.tool_calls:
            break
        if message.role != "tool":
            continue
        if message.tool_call_id in known:
            answered.add(message.tool_call_id)
        else:
            unmatched.append(place)
    waiting: dict[str, deque[str]] = {"": deque(call.id for call in calls)}  # tool name ("": any) -> ids
    for call in calls:
        waiting.setdefault(call.name, deque()).append(call.id)
    for place in unmatched:
        ids = waiting.get(messages[place].name, deque())
        while ids and ids[0] in answered:
            ids.popleft()
        if ids:
            answered.add(ids[0])
            messages[place] = replace(messages[place], tool_call_id=ids.popleft())
