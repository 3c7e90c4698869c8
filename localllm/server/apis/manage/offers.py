"""`/localllm/search` and `/localllm/offers`: models that could be pulled, and whether they fit this machine.

They use POST, since the server queries Hugging Face, which a link on another site must not trigger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InvalidParameter, PullFailed
from localllm.planning.memory_fit import Fit
from localllm.planning.placing import CPU
from localllm.planning.speeds import NotPredicted
from localllm.registry import catalog
from localllm.server.edge import sse
from localllm.server.edge.callers import caller_of
from localllm.server.requests.body import json_response
from localllm.server.requests.field_rules import known
from localllm.server.requests.reading import read
from localllm.system import memory as system_memory
from localllm.types import wire as body

if TYPE_CHECKING:  # it brings the HTTP client, which few servers need
    from localllm.registry.offers.rating import RatedModel

SPARE_BYTES = 500 * 10**6
"""Approximate memory that a catalog model needs for KV cache and buffers, in addition to its file."""
MAX_HITS = 100


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [
        Route("/localllm/catalog", list_catalog),
        Route("/localllm/search", search, methods=["POST"]),
        Route("/localllm/offers", offers, methods=["POST"]),
    ]


async def list_catalog(request: Request) -> Response:
    """`GET /localllm/catalog?query=`."""
    return json_response(body.CatalogModels(_of_catalog(request.query_params.get("query", ""))))


async def search(request: Request) -> Response:
    """`POST /localllm/search`: results of the catalog are included even if Hugging Face cannot be searched."""
    caller_of(request).check_may("search for models")
    state, asked, headers = await read(request, known(body.SearchRequest))
    if not 1 <= asked.limit <= MAX_HITS:
        raise InvalidParameter(f"limit must be from 1 to {MAX_HITS}, got {asked.limit}", param="limit")
    words, found, problem = asked.query.strip(), [], None
    if words:
        try:
            found = await sse.unless_gone(request.receive, state.offers.search(words, asked.limit))
        except PullFailed as error:
            problem = error.message
    hub = [
        body.HubModel(
            id=f"hf.co/{hit.id}",
            downloads=hit.downloads,
            likes=hit.likes,
            license=hit.license,
            updated=hit.updated,
            gated=hit.gated,
        )
        for hit in found
    ]
    return json_response(body.SearchResult(catalog=_of_catalog(words), hub=hub, hub_problem=problem), headers)


async def offers(request: Request) -> Response:
    """`POST /localllm/offers`: every quantization of one model."""
    caller_of(request).check_may("look for models")
    state, asked, headers = await read(request, known(body.ModelRequest))
    is_busy = any(model.num_requests for model in state.runtime.running())
    work = state.offers.offers(asked.model, may_measure=not is_busy)
    found, problem = await sse.unless_gone(request.receive, work)
    every = catalog.load()
    is_catalogs = any(asked.model in (entry.id, entry.name) for entry in every.entries)
    models = [
        _offered(each, asked.model if is_catalogs and each.offer.is_chosen else each.offer.name) for each in found
    ]
    answer = body.OfferedModels(
        model=asked.model, free_bytes=system_memory.available_memory(), devices_problem=problem, models=models
    )
    return json_response(answer, headers)


def _of_catalog(words: str) -> list[body.CatalogModel]:
    memory = system_memory.total_memory()
    return [
        body.CatalogModel(
            id=entry.id,
            kind=entry.kind,
            repo=entry.repo,
            quant=entry.quant,
            size_bytes=entry.size_bytes,
            num_parameters=entry.num_parameters,
            context_length=entry.context_length,
            license=entry.license,
            description=entry.description,
            fits=None if memory is None else entry.size_bytes + SPARE_BYTES <= memory,
        )
        for entry in catalog.load().search(words)
    ]


def _offered(one: RatedModel, name: str) -> body.OfferedModel:
    offer, plan, speed = one
    return body.OfferedModel(
        name=name,
        quant=offer.quant,
        size_bytes=offer.size_bytes,
        files=offer.num_files,
        license=offer.license,
        chosen=offer.is_chosen,
        why=offer.why,
        fit=None if isinstance(plan, str) else _model_fit(plan),
        problem=plan if isinstance(plan, str) else None,
        speed=None
        if isinstance(speed, NotPredicted)
        else body.PredictedSpeed(
            answer_tokens_per_s=round(speed.answer_tokens_per_s, 2),
            prompt_tokens_per_s=round(speed.prompt_tokens_per_s, 2),
            error=round(speed.error, 3),
        ),
        no_speed=speed.reason if isinstance(speed, NotPredicted) else None,
    )


def _model_fit(plan: Fit) -> body.ModelFit:
    return body.ModelFit(
        fits=plan.fits,
        need_bytes=plan.need_bytes,
        layers=sum(share.layers for share in plan.shares),
        gpu_layers=sum(share.layers for share in plan.shares if share.device != CPU),
        ctx=plan.ctx,
        slots=plan.slots,
        kv_type=plan.kv_type,
        largest_ctx=plan.largest_ctx,
        cpu_experts=plan.cpu_experts,
        per_gb=plan.per_gb,
        alternatives=[
            body.FittingOptions(ctx=each.ctx, slots=each.slots, kv_type=each.kv_type, need_bytes=each.need_bytes)
            for each in plan.alternatives
        ],
    )
