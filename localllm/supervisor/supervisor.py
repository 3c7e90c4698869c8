"""Which model is loaded, and bringing it back when its process died. One model at a time, for now.

Knows nothing of requests' contents or of HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from localllm.config import Settings
from localllm.errors import LoadFailed, LocalLLMError, ModelNotFound
from localllm.supervisor.plan import plan
from localllm.supervisor.session import Session
from localllm.types import LoadedModel, LoadOptions, ModelInfo
from localllm.worker.command import worker_command
from localllm.worker.messages import Hello, Load

OnProgress = Callable[[float], None]


class Supervisor:
    """Used on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models: dict[str, _Model] = {}

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
        model = self._models[id] = _Model(self._settings, id, path, info, options)
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

    def __init__(self, settings: Settings, id: str, path: Path, info: ModelInfo, options: LoadOptions) -> None:
        self._settings = settings
        self._id = id
        self._path = path
        self._info = info
        self._options = options
        self._session: Session | None = None
        self.loaded: LoadedModel | None = None
        """What the worker said when it was last ready."""

    async def session(self, on_progress: OnProgress | None = None) -> Session:
        """A session that can answer; several callers wait for the same start."""
        session = self._session
        if session is None or not session.alive:
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
        if session is not None:
            await session.aclose()

    async def _discard(self, session: Session) -> None:
        """End a session that failed to load, unless another caller did and has started the next one already."""
        if self._session is session:
            self._session = None
        await session.aclose()

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
            on_progress=on_progress,
            verbose=settings.verbose,
        )

    def _make_load(self, hello: Hello) -> Load:
        placement = plan(self._info, self._options, hello.devices)
        return Load(self._id, str(self._path), self._info, self._options, placement)
