"""Signals reach a server that has nothing to do, whichever thread the system delivers them to."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

from localllm.server.main import Stop

NEXT_EVENT_S = 20.0


def test_a_signal_that_another_thread_takes_stops_an_idle_server_at_once() -> None:
    """That thread stands for the moment in which the loop is about to sleep: neither interrupts its sleep."""

    async def idle() -> float:
        stop, over = Stop(), threading.Event()
        other = threading.Thread(target=over.wait)
        other.start()
        try:
            with stop.on_signals():
                began_s = time.monotonic()
                asyncio.get_running_loop().call_later(
                    0.1, lambda: threading.Timer(0.1, signal.pthread_kill, (other.ident, signal.SIGTERM)).start()
                )
                async with asyncio.timeout(NEXT_EVENT_S):
                    await stop.event.wait()
                return time.monotonic() - began_s
        finally:
            over.set()
            other.join()

    assert asyncio.run(idle()) < NEXT_EVENT_S / 2
