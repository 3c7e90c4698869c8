"""The asyncio seam: load, chat, complete, tokenize, list, unload. Every face calls this and nothing below it.

A model on this machine that is not loaded is loaded when it is requested.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from localllm.errors import (
    LoadFailed,
    LocalLLMError,
    ModelNotFound,
    RequestTimeout,
    UnsupportedParameter,
    clipped,
)
from localllm.registry import signed_catalog
from localllm.runtime.adapters import AdapterNames, Variant
from localllm.runtime.answer_reader import Answer as Answer
from localllm.runtime.finding import Finder, StartedModel
from localllm.runtime.finding import ModelDescription as ModelDescription
from localllm.runtime.finding import among as among
from localllm.runtime.model_making import Making
from localllm.runtime.pulling import Pulls
from localllm.runtime.questions import Questions
from localllm.runtime.routing import Routing
from localllm.runtime.sending import accepted, send
from localllm.settings.config import Settings
from localllm.supervisor.managed import FOREVER_S
from localllm.supervisor.observer import Observer as Observer
from localllm.supervisor.pending import Pending, TimedT, with_less_time
from localllm.supervisor.session import Session
from localllm.supervisor.supervisor import Supervisor
from localllm.system.worker_threads import Threads
from localllm.types import GenerationRequest, LoadedModel, MediaFile
from localllm.types.embeddings import EmbeddingRequest, Embeddings, Ranking, RerankRequest
from localllm.types.load_options import LoadOptions
from localllm.types.states import (
    AvailableModel,
    EngineStatus,
    MakeState,
    NewModel,
    PullState,
    RunningModel,
)

logger = logging.getLogger("localllm")
OnProgress = Callable[[float], None]

NOTHING: Mapping[str, Any] = {}
NOTICEABLE_S = 0.1
"""A wait for a model that is long enough to count; no load is faster."""


class Runtime(Questions):
    """Owns the loaded models. Make it and use it on one event loop; `aclose()` at the end."""

    def __init__(self, settings: Settings) -> None:
        if settings.catalog_url is not None:
            signed_catalog.use(settings)
        self._supervisor = Supervisor(settings)
        self._settings = settings
        self._finder = Finder(settings)
        self.adapters = AdapterNames(settings)
        """Names of models under adapters."""
        self._removing = Threads("remove", 2)
        self.uploads = Making(settings.data_dir)
        """Uploaded files; `make` creates models from them."""
        self.pulls = Pulls(settings)
        """Downloads; it also uploads to registries."""
        self.routes = Routing(settings)
        self._turn = asyncio.Lock()
        """Held by the first of the requests that wait for room."""
        self._loads: dict[str, asyncio.Task[LoadedModel]] = {}
        """Loads begun by requests. They continue after the client disconnects, since clients retry."""

    async def load(
        self,
        model: str | Path,
        options: LoadOptions | None = None,
        *,
        on_progress: OnProgress | None = None,
        keep_alive_s: float | None = FOREVER_S,
        stays: bool = True,
        allow_paths: bool = True,
        least_ctx: int = 0,
        given: Mapping[str, Any] = NOTHING,
    ) -> LoadedModel:
        """Load a model; returns when it can answer. Without `stays` it may be evicted for others when memory runs
        short.

        `keep_alive_s`: how long it stays without requests, -1 forever; None: unchanged, or the setting's if it is not
        loaded yet. `allow_paths`: the owner of this runtime asks, so a path is allowed as a name, and the model is
        found by its id from then on, loaded or not. `least_ctx`: tokens its context should have this time, as far as it
        was trained for them and memory allows. Without `options` it is loaded as the settings say for this model,
        except for the fields in `given`. Raises `ModelNotFound`, `LoadFailed` and its subclasses, `WorkerCrashed`,
        `Loading`.
        """
        if isinstance(model, str):
            model = self.adapters.base(model)
        candidate, options = await self._finder.find_to_load(model, options, given, allow_paths=allow_paths)
        if allow_paths:
            self._finder.remember(candidate, StartedModel(model, options, keep_alive_s, stays))
        if least_ctx:
            options = self._supervisor.widened(candidate.id, candidate.info, options, least_ctx, *candidate.besides)
        return await self._supervisor.load(candidate, options, on_progress, keep_alive_s=keep_alive_s, stays=stays)

    def running(self) -> Sequence[RunningModel]:
        """Every model that has a process or waits for one, as `ps` shows it."""
        return self._supervisor.running()

    def available(self) -> Sequence[AvailableModel]:
        """The models on this machine, loaded or not. Reads files, so call it in a thread."""
        return [model for model in self.listed() if model.problem is None]

    def listed(self) -> Sequence[AvailableModel]:
        """The same, with models that cannot be used and their `problem`."""
        models = [*self._finder.listed(), *self.adapters.listed()]
        return [*models, *self.routes.listed([model for model in models if model.problem is None])]

    async def described(self, model: AvailableModel) -> ModelDescription:
        """What the model's file and manifest say, without loading it. Raises `ModelNotFound`, `LoadFailed`s."""
        base = next((each for each in self._finder.listed() if each.id == model.base), None) if model.base else None
        return await self._finder.described(base or model)

    async def copy(self, source: str, target: str) -> None:
        """A second name for a model of this machine. Raises `ModelNotFound`, `InvalidParameter`."""
        from localllm.registry.listing import copy

        await self._removing.run(copy, source, target, self._settings.data_dir)

    async def pull(self, name: str, on_state: Callable[[PullState], None] = lambda _: None) -> AvailableModel:
        """Download a model that a client named; what is already here is not fetched again.

        `on_state` is called on the event loop. A cancelled pull is resumed by the next one. Raises `InvalidParameter`,
        `ModelNotFound`, `PullFailed`s, `DiskFull`, `QueueFull` if too many wait already.
        """
        return await self.pulls.pull(name, on_state)

    async def make(self, wanted: NewModel, on_state: Callable[[MakeState], None] = lambda _: None) -> AvailableModel:
        """Create a model from one on this machine or from uploads; unloads an idle one of that name. Raises as
        `Making.make`."""
        made = await self.uploads.make(wanted, on_state)
        self._finder.forget(made.id)
        if any(model.id == made.id and not model.num_requests for model in self.running()):
            await self._supervisor.unload(made.id)
        return made

    async def remove(self, name: str) -> None:
        """Delete a model of this machine, after unloading it, with what only it needs; an adapter's name with the
        adapter. Raises `ModelNotFound`."""
        if self.adapters.is_stored(name):
            await self._removing.run(self.adapters.remove, name)
            return
        from localllm.registry.listing import id_of, remove_whole

        id = await self._removing.run(id_of, name, self._settings.data_dir)
        if id in self._supervisor.ids():
            await self._supervisor.unload(id)
        await self._removing.run(remove_whole, id, self._settings.data_dir)

    async def own_bytes(self, name: str) -> int | None:
        """Disk space that removing this model would free; None: unknown. Raises `ModelNotFound`."""
        if self.adapters.is_stored(name):
            return None
        from localllm.registry.listing import own_bytes

        return await self._removing.run(own_bytes, name, self._settings.data_dir)

    def loaded(self) -> Sequence[LoadedModel]:
        """The models that answer requests, as their workers reported them last. Any thread may ask."""
        return self._supervisor.loaded()

    def restarting(self) -> Sequence[str]:
        """Ids of models whose process died and is being restarted."""
        return self._supervisor.restarting()

    def observe(self, observer: Observer) -> None:
        """Report what becomes of requests and workers to this observer from now on."""
        self._supervisor.observer = observer

    async def submit_in_turn(self, model_id: str, request: GenerationRequest) -> list[Answer]:
        """`submit` that waits for room in the queue, in order of arrival, for a program that owns its model and would
        only ask again. Raises as `submit`, but no `QueueFull`."""
        if self.routes.of(model_id) is not None:
            return await self.submit(model_id, [request])
        variant = self.adapters.variant(model_id)
        async with self._turn:
            while True:
                (request,), session = await self._session_for(model_id, [request], None)
                if session.has_room(is_batch=request.batch):
                    break
                began_s = time.monotonic()
                await session.one_left()
                if request.timeout_s is not None:
                    request = with_less_time(request, time.monotonic() - began_s)
            sent = await self._send(variant, [request], session)
        return await accepted(sent, session)

    async def submit(
        self, model_id: str, requests: Sequence[GenerationRequest], *, keep_alive_s: float | None = None
    ) -> list[Answer]:
        """Submit all of these requests or none. Returns once the worker has accepted them.

        `keep_alive_s`: how long the model stays from then on without requests; None: as it is.
        Raises what makes it refuse: `RequestError`s, `QueueFull`, `ModelNotFound`, `Unavailable`.
        """
        if (route := self.routes.of(model_id)) is not None:
            return await self.routes.answers(route, requests, partial(self.submit, keep_alive_s=keep_alive_s))
        variant = self.adapters.variant(model_id)
        requests, session = await self._session_for(model_id, requests, keep_alive_s)
        return await accepted(await self._send(variant, requests, session), session)

    async def _send(
        self, variant: Variant | None, requests: Sequence[GenerationRequest], session: Session
    ) -> list[Pending]:
        loaded = session.ready.result()
        requests = await self.adapters.under(variant, requests, loaded.id, Path(loaded.path))
        self._supervisor.will_adapt(loaded.id, requests)
        return await send(requests, session)

    async def ensure(self, model_id: str, keep_alive_s: float | None = None) -> None:
        """Load the model as any request would, and keep it that long. Raises as `submit`."""
        await self._session(model_id, keep_alive_s)

    async def embed(self, model_id: str, request: EmbeddingRequest, *, keep_alive_s: float | None = None) -> Embeddings:
        """The vectors of all texts of a request. A cancelled call cancels what is not computed yet.

        `keep_alive_s`: how long the model stays from then on without requests; None: as it is.
        Raises what makes it refuse: `RequestError`s, `QueueFull`, `ModelNotFound`, `Unavailable`, `RequestTimeout`.
        """
        self._check_plain(model_id)
        (request,), session = await self._session_for(model_id, [request], keep_alive_s, embeds=True)
        return await session.embed(request)

    async def rerank(self, model_id: str, request: RerankRequest, *, keep_alive_s: float | None = None) -> Ranking:
        """The score of every document of a request; otherwise as `embed`."""
        self._check_plain(model_id)
        (request,), session = await self._session_for(model_id, [request], keep_alive_s, embeds=True)
        answer = await session.embed(request)
        scores = struct.unpack(f"<{len(request.documents)}f", answer.data)
        return Ranking(scores=scores, num_tokens=answer.num_tokens, truncated=answer.truncated)

    async def status(self, model_id: str) -> EngineStatus:
        """What a loaded model's slots are doing, read between two steps. Does not count as use."""
        return msgspec.convert(
            await self._supervisor.watched(self.adapters.base(model_id)).call("status"), EngineStatus
        )

    def _check_plain(self, model_id: str) -> None:
        """Raises `UnsupportedParameter` for a model under adapters."""
        variant = self.adapters.variant(model_id)
        if variant is not None and variant.adapters:
            raise UnsupportedParameter(
                f"adapters change answers, not embeddings; embed with {variant.base}", param="model"
            )

    async def _call(self, model_id: str, method: str, *args: object, files: tuple[MediaFile, ...] = ()) -> Any:
        session = await self._session(model_id)
        return await session.call(method, *args, files=files)

    async def _session_for(
        self, model_id: str, requests: Sequence[TimedT], keep_alive_s: float | None, *, embeds: bool = False
    ) -> tuple[Sequence[TimedT], Session]:
        """Like `_session`, within the time that these requests may wait; also returns them with the remaining time."""
        limits_s = [limit_s for each in requests for limit_s in (each.timeout_s, each.queue_timeout_s) if limit_s]
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(min(limits_s, default=None)):
                session = await self._session(model_id, keep_alive_s, embeds=embeds)
        except TimeoutError:
            raise RequestTimeout(
                f"{clipped(model_id)} was not loaded within the {min(limits_s):g} s that the request may wait "
                "(timeout, queue_timeout); ask again later, or allow more"
            ) from None
        waited_s = time.monotonic() - began_s
        if limits_s and waited_s >= NOTICEABLE_S:
            requests = [with_less_time(each, waited_s) for each in requests]
        return requests, session

    async def _session(self, model_id: str, keep_alive_s: float | None = None, *, embeds: bool = False) -> Session:
        """Session of a loaded model; one on this machine is loaded. Raises `ModelNotFound` with the remedy."""
        model_id = self.adapters.base(model_id)
        finding, supervisor = self._finder.pending(), self._supervisor
        acquire = supervisor.acquire_to_embed if embeds else supervisor.acquire
        with contextlib.ExitStack() as claim:
            claimed: str | None = None
            while True:
                model_id = self._finder.known(model_id, supervisor.ids())
                try:
                    return await acquire(model_id, keep_alive_s, is_claimed=claimed is not None)
                except ModelNotFound:
                    if model_id in supervisor.ids():
                        raise
                    if finding:  # one of these may be the model
                        await asyncio.wait(finding)
                        finding = set()
                        continue
                    if claimed is None:
                        claimed = await self._name_to_load(model_id)
                        claim.enter_context(supervisor.claimed(claimed))
                    model_id = await self._load_on_demand(model_id, claimed)

    async def _name_to_load(self, model_id: str) -> str:
        if self._finder.started(model_id) is not None:
            return model_id
        try:
            return await self._finder.id_of(model_id)
        except LocalLLMError:
            raise await self._finder.unknown(model_id, self._supervisor.ids()) from None

    async def widen(self, id: str, ctx: int) -> None:
        """Make sure that the context of the model with this id has `ctx` tokens: load it, or reload it if it is unused.
        It stays unchanged if the settings fix its size, if it was not trained for more, or if memory is short.
        Raises as `load`."""
        id = self.adapters.base(id)
        while id in self._loads:
            await asyncio.wait({self._loads[id]})
        loaded = next((model for model in self.loaded() if model.id == id), None)
        options = self._settings.for_model(id).load_options()
        if options.ctx is not None or (loaded is None and id in self._supervisor.ids()):
            return
        if loaded is not None:
            wider = self._supervisor.widened(id, loaded.info, options, ctx)
            if wider.ctx is None or not self._supervisor.is_idle(id):
                return
        task = self._begin_load(id, self._load_wider(id, ctx))
        try:
            await asyncio.shield(task)
        except LoadFailed as error:  # the next request finds it as it was
            logger.warning("not_widened", extra={"fields": {"model": id, "ctx": ctx, "reason": error.message}})

    async def _load_wider(self, id: str, ctx: int) -> LoadedModel:
        if self._supervisor.is_idle(id):
            await self._supervisor.unload(id)
        return await self._load_again(id, ctx)

    async def _load_on_demand(self, model_id: str, name: str) -> str:
        """Loads the model, or joins its load; returns the id under which it is loaded."""
        if name != model_id and name in self._supervisor.ids():
            return name
        task = self._loads.get(name) or self._begin_load(name, self._load_again(name))
        return (await asyncio.shield(task)).id

    def _begin_load(self, name: str, load: Coroutine[Any, Any, LoadedModel]) -> asyncio.Task[LoadedModel]:
        task = self._loads[name] = asyncio.get_running_loop().create_task(load)
        task.add_done_callback(lambda done: self._loaded_on_demand(name, done))
        return task

    def _load_again(self, id: str, least_ctx: int = 0) -> Coroutine[Any, Any, LoadedModel]:
        """Loads it as its owner had it loaded, or by the settings for models loaded on demand."""
        started = self._finder.started(id)
        if started is None:
            return self.load(id, keep_alive_s=None, stays=False, allow_paths=False, least_ctx=least_ctx)
        return self.load(
            started.model,
            started.options,
            keep_alive_s=started.keep_alive_s,
            stays=started.stays,
            allow_paths=True,
            least_ctx=least_ctx,
        )

    def _loaded_on_demand(self, name: str, task: asyncio.Task[LoadedModel]) -> None:
        self._loads.pop(name, None)
        if not task.cancelled():
            task.exception()  # waiting callers get it

    async def unload(self, model_id: str) -> None:
        """Stop the model's process. Raises `ModelNotFound`."""
        await self._supervisor.unload(self._finder.known(self.adapters.base(model_id), self._supervisor.ids()))

    def dismiss(self) -> None:
        """Ask every process to leave, from any thread, for callers that cannot wait for `aclose`. Never blocks."""
        self._supervisor.dismiss()

    async def aclose(self) -> None:
        """Unload everything."""
        await self.routes.aclose()
        loads = list(self._loads.values())
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        await self._supervisor.aclose()
