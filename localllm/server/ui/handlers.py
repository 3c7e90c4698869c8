"""The endpoint that only the page uses: a stream of the models' activity."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import LocalLLMError
from localllm.server.edge import sse
from localllm.server.state import ServerState
from localllm.types import wire as body
from localllm.types.states import EngineStatus, RunningModel

INTERVAL_S = 0.5
"""Interval between two looks at the models."""
STILL_S = 5.0
"""Maximum time without an event while nothing changes."""
STATUS_TIMEOUT_S = 0.4
"""A model that does not respond within this time, because of a long step, is shown in its previous state."""


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [Route("/localllm/watch", watch)]


async def watch(request: Request) -> Response:
    """`GET /localllm/watch`: an event after each change, until the client disconnects."""
    state: ServerState = request.app.state.server

    async def close() -> None:
        pass

    return sse.EventStream(_events(state), close, {}, keep_alive_s=state.settings.keep_alive_s)


async def _events(state: ServerState) -> AsyncGenerator[bytes, None]:
    statuses: dict[str, EngineStatus] = {}
    before: body.Activity | None = None
    while not state.draining:
        models = state.runtime.running()
        statuses = await _statuses(state, models, statuses)
        now = _activity(state, models, statuses)
        if before is None or _is_news(now, before):
            yield sse.data(msgspec.json.encode(now))
            before = now
        await asyncio.sleep(INTERVAL_S)


def _is_news(now: body.Activity, before: body.Activity) -> bool:
    is_still = (now.totals, now.models) == (before.totals, before.models)
    return not is_still or now.time_s - before.time_s > STILL_S


async def _statuses(
    state: ServerState, models: Sequence[RunningModel], before: dict[str, EngineStatus]
) -> dict[str, EngineStatus]:
    async def status(id: str) -> EngineStatus | None:
        try:
            return await asyncio.wait_for(state.runtime.status(id), STATUS_TIMEOUT_S)
        except (TimeoutError, LocalLLMError):
            return before.get(id)

    ids = [model.id for model in models if model.phase == "ready"]
    found = await asyncio.gather(*(status(id) for id in ids))
    return {id: each for id, each in zip(ids, found, strict=True) if each is not None}


def _activity(state: ServerState, models: Sequence[RunningModel], statuses: dict[str, EngineStatus]) -> body.Activity:
    """Totals include running requests as far as they are."""
    totals = state.metrics.totals
    prompt, cached, made = totals.computed, totals.cached, totals.made
    for status in statuses.values():
        for slot in status.slots:
            if slot.request is not None:
                prompt += max(0, min(slot.num_computed, slot.num_prompt) - slot.num_cached)
                cached += slot.num_cached
                made += slot.num_generated
    return body.Activity(
        time_s=time.time(),
        totals=body.TokenTotals(prompt_tokens=prompt, cached_tokens=cached, completion_tokens=made),
        models=[_model(model, statuses.get(model.id)) for model in models],
    )


def _model(model: RunningModel, status: EngineStatus | None) -> body.ModelActivity:
    slots = () if status is None else status.slots
    return body.ModelActivity(
        model=model.id,
        status=model.phase,
        running=sum(slot.request is not None for slot in slots),
        waiting=0 if status is None else status.num_without_slot,
        memory_bytes=model.memory_bytes,
        ctx=0 if model.loaded is None else model.loaded.ctx,
        slots=[body.SlotActivity(tokens=slot.num_held, busy=slot.request is not None) for slot in slots],
    )
