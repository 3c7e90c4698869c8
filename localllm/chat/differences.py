"""Describes where two conversations diverge, so that a client learns which of its changes invalidated cached tokens.

Knows nothing of caches or tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from localllm.chat.meaning import canonical_arguments, differ_at, has_thought_of
from localllm.types import Message, Rendering

MOST_CHARACTERS = 60
"""Maximum number of characters shown of each side."""


class Difference(NamedTuple):
    """`at`: index of the first message that differs; `text`: how it differs."""

    at: int
    text: str


def difference(before: Sequence[Message], now: Sequence[Message]) -> Difference | None:
    """The first difference; None if the shorter conversation is a prefix. Omitted reasoning is no difference."""
    at = differ_at(now, before)
    altered = (number for number in range(at) if not has_thought_of(now[number], before[number]))
    at = min(next(altered, at), at)
    if at >= min(len(before), len(now)):
        return None
    pairs = itertools.zip_longest(_fields(before[at]), _fields(now[at]), fillvalue=("", ""))
    for (name, one), (other_name, other) in pairs:
        is_left_out = "thought" in (name, other_name) and not other.strip()
        if (name, one) != (other_name, other) and not is_left_out:
            return Difference(at, differing(f"message {at}{_of(name or other_name)}", one, other))
    return Difference(at, f"differs in message {at}: it is the result of another call")


def rendering_difference(before: Rendering, now: Rendering) -> str:
    """The first difference in a template's input besides messages; empty: none."""
    pairs = (("tools", before.tools, now.tools), ("documents", before.documents, now.documents))
    for name, one, other in (*pairs, ("template variables", before.variables, now.variables)):
        if one != other:
            return differing(f"the {name}", one, other)
    return ""


def differing(where: str, before: str, now: str) -> str:
    """Show the text on each side from the point where they diverge."""
    pairs = enumerate(zip(before, now, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(before), len(now)))
    return f"differs in {where}, character {at}: {_shown(before[at:])} -> {_shown(now[at:])}"


def _fields(message: Message) -> Iterator[tuple[str, str]]:
    yield "role", message.role
    is_answer = message.role == "assistant"
    yield "", message.content.strip() if is_answer else message.content
    for part in message.parts:
        yield ("part", part) if isinstance(part, str) else (part.kind, f"{part.kind} {part.digest[:12]}")
    for number, call in enumerate(message.tool_calls):
        yield f"name of call {number}", call.name
        yield f"arguments of call {number}", canonical_arguments(call.arguments)
    yield "thought", message.thought.strip()
    yield "name", message.name


def _of(field: str) -> str:
    return f", {field}" if field else ""


def _shown(text: str) -> str:
    return repr(text[:MOST_CHARACTERS]) if text else "nothing"
