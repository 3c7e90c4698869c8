"""The endpoint: a prompt and texts in, the likeliest text out. A disconnect cancels the work."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.runtime.scoring import scores_of, selected
from localllm.server.answers.generation import asking_of
from localllm.server.apis.selecting.replies import selection_object
from localllm.server.apis.selecting.requests import CHOICES, parse_select
from localllm.server.requests.body import json_response
from localllm.server.requests.reading import read


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [Route("/v1/select", select, methods=["POST"])]


async def select(request: Request) -> Response:
    """`POST /v1/select`."""
    _, body, headers = await read(request, parse_select, has_media=True)
    asking = await asking_of(request, body, headers)
    made_of = body.generations(most=asking.state.most_answers(asking.model))
    answering = await asking.answers(made_of, stream=False, num_candidates=len(made_of), field=CHOICES)
    answers = answering.result()
    made = selected(
        await asking.whole(answers, scores_of(answers, body.choices)), per_token=body.per_token is not False
    )
    return json_response(selection_object(made, asking.name, logprobs=bool(body.logprobs)), asking.headers)
