"""Converts a whole answer, as a model or a template wrote it, to a message with separate reasoning, text and calls.

Knows nothing of tokens or conversations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from localllm.chat.formats.reader import reader_of
from localllm.types import ChatFormat, Function, Message, ToolCall


class ReadAnswer(NamedTuple):
    """An answer as a message."""

    message: Message
    """Calls have ids only if the text has them."""
    ends_in_thought: bool


def read_answer(text: str, format: ChatFormat, functions: Sequence[Function], *, in_thought: bool) -> ReadAnswer:
    """Read a whole answer. `in_thought`: the prompt ended inside the reasoning."""
    reader = reader_of(format, functions, in_thought=in_thought, splits_thoughts=True, reads_calls=bool(functions))
    reads = [reader.feed(text)]
    ends_in_thought = reader.is_thinking
    reads.append(reader.flush())
    calls: dict[int, ToolCall] = {}
    for delta in (delta for read in reads for delta in read.calls):
        call = calls.get(delta.index, ToolCall("", ""))
        calls[delta.index] = replace(
            call,
            name=call.name + delta.name,
            arguments=call.arguments + delta.arguments,
            id=call.id or (delta.id if delta.id and delta.id in text else ""),
        )
    message = Message(
        "assistant",
        "".join(read.text for read in reads),
        thought="".join(read.thought for read in reads),
        tool_calls=tuple(calls[index] for index in sorted(calls)),
    )
    return ReadAnswer(message, ends_in_thought)


def with_thought_apart(message: Message, format: ChatFormat) -> Message:
    """Separate the reasoning in a client's message whose text contains it between tags."""
    thought = format.thought
    if (
        thought is None
        or message.role != "assistant"
        or message.thought
        or thought.closing.strip() not in message.content
    ):
        return message
    is_marked = message.content.lstrip().startswith(thought.opening.strip())
    if not is_marked and not format.begins_thought:
        return message
    read = read_answer(message.content, format, (), in_thought=not is_marked)
    if read.ends_in_thought:
        return message
    return replace(message, content=read.message.content, thought=read.message.thought, parts=())
