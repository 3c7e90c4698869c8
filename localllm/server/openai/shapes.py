"""What differs between answers that are a chat's text, a forced call's arguments, or a plain completion's text.

Pieces of an answer in, choices as OpenAI spells them out. Knows nothing of streams and of HTTP.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from msgspec import UNSET

from localllm.server.openai import replies as out
from localllm.server.openai.calls import ForcedCall
from localllm.server.openai.logprobs import chat_logprobs, text_logprobs
from localllm.types import TokenLogprob

ChoiceT = TypeVar("ChoiceT")


class Piece(NamedTuple):
    """Of an answer, or all of it."""

    text: str
    thought: str = ""
    logprobs: Any = None
    """In the shape's own form."""

    @property
    def has_text(self) -> bool:
        """Whether it is of the text; it may hold none yet, since characters have to be whole."""
        return bool(self.text) or not self.thought


class Shape(NamedTuple, Generic[ChoiceT]):
    """What the endpoints need to know of it."""

    id_prefix: str
    whole_object: str
    chunk_object: str
    first: Callable[[int], ChoiceT] | None
    whole: Callable[[int, Piece, Literal["stop", "length"]], Any]
    chunk: Callable[[int, Piece], ChoiceT]
    logprobs: Callable[[Sequence[TokenLogprob], int], Any]
    """Of tokens that begin so many characters into the answer."""
    last: Callable[[int, Literal["stop", "length"]], ChoiceT]


CHAT: Shape[out.ChatChunkChoice] = Shape(
    id_prefix="chatcmpl-",
    whole_object="chat.completion",
    chunk_object="chat.completion.chunk",
    first=lambda index: out.ChatChunkChoice(index, out.ChatDelta(role="assistant", content="")),
    whole=lambda index, piece, reason: out.ChatChoice(
        index, out.ChatText("assistant", piece.text, reasoning_content=piece.thought or UNSET), reason, piece.logprobs
    ),
    chunk=lambda index, piece: out.ChatChunkChoice(
        index,
        out.ChatDelta(
            content=None if piece.thought and not piece.text else piece.text, reasoning_content=piece.thought
        ),
        logprobs=piece.logprobs,
    ),
    logprobs=chat_logprobs,
    last=lambda index, reason: out.ChatChunkChoice(index, out.ChatDelta(), reason),
)

TEXT: Shape[out.TextChoice] = Shape(
    id_prefix="cmpl-",
    whole_object="text_completion",
    chunk_object="text_completion",
    first=None,
    whole=lambda index, piece, reason: out.TextChoice(
        index, piece.text, reason, piece.logprobs, reasoning_content=piece.thought or UNSET
    ),
    chunk=lambda index, piece: out.TextChoice(
        index, piece.text, logprobs=piece.logprobs, reasoning_content=piece.thought or UNSET
    ),
    logprobs=text_logprobs,
    last=lambda index, reason: out.TextChoice(index, "", reason),
)


def of_call(call: ForcedCall) -> Shape[out.ChatChunkChoice]:
    """An answer that is the call's arguments. Its end is `tool_calls` only where no function was named, as OpenAI's."""

    def ended(reason: Literal["stop", "length"]) -> out.FinishReason:
        return "tool_calls" if call.is_required and reason == "stop" else reason

    def first(index: int) -> out.ChatChunkChoice:
        begun = out.CalledDelta(name=call.function.name, arguments="")
        if call.is_legacy:
            return out.ChatChunkChoice(index, out.ChatDelta(role="assistant", function_call=begun))
        begins = out.ToolCallDelta(index=0, id=_new_id(), type="function", function=begun)
        return out.ChatChunkChoice(index, out.ChatDelta(role="assistant", tool_calls=[begins]))

    def whole(index: int, piece: Piece, reason: Literal["stop", "length"]) -> out.ChatChoice:
        called = out.Called(call.function.name, piece.text)
        message = out.ChatText(
            "assistant",
            None,
            reasoning_content=piece.thought or UNSET,
            tool_calls=UNSET if call.is_legacy else [out.ToolCall(_new_id(), called)],
            function_call=called if call.is_legacy else UNSET,
        )
        return out.ChatChoice(index, message, ended(reason), piece.logprobs)

    def chunk(index: int, piece: Piece) -> out.ChatChunkChoice:
        delta = out.ChatDelta(reasoning_content=piece.thought)
        if piece.has_text:
            more = out.CalledDelta(arguments=piece.text)
            delta = out.ChatDelta(
                reasoning_content=piece.thought,
                tool_calls=[] if call.is_legacy else [out.ToolCallDelta(index=0, function=more)],
                function_call=more if call.is_legacy else None,
            )
        return out.ChatChunkChoice(index, delta, logprobs=piece.logprobs)

    return CHAT._replace(
        first=first,
        whole=whole,
        chunk=chunk,
        last=lambda index, reason: out.ChatChunkChoice(index, out.ChatDelta(), ended(reason)),
    )


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"
