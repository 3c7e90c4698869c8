"""Counts the prompt tokens of a conversation without computing anything. Knows no API's fields."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.requests import Request

from localllm.server.edge import sse
from localllm.server.state import ServerState
from localllm.server.watching.tally import tally_of
from localllm.types import MediaFile, Message, Rendering
from localllm.types.conversation import Conversation


class TokenCount(msgspec.Struct, frozen=True):
    """The reply of OpenAI's Responses API and llama-server."""

    input_tokens: int
    object: str


async def num_prompt_tokens(
    request: Request,
    model: str | None,
    messages: Sequence[Message],
    rendering: Rendering,
    files: tuple[MediaFile, ...] = (),
) -> int:
    """The number of tokens in the rendered prompt, with documents and the rows of pictures and sounds.

    Raises `ModelNotFound`, `NoChatTemplate`, `TemplateError`, `ClientGone`.
    """
    state: ServerState = request.app.state.server
    id = await state.model_for(request, model)
    tally_of(request).begin(model or id, state.loaded(id))
    whole, files, *_ = await sse.unless_gone(request.receive, state.media.complete(tuple(messages), files))
    return await sse.unless_gone(request.receive, state.runtime.count(id, Conversation(whole, files=files), rendering))
