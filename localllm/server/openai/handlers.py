"""The endpoints: typed request in, whole answer or event stream out. An answer is closed in every case.

A stream's headers go out as soon as the request is accepted, so what fails later arrives as an error event.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InternalError, InvalidParameter, LocalLLMError, ModelNotFound, clipped
from localllm.runtime import Answer
from localllm.server import log, sse
from localllm.server.body import field_notes, json_response, notes_header, read_json, unknown_fields_header
from localllm.server.callers import caller_of
from localllm.server.errors import defect, error_body
from localllm.server.limits import places_of
from localllm.server.openai import choices
from localllm.server.openai import models as listed
from localllm.server.openai import replies as out
from localllm.server.openai.logprobs import echo_logprobs, text_logprobs, text_of
from localllm.server.openai.requests import CommonRequest, parse_chat, parse_completion
from localllm.server.openai.shapes import ChatShape, Shape, TextShape
from localllm.server.state import ServerState
from localllm.server.tally import tally_of
from localllm.types import Delta, Finish, TokenLogprob

MAX_PROMPT_LOGPROBS = 2**19
"""Of all prompts of a request together: about 60 MB while they are collected."""

logger = logging.getLogger("localllm")


def routes() -> list[Route]:
    """What this package answers."""
    return [
        Route("/v1/models", list_models),
        Route("/v1/models/{model_id:path}", get_model),
        Route("/v1/chat/completions", chat_completions, methods=["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
    ]


async def chat_completions(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    state: ServerState = request.app.state.server
    body, ignored = parse_chat(await read_json(request, state.settings.max_body_bytes))
    state.admit()
    return await _respond(request, body, ChatShape(body.tooling()), ignored)


async def completions(request: Request) -> Response:
    """`POST /v1/completions`."""
    state: ServerState = request.app.state.server
    body, ignored = parse_completion(await read_json(request, state.settings.max_body_bytes))
    state.admit()
    return await _respond(request, body, TextShape(), ignored)


async def list_models(request: Request) -> Response:
    """`GET /v1/models`: what answers at once, then what is loaded when it is asked for."""
    return json_response(listed.ModelList(await _models(request)))


async def get_model(request: Request) -> Response:
    """`GET /v1/models/{id}`."""
    id = request.path_params["model_id"]
    for entry in await _models(request):
        if entry.id == id:
            return json_response(entry)
    raise ModelNotFound(f"no model is called {clipped(id)!r} here", param="model")


async def _models(request: Request) -> list[listed.ModelEntry]:
    state: ServerState = request.app.state.server
    entries = [listed.model_entry(model) for model in state.runtime.loaded()]
    there = {entry.id for entry in entries}
    available = await state.listing.run(state.runtime.available)
    return entries + [listed.available_entry(model) for model in available if model.id not in there]


async def _respond(request: Request, body: CommonRequest, shape: Shape, ignored: list[str]) -> Response:
    state: ServerState = request.app.state.server
    headers = unknown_fields_header(ignored, strict=state.settings.strict)
    caller, tally = caller_of(request), tally_of(request)
    tally.begin(body.model, state.loaded(body.model))
    keep_alive_s = caller.keep_alive(body.keep_alive_s())
    made_of = body.generations(most=state.most_answers(body.model))
    asked = caller.owned(state.timed(made_of), priority=body.priority, cache_salt=body.cache_salt)
    places_of(request).hold(len(asked), _multiplier(body))
    echoes = await _echoes(state, body)
    answering = await state.answers(
        request.receive,
        body.model,
        asked,
        keep_alive_s,
        lambda answers: tally.watched(answers, state.loaded(body.model), body.num_candidates),
        stream=bool(body.stream),
    )
    if answering.done():
        await _check_scores(answering.result(), body, echoes)
        headers |= notes_header(note for answer in answering.result() for note in answer.notes)
    template: out.Reply[Any] = out.Reply(
        id=shape.id_prefix + secrets.token_hex(12), object="", created=int(time.time()), model=body.model, choices=[]
    )
    if body.stream:
        events = _events(state, answering, body, shape, template, echoes)
        silence_s = state.settings.keep_alive_s
        return sse.EventStream(events, partial(choices.abandon, answering), headers, keep_alive_s=silence_s)
    answers = answering.result()
    try:
        made = await sse.unless_gone(request.receive, choices.collect(answers))
    except LocalLLMError as error:
        raise state.seen_by_client(error) from error
    finally:
        await choices.close(answers)

    def encoded() -> bytes:
        chosen = choices.best(made, body.num_candidates, body.num_choices)
        reply = msgspec.structs.replace(
            template,
            object=shape.whole_object,
            choices=[
                shape.whole(
                    index,
                    whole._replace(text=echoes[index] + whole.text) if echoes else whole,
                    _logprobs(whole, body, shape, echoes[index] if echoes else None),
                )
                for index, whole in enumerate(chosen)
            ],
            usage=out.usage_object(choices.usage([each.finish for each in made], body.num_candidates)),
            timings=out.timings_object(made[0].finish.timings) if body.timings else msgspec.UNSET,
            localllm=out.remarks(
                [
                    *_of_request(answers, shape),
                    *(
                        said
                        for index, whole in enumerate(chosen)
                        for said in _numbered(shape.warnings(whole), index, len(chosen))
                    ),
                ],
                answers[0].cache_miss if body.cache_report else None,
            ),
        )
        return msgspec.json.encode(reply)

    content = await state.encoding.run(encoded) if choices.is_large(made) else encoded()
    return Response(content, media_type="application/json", headers=headers)


async def _check_scores(answers: Sequence[Answer], body: CommonRequest, echoes: list[str]) -> None:
    """Raises `InvalidParameter` for prompts of which more would be told than memory is meant for."""
    num_top = body.num_logprobs()
    if not echoes or num_top is None:
        return
    count = sum(answer.num_prompt_tokens for answer in answers) * (1 + num_top)
    if count > MAX_PROMPT_LOGPROBS:
        await choices.close(answers)
        raise InvalidParameter(
            f"echo with logprobs would give {count} log-probabilities of prompts and {MAX_PROMPT_LOGPROBS} may be "
            "given; send fewer or shorter prompts at a time, or a smaller logprobs",
            param="logprobs",
        )


def _logprobs(whole: choices.Whole, body: CommonRequest, shape: Shape, echo: str | None) -> Any:
    """Of an answer, and of the prompt before it if that is sent back."""
    if body.num_logprobs() is None:
        return None
    if echo is None:
        return shape.logprobs(whole.logprobs, 0)
    return echo_logprobs(whole.prompt_logprobs, echo) + text_logprobs(whole.logprobs, len(echo))


def _multiplier(body: CommonRequest) -> str:
    """The field by which a request asks for several answers."""
    if body.num_candidates == 1:
        return "prompt"
    return "n" if body.num_candidates == body.num_choices else "best_of"


async def _echoes(state: ServerState, body: CommonRequest) -> list[str]:
    """What to put before each choice; empty for nothing."""
    texts: list[str] = []
    for prompt in body.echoed():
        if "prompt" in prompt:
            text = prompt["prompt"]
        else:
            pieces = await state.runtime.pieces(state.named(body.model), prompt["prompt_tokens"])
            text = b"".join(pieces).decode("utf-8", "replace")
        texts += [text] * body.num_choices
    return texts


async def _events(
    state: ServerState,
    answering: asyncio.Future[list[Answer]],
    body: CommonRequest,
    shape: Shape,
    template: out.Reply[Any],
    echoes: list[str],
) -> AsyncGenerator[bytes, None]:
    """The chunks of a stream. Whatever goes wrong ends it with an error event, never in silence."""
    try:
        answers = await answering
        await _check_scores(answers, body, echoes)
        async for chunk in _chunks(answers, body, shape, template, echoes):
            yield sse.data(msgspec.json.encode(chunk))
        yield sse.DONE
    except LocalLLMError as error:
        log.event(logging.WARNING, "stream_failed", id=template.id, code=error.code, message=error.message)
        yield sse.data(error_body(state.seen_by_client(error)))
    except Exception as error:
        logger.exception("defect in a stream")
        yield sse.data(error_body(defect(error)))


async def _chunks(
    answers: list[Answer], body: CommonRequest, shape: Shape, template: out.Reply[Any], echoes: list[str]
) -> AsyncGenerator[out.Reply[Any], None]:
    # With include_usage every chunk but the last carries `"usage": null`, as OpenAI's do.
    empty = msgspec.structs.replace(
        template, object=shape.chunk_object, usage=None if body.include_usage else msgspec.UNSET
    )

    def chunk(*made: Any, **extra: Any) -> out.Reply[Any]:
        return msgspec.structs.replace(empty, choices=list(made), **extra)

    streams = [shape.stream(index) for index in range(len(answers))]
    for stream in streams:
        first = stream.first()
        if first is not None:
            yield chunk(first)
    scores_prompts = bool(echoes) and body.num_logprobs() is not None
    if not scores_prompts:
        for index, text in enumerate(echoes):
            for made in streams[index].chunks(Delta(text), None):
                yield chunk(made)
    offsets = [len(echoes[index]) if echoes else 0 for index in range(len(answers))]
    scored: list[list[TokenLogprob]] = [[] for _ in answers]
    finishes: dict[int, Finish] = {}
    uncounted = [0] * len(answers)  # of each answer, tokens that are in no chunk yet
    said = _of_request(answers, shape)
    async for index, delta in choices.merged(answers):
        if scores_prompts and delta.prompt_logprobs:  # the whole prompt at once: only then its offsets are known
            scored[index] += delta.prompt_logprobs
            if len(scored[index]) == answers[index].num_prompt_tokens:
                told = echo_logprobs(scored[index], echoes[index])
                for made in streams[index].chunks(Delta(echoes[index]), told):
                    yield chunk(made)
                scored[index] = []
        logprobs = shape.logprobs(delta.logprobs, offsets[index]) if delta.logprobs else None
        uncounted[index] += delta.num_tokens
        for made in streams[index].chunks(delta, logprobs):
            counted = out.Remarks(num_tokens=uncounted[index]) if body.timings and uncounted[index] else msgspec.UNSET
            yield chunk(made, localllm=counted)
            uncounted[index] = 0
        offsets[index] += sum(len(text_of(item.piece)) for item in delta.logprobs)
        if delta.finish is not None:
            finishes[index] = delta.finish
            timings = out.timings_object(delta.finish.timings) if body.timings else msgspec.UNSET
            said += _numbered(streams[index].warnings(delta.finish), index, len(answers))
            remarks = out.remarks(said, answers[index].cache_miss if body.cache_report else None)
            yield chunk(streams[index].last(delta.finish), timings=timings, localllm=remarks)
            said = []
    if len(finishes) < len(answers):
        raise InternalError("an answer ended without a finish")
    if body.include_usage:
        ended = [finishes[index] for index in range(len(answers))]
        yield chunk(usage=out.usage_object(choices.usage(ended, body.num_candidates)))


def _of_request(answers: Iterable[Answer], shape: Shape) -> list[str]:
    """Warnings that concern all its answers."""
    return [*shape.notes, *field_notes(note for answer in answers for note in answer.notes)]


def _numbered(warnings: Iterable[str], index: int, num_choices: int) -> list[str]:
    """With the choice that they concern, where there are several."""
    return [*warnings] if num_choices == 1 else [f"choices[{index}]: {said}" for said in warnings]
