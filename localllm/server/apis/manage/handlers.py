"""The endpoints of `/localllm/*`. Models are given by name, never by path. Long operations report progress events.

Disconnecting cancels a pull; the next one resumes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InvalidParameter, LoadFailed, LocalLLMError
from localllm.runtime.runtime import Runtime
from localllm.server.answers.generation import ended
from localllm.server.answers.progress import Progress
from localllm.server.edge import sse
from localllm.server.edge.callers import caller_of
from localllm.server.errors import error_body
from localllm.server.requests.body import json_response
from localllm.server.requests.field_rules import known
from localllm.server.requests.reading import read
from localllm.server.state import ServerState
from localllm.settings.durations import keep_alive_seconds
from localllm.types import wire as body
from localllm.types.states import BatchWork, EngineStatus, PullState, RunningModel

EventT = TypeVar("EventT", body.LoadEvent, body.PullEvent)

STATUS_TIMEOUT_S = 0.5
"""A model in a long step does not delay `ps`, which then says nothing of its encoder."""


def routes() -> list[Route]:
    """Endpoints of this package."""
    return [
        Route("/localllm/ps", list_processes),
        Route("/localllm/models", list_models),
        Route("/localllm/load", load, methods=["POST"]),
        Route("/localllm/unload", unload, methods=["POST"]),
        Route("/localllm/kv/save", keep, methods=["POST"]),
        Route("/localllm/pull", pull, methods=["POST"]),
        Route("/localllm/remove", remove, methods=["POST"]),
    ]


async def list_processes(request: Request) -> Response:
    """`GET /localllm/ps`."""
    state: ServerState = request.app.state.server
    models = state.runtime.running()
    found = await asyncio.gather(*(_status(model, state.runtime) for model in models))
    lines = state.metrics.batches.lines
    has_worked = state.batches.num_running or any(lines.values())
    batches = BatchWork(state.batches.num_running, **lines) if has_worked else msgspec.UNSET
    return json_response(
        body.Processes([_process(model, each, state) for model, each in zip(models, found, strict=True)], batches)
    )


async def list_models(request: Request) -> Response:
    """`GET /localllm/models`."""
    state: ServerState = request.app.state.server
    settings = state.settings
    return json_response(
        body.Models(
            list(await state.listing.run(state.runtime.listed)),
            max_media_bytes=settings.max_media_bytes,
            max_request_media_bytes=settings.max_request_media_bytes,
            max_megapixels=settings.max_megapixels,
        )
    )


async def load(request: Request) -> Response:
    """`POST /localllm/load`. Without options, the model is loaded as for any other request."""
    state, asked, headers = await read(request, known(body.LoadRequest))
    keep_alive_s = caller_of(request).keep_alive(keep_alive_seconds(asked.keep_alive))
    for name in ("ctx", "slots"):
        if getattr(asked, name) is not None:
            caller_of(request).check_may(f"set the {name} of a model", name)
    own = {"ctx": asked.ctx, "slots": asked.slots}

    async def work(report: Callable[[body.LoadEvent], None]) -> body.LoadEvent:
        try:
            loaded = await state.runtime.load(
                state.aliased(asked.model),
                on_progress=lambda part: report(body.LoadEvent(status="loading", model=asked.model, fraction=part)),
                keep_alive_s=keep_alive_s,
                stays=False,
                allow_paths=False,
                given={name: value for name, value in own.items() if value is not None},
            )
        except LoadFailed as error:
            if error.param != "ctx" or (asked.ctx, asked.slots) == (None, None):
                raise
            # The request was too large; a smaller one may succeed.
            raise InvalidParameter(error.public, param="slots" if asked.ctx is None else "ctx") from error
        shown = state.runtime.adapters.shown(state.aliased(asked.model), loaded.id)
        return body.LoadEvent(status="ready", model=shown, fraction=1.0)

    return await _respond(request, work, headers, stream=asked.stream is not False)


async def unload(request: Request) -> Response:
    """`POST /localllm/unload`: immediately; running answers end with an error."""
    caller_of(request).check_may("unload models")
    state, asked, headers = await read(request, known(body.ModelRequest))
    await state.runtime.unload(asked.model)
    return json_response(body.Unloaded(model=asked.model), headers)


async def keep(request: Request) -> Response:
    """`POST /localllm/kv/save`: writes the conversations that are only in memory to disk."""
    caller_of(request).check_may("write conversations to disk")
    state, asked, headers = await read(request, known(body.ModelRequest))
    model = await state.model_id(asked.model)
    return json_response(body.KvSaved(model=model, conversations=await state.runtime.keep(model)), headers)


async def pull(request: Request) -> Response:
    """`POST /localllm/pull`."""
    caller_of(request).check_may("pull models")
    state, asked, headers = await read(request, known(body.PullRequest))

    async def work(report: Callable[[body.PullEvent], None]) -> body.PullEvent:
        def pulling(progress: PullState) -> None:
            report(body.PullEvent(status="pulling", progress=progress))

        return body.PullEvent(status="success", model=await state.runtime.pull(asked.model, pulling))

    return await _respond(request, work, headers, stream=asked.stream is not False)


async def remove(request: Request) -> Response:
    """`POST /localllm/remove`."""
    caller_of(request).check_may("remove models")
    state, asked, headers = await read(request, known(body.RemoveRequest))
    if asked.dry_run:
        freed_bytes = await state.runtime.own_bytes(asked.model)
        would_go = body.Removed(model=asked.model, freed_bytes=freed_bytes, status="would be removed")
        return json_response(would_go, headers)
    await state.runtime.remove(asked.model)
    return json_response(body.Removed(model=asked.model), headers)


async def _respond(
    request: Request,
    work: Callable[[Callable[[EventT], None]], Coroutine[Any, Any, EventT]],
    headers: Mapping[str, str],
    *,
    stream: bool,
) -> Response:
    """The operation's events, or only the last. An immediate failure becomes an error response."""
    state: ServerState = request.app.state.server
    progress = Progress(work)
    if not stream:
        return json_response(await progress.ended(request.receive), headers)
    await progress.begun(request.receive)

    async def chunks() -> AsyncGenerator[bytes, None]:
        async with aclosing(progress.events()) as events:
            async for event in events:
                yield sse.data(msgspec.json.encode(event))
        yield sse.DONE

    failing = ended(state, lambda error: [sse.data(error_body(error))])
    keep_alive_s = state.settings.keep_alive_s
    return sse.EventStream(chunks(), progress.close, headers, keep_alive_s=keep_alive_s, ended=failing)


