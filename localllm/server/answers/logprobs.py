"""Log-probabilities in OpenAI's two shapes. Knows nothing of how they were computed."""

from __future__ import annotations

import codecs
import math
from collections.abc import Sequence

import msgspec

from localllm.types import TokenLogprob

LEAST = -9999.0
"""OpenAI's value for tokens of probability zero: JSON has no infinity."""


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
    """`choices[].logprobs` of a chat completion or chunk."""

    content: list[ChatLogprob]
    refusal: None = None


class TextLogprobs(msgspec.Struct, frozen=True):
    """`choices[].logprobs` of a plain completion or chunk; offsets count characters of the text.

    Null for the first token of a prompt.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]

    def __add__(self, other: TextLogprobs) -> TextLogprobs:
        return TextLogprobs(
            self.tokens + other.tokens,
            self.token_logprobs + other.token_logprobs,
            self.top_logprobs + other.top_logprobs,
            self.text_offset + other.text_offset,
        )


def chat_logprobs(items: Sequence[TokenLogprob], _offset: int = 0) -> ChatLogprobs:
    """Log-probabilities in the chat API's format."""
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
    """Log-probabilities in the completion API's format; the first token begins at `offset`."""
    shaped = TextLogprobs([], [], [], [])
    for item in items:
        token = text_of(item.piece)
        shaped.tokens.append(token)
        shaped.token_logprobs.append(None if math.isnan(item.logprob) else max(item.logprob, LEAST))
        shaped.top_logprobs.append(None if math.isnan(item.logprob) else _top(item))
        shaped.text_offset.append(offset)
        offset += len(token)
    return shaped


def echo_logprobs(items: Sequence[TokenLogprob], echo: str) -> TextLogprobs:
    """The same for a whole prompt, whose returned text is `echo`.

    What tokenization added before the text (a BOS token, SentencePiece's first space) is not included.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    offsets = [0]
    for item in items:
        offsets.append(offsets[-1] + len(decoder.decode(item.piece)))
    added = offsets[-1] + len(decoder.decode(b"", final=True)) - len(echo)
    shaped = text_logprobs(items)
    return msgspec.structs.replace(
        shaped, text_offset=[min(max(0, offset - added), len(echo)) for offset in offsets[:-1]]
    )


def _top(item: TokenLogprob) -> dict[str, float]:
    """Always includes the chosen token, as OpenAI does; of tokens with the same text, the most likely one."""
    top: dict[str, float] = {}
    for piece, logprob in (*item.top, (item.piece, item.logprob)):
        top.setdefault(text_of(piece), max(logprob, LEAST))
    return top


def text_of(piece: bytes) -> str:
    """A token's text. Part of a character becomes U+FFFD; the chat API's `bytes` has its bytes."""
    return piece.decode("utf-8", "replace")
