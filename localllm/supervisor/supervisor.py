"""Which models are loaded: on demand, several at a time; the least recently used idle one makes room for others.

Knows nothing of names, contents of requests or HTTP. `eviction` decides what to do, `managed` is one model's life.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from localllm.errors import LoadConflict, Loading, LocalLLMError, QueueFull
from localllm.planning.contexts import Memory, with_context
from localllm.planning.draft_plan import DraftModel, beside, draft_bytes
from localllm.planning.needs import need_bytes
from localllm.planning.plan import context_of, longest_context
from localllm.planning.projector_plan import Projector, projector_bytes
from localllm.settings.config import Settings
from localllm.settings.model_names import not_loaded
from localllm.supervisor.candidate import Candidate
from localllm.supervisor.eviction import (
    USABLE_SHARE,
    AvailableMemory,
    Evict,
    MemoryHolder,
    WaitFor,
    decide,
    decide_devices,
)
from localllm.supervisor.eviction import Load as Fits
from localllm.supervisor.ledger import Ledger
from localllm.supervisor.managed import FOREVER_S, ManagedModel, OnProgress
from localllm.supervisor.observer import Observer
from localllm.supervisor.session import Session
from localllm.system import memory
from localllm.types import GenerationRequest, LoadedModel, ModelInfo
from localllm.types.load_options import LoadOptions
from localllm.types.states import RunningModel

logger = logging.getLogger("localllm")


class Supervisor:
    """Used on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models: dict[str, ManagedModel] = {}
        self._leaving: list[ManagedModel] = []
        self._wanted: dict[str, tuple[str, ...]] = {}
        """Model that waits for room -> busy models that must make it and therefore accept no new requests."""
        self._claims: Counter[str] = Counter()
        """Requests that loaded a model and are not submitted yet."""
        self._news = asyncio.Event()
        self._unloads: set[asyncio.Task[None]] = set()
        self.observer = Observer()
        self.ledger = Ledger()

    def restarting(self) -> list[str]:
        """Models that were loaded but cannot answer now because their process died."""
        return [id for id, model in self._models.items() if model.loaded is not None and not model.answers]

    def loaded(self) -> list[LoadedModel]:
        """Models that answer requests, including one whose process died: the next request restarts it. Any thread may
        ask."""
        return [loaded for model in list(self._models.values()) if (loaded := model.loaded) is not None]

    def ids(self) -> list[str]:
        """All models that are loaded, loading or restarting."""
        return list(self._models)

    def running(self) -> list[RunningModel]:
        """Every model that holds memory or waits for it."""
        return [model.state() for model in (*self._models.values(), *self._leaving)]

    async def load(
        self,
        candidate: Candidate,
        options: LoadOptions,
        on_progress: OnProgress | None = None,
        *,
        keep_alive_s: float | None = FOREVER_S,
        stays: bool = True,
    ) -> LoadedModel:
        """Start a worker, or join a start in progress, and wait until it can answer; makes room for it first.

        `keep_alive_s`: None leaves that of a loaded model unchanged and gives a new one the setting's. `stays`: it is
        not evicted for other models. Raises `LoadFailed` and its subclasses, `WorkerCrashed`, `Loading`.
        """
        model = self._models.get(candidate.id)
        if model is not None:
            candidate.release()
            _check_same(model, candidate, options)
            model.used(keep_alive_s)
            await self._session(model, on_progress)
            return _loaded(model)
        try:
            settings = self._settings.for_model(candidate.id)
            wanted, options = (
                options,
                with_context(
                    candidate.info,
                    options,
                    _memory(projector_bytes(candidate.companion.projector, options)),
                    candidate.draft,
                ),
            )
            if keep_alive_s is None:
                keep_alive_s = settings.model_keep_alive_s
            chose_ctx = options.ctx != wanted.ctx
            model = ManagedModel(
                self, settings, candidate, options, keep_alive_s=keep_alive_s, stays=stays, chose_ctx=chose_ctx
            )
        except BaseException:
            candidate.release()
            raise
        self._models[candidate.id] = model
        await self._session(model, on_progress)
        return _loaded(model)

    @contextlib.contextmanager
    def claimed(self, id: str) -> Iterator[None]:
        """Keeps a model busy for a request that loaded it, until that is submitted. Otherwise two requests for two
        models, with room for one, would evict each other's model forever, each before it has answered anything."""
        self._claims[id] += 1
        try:
            yield
        finally:
            self._claims[id] -= 1
            self.changed()

    async def acquire(self, id: str, keep_alive_s: float | None = None, *, is_claimed: bool = False) -> Session:
        """The session that answers for a model, restarted if its process died. Raises `ModelNotFound`.

        Nothing else runs between its return and the caller's next await, so a request submitted there is counted.
        `is_claimed`: the caller loaded it, so it is served even if another model waits for the room.
        """
        while True:
            model = self._models.get(id)
            if model is None:
                raise not_loaded(id, self._models)
            if is_claimed or not any(id in leaving for leaving in self._wanted.values()):
                break
            await self._news.wait()  # until it is evicted, or the other model has found room
        session = await self._session(model)
        model.used(keep_alive_s)
        return session

    async def acquire_to_embed(
        self, id: str, keep_alive_s: float | None = None, *, is_claimed: bool = False
    ) -> Session:
        """Like `acquire`, for texts to embed."""
        session = await self.acquire(id, keep_alive_s, is_claimed=is_claimed)
        self._models[id].will_embed()
        return session

    def will_adapt(self, id: str, requests: Sequence[GenerationRequest]) -> None:
        """Count the adapters of these requests, about to be submitted to a loaded model, in its memory. Raises
        `InvalidParameter` if those of one request have no room."""
        if (model := self._models.get(id)) is not None:
            for request in requests:
                if request.adapters:
                    model.will_adapt(request.adapters)

    def watched(self, id: str) -> Session:
        """The session of a model that answers now, for callers that only inspect it: this does not count as use. Raises
        `ModelNotFound`, `Loading`."""
        model = self._models.get(id)
        if model is None:
            raise not_loaded(id, self._models)
        return model.answering()

    def is_idle(self, id: str) -> bool:
        """Whether it is loaded and has no requests."""
        model = self._models.get(id)
        return model is not None and model.loaded is not None and not model.is_busy

    def widened(
        self,
        id: str,
        info: ModelInfo,
        options: LoadOptions,
        ctx: int,
        draft: DraftModel | None = None,
        projector: Projector | None = None,
    ) -> LoadOptions:
        """The options with room for `ctx` tokens, or as many as the model was trained for; unchanged if that is no more
        than it has, if memory does not allow it beside the other models, or if it cannot be loaded with these options
        at all, which the load will report. `draft`, `projector`: those of a model that is not loaded yet."""
        trained = info.context_length
        wanted = ctx if trained is None else min(ctx, longest_context(trained, options))
        there = self._models.get(id)
        draft, projector = (draft, projector) if there is None else (there.draft, there.projector)
        wider = msgspec.structs.replace(options, ctx=wanted)
        try:
            besides = projector_bytes(projector, options)
            chosen = with_context(info, options, _memory(besides), draft)
            held = context_of(info, chosen) if there is None or there.loaded is None else there.loaded.ctx
            if not info.causal or wanted <= held or (options.kv_cells or wanted) < wanted:
                return options
            need = need_bytes(info, beside(draft, wider)) + (0 if draft is None else draft_bytes(info, wider, draft))
            need += besides
        except LocalLLMError:
            return options
        room = self._room()
        others = sum(model.need_bytes for model in self._models.values() if model is not there)
        freed = 0 if there is None else there.need_bytes
        return wider if need <= room.free_bytes + freed and need + others <= room.max_bytes else options

    async def unload(self, id: str) -> None:
        """End a model's process. Raises `ModelNotFound`."""
        model = self._models.get(id)
        if model is None:
            raise not_loaded(id, self._models)
        await self._close(model)

    def dismiss(self) -> None:
        """Ask every process to shut down, from any thread, for callers that cannot wait for `aclose`. Never blocks."""
        for model in list(self._models.values()):
            model.dismiss()

    async def aclose(self) -> None:
        await asyncio.gather(*(self._close(model) for model in list(self._models.values())))
        await asyncio.gather(*self._unloads, return_exceptions=True)

    def changed(self) -> None:
        """Wake all callers that wait for room or for a model."""
        self._news.set()
        self._news = asyncio.Event()

    def expired(self, id: str) -> None:
        """Unload a model whose keep-alive time is over."""
        logger.info("model_expired", extra={"fields": {"model": id}})
        task = asyncio.get_running_loop().create_task(self._expire(id))
        self._unloads.add(task)
        task.add_done_callback(self._unloads.discard)

    async def _expire(self, id: str) -> None:
        model = self._models.get(id)
        if model is not None and not model.is_busy:  # a request may have come since
            await self._close(model)

    async def _session(self, model: ManagedModel, on_progress: OnProgress | None = None) -> Session:
        if model.waiting_for_load > self._settings.max_waiting:
            raise QueueFull(
                f"{model.id} is loading and {model.waiting_for_load} requests wait for that; try again in a moment "
                "(max_waiting)",
                param="model",
            )
        try:
            with model.waited_for(on_progress):
                if not model.has_room:
                    await self._wait_for_room(model)
                return await model.session()
        except BaseException:  # a load abandoned by its last caller leaves no worker behind either
            if model.loaded is None and not model.waiting_for_load:
                await self._close(model)
            raise

    async def _wait_for_room(self, model: ManagedModel) -> None:
        try:
            # Not wait_for: Python 3.11's loses a cancellation that comes in the same moment as the result.
            async with asyncio.timeout(self._settings.load_timeout_s):
                await self._make_room(model)
        except TimeoutError:
            if any(leaving.id == model.id for leaving in self._leaving):
                raise Loading(f"{model.id} is still being unloaded; try again in a moment", param="model") from None
            busy = ", ".join(other.id for other in self._models.values() if other.is_busy and other is not model)
            raise Loading(
                f"no room for {model.id} yet: {busy or 'another model'} still answers", param="model"
            ) from None

    async def _make_room(self, model: ManagedModel) -> None:
        try:
            while not model.has_room:
                if any(leaving.id == model.id for leaving in self._leaving):
                    await self._news.wait()  # its previous process, which holds its memory, and is counted by its name
                    continue
                others = (other for other in self._models.values() if other.has_room and other is not model)
                held = [*map(self._held, others), *(leaving.held() for leaving in self._leaving)]
                room = self._room()
                try:
                    decision = decide(model.id, model.need_bytes, held, room)
                except LoadConflict as error:
                    if not model.drops_draft(error.message):
                        raise
                    continue
                is_too_large = model.need_bytes > min(room.free_bytes, room.max_bytes)  # although it is alone
                if not held and is_too_large and model.drops_draft(f"{model.id} needs more memory than is free"):
                    continue
                if isinstance(decision, Fits):
                    holders = self.ledger.holders()
                    there = [one for one in held if one.id in holders]
                    decision = decide_devices(model.on_devices.layers_without, there)
                self._wanted.pop(model.id, None)
                if isinstance(decision, Fits):
                    model.has_room = True
                elif isinstance(decision, Evict):
                    logger.info("model_evicted", extra={"fields": {"model": decision.id, "for": model.id}})
                    await self._close(self._models[decision.id])
                elif isinstance(decision, WaitFor):
                    self._wanted[model.id] = decision.ids
                    await self._news.wait()
        finally:
            self._wanted.pop(model.id, None)
            self.changed()

    def _held(self, model: ManagedModel) -> MemoryHolder:
        held = model.held()
        return held._replace(is_busy=held.is_busy or self._claims[model.id] > 0)

    def _room(self) -> AvailableMemory:
        settings = self._settings
        total, free = memory.total_memory(), memory.available_memory()
        most = settings.max_models_mb * 10**6 or (2**63 if total is None else int(total * USABLE_SHARE))
        return AvailableMemory(settings.max_loaded_models, most, 2**63 if free is None else free)

    async def _close(self, model: ManagedModel) -> None:
        if self._models.get(model.id) is model:
            del self._models[model.id]
            self._leaving.append(model)
        try:
            await model.aclose()
        finally:
            with contextlib.suppress(ValueError):  # two may close it at a time
                self._leaving.remove(model)
            self.changed()


