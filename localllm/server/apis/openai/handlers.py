"""The endpoints: typed request in, whole answer or event stream out. Every answer is closed.

A stream's headers are sent as soon as the request is accepted, so a later failure arrives as an error event.
"""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.server.apis.openai.requests import CommonRequest, parse_chat, parse_completion
from localllm.server.apis.openai.shapes import ChatShape, Shape, TextShape
from localllm.server.apis.openai.telling import Telling
from localllm.server.common import choices
from localllm.server.common.body import json_response, read_json, unknown_fields_header
from localllm.server.common.counting import TokenCount, num_prompt_tokens
from localllm.server.common.generation import Asking, asking_of, close
from localllm.server.edge import sse
from localllm.server.edge.paths import both
from localllm.server.errors import error_body
from localllm.server.state import ServerState
from localllm.types import GenerationRequest


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [
        *both("/v1/chat/completions", chat_completions, ["POST"]),
        *both("/v1/chat/completions/input_tokens", count_tokens, ["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
    ]


async def chat_completions(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    state: ServerState = request.app.state.server
    body, ignored = parse_chat(await read_json(request, state.settings.max_body_bytes))
    state.admit()
    return await _respond(request, body, ChatShape(body.tooling(), begins_with=_beginning(request)), ignored)


async def count_tokens(request: Request) -> Response:
    """`POST /v1/chat/completions/input_tokens`: prompt tokens of the same request."""
    state: ServerState = request.app.state.server
    body, ignored = parse_chat(await read_json(request, state.settings.max_body_bytes))
    state.admit()
    (source,) = body.sources()
    body.params()  # refuses values that the request itself would be refused for
    count = await num_prompt_tokens(request, body.model, source["messages"], source["rendering"])
    headers = unknown_fields_header(ignored, strict=state.settings.strict)
    return json_response(TokenCount(count, "chat.completion.input_tokens"), headers)


async def completions(request: Request) -> Response:
    """`POST /v1/completions`."""
    state: ServerState = request.app.state.server
    body, ignored = parse_completion(await read_json(request, state.settings.max_body_bytes))
    state.admit()
    return await _respond(request, body, TextShape(), ignored)


async def _respond(request: Request, body: CommonRequest, shape: Shape, ignored: list[str]) -> Response:
    state: ServerState = request.app.state.server
    asking = await asking_of(request, body, unknown_fields_header(ignored, strict=state.settings.strict))
    made_of = body.generations(most=state.most_answers(asking.model))
    field, echoes = _multiplier(body), await _echoes(asking, body)
    prompt = await _prompt(request, asking, made_of[0]) if body.verbose else None
    answering = await asking.answers(made_of, stream=bool(body.stream), num_candidates=body.num_candidates, field=field)
    telling = Telling(shape.id_prefix + secrets.token_hex(12), body.model or asking.model, body, shape, echoes, prompt)
    if answering.done():
        try:
            telling.check_scores(answering.result())
        except BaseException:
            await close(answering.result())
            raise
    if body.stream:
        events = telling.events(answering)
        return asking.stream(answering, events, lambda error: [sse.data(error_body(error))], id=telling.id)
    answers = answering.result()
    made = await asking.whole(answers, choices.collect(answers))
    is_large = choices.is_large(made)
    content = await state.encoding.run(telling.whole, answers, made) if is_large else telling.whole(answers, made)
    return Response(content, media_type="application/json", headers=asking.headers)


def _beginning(request: Request) -> str | None:
    """The text of a stream's first chunk: null on paths without a version, as in llama-server."""
    return "" if request.url.path.startswith("/v1/") else None


def _multiplier(body: CommonRequest) -> str:
    """The field that requests several answers."""
    if body.num_candidates == 1:
        return "prompt"
    return "n" if body.num_candidates == body.num_choices else "best_of"


async def _prompt(request: Request, asking: Asking, asked: GenerationRequest) -> str:
    """The rendered prompt. Raises the template's error."""
    runtime = asking.state.runtime
    if asked.messages is not None:
        rendered = runtime.render(asking.model, asked.messages, asked.rendering)
        return await sse.unless_gone(request.receive, rendered)
    if asked.prompt is not None:
        return asked.prompt
    pieces = await sse.unless_gone(request.receive, runtime.pieces(asking.model, asked.prompt_tokens or ()))
    return b"".join(pieces).decode("utf-8", "replace")


async def _echoes(asking: Asking, body: CommonRequest) -> list[str]:
    """The text to put before each choice; empty without `echo`."""
    texts: list[str] = []
    for prompt in body.echoed():
        if "prompt" in prompt:
            text = prompt["prompt"]
        else:
            pieces = await asking.state.runtime.pieces(asking.model, prompt["prompt_tokens"])
            text = b"".join(pieces).decode("utf-8", "replace")
        texts += [text] * body.num_choices
    return texts
