"""Sends the worker's messages in order, on a thread of its own. One that cannot be encoded fails only its request.

Knows nothing of what requests are.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from localllm.errors import InternalError
from localllm.worker.framing import FrameWriter, NotEncodable, encode
from localllm.worker.gathering import Gathering
from localllm.worker.messages import Accepted, Deltas, Rejected, Reply, Tokenized, Up, Vectors


class Outbox:
    """`put` may be called from any thread."""

    def __init__(self, writer: FrameWriter, on_gone: Callable[[], None], on_failed: Callable[[int], None]) -> None:
        """`on_gone` is called when the parent no longer reads, `on_failed` with a request whose result cannot be sent,
        so that nothing more is done for it."""
        self._on_failed = on_failed
        self._gathering = Gathering()
        self._writer = writer
        self._on_gone = on_gone
        self._queue: queue.SimpleQueue[Up | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="writer", daemon=True)
        self._thread.start()

    def gather(self, interval_s: float) -> None:
        """Send deltas at most this often from now on, but for the first and the last of each answer."""
        self._gathering.every(interval_s)

    def put(self, message: Up) -> None:
        self._queue.put(message)

    def close(self) -> None:
        """Returns when everything is sent."""
        self._queue.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        gathering = self._gathering
        try:
            while True:
                try:
                    message = self._queue.get(timeout=gathering.wait_s(time.monotonic()))
                except queue.Empty:
                    self._write_each(gathering.take(time.monotonic()))
                    continue
                if message is None:
                    self._write_each(gathering.take(time.monotonic()))
                    return
                self._write_each(gathering.put(message, time.monotonic()))
        except OSError:
            self._on_gone()

    def _write_each(self, messages: list[Up]) -> None:
        for message in messages:
            self._write(message)

    def _write(self, message: Up) -> None:
        try:
            frame = encode(message)
        except NotEncodable as error:
            for instead in self._instead(message, error):
                self._writer.write(instead)
        else:
            self._writer.write_frame(frame)

    def _instead(self, message: Up, error: NotEncodable) -> list[Up]:
        """What can be sent instead; raises the error if nothing can, and then the worker cannot continue."""
        if isinstance(message, Deltas) and len(message.items) > 1:
            return [one for item in message.items for one in self._sayable(Deltas(message.step, (item,)))]
        info = InternalError(f"the answer of the model's process cannot be sent: {error.reason}").info()
        if isinstance(message, Reply):
            return [Reply(message.id, None, info)]
        if isinstance(message, Deltas) and message.items:
            id = message.items[0][0]
        elif isinstance(message, Accepted | Rejected | Tokenized | Vectors):
            id = message.id
        else:
            raise error
        self._on_failed(id)
        return [Rejected(id, info)]

    def _sayable(self, message: Deltas) -> list[Up]:
        try:
            encode(message)
        except NotEncodable as error:
            return self._instead(message, error)
        return [message]
