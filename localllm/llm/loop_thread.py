"""An event loop on its own thread that runs coroutines for blocking callers. Knows nothing about models.

Ctrl-C and other exceptions in the caller cancel its coroutine. Every caller gets a result or an error, even if the loop
ends. The thread keeps nothing alive except running coroutines. `end` never blocks, since garbage collection may call it
on any thread.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from localllm.errors import LocalLLMError, NotLoaded, WrongOwner

WAIT_SLICE_S = 0.25
"""Upper bound of one wait: on Windows Ctrl-C is not delivered while a thread waits for a lock."""
EXIT_TIMEOUT_S = 30.0
"""How long interpreter shutdown waits for models to close. Workers end with their parent in any case."""

T = TypeVar("T")
logger = logging.getLogger("localllm")


class LoopThread:
    """Started by `start`; `end` cancels what still runs and stops the loop."""

    def __init__(self, name: str, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """`last` runs on the loop before it stops; tasks that remain after it are cancelled."""
        self._last = last
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._executor = _LastingExecutor(thread_name_prefix=f"{name}-work")
        self._loop.set_default_executor(self._executor)
        self._lock = threading.RLock()  # a signal handler may call while its thread holds the lock
        self._ending: asyncio.Task[None] | None = None  # keeps the task from being collected
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_current(self) -> bool:
        """Whether the caller is a callback of this loop."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        _open.add(self)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result. An exception in the caller, such as Ctrl-C, cancels it.

        Raises what the coroutine raises, `NotLoaded` once it has ended, and `WrongOwner` in a fork or callback.
        """
        job = self.begin(work)
        try:
            return job.result()
        except BaseException:
            job.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, T]) -> Begun[T]:
        """Start it, without waiting for its result. Raises `NotLoaded` once the thread has ended, and `WrongOwner`."""
        try:
            self._check()
        except LocalLLMError:
            work.close()
            raise
        begun = Begun(self, _Job(work), work.close)
        try:
            with self._lock:
                if self._ended:
                    raise _closed()
                self._loop.call_soon_threadsafe(begun.start)
        except BaseException:
            begun.cancel()
            raise
        return begun

    def post(self, callback: Callable[[], object], otherwise: Callable[[], object] = lambda: None) -> None:
        """Call it on the loop, after what was posted before; call `otherwise` instead if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed
            otherwise()

    def end(self) -> None:
        """Begin to end; never blocks. Idempotent. Does nothing in a forked child, which has no such thread."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._ended:
                return
            if self._thread.ident is None:  # never started
                self._loop.close()
            else:
                self._loop.call_soon_threadsafe(self._begin_end)
            self._ended = True

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the thread has ended. Any number of threads may wait; on the thread itself it does not wait."""
        if os.getpid() != self._pid or self.is_current or self._thread.ident is None:
            return
        waited_s = 0.0
        while self._thread.is_alive() and (timeout_s is None or waited_s < timeout_s):
            self._thread.join(WAIT_SLICE_S)
            waited_s += WAIT_SLICE_S

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise WrongOwner(
                "this LLM belongs to the process that made it and does not work in a fork of it; make one after the "
                'fork, or start the child with multiprocessing\'s "spawn"'
            )
        if self.is_current:
            raise WrongOwner(
                "on_event and on_progress are called on the thread that does this LLM's work, so they must not call "
                "the LLM; use a thread of your own"
            )

    def _run(self) -> None:
        while not self._loop.is_closed():
            try:
                self._loop.run_forever()
                self._loop.close()
            except BaseException:  # a callback raised SystemExit: the other callers still wait for their results
                logger.exception("defect in a callback")
        self._executor.shutdown()

    def _begin_end(self) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(self._finish())

    async def _finish(self) -> None:
        try:
            await self._last()
        except Exception:
            logger.exception("defect while closing")
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        self._loop.stop()


class Begun(Generic[T]):
    """Work on the loop of another thread."""

    def __init__(self, thread: LoopThread, job: _Job[T], close: Callable[[], None]) -> None:
        self._thread = thread
        self._job = job
        self._close = close

    def start(self) -> None:
        """Called on the loop."""
        self._job.start()

    def result(self) -> T:
        """Blocks. Raises what the coroutine raised, and `NotLoaded` if the loop ended first."""
        return self._job.result()

    def cancel(self) -> None:
        """Its result is not wanted any more; never blocks."""
        self._thread.post(self._job.cancel, otherwise=self._close)


class _Job(Generic[T]):
    """One coroutine and the thread that waits for it. `start` and `cancel` are called on the loop."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._is_done = threading.Event()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        """The caller has stopped waiting. Drops the task, since the caller's traceback may keep this object alive."""
        task, self._task = self._task, None
        if task is None:
            self._work.close()  # cancelled before it began
        elif not task.done():
            task.cancel()

    def result(self) -> T:
        """Blocks. Raises what the coroutine raised."""
        while not self._is_done.wait(WAIT_SLICE_S):
            pass
        task = self._task
        if task is None or task.cancelled():
            raise _closed()
        return task.result()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # marks it as retrieved; the waiting caller raises it
        self._is_done.set()


class _LastingExecutor(concurrent.futures.ThreadPoolExecutor):
    """Runs work on the caller's thread during interpreter shutdown, when thread pools refuse it."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[T]:
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            if threading.main_thread().is_alive():
                raise
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  raised by the future's result()
            done.set_exception(error)
        return done


def _closed() -> NotLoaded:
    return NotLoaded("this LLM is closed; make a new one")


_open: weakref.WeakSet[LoopThread] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Closes every model at interpreter shutdown, so that workers can save their state."""
    threads = list(_open)
    for thread in threads:
        thread.end()
    for thread in threads:
        thread.join(EXIT_TIMEOUT_S)
