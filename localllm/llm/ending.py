"""Ends abandoned work: a cancelled call, and the model of a dropped `AsyncLLM`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from localllm.runtime.runtime import Runtime
from localllm.system.cancel import Cancel

T = TypeVar("T")
_closing: set[asyncio.Task[None]] = set()
"""Strong references: the event loop has weak ones only."""


async def until_cancelled(cancel: Cancel, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`; None if `cancel` ends it first."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def stop() -> None:
        try:
            loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:
            pass  # the loop is closed, so the task has ended

    cancel.attach(stop)
    try:
        return await task
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if cancel.cancelled and not (caller is not None and caller.cancelling()):
            return None
        raise
    finally:
        cancel.detach(stop)


def end_abandoned(runtime: Runtime, loop: asyncio.AbstractEventLoop, pid: int) -> None:
    """Called when the last reference to an AsyncLLM is gone, on any thread."""
    if os.getpid() != pid:
        return
    runtime.dismiss()
    try:
        loop.call_soon_threadsafe(_close_soon, runtime)
    except RuntimeError:
        pass  # the loop is closed; `dismiss` has ended the process


def _close_soon(runtime: Runtime) -> None:
    task = asyncio.get_running_loop().create_task(runtime.aclose())
    _closing.add(task)
    task.add_done_callback(_closing.discard)
