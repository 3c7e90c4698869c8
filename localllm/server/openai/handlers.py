"""The endpoints: typed request in, whole answer or event stream out. An answer is closed in every case.

A stream's headers go out as soon as the request is accepted, so what fails later arrives as an error event.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from localllm.errors import InternalError, LocalLLMError
from localllm.runtime import Answer
from localllm.server import log, sse
from localllm.server.body import read_json
from localllm.server.errors import defect, error_body
from localllm.server.openai import responses as out
from localllm.server.openai.logprobs import chat_logprobs, text_logprobs, text_of
from localllm.server.openai.requests import CommonRequest, parse_chat, parse_completion
from localllm.server.state import ServerState
from localllm.types import Finish, TokenLogprob

logger = logging.getLogger("localllm")
ChoiceT = TypeVar("ChoiceT")


class Shape(NamedTuple, Generic[ChoiceT]):
    """What differs between the two completion APIs."""

    id_prefix: str
    whole_object: str
    chunk_object: str
    first: ChoiceT | None
    whole: Callable[[str, out.FinishReason, Any], Any]
    chunk: Callable[[str, Any], ChoiceT]
    logprobs: Callable[[Sequence[TokenLogprob], int], Any]
    """Of tokens that begin so many characters into the answer."""
    last: Callable[[out.FinishReason], ChoiceT]


CHAT: Shape[out.ChatChunkChoice] = Shape(
    id_prefix="chatcmpl-",
    whole_object="chat.completion",
    chunk_object="chat.completion.chunk",
    first=out.ChatChunkChoice(0, out.ChatDelta(role="assistant", content="")),
    whole=lambda text, reason, logprobs: out.ChatChoice(0, out.ChatText("assistant", text), reason, logprobs),
    chunk=lambda text, logprobs: out.ChatChunkChoice(0, out.ChatDelta(content=text), logprobs=logprobs),
    logprobs=chat_logprobs,
    last=lambda reason: out.ChatChunkChoice(0, out.ChatDelta(), reason),
)

TEXT: Shape[out.TextChoice] = Shape(
    id_prefix="cmpl-",
    whole_object="text_completion",
    chunk_object="text_completion",
    first=None,
    whole=lambda text, reason, logprobs: out.TextChoice(0, text, reason, logprobs),
    chunk=lambda text, logprobs: out.TextChoice(0, text, logprobs=logprobs),
    logprobs=text_logprobs,
    last=lambda reason: out.TextChoice(0, "", reason),
)


async def chat_completions(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    state: ServerState = request.app.state.server
    body, ignored = parse_chat(await read_json(request, state.max_body_bytes))
    state.admit()
    accepting = state.runtime.chat(body.model, body.conversation(), body.params())
    return await _respond(request, body, CHAT, accepting, ignored)


async def completions(request: Request) -> Response:
    """`POST /v1/completions`."""
    state: ServerState = request.app.state.server
    body, ignored = parse_completion(await read_json(request, state.max_body_bytes))
    state.admit()
    accepting = state.runtime.complete(body.model, body.one_prompt(), body.params())
    return await _respond(request, body, TEXT, accepting, ignored)


async def list_models(request: Request) -> Response:
    """`GET /v1/models`."""
    state: ServerState = request.app.state.server
    return _json(out.ModelList([out.model_entry(model) for model in state.runtime.loaded()]))


async def get_model(request: Request) -> Response:
    """`GET /v1/models/{id}`."""
    state: ServerState = request.app.state.server
    return _json(out.model_entry(state.model(request.path_params["model_id"])))


async def _respond(
    request: Request,
    body: CommonRequest,
    shape: Shape[Any],
    accepting: Coroutine[Any, Any, Answer],
    ignored: list[str],
) -> Response:
    state: ServerState = request.app.state.server
    headers = _ignored_header(ignored)
    answer = await sse.unless_gone(request.receive, accepting)
    template: out.Reply[Any] = out.Reply(
        id=shape.id_prefix + secrets.token_hex(12), object="", created=int(time.time()), model=body.model, choices=[]
    )
    if body.stream:
        return sse.EventStream(_events(state, answer, body, shape, template), answer.aclose, headers)
    try:
        text, finish, tokens = await sse.unless_gone(request.receive, _collect(answer))
    except LocalLLMError as error:
        raise state.seen_by_client(error) from error
    finally:
        await answer.aclose()
    logprobs = None if body.num_logprobs() is None else shape.logprobs(tokens, 0)
    reply = msgspec.structs.replace(
        template,
        object=shape.whole_object,
        choices=[shape.whole(text, out.finish_reason(finish), logprobs)],
        usage=out.usage_object(finish.usage),
        timings=finish.timings if body.timings else msgspec.UNSET,
    )
    return _json(reply, headers)


async def _collect(answer: Answer) -> tuple[str, Finish, list[TokenLogprob]]:
    pieces: list[str] = []
    logprobs: list[TokenLogprob] = []
    async for delta in answer:
        pieces.append(delta.text)
        logprobs += delta.logprobs
        if delta.finish is not None:
            return "".join(pieces), delta.finish, logprobs
    raise InternalError("the answer ended without a finish")


async def _events(
    state: ServerState, answer: Answer, body: CommonRequest, shape: Shape[Any], template: out.Reply[Any]
) -> AsyncGenerator[bytes, None]:
    """The chunks of a stream. Whatever goes wrong ends it with an error event, never in silence."""
    try:
        async for chunk in _chunks(answer, body, shape, template):
            yield sse.data(msgspec.json.encode(chunk))
        yield sse.DONE
    except LocalLLMError as error:
        log.event(logging.WARNING, "stream_failed", id=template.id, code=error.code, message=error.message)
        yield sse.data(error_body(state.seen_by_client(error)))
    except Exception as error:
        logger.exception("defect in a stream")
        yield sse.data(error_body(defect(error)))


async def _chunks(
    answer: Answer, body: CommonRequest, shape: Shape[Any], template: out.Reply[Any]
) -> AsyncGenerator[out.Reply[Any], None]:
    # With include_usage every chunk but the last carries `"usage": null`, as OpenAI's do.
    empty = msgspec.structs.replace(
        template, object=shape.chunk_object, usage=None if body.include_usage else msgspec.UNSET
    )

    def chunk(*choices: Any, **extra: Any) -> out.Reply[Any]:
        return msgspec.structs.replace(empty, choices=list(choices), **extra)

    if shape.first is not None:
        yield chunk(shape.first)
    offset = 0
    async for delta in answer:
        if delta.text or delta.logprobs:
            yield chunk(shape.chunk(delta.text, shape.logprobs(delta.logprobs, offset) if delta.logprobs else None))
            offset += sum(len(text_of(item.piece)) for item in delta.logprobs)
        if delta.finish is not None:
            timings = {"timings": delta.finish.timings} if body.timings else {}
            yield chunk(shape.last(out.finish_reason(delta.finish)), **timings)
            if body.include_usage:
                yield chunk(usage=out.usage_object(delta.finish.usage))
            return
    raise InternalError("the answer ended without a finish")


def _ignored_header(names: list[str]) -> dict[str, str]:
    if not names:
        return {}
    log.event(logging.INFO, "fields_ignored", names=",".join(names))
    # Names come from the client: only plain characters reach a header.
    safe = ["".join(char if char.isascii() and char.isprintable() else "?" for char in name)[:64] for name in names]
    return {"x-localllm-ignored": ", ".join(safe[:32])}


def _json(content: msgspec.Struct, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json", headers=headers)