async def _status(model: RunningModel, runtime: Runtime) -> EngineStatus | None:
    """What its engine does, if that says more than is known here and the model responds soon."""
    may_have_parked = model.loaded is not None and model.num_requests > model.loaded.slots
    if model.phase != "ready" or not (model.media_bytes or model.adapter_bytes or may_have_parked):
        return None
    try:
        return await asyncio.wait_for(runtime.status(model.id), STATUS_TIMEOUT_S)
    except (TimeoutError, LocalLLMError):
        return None


def _process(model: RunningModel, status: EngineStatus | None, state: ServerState) -> body.Process:
    loaded, media = model.loaded, status.media if status and model.media_bytes else None
    return body.Process(
        model=model.id,
        status=model.phase,
        memory_bytes=model.memory_bytes,
        requests=model.num_requests,
        batch_requests=model.num_batch or msgspec.UNSET,
        parked=(status.num_parked if status else 0) or msgspec.UNSET,
        idle_s=model.idle_s,
        expires_in_s=model.expires_in_s,
        pid=model.pid,
        ctx=loaded.ctx if loaded else None,
        slots=loaded.slots if loaded else None,
        layers_per_device=loaded.layers_per_device if loaded else None,
        cpu_experts=(loaded.cpu_experts if loaded else 0) or msgspec.UNSET,
        device_bytes=model.device_bytes or msgspec.UNSET,
        media_bytes=model.media_bytes or msgspec.UNSET,
        media=media or msgspec.UNSET,
        adapter_bytes=model.adapter_bytes or msgspec.UNSET,
        adapters=(status.adapters if status else None) or msgspec.UNSET,
        reads=list(loaded.reads if loaded else ()) or msgspec.UNSET,
        placement_note=(loaded.placement_note if loaded else "") or msgspec.UNSET,
        settings=state.own_settings(model.id) or msgspec.UNSET,
        tuned=(loaded.tuned if loaded else "") or msgspec.UNSET,
    )
