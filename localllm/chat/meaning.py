"""Compares messages by meaning, because clients send answers back in other words.

Ids of calls, reasoning, white space around an answer and the formatting of JSON arguments are ignored. Knows nothing of
templates or of remembered answers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from localllm.types import Media, Message, ToolCall

EXACT_FLOATS = 2.0**53
"""Below this, floats represent every integer exactly."""

_encode = msgspec.msgpack.Encoder().encode


def canonical_arguments(text: str) -> str:
    """A canonical form: equal for equal JSON. Text that is not JSON is only stripped."""
    try:
        return json.dumps(_plain(json.loads(text or "{}")), sort_keys=True)
    except (ValueError, RecursionError):
        return text.strip()


def _plain(value: Any) -> Any:
    """Convert whole floats to integers, because some clients have only floats."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT_FLOATS else value
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def is_same_answer(sent: Message, ours: Message) -> bool:
    """Whether a client's message means the same as our answer; the reasoning may be missing."""
    return (
        sent.role == ours.role == "assistant"
        and sent.content.strip() == ours.content.strip()
        and has_thought_of(sent, ours)
        and _calls(sent.tool_calls) == _calls(ours.tool_calls)
    )


def has_thought_of(sent: Message, ours: Message) -> bool:
    """Whether the client sent the reasoning unchanged, or none."""
    return not sent.thought.strip() or sent.thought.strip() == ours.thought.strip()


def digests(messages: Sequence[Message]) -> list[bytes]:
    """One digest per number of leading messages, starting with 0. Two conversations have equal digests up to the point
    where their meanings diverge. Takes linear time."""
    found = [b""]
    for each in _meanings(messages):
        found.append(hashlib.blake2b(found[-1] + each, digest_size=16).digest())
    return found


def differ_at(sent: Sequence[Message], ours: Sequence[Message]) -> int:
    """The number of leading messages with the same meaning in both conversations."""
    pairs = zip(_meanings(sent), _meanings(ours), strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(sent), len(ours)))


def _meanings(messages: Sequence[Message]) -> Iterator[bytes]:
    """Results are matched to calls by position within the turn, because clients make up new ids."""
    calls: dict[str, tuple[int, str]] = {}
    for each in messages:
        if each.role == "assistant":
            calls.update((call.id, (place, call.name)) for place, call in enumerate(each.tool_calls))
            yield _encode((each.role, each.name, each.content.strip(), _calls(each.tool_calls)))
            continue
        texts = tuple(map(_meaning_of, each.parts)) or (each.content,)
        place, name = calls.get(each.tool_call_id, (-1, "")) if each.role == "tool" else (-1, "")
        yield _encode((each.role, each.name or name, texts, place))


def _meaning_of(part: str | Media) -> str | tuple[str, str, str]:
    """Where a request has it does not matter."""
    return part if isinstance(part, str) else (part.kind, part.content, part.detail)


def _calls(calls: Sequence[ToolCall]) -> list[tuple[str, str]]:
    return [(call.name, canonical_arguments(call.arguments)) for call in calls]


def ids_of(sent: Sequence[Message], ours: Sequence[Message]) -> dict[str, str]:
    """A client's call ids -> our ids of the same calls. Both conversations must mean the same."""
    return {
        theirs.id: mine.id
        for one, other in zip(sent, ours, strict=True)
        for theirs, mine in zip(one.tool_calls, other.tool_calls, strict=True)
    }


def with_ids(messages: Sequence[Message], ids: Mapping[str, str]) -> tuple[Message, ...]:
    """Replace the call ids to which results refer, in messages after those calls."""
    known = dict(ids)
    found = []
    for each in messages:
        for call in each.tool_calls:
            known.pop(call.id, None)  # from here on the id belongs to this later call
        found.append(replace(each, tool_call_id=known.get(each.tool_call_id, each.tool_call_id)))
    return tuple(found)
