"""`/completion`, `/completions` and `/infill`: typed request in, whole replies or events out.

Several prompts, or several answers to one, are an array of replies, and in a stream events with their `index`. Every
answer is closed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import UnsupportedParameter
from localllm.runtime.runtime import Answer
from localllm.server.answers import choices
from localllm.server.answers.generation import Asking, asking_of
from localllm.server.answers.story import drained, encoded
from localllm.server.apis.llamacpp.completion_replies import WholeReply, only
from localllm.server.apis.llamacpp.completion_requests import AnswerFields, CompletionRequest, InfillRequest
from localllm.server.apis.llamacpp.completion_story import CompletionStory
from localllm.server.apis.llamacpp.errors import error_body
from localllm.server.apis.llamacpp.prompts import source_of, with_biased_tokens
from localllm.server.edge import log, sse
from localllm.server.errors import NotServed
from localllm.server.requests.field_rules import known
from localllm.server.requests.reading import read

BodyT = TypeVar("BodyT", CompletionRequest, InfillRequest)


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [
        Route("/completion", completion, methods=["POST"]),
        Route("/completions", completion, methods=["POST"]),
        Route("/infill", infill, methods=["POST"]),
    ]


async def completion(request: Request) -> Response:
    """`POST /completion`, `POST /completions`."""
    body, headers = await _read(request, CompletionRequest)
    prompts = body.prompts()
    asking = await asking_of(request, body, headers)
    runtime = asking.state.runtime
    sources = [await sse.unless_gone(request.receive, source_of(runtime, asking.model, prompt)) for prompt in prompts]
    return await _respond(request, asking, body, sources)


async def infill(request: Request) -> Response:
    """`POST /infill`."""
    body, headers = await _read(request, InfillRequest)
    asking = await asking_of(request, body, headers)
    try:
        return await _respond(request, asking, body, [body.source()])
    except UnsupportedParameter as error:
        if error.param != "input_suffix":
            raise
        raise NotServed(error.message) from error


async def _read(request: Request, kind: type[BodyT]) -> tuple[BodyT, dict[str, str]]:
    """The body, and the header that names its ignored fields."""
    _, body, headers = await read(request, known(kind), has_media=kind is CompletionRequest)
    return body, headers


async def _respond(request: Request, asking: Asking, body: AnswerFields, sources: list[dict[str, Any]]) -> Response:
    state, model = asking.state, asking.model
    body = await sse.unless_gone(request.receive, with_biased_tokens(state.runtime, model, body))
    made_of = body.generations(sources, most=state.most_answers(model))
    answering = await asking.answers(
        made_of,
        stream=False,  # errors of the model or the prompt get a status, as in llama-server
        num_candidates=body.num_completions,
        field="n_cmpl" if body.num_completions > 1 else "prompt",
    )
    answers = answering.result()
    stories = [CompletionStory(body, index, model) for index in range(len(answers))]
    events = _events(body, answers, stories)
    if body.stream:
        silence_s = None if body.sse_ping_interval is None else max(0, body.sse_ping_interval)
        chunks, id = encoded(events, lambda event: sse.data(msgspec.json.encode(event))), log.id_of(request.scope)
        return asking.stream(answering, chunks, lambda error: [sse.data(error_body(error))], id=id, silence_s=silence_s)
    await asking.whole(answers, drained(events))
    replies = [story.whole for story in stories if story.whole is not None]

    def encoded_replies() -> bytes:
        chosen = [_chosen(reply, body) for reply in replies]
        return msgspec.json.encode(chosen[0] if len(chosen) == 1 else chosen)

    is_large = any(len(reply.completion_probabilities or ()) > LARGE for reply in replies)
    content = await state.encoding.run(encoded_replies) if is_large else encoded_replies()
    return Response(content, media_type="application/json", headers=asking.headers)


LARGE = 100
"""Number of tokens with probabilities that take a few milliseconds to serialize."""


def _chosen(reply: WholeReply, body: AnswerFields) -> Any:
    return only(reply, body.response_fields) if body.response_fields else reply


async def _events(
    body: AnswerFields, answers: Sequence[Answer], stories: Sequence[CompletionStory]
) -> AsyncGenerator[Any, None]:
    """The events of a stream. Raises the error of the first answer that fails."""
    for story, answer in zip(stories, answers, strict=True):
        story.begin(answer)
    async with aclosing(choices.merged(answers)) as deltas:
        async for index, delta in deltas:
            for event in stories[index].feed(delta):
                yield event
            if delta.finish is not None:
                last = stories[index].last(delta.finish, answers[index].cache_miss if body.cache_report else None)
                yield _chosen(last, body)
