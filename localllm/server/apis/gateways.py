"""What gateways such as smg ask a server of SGLang's kind for: its load, and what its model is.

`/version` and `/server_info` are not served: by those smg takes a server for vLLM or SGLang, and relies on what only
these have.
"""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm import __version__
from localllm.errors import LocalLLMError
from localllm.server.edge.paths import both
from localllm.server.requests.body import json_response
from localllm.server.state import ServerState
from localllm.server.watching.metrics import STATUS_TIMEOUT_S
from localllm.settings.model_names import not_loaded
from localllm.types import LoadedModel


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one model, under SGLang's names."""

    model: str
    dp_rank: int = 0
    num_running_reqs: int
    num_waiting_reqs: int
    num_total_reqs: int
    num_used_tokens: int
    """Tokens in the KV cache that running requests hold; those of idle conversations make room when it is needed."""
    max_total_num_tokens: int
    token_usage: float
    """Their share of the KV cache, from 0 to 1."""
    cache_hit_rate: float
    """Share of all prompt tokens that were found in the cache."""
    utilization: float
    """Share of the slots that are busy."""
    max_running_requests: int


class Loads(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /loads`."""

    version: str = __version__
    dp_rank_count: int = 1
    loads: list[Load]
    """One for each loaded model that responds."""


class GatewayModel(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /model_info`; paths are names of models, never of files."""

    model_path: str
    tokenizer_path: str
    served_model_name: str
    is_generation: bool
    model_type: str
    architectures: list[str]
    context_length: int
    has_image_understanding: bool
    has_audio_understanding: bool


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [*both("/v1/loads", loads), Route("/model_info", model_info), Route("/get_model_info", model_info)]


async def loads(request: Request) -> Response:
    """`GET /loads`, with `?model=NAME` of that one alone."""
    state: ServerState = request.app.state.server
    asked = request.query_params.get("model")
    models = state.runtime.loaded()
    if asked:
        models = [_loaded(state, asked)]
    found = await asyncio.gather(*(_load(state, model) for model in models))
    return json_response(Loads(loads=[load for load in found if load is not None]))


async def _load(state: ServerState, model: LoadedModel) -> Load | None:
    try:
        status = await asyncio.wait_for(state.runtime.status(model.id), STATUS_TIMEOUT_S)
    except (TimeoutError, LocalLLMError):
        return None
    return Load(
        model=model.id,
        num_running_reqs=status.num_running,
        num_waiting_reqs=status.num_without_slot,
        num_total_reqs=status.num_running + status.num_without_slot,
        num_used_tokens=status.num_busy,
        max_total_num_tokens=model.slots * model.ctx,
        token_usage=status.busy_share(model),
        cache_hit_rate=state.metrics.hit_ratio(model.id),
        utilization=status.num_running / model.slots if model.slots else 0.0,
        max_running_requests=model.slots,
    )


async def model_info(request: Request) -> Response:
    """`GET /model_info`: of `?model=NAME`, else of the model that answers requests without a name."""
    state: ServerState = request.app.state.server
    model = _loaded(state, request.query_params.get("model") or await state.model_id(None))
    return json_response(
        GatewayModel(
            model_path=model.id,
            tokenizer_path=model.id,
            served_model_name=model.id,
            is_generation=model.slots > 0,
            model_type=model.info.architecture,
            architectures=[model.info.architecture],
            context_length=model.ctx,
            has_image_understanding="image" in model.reads,
            has_audio_understanding="audio" in model.reads,
        )
    )


def _loaded(state: ServerState, name: str) -> LoadedModel:
    model = state.loaded(name)
    if model is None:
        raise not_loaded(name, [model.id for model in state.runtime.loaded()])
    return model
