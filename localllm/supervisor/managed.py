"""One model that should be loaded: its process, restarting it after a crash, unloading it when idle for too long.

Restarts immediately after the first crash, then after growing pauses. Knows nothing of other models.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from localllm.errors import Loading, LocalLLMError
from localllm.planning import tuned
from localllm.planning.contexts import on_devices
from localllm.planning.device_choice import chooses_gpus, requires_gpus
from localllm.planning.draft_plan import DraftModel, check_is_model
from localllm.planning.main_memory import MainMemory
from localllm.planning.plan import context_of, pooling_of
from localllm.settings.config import Settings
from localllm.supervisor.candidate import Candidate
from localllm.supervisor.eviction import MemoryHolder
from localllm.supervisor.load_log import log_devices, log_load
from localllm.supervisor.on_devices import OnDevices
from localllm.supervisor.owner import Owner
from localllm.supervisor.retries import Retries
from localllm.supervisor.session import Session, SessionLimits
from localllm.supervisor.session_observer import SessionObserver
from localllm.types import AppliedAdapter, Finish, LoadedModel
from localllm.types.load_options import LoadOptions
from localllm.types.states import ModelPhase, RunningModel
from localllm.worker.command import worker_command
from localllm.worker.messages import Hello, Load

OnProgress = Callable[[float], None]

logger = logging.getLogger("localllm")

PAUSES_S = (0.0, 1.0, 5.0, 30.0)
"""Pause before a crashed model is restarted: after its first crash within `DEATHS_WITHIN_S`, its second ..."""
DEATHS_WITHIN_S = 120.0
MAX_DEATHS_RETRIED = 3
"""Crashes within `DEATHS_WITHIN_S`. A model that crashes more often is not restarted for each request it was serving.
"""
FOREVER_S = -1.0
"""Keep-alive time of a model that stays until it is unloaded explicitly."""


class ManagedModel(SessionObserver):
    """Used on the event loop that made it."""

    def __init__(
        self,
        owner: Owner,
        settings: Settings,
        candidate: Candidate,
        options: LoadOptions,
        *,
        keep_alive_s: float,
        stays: bool,
        chose_ctx: bool = False,
    ) -> None:
        """`stays`: never evicted for another model. `chose_ctx`: the context of `options` was chosen here, not
        requested. One of the candidate's tunings may apply, depending on what the worker will report.

        Raises `InvalidParameter`, `LoadFailed` for a context or a pooling that the model cannot have.
        """
        self.id, info = candidate.id, candidate.info
        check_is_model(self.id, info)
        pooling_of(info, options)
        self._candidate = candidate
        self.projector = candidate.companion.projector
        self._memory = MainMemory(info, options, candidate.draft, candidate.tunings, self.projector)
        self._no_draft = candidate.no_draft
        library = f"{settings.runtime} {settings.plugin_dir} {settings.rpc}"
        self.on_devices = OnDevices(owner.ledger, library, self.id, info, options, candidate.draft, self.projector)
        self.has_room = False
        """Whether its memory is reserved."""
        self.loaded: LoadedModel | None = None
        """What its worker reported last; None until it was ready once."""
        self.waiting_for_load = 0
        self._owner = owner
        self._settings = settings
        self.options = self._used_options = options
        self._keep_alive_s = keep_alive_s
        self._stays = stays
        self._session: Session | None = None
        self._listeners: list[OnProgress] = []
        self._deaths: list[float] = []
        self._revival: asyncio.Task[None] | None = None
        self._retries = Retries(self._fresh_session, lambda: len(self._deaths) <= MAX_DEATHS_RETRIED)
        self._last_used_s = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._chose_ctx = chose_ctx

    @property
    def path(self) -> Path:
        return self._candidate.path

    @property
    def need_bytes(self) -> int:
        """Main memory."""
        memory = self._memory
        return self.on_devices.main_bytes(memory.slots_bytes, memory.adapter_bytes) + memory.texts_bytes

    @property
    def draft(self) -> DraftModel | None:
        """Its draft model, unless it has to be loaded without."""
        return self._memory.draft

    def drops_draft(self, reason: str) -> bool:
        """Whether it can be loaded without its draft model, because nobody named one; `reason`: why it has to be."""
        if self.options.draft != "auto" or self._memory.draft is None:
            return False
        self._memory.drop_draft()
        self._no_draft = f"with it, {reason}"
        self.on_devices.drop_draft()
        return True

    def will_embed(self) -> None:
        """Count the memory for embedding from now on: texts are about to be embedded."""
        self._memory.embeds = True

    def will_adapt(self, adapters: Iterable[AppliedAdapter]) -> None:
        """Count the memory for these from now on. Raises `InvalidParameter` if they have no room together."""
        self._memory.use_adapters(adapters)

    @property
    def answers(self) -> bool:
        """Whether its process is alive and has loaded the model."""
        session = self._session
        return session is not None and session.alive and session.ready.done()

    def answering(self) -> Session:
        """The session that can answer now. Raises `Loading`."""
        if self._session is None or not self.answers:
            raise Loading(f"{self.id} is being loaded", param="model")
        return self._session

    @property
    def num_requests(self) -> int:
        return self._retries.num_waiting + (0 if self._session is None else self._session.num_requests)

    @property
    def is_busy(self) -> bool:
        """Whether it has requests, callers waiting for its load, or is being unloaded."""
        return self._closing or self.num_requests > 0 or self.waiting_for_load > 0

    def held(self) -> MemoryHolder:
        """What `room.decide` needs to know of it."""
        stays = self._stays and not self._closing
        return MemoryHolder(self.id, self.need_bytes, self.is_busy, stays, self._last_used_s, self._closing)

    def state(self) -> RunningModel:
        """Its state as shown to users."""
        idle_s = 0.0 if self.is_busy else time.monotonic() - self._last_used_s
        phase: ModelPhase = "ready" if self.answers else "restarting" if self.loaded is not None else "loading"
        stays = self._keep_alive_s < 0 or self.is_busy or not self.answers
        return RunningModel(
            id=self.id,
            phase="unloading" if self._closing else phase,
            memory_bytes=self.need_bytes,
            device_bytes=self.on_devices.device_bytes(self._memory.adapter_bytes) if self._session is not None else {},
            media_bytes=self._memory.projector_bytes,
            adapter_bytes=self._memory.adapter_bytes,
            num_requests=self.num_requests,
            num_batch=0 if self._session is None else self._session.num_batch,
            idle_s=round(idle_s, 3),
            expires_in_s=None if stays else round(max(0.0, self._keep_alive_s - idle_s), 3),
            pid=self._session.pid if self._session is not None and self._session.alive else None,
            loaded=self.loaded,
        )

    def used(self, keep_alive_s: float | None = None) -> None:
        """Restart its idle time. A keep-alive time given with the request applies from now on."""
        self._last_used_s = time.monotonic()
        if keep_alive_s is not None:
            self._keep_alive_s = keep_alive_s
        self._watch_idleness()

    @contextlib.contextmanager
    def waited_for(self, on_progress: OnProgress | None = None) -> Iterator[None]:
        """Counts as busy while a caller waits for its load, whose progress is reported to `on_progress`."""
        listening = [] if on_progress is None else [on_progress]
        self._listeners += listening
        self.waiting_for_load += 1
        try:
            yield
        finally:
            self.waiting_for_load -= 1
            for listener in listening:
                self._listeners.remove(listener)
            self._owner.changed()

    async def session(self) -> Session:
        """A session that can answer. Several callers share one start, each inside `waited_for`."""
        while True:
            session = self._session
            if session is None or not session.alive:
                if self.loaded is not None:
                    self._owner.observer.restarted(self.id)
                session = self._session = self._start()
            try:
                await self._loads(session)
                break
            except LocalLLMError as error:
                await self._discard(session)
                if not self.on_devices.takes_fewer(error, session):
                    raise
        assert session.model is not None
        if self.loaded is None:
            self.used()
            log_load(session.model, self._used_options, chose_ctx=self._chose_ctx)
        if session.model is not self.loaded:
            self._take_report(session.model)
        return session

    def _take_report(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self._memory.take(loaded, self._used_options)
        if not loaded.draft:
            self.on_devices.free_draft()
        if loaded.projector is None:
            self.on_devices.free_projector()
        if "mtp" not in loaded.sources:
            self.on_devices.free_heads()

    def reported(self, loaded: LoadedModel) -> None:
        if self.loaded is not None and not self._closing:
            self._take_report(loaded)
            self._owner.changed()

    async def _loads(self, session: Session) -> None:
        """Wait until it can answer. Raises what prevents that, `Loading` when it takes too long."""
        timeout_s = self._settings.load_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(session.ready)
        except TimeoutError:
            error = Loading(
                f"{self.id} did not load within {timeout_s:g} s (--load-timeout-s); the load was abandoned",
                param="model",
            )
            session.give_up(error)
            raise error from None

    async def aclose(self) -> None:
        """End its process and wait until it is gone."""
        self._closing = True
        self._retries.close()
        session, self._session = self._session, None
        if self._timer is not None:
            self._timer.cancel()
        if self._revival is not None:
            self._revival.cancel()
            await asyncio.gather(self._revival, return_exceptions=True)
        try:
            if session is not None:
                await session.aclose()
        finally:
            self.loaded = None
            self.on_devices.release()
            self._candidate.release()

    def dismiss(self) -> None:
        """Ask its process to shut down, from any thread. Never blocks."""
        self._closing = True
        if self._session is not None:
            self._session.dismiss()

    async def _discard(self, session: Session) -> None:
        """End a session that failed to load, unless another caller already did and has started the next one."""
        if self._session is session:
            self._session = None
            self.on_devices.release()
        await session.aclose()

    def _watch_idleness(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._keep_alive_s >= 0 and not self._closing:
            left_s = max(0.0, self._last_used_s + self._keep_alive_s - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(left_s, self._look_idle)

    def _look_idle(self) -> None:
        self._timer = None
        if self.is_busy:
            return  # the end of the last request restarts the timer
        if time.monotonic() - self._last_used_s >= self._keep_alive_s:
            self._owner.expired(self.id)
        else:  # a timer may be early by the clock's resolution
            self._watch_idleness()

    def died(self) -> None:
        if self._closing:  # it was dismissed
            return
        if self._session is not None and self._session.death is not None:
            self._owner.observer.crashed(self.id, self._session.death)
        self.on_devices.release()
        now = time.monotonic()
        self._deaths = [moment for moment in self._deaths if now - moment < DEATHS_WITHIN_S] + [now]
        pause_s = PAUSES_S[min(len(self._deaths), len(PAUSES_S)) - 1]
        logger.error("worker_died", extra={"fields": {"model": self.id, "restart_in_s": pause_s}})
        self._revival = asyncio.get_running_loop().create_task(self._revive(pause_s))

    async def _fresh_session(self) -> Session:
        with self.waited_for():
            return await self.session()

    async def _revive(self, pause_s: float) -> None:
        """Restart it so that the next request need not wait. A request that arrives earlier restarts it itself."""
        await asyncio.sleep(pause_s)
        try:
            await self._fresh_session()
        except LocalLLMError as error:
            fields = {"model": self.id, "code": error.code, "message": error.message}
            logger.error("restart_failed", extra={"fields": fields})
        except Exception:
            logger.exception("defect in a restart")

    def ended(self, end: Finish | str, *, is_batch: bool = False) -> None:
        if isinstance(end, str):
            self._owner.observer.failed(self.id, end, is_batch=is_batch)
        else:
            self._owner.observer.finished(self.id, end, is_batch=is_batch)
        self.used()
        self._owner.changed()

    def embedded(self) -> None:
        self.used()
        self._owner.changed()

    def called(self) -> None:
        self._watch_idleness()
        self._owner.changed()

    def _start(self) -> Session:
        settings = self._settings
        command = worker_command(
            data_dir=settings.data_dir,
            runtime=settings.runtime,
            plugin_dir=settings.plugin_dir,
            verbose=settings.verbose,
            debug=settings.log_level == "debug",
            devices=self.options.devices or (),
            rpc=settings.rpc,
            architecture=self._candidate.info.architecture,
            examines_devices=chooses_gpus(self.options),
            requires_gpus=requires_gpus(self.options),
        )
        session = Session(
            command,
            self._make_load,
            SessionLimits(settings.max_waiting, settings.worker_timeout_s, settings.step_timeout_s),
            observer=self,
            retries=self._retries,
            verbose=settings.verbose,
            saves=self.options.kv_disk_mb > 0,
        )
        session.ready.add_done_callback(self._report_ready)
        return session

    def _report_ready(self, ready: asyncio.Future[LoadedModel]) -> None:
        if ready.cancelled() or self._closing:
            return
        error = ready.exception()
        if error is None:
            self.on_devices.allocated()
            self._owner.observer.ready(self.id, ready.result())
        elif self.loaded is not None and isinstance(error, LocalLLMError):
            self._owner.observer.crashed(self.id, error)

    def loading(self, fraction: float) -> None:
        self._owner.observer.loading(self.id, fraction)
        for listener in list(self._listeners):
            listener(fraction)

    def _make_load(self, hello: Hello) -> Load:
        options = self.options
        log_devices(self.id, hello.absent, hello.devices if chooses_gpus(options) else ())
        if self._chose_ctx:
            options = on_devices(options, lambda tried: self.on_devices.layers_with(tried, hello.devices))
        place = tuned.place_of(library=hello.fingerprint, backend=hello.backend, devices=hello.devices)
        found = tuned.match(self._candidate.tunings, place, options, context_of(self._candidate.info, options))
        self._used_options = options = found.applied(options)
        placement = self.on_devices.place(hello.devices, options)
        draft = self.on_devices.draft and self.on_devices.draft.load
        reasons = {"flash_attn": "flash_attn_reason", "mtp": "no_heads"}
        as_tuned = {reasons[name]: tuned.AS_TUNED for name in found.settings if name in reasons}
        placement = msgspec.structs.replace(placement, **as_tuned)
        projector = self.on_devices.projector and self.on_devices.projector.load
        more = found.story(), found.settings, draft, self._no_draft, projector, self._candidate.companion.no_media
        info = msgspec.structs.replace(self._candidate.info, tensors={})  # only planning needs tensor names
        return Load(self.id, str(self.path), info, options, placement, self._candidate.defaults, *more)
