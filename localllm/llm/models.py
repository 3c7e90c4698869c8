"""The models on this machine, without loading any: pull, list, show, remove. Knows no servers and no workers."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from localllm.errors import InvalidParameter
from localllm.llm.arguments import check_callback, check_cancel, settings_from
from localllm.llm.loop_thread import WAIT_SLICE_S
from localllm.settings.config import Settings
from localllm.system.cancel import Cancel
from localllm.types import ModelDefaults, ModelInfo
from localllm.types.states import AvailableModel, PullState

OnState = Callable[[PullState], None]


class ModelDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model without loading it."""

    id: str
    path: Path
    """The model file; the first one of a split model."""
    info: ModelInfo
    """From its GGUF header."""
    defaults: ModelDefaults
    """Request defaults set by its manifest."""
    ctx: int | None
    """Tokens per slot, if its manifest sets that."""
    entry: AvailableModel | None
    """Its entry in `list`; None for a file outside the store."""


class Models:
    """The model store of one home, and the registries it pulls from. Thread-safe.

    `settings` and `home` as for `LLM`. Names are those of `localllm pull`: `qwen3:0.6b`, `hf.co/USER/REPO:QUANT` ...
    """

    def __init__(self, *, settings: Settings | None = None, home: str | Path | None = None) -> None:
        self._settings = settings_from(settings, home)

    def list(self) -> Sequence[AvailableModel]:
        """The models on this machine: the bundled demo model, then those of the store."""
        from localllm.registry.listing import available

        return available(self._settings.data_dir)

    def show(self, name: str | Path) -> ModelDetails:
        """What is known of a model. Raises `ModelNotFound`, `InvalidParameter`, `InvalidModelFile`."""
        from localllm.registry.header_reading import read_info
        from localllm.registry.resolve import resolve

        file = resolve(_name(name, allow_paths=True), self._settings.data_dir)
        try:
            info = read_info(file)
        finally:
            file.release()
        entries = {} if isinstance(name, Path) else {entry.id: entry for entry in self.list()}
        return ModelDetails(
            id=file.id,
            path=file.path,
            info=info,
            defaults=file.defaults,
            ctx=file.ctx,
            entry=entries.get(file.id),
        )

    def remove(self, name: str) -> None:
        """Remove a model, and delete files that no other model uses. Raises `ModelNotFound`.

        A model that is loaded keeps its files until it is unloaded.
        """
        from localllm.registry.listing import remove_whole

        remove_whole(_name(name), self._settings.data_dir)

    def pull(self, name: str, *, on_progress: OnState | None = None, cancel: Cancel | None = None) -> AvailableModel:
        """Download a model. Files already present are not fetched again; an interrupted download resumes.

        on_progress: called on the caller's thread; what it raises stops the pull, as does Ctrl-C. Raises `Cancelled`,
        `ModelNotFound`, `PullFailed`s, `DiskFull`, `InvalidParameter`.
        """
        check_callback("on_progress", on_progress)
        check_cancel(cancel)
        news: queue.SimpleQueue[PullState | None] = queue.SimpleQueue()
        pulling = _Pull(self._settings, _name(name), news.put, lambda: news.put(None))
        try:
            with _attached(cancel, pulling.stop):
                pulling.start()
                while (state := _next(news)) is not None:
                    if on_progress is not None:
                        on_progress(state)
        except BaseException:
            pulling.stop()
            while pulling.ident is not None and _next(news) is not None:  # without an ident it never started
                pass
            raise
        return pulling.result()


class AsyncModels:
    """`Models` for asyncio."""

    def __init__(self, *, settings: Settings | None = None, home: str | Path | None = None) -> None:
        self._models = Models(settings=settings, home=home)

    async def list(self) -> Sequence[AvailableModel]:
        """See `Models.list`."""
        return await asyncio.to_thread(self._models.list)

    async def show(self, name: str | Path) -> ModelDetails:
        """See `Models.show`."""
        return await asyncio.to_thread(self._models.show, name)

    async def remove(self, name: str) -> None:
        """See `Models.remove`."""
        await asyncio.to_thread(self._models.remove, name)

    async def pull(
        self, name: str, *, on_progress: OnState | None = None, cancel: Cancel | None = None
    ) -> AvailableModel:
        """See `Models.pull`. on_progress: called on the event loop. Cancelling the task stops the pull as well."""
        check_callback("on_progress", on_progress)
        check_cancel(cancel)
        loop, news = asyncio.get_running_loop(), asyncio.Queue[PullState | None]()

        def put(state: PullState | None) -> None:
            try:
                loop.call_soon_threadsafe(news.put_nowait, state)
            except RuntimeError:
                pass  # the loop is closed, so nothing awaits the pull

        pulling = _Pull(self._models._settings, _name(name), put, lambda: put(None))
        try:
            with _attached(cancel, pulling.stop):
                pulling.start()
                while (state := await news.get()) is not None:
                    if on_progress is not None:
                        on_progress(state)
        except BaseException:
            pulling.stop()
            while pulling.ident is not None and await news.get() is not None:
                pass
            raise
        return pulling.result()


class _Pull(threading.Thread):
    """One download on its own thread, so that Ctrl-C interrupts a waiting caller and not a file operation."""

    def __init__(self, settings: Settings, name: str, on_state: OnState, on_end: Callable[[], None]) -> None:
        super().__init__(name="localllm-pull", daemon=True)
        self._settings = settings
        self._model = name
        self._on_state = on_state
        self._on_end = on_end
        self._cancel = threading.Event()
        self._outcome: AvailableModel | BaseException | None = None

    def stop(self) -> None:
        self._cancel.set()

    def run(self) -> None:
        from localllm.planning.memory_fit import measure
        from localllm.registry.pull import Puller

        try:
            with Puller(self._settings, measure=measure(self._settings.load_options())) as puller:
                self._outcome = puller.pull(self._model, on_state=self._on_state, cancel=self._cancel)
        except BaseException as error:  # noqa: BLE001  raised in the caller's thread by result()
            self._outcome = error
        self._on_end()

    def result(self) -> AvailableModel:
        """The outcome, once the thread has ended."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome


@contextlib.contextmanager
def _attached(cancel: Cancel | None, stop: Callable[[], None]) -> Iterator[None]:
    if cancel is None:
        yield
        return
    cancel.attach(stop)
    try:
        yield
    finally:
        cancel.detach(stop)


def _next(news: queue.SimpleQueue[PullState | None]) -> PullState | None:
    while True:
        try:
            return news.get(timeout=WAIT_SLICE_S)
        except queue.Empty:
            continue


def _name(name: Any, *, allow_paths: bool = False) -> Any:
    if isinstance(name, str) or (allow_paths and isinstance(name, Path)):
        return name
    raise InvalidParameter(f"a model's name must be a string, got {type(name).__name__}", param="model")
