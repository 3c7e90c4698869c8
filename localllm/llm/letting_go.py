"""How a caller stops waiting, and how a model ends that nobody has any more. Knows nothing of what is asked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from localllm.cancel import Cancel
from localllm.runtime.runtime import Runtime

T = TypeVar("T")
_closing: set[asyncio.Task[None]] = set()
"""Tasks that nobody else refers to."""


async def until(cancel: Cancel, work: Coroutine[Any, Any, T]) -> T | None:
    """None once it is cancelled by the handle."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def stop() -> None:
        try:
            loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:
            pass  # the loop is closed, and so is the task

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


def let_go(runtime: Runtime, loop: asyncio.AbstractEventLoop, pid: int) -> None:
    """Nobody has the AsyncLLM any more. On any thread."""
    if os.getpid() != pid:
        return
    runtime.dismiss()
    try:
        loop.call_soon_threadsafe(_close_soon, runtime)
    except RuntimeError:
        pass  # the loop is closed; what `dismiss` did is enough


def _close_soon(runtime: Runtime) -> None:
    task = asyncio.get_running_loop().create_task(runtime.aclose())
    _closing.add(task)
    task.add_done_callback(_closing.discard)