def _memory(taken_bytes: int = 0) -> Memory:
    """`taken_bytes`: what is loaded besides."""
    free = memory.available_memory()
    return Memory(memory.total_memory(), None if free is None else free - taken_bytes)


def _check_same(model: ManagedModel, candidate: Candidate, options: LoadOptions) -> None:
    """Raises `LoadConflict` if another file is loaded, or these options request more than the loaded model has."""
    if not candidate.info.causal:
        options = msgspec.structs.replace(options, ctx=None, slots=None)  # an encoder has no slots
    if model.path != candidate.path:
        raise LoadConflict(f"another file is loaded as {model.id}; unload it first", param="model")
    for name, wanted, there in (
        ("ctx", options.ctx, model.loaded.ctx if model.loaded else None),
        ("slots", options.slots, model.loaded.slots if model.loaded else None),
        ("embedding_ctx", options.embedding_ctx, model.loaded.embedding_ctx if model.loaded else None),
    ):
        if wanted is not None and there is not None and wanted > there:
            raise LoadConflict(
                f"{model.id} is loaded with {name} {there}; unload it to load it with {wanted}", param=name
            )


def _loaded(model: ManagedModel) -> LoadedModel:
    if model.loaded is None:  # it was unloaded in the same moment
        raise Loading(f"{model.id} was unloaded while it loaded", param="model")
    return model.loaded
