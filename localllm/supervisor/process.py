"""One worker process, seen from the event loop: its messages, whether it hangs, its shutdown and its exit.

Any failure on the way ends the process, and its owner gets the reason. Knows nothing of requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from localllm.errors import LocalLLMError, WorkerCrashed
from localllm.supervisor.heartbeat import Heartbeat
from localllm.worker.handle import TERM_GRACE_S, WorkerHandle
from localllm.worker.messages import Down, Pong, Shutdown, Up

logger = logging.getLogger("localllm")

UNKILLABLE_S = 10.0
"""Time for a killed process to disappear. One that a driver holds in the kernel is then abandoned."""
SAVING_ANSWER_S, SAVING_ADVANCE_S = 5.0, 120.0
"""Timeouts while a process that shuts down saves conversations: for a ping, and for one conversation."""
JOIN_S = 0.1
"""Time for the thread that reported the exit to end."""


class WorkerProcess:
    """Used on the loop that made it; both callbacks are called on that loop."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        on_message: Callable[[Up], None],
        on_exit: Callable[[WorkerCrashed], None],
        has_unprepared: Callable[[], bool],
        worker_timeout_s: float,
        step_timeout_s: float,
        verbose: bool,
    ) -> None:
        """`on_exit` is called once, after the last `on_message`. For the timeouts see `Heartbeat`, which `watch`
        starts.

        Raises `WorkerCrashed` if no process can be started.
        """
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        self._on_exit = on_exit
        self._has_unprepared = has_unprepared
        self._exited = asyncio.Event()
        self._leaving: asyncio.Task[None] | None = None
        self._is_dismissed = False
        self._heartbeat = Heartbeat(worker_timeout_s=worker_timeout_s, step_timeout_s=step_timeout_s)
        self._next_beat: asyncio.TimerHandle | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._handle = WorkerHandle(
            command,
            on_message=partial(self._post, self._take),
            on_exit=partial(self._post, self._bury),
            echo_stderr=verbose,
        )

    @property
    def pid(self) -> int:
        return self._handle.pid

    @property
    def is_leaving(self) -> bool:
        """Whether it was asked to shut down."""
        return self._leaving is not None or self._is_dismissed

    @property
    def is_silent(self) -> bool:
        """Whether it has left a ping unanswered for a while."""
        return self._heartbeat.is_silent

    def send(self, message: Down) -> None:
        """Never blocks. Raises `InvalidParameter` for a message that exceeds a frame, `QueueFull`."""
        self._handle.send(message)

    def watch(self) -> None:
        """Start checking that it keeps responding, now that it reads messages."""
        if self._next_beat is None:
            self._beat()

    def dismiss(self) -> None:
        """Ask it to shut down, from any thread, without waiting."""
        self._is_dismissed = True
        with contextlib.suppress(LocalLLMError):  # its pipe is full or closed; stdin ends with this process anyway
            self.send(Shutdown())

    def prepared(self) -> None:
        """Record that it has accepted or rejected a request."""
        self._heartbeat.prepared()

    async def aclose(self, *, saves: bool) -> None:
        """Ask it to shut down, and return when it is gone. `saves`: give it time to write conversations while it
        progresses."""
        if self._leaving is None:
            self._leaving = self._loop.create_task(self._leave(saves))
        await asyncio.shield(self._leaving)

    async def _leave(self, saves: bool) -> None:
        try:
            self.send(Shutdown())
            if saves:  # a process that answers no pings saves nothing either
                self._heartbeat = Heartbeat(worker_timeout_s=SAVING_ANSWER_S, step_timeout_s=SAVING_ADVANCE_S)
                self._beat()
                await self._exited.wait()
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TERM_GRACE_S):
                        await self._exited.wait()
        finally:
            if not self._exited.is_set():
                self._kill("it did not shut down when asked to")
        await self._exited.wait()
        self._handle.join(JOIN_S)

    def _post(self, callback: Callable[[Any], None], item: object) -> None:
        """Hand an item over to the loop, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it whatever waited
            self._loop.call_soon_threadsafe(self._guarded, callback, item)

    def _guarded(self, callback: Callable[..., None], *args: object) -> None:
        """End the process if a callback raises: otherwise the loop would swallow the error, and a caller would wait
        forever."""
        try:
            callback(*args)
        except Exception as error:
            logger.exception("defect in a session")
            self._kill(f"handling its message failed here with {type(error).__name__}")

    def _take(self, message: Up) -> None:
        if isinstance(message, Pong):
            self._heartbeat.take(message)
        elif self._giving_up is None:  # ignore messages of a process we are ending
            self._on_message(message)

    def _beat(self) -> None:
        if self._next_beat is not None:
            self._next_beat.cancel()
        if self._exited.is_set() or not self._heartbeat.is_needed:
            return
        reason = self._heartbeat.beat(has_unprepared=self._has_unprepared())
        if reason is not None:
            logger.error("worker_hangs", extra={"fields": {"pid": self.pid, "reason": reason}})
            self._kill(reason)
            return
        if (ping := self._heartbeat.next_ping()) is not None:
            self.send(ping)
        self._next_beat = self._loop.call_later(self._heartbeat.interval_s, self._guarded, self._beat)

    def _kill(self, reason: str) -> None:
        """`on_exit` follows when it is gone, or after `UNKILLABLE_S` if it cannot be killed."""
        self._handle.kill(reason)
        if self._giving_up is None and not self._exited.is_set():
            crash = WorkerCrashed(f"the model's process was ended: {reason}; it still exists")
            self._giving_up = self._loop.call_later(UNKILLABLE_S, self._guarded, self._bury, crash)

    def _bury(self, crash: WorkerCrashed) -> None:
        if self._exited.is_set():  # abandoned, and gone after all
            return
        self._exited.set()
        for timer in (self._next_beat, self._giving_up):
            if timer is not None:
                timer.cancel()
        self._on_exit(crash)
