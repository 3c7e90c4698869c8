"""Signals wake an event loop that has nothing to do. Knows nothing of what their handlers do.

Python runs a handler between two bytecodes of the main thread. A signal that arrives while that thread is about to
sleep, or on another thread, would otherwise be handled at the loop's next event: after minutes, if the server is idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def wakes_on_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Within the block, on the main thread, every signal wakes the loop."""
    woken, waking = socket.socketpair()
    with woken, waking:
        woken.setblocking(False)
        waking.setblocking(False)
        try:
            loop.add_reader(woken, woken.recv, 4096)
        except NotImplementedError:  # the proactor loop of Windows wakes by itself
            yield
            return
        previous = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous)
            loop.remove_reader(woken)
