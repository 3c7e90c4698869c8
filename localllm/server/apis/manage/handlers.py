"""The endpoints of `/localllm/*`. Models are given by name, never by path. Long operations report progress events.

Disconnecting cancels a pull; the next one resumes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.errors import InvalidParameter, LoadFailed, LocalLLMError
from localllm.server.apis.manage.reading import read
from localllm.server.common.body import json_response
from localllm.server.edge import log, sse
from localllm.server.edge.callers import caller_of
from localllm.server.errors import error_body, unexpected
from localllm.server.state import ServerState
from localllm.settings.durations import keep_alive_seconds
from localllm.types import wire as body
from localllm.types.states import PullState, RunningModel

T = TypeVar("T", bound=msgspec.Struct)


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
    return json_response(body.Processes([_process(model, state) for model in state.runtime.running()]))


async def list_models(request: Request) -> Response:
    """`GET /localllm/models`."""
    state: ServerState = request.app.state.server
    return json_response(body.Models(list(await state.listing.run(state.runtime.listed))))


async def load(request: Request) -> Response:
    """`POST /localllm/load`. Without options, the model is loaded as for any other request."""
    state, asked, headers = await read(request, body.LoadRequest)
    keep_alive_s = caller_of(request).keep_alive(keep_alive_seconds(asked.keep_alive))
    for name in ("ctx", "slots"):
        if getattr(asked, name) is not None:
            caller_of(request).check_may(f"set the {name} of a model", name)
    own = {"ctx": asked.ctx, "slots": asked.slots}
    news = _News[body.LoadEvent]()

    async def work() -> body.LoadEvent:
        try:
            loaded = await state.runtime.load(
                state.aliased(asked.model),
                on_progress=lambda part: news.put(body.LoadEvent(status="loading", model=asked.model, fraction=part)),
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
        return body.LoadEvent(status="ready", model=loaded.id, fraction=1.0)

    return await _respond(request, work(), news, headers, stream=asked.stream is not False)


async def unload(request: Request) -> Response:
    """`POST /localllm/unload`: immediately; running answers end with an error."""
    caller_of(request).check_may("unload models")
    state, asked, headers = await read(request, body.ModelRequest)
    await state.runtime.unload(asked.model)
    return json_response(body.Unloaded(model=asked.model), headers)


async def keep(request: Request) -> Response:
    """`POST /localllm/kv/save`: writes the conversations that are only in memory to disk."""
    caller_of(request).check_may("write conversations to disk")
    state, asked, headers = await read(request, body.ModelRequest)
    model = await state.model_id(asked.model)
    return json_response(body.KvSaved(model=model, conversations=await state.runtime.keep(model)), headers)


async def pull(request: Request) -> Response:
    """`POST /localllm/pull`."""
    caller_of(request).check_may("pull models")
    state, asked, headers = await read(request, body.PullRequest)
    news = _News[body.PullEvent]()

    def report(progress: PullState) -> None:
        news.put(body.PullEvent(status="pulling", progress=progress))

    async def work() -> body.PullEvent:
        return body.PullEvent(status="success", model=await state.runtime.pull(asked.model, report))

    return await _respond(request, work(), news, headers, stream=asked.stream is not False)


async def remove(request: Request) -> Response:
    """`POST /localllm/remove`."""
    caller_of(request).check_may("remove models")
    state, asked, headers = await read(request, body.RemoveRequest)
    if asked.dry_run:
        freed_bytes = await state.runtime.own_bytes(asked.model)
        would_go = body.Removed(model=asked.model, freed_bytes=freed_bytes, status="would be removed")
        return json_response(would_go, headers)
    await state.runtime.remove(asked.model)
    return json_response(body.Removed(model=asked.model), headers)


class _News(asyncio.Queue[T]):
    """Events not yet sent; only the latest progress, since a slow reader needs no history."""

    def put(self, event: T) -> None:  # type: ignore[override]
        while not self.empty():
            self.get_nowait()
        self.put_nowait(event)


async def _respond(
    request: Request, work: Coroutine[Any, Any, T], news: _News[T], headers: Mapping[str, str], *, stream: bool
) -> Response:
    state: ServerState = request.app.state.server
    if not stream:
        return json_response(await sse.unless_gone(request.receive, work), headers)
    task = asyncio.ensure_future(work)
    first = asyncio.ensure_future(news.get())

    async def close() -> None:
        task.cancel()
        first.cancel()  # also here: a generator never started runs no cleanup
        await asyncio.gather(task, first, return_exceptions=True)

    # An immediate failure becomes an error response; later ones arrive as events.
    try:
        await sse.unless_gone(request.receive, _first_of(task, first))
        if task.done():
            task.result()
    except BaseException:
        await close()
        raise
    return sse.EventStream(_events(task, first, news), close, headers, keep_alive_s=state.settings.keep_alive_s)


async def _first_of(*tasks: asyncio.Future[Any]) -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def _events(task: asyncio.Future[T], first: asyncio.Future[T], news: _News[T]) -> AsyncGenerator[bytes, None]:
    getting = first
    try:
        while True:
            await _first_of(task, getting)
            if getting.done():
                yield sse.data(msgspec.json.encode(getting.result()))
                getting = asyncio.ensure_future(news.get())
            elif task.done():
                yield sse.data(msgspec.json.encode(task.result()))
                yield sse.DONE
                return
    except LocalLLMError as error:
        log.event(logging.WARNING, "stream_failed", code=error.code, message=error.message)
        yield sse.data(error_body(error))
    except Exception as error:  # noqa: BLE001 (`unexpected` logs it)
        yield sse.data(error_body(unexpected(error, "a stream")))
    finally:
        getting.cancel()


def _process(model: RunningModel, state: ServerState) -> body.Process:
    loaded = model.loaded
    return body.Process(
        model=model.id,
        status=model.phase,
        memory_bytes=model.memory_bytes,
        requests=model.num_requests,
        idle_s=model.idle_s,
        expires_in_s=model.expires_in_s,
        pid=model.pid,
        ctx=loaded.ctx if loaded else None,
        slots=loaded.slots if loaded else None,
        layers_per_device=loaded.layers_per_device if loaded else None,
        device_bytes=model.device_bytes or msgspec.UNSET,
        placement_note=(loaded.placement_note if loaded else "") or msgspec.UNSET,
        settings=state.own_settings(model.id) or msgspec.UNSET,
        tuned=(loaded.tuned if loaded else "") or msgspec.UNSET,
    )
