"""Conversations that are too long for a model: their oldest messages are left out, as Ollama does it.

System messages stay, and a tool's result goes with the call that it answers. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.types import Message

LEFT_OUT = "oldest-left-out"
"""The note that says so."""
ANSWER_SHARE = 4
"""Of the context a fourth is left for the answer, or less if it asks for less."""


def room_of(ctx: int, max_tokens: int | None) -> int:
    """Tokens that are left for the answer."""
    most = ctx // ANSWER_SHARE
    return most if max_tokens is None or max_tokens < 0 else min(most, max_tokens)


def shortened(messages: Sequence[Message], num_tokens: int, most_tokens: int) -> tuple[Message, ...] | None:
    """Without the oldest, as many as it takes by their share of the text; at least one. None where none can go.

    `num_tokens`: that all of them have.
    """
    sizes = [_size(message) for message in messages]
    excess = sum(sizes) * (1 - most_tokens / max(1, num_tokens))
    turns = [index for index, message in enumerate(messages) if not message.is_system]
    starts = [index for index in turns if messages[index].role != "tool"]
    for start in starts[1:]:
        left_out = [index for index in turns if index < start]
        if sum(sizes[index] for index in left_out) >= excess or start == starts[-1]:
            return tuple(message for index, message in enumerate(messages) if index not in left_out)
    return None


def _size(message: Message) -> int:
    """Characters, and some for what a template writes around them."""
    calls = sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return len(message.content) + len(message.thought) + calls + 16
