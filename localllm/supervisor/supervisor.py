"""Which model is loaded, and bringing it back when its process died: at once, but not again and again without a pause.

One model at a time, for now. Knows nothing of requests' contents or of HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from localllm.config import Settings
from localllm.errors import LoadFailed, LocalLLMError, ModelNotFound
from localllm.supervisor.observer import Observer
from localllm.supervisor.plan import plan
from localllm.supervisor.session import Session
from localllm.types import Finish, LoadedModel, LoadOptions, ModelInfo
from localllm.worker.command import worker_command
from localllm.worker.messages import Hello, Load

OnProgress = Callable[[float], None]

logger = logging.getLogger("localllm")

PAUSES_S = (0.0, 1.0, 5.0, 30.0)
"""Before a model that died is started again: after its first death within `DEATHS_WITHIN_S`, its second ..."""
DEATHS_WITHIN_S = 120.0


class Supervisor:
    """Used on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models: dict[str, _Model] = {}
        self.observer = Observer()

    def restarting(self) -> list[str]:
        """The models that were loaded and cannot answer just now, because their process died."""
        return [id for id, model in self._models.items() if model.loaded is not None and not model.answers]

    def loaded(self) -> list[LoadedModel]:
        """The models that answer requests; also one whose process died, since the next request brings it back."""
        return [model.loaded for model in self._models.values() if model.loaded is not None]

    async def load(
        self, id: str, path: Path, info: ModelInfo, options: LoadOptions, on_progress: OnProgress | None
    ) -> LoadedModel:
        """Start a worker and wait until it can answer. Raises `LoadFailed` and its kin, `WorkerCrashed`."""
        if self._models:
            other = next(iter(self._models))
            raise LoadFailed(f"{other} is loaded and one model at a time is served; unload it first", param="model")
        model = self._models[id] = _Model(self, self._settings, id, path, info, options)
        try:
            session = await model.session(on_progress)
        except BaseException:  # also a cancelled load leaves no worker behind
            self._models.pop(id, None)
            await model.aclose()
            raise
        return session.ready.result()

    async def acquire(self, id: str) -> Session:
        """The session that answers for a model, started anew if its process had died. Raises `ModelNotFound`."""
        model = self._models.get(id)
        if model is None:
            names = ", ".join(self._models) or "no model"
            raise ModelNotFound(f"the model {id!r} is not loaded; loaded: {names}", param="model")
        return await model.session()

    async def unload(self, id: str) -> None:
        """End a model's process. Raises `ModelNotFound`."""
        model = self._models.pop(id, None)
        if model is None:
            raise ModelNotFound(f"the model {id!r} is not loaded", param="model")
        await model.aclose()

    async def aclose(self) -> None:
        models, self._models = self._models, {}
        await asyncio.gather(*(model.aclose() for model in models.values()))


class _Model:
    """A model that should be loaded: its session, if it lives, and how to start another."""

    def __init__(
        self,
        supervisor: Supervisor,
        settings: Settings,
        id: str,
        path: Path,
        info: ModelInfo,
        options: LoadOptions,
    ) -> None:
        self._supervisor = supervisor
        self._settings = settings
        self._id = id
        self._path = path
        self._info = info
        self._options = options
        self._session: Session | None = None
        self._deaths: list[float] = []
        self._revival: asyncio.Task[None] | None = None
        self.loaded: LoadedModel | None = None
        """What the worker said when it was last ready."""

    @property
    def answers(self) -> bool:
        """Whether its process lives and has loaded it."""
        session = self._session
        return session is not None and session.alive and session.ready.done()

    async def session(self, on_progress: OnProgress | None = None) -> Session:
        """A session that can answer; several callers wait for the same start."""
        session = self._session
        if session is None or not session.alive:
            if self.loaded is not None:
                self._supervisor.observer.restarted(self._id)
            session = self._session = self._start(on_progress)
        timeout_s = self._settings.load_timeout_s
        try:
            await asyncio.wait_for(asyncio.shield(session.ready), timeout_s)
        except TimeoutError:
            await self._discard(session)
            raise LoadFailed(
                f"{self._id} did not load within {timeout_s:g} s; raise LOCALLLM_LOAD_TIMEOUT_S", param="model"
            ) from None
        except LocalLLMError:
            await self._discard(session)
            raise
        self.loaded = session.ready.result()
        return session

    async def aclose(self) -> None:
        session, self._session, self.loaded = self._session, None, None
        if self._revival is not None:
            self._revival.cancel()
            await asyncio.gather(self._revival, return_exceptions=True)
        if session is not None:
            await session.aclose()

    async def _discard(self, session: Session) -> None:
        """End a session that failed to load, unless another caller did and has started the next one already."""
        if self._session is session:
            self._session = None
        await session.aclose()

    def _died(self) -> None:
        now = time.monotonic()
        self._deaths = [moment for moment in self._deaths if now - moment < DEATHS_WITHIN_S] + [now]
        pause_s = PAUSES_S[min(len(self._deaths), len(PAUSES_S)) - 1]
        fields = {"model": self._id, "restart_in_s": pause_s}
        logger.error("worker_died", extra={"fields": fields})
        self._revival = asyncio.get_running_loop().create_task(self._revive(pause_s))

    async def _revive(self, pause_s: float) -> None:
        """Start it again before the next request has to wait for that. One that comes earlier starts it itself."""
        await asyncio.sleep(pause_s)
        try:
            await self.session()
        except LocalLLMError as error:
            fields = {"model": self._id, "code": error.code, "message": error.message}
            logger.error("restart_failed", extra={"fields": fields})

    def _end(self, end: Finish | str) -> None:
        if isinstance(end, str):
            self._supervisor.observer.failed(self._id, end)
        else:
            self._supervisor.observer.finished(self._id, end)

    def _start(self, on_progress: OnProgress | None) -> Session:
        settings = self._settings
        command = worker_command(
            data_dir=settings.data_dir,
            plugin_dir=settings.plugin_dir,
            verbose=settings.verbose,
            debug=settings.log_level == "debug",
        )
        return Session(
            command,
            self._make_load,
            max_waiting=settings.max_waiting,
            on_end=self._end,
            on_death=self._died,
            on_progress=on_progress,
            verbose=settings.verbose,
        )

    def _make_load(self, hello: Hello) -> Load:
        placement = plan(self._info, self._options, hello.devices)
        return Load(self._id, str(self._path), self._info, self._options, placement)
