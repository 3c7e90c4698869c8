"""The endpoints: typed request in, whole answer or event stream out. Every answer is closed.

A stream's headers are sent as soon as the request is accepted, so a later failure arrives as an error event.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.server.answers import choices
from localllm.server.answers.generation import Asking, asking_of, close
from localllm.server.apis.openai.requests import CommonRequest, parse_chat, parse_completion
from localllm.server.apis.openai.shapes import ChatShape, Shape, TextShape
from localllm.server.apis.openai.streaming import Telling
from localllm.server.edge import sse
from localllm.server.edge.paths import both
from localllm.server.errors import error_body
from localllm.server.requests.body import json_response, notes_header
from localllm.server.requests.counting import count_prompt, token_count
from localllm.server.requests.marked_prompts import MARKER
from localllm.server.requests.reading import read
from localllm.types import GenerationRequest, Media


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [
        *both("/v1/chat/completions", chat_completions, ["POST"]),
        *both("/v1/chat/completions/input_tokens", count_tokens, ["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
    ]


async def chat_completions(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    _, body, headers = await read(request, parse_chat, has_media=True)
    return await _respond(request, body, ChatShape(body.tooling(), begins_with=_beginning(request)), headers)


async def count_tokens(request: Request) -> Response:
    """`POST /v1/chat/completions/input_tokens`: prompt tokens of the same request."""
    _, body, headers = await read(request, parse_chat, has_media=True)
    (source,) = body.sources()
    body.params()  # refuses values that the request itself would be refused for
    count = await count_prompt(request, body.model, source["messages"], source["rendering"], source["media"])
    return json_response(token_count(count, "chat.completion.input_tokens"), headers | notes_header(source["notes"]))


async def completions(request: Request) -> Response:
    """`POST /v1/completions`."""
    _, body, headers = await read(request, parse_completion, has_media=True)
    return await _respond(request, body, TextShape(), headers)


async def _respond(request: Request, body: CommonRequest, shape: Shape, headers: dict[str, str]) -> Response:
    asking = await asking_of(request, body, headers)
    state = asking.state
    made_of = body.generations(most=state.most_answers(asking.model))
    field, echoes = _multiplier(body), await _echoes(asking, body)
    prompt = await _prompt(request, asking, made_of[0]) if body.verbose else None
    answering = await asking.answers(made_of, stream=bool(body.stream), num_candidates=body.num_candidates, field=field)
    telling = Telling(shape.id_prefix + secrets.token_hex(12), asking.name, body, shape, echoes, prompt)
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
    if asked.messages is not None:
        rendered = asking.state.runtime.render(asking.model, asked.messages, asked.rendering)
        return await sse.unless_gone(request.receive, rendered)
    if asked.prompt is not None:
        return asked.prompt
    if asked.prompt_parts is not None:
        return "".join(MARKER if isinstance(part, Media) else part for part in asked.prompt_parts)
    return await sse.unless_gone(request.receive, _text(asking, asked.prompt_tokens or ()))


async def _echoes(asking: Asking, body: CommonRequest) -> list[str]:
    """The text to put before each choice; empty without `echo`."""
    texts: list[str] = []
    for prompt in body.echoed():
        text = prompt["prompt"] if "prompt" in prompt else await _text(asking, prompt["prompt_tokens"])
        texts += [text] * body.num_choices
    return texts


async def _text(asking: Asking, tokens: Sequence[int]) -> str:
    return b"".join(await asking.state.runtime.pieces(asking.model, tokens)).decode("utf-8", "replace")
