"""Counts the prompt tokens of a conversation without computing anything. Knows no API's fields."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request

from localllm.server.edge import sse
from localllm.server.edge.callers import caller_of
from localllm.server.state import ServerState
from localllm.server.watching.tally import tally_of
from localllm.types import MediaFile, Message, PromptCount, Rendering
from localllm.types.conversation import Conversation


class TokenCount(msgspec.Struct, frozen=True):
    """The reply of OpenAI's Responses API and llama-server."""

    input_tokens: int
    object: str
    image_tokens: int | UnsetType = UNSET
    """Ours: how many of these are of pictures, if there are any; and of sounds."""
    audio_tokens: int | UnsetType = UNSET


def token_count(count: PromptCount, object: str) -> TokenCount:
    """The reply with these numbers."""
    return TokenCount(count.tokens, object, count.image_tokens or UNSET, count.audio_tokens or UNSET)


async def count_prompt(
    request: Request,
    model: str | None,
    messages: Sequence[Message],
    rendering: Rendering,
    files: tuple[MediaFile, ...] = (),
) -> PromptCount:
    """The number of tokens in the rendered prompt, with documents and the rows of pictures and sounds.

    Raises `ModelNotFound`, `NoChatTemplate`, `TemplateError`, `ClientGone`.
    """
    state: ServerState = request.app.state.server
    id = await state.model_for(request, model)
    tally_of(request).begin(model or id, state.loaded(id))
    completing = state.media.complete(tuple(messages), files, caller_of(request).owner)
    whole, files, *_ = await sse.unless_gone(request.receive, completing)
    return await sse.unless_gone(request.receive, state.runtime.count(id, Conversation(whole, files=files), rendering))
