"""Shortens conversations that are too long for a model by leaving out their oldest messages, as Ollama does.

System messages stay, and a tool's result is left out together with its call. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.types import Message

LEFT_OUT = "oldest-left-out"
"""The note about a shortened conversation."""
MEDIA_CHARACTERS = 1000
"""What a picture or sound counts for: about 250 tokens."""
ANSWER_SHARE = 4
"""1/4 of the context is reserved for the answer, or less if the request limits it further."""


def room_of(ctx: int, max_tokens: int | None) -> int:
    """Number of tokens to reserve for the answer."""
    most = ctx // ANSWER_SHARE
    return most if max_tokens is None or max_tokens < 0 else min(most, max_tokens)


def shortened(messages: Sequence[Message], num_tokens: int, most_tokens: int) -> tuple[Message, ...] | None:
    """The messages without the oldest ones, at least one, to fit into `most_tokens`; None if none can be left out.

    `num_tokens`: of all messages together. Those of a single message are estimated from its share of the text.
    """
    sizes = [_size(message) for message in messages]
    excess = sum(sizes) * (1 - most_tokens / max(1, num_tokens))
    turns = [index for index, message in enumerate(messages) if not message.is_system]
    starts = [index for index in turns if messages[index].role != "tool"]
    num_left_out = size_left_out = 0
    for start in starts[1:]:
        while turns[num_left_out] < start:
            size_left_out += sizes[turns[num_left_out]]
            num_left_out += 1
        if size_left_out >= excess or start == starts[-1]:
            left_out = frozenset(turns[:num_left_out])
            return tuple(message for index, message in enumerate(messages) if index not in left_out)
    return None


def _size(message: Message) -> int:
    """Number of characters, plus an allowance for the template's markup."""
    calls = sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return MEDIA_CHARACTERS * len(message.media) + len(message.content) + len(message.thought) + calls + 16
