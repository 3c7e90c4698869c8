"""Log-probabilities in OpenAI's two shapes. Knows nothing of how they were computed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from localllm.types import TokenLogprob

LEAST = -9999.0
"""What OpenAI says of tokens without any probability: JSON has no infinity."""


class TopLogprob(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]


class ChatLogprob(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct, frozen=True):
    """`choices[].logprobs` of a chat completion or of a chunk of it."""

    content: list[ChatLogprob]
    refusal: None = None


class TextLogprobs(msgspec.Struct, frozen=True):
    """`choices[].logprobs` of a plain completion or of a chunk of it; offsets are characters into the answer."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


def chat_logprobs(items: Sequence[TokenLogprob], _offset: int = 0) -> ChatLogprobs:
    """In the chat API's shape."""
    return ChatLogprobs(
        [
            ChatLogprob(
                text_of(item.piece),
                max(item.logprob, LEAST),
                list(item.piece),
                [TopLogprob(text_of(piece), max(logprob, LEAST), list(piece)) for piece, logprob in item.top],
            )
            for item in items
        ]
    )


def text_logprobs(items: Sequence[TokenLogprob], offset: int = 0) -> TextLogprobs:
    """In the completion API's shape; the first token begins at that offset."""
    shaped = TextLogprobs([], [], [], [])
    for item in items:
        token = text_of(item.piece)
        shaped.tokens.append(token)
        shaped.token_logprobs.append(max(item.logprob, LEAST))
        shaped.top_logprobs.append({text_of(piece): max(logprob, LEAST) for piece, logprob in item.top})
        shaped.text_offset.append(offset)
        offset += len(token)
    return shaped


def text_of(piece: bytes) -> str:
    """A token's text; a part of a character becomes U+FFFD, its bytes are in the chat API's `bytes`."""
    return piece.decode("utf-8", "replace")
