"""A worker without a model, in which every request gets a token at every beat, so that only the server costs time.

    python -m benchmarks.metronome BEATS_PER_SECOND        frames on stdin and stdout, as a worker's

The text of a token is the time at which it was sent; that of the first one also has the time at which the request
arrived. Times are nanoseconds of the system's monotonic clock, which all processes share.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from localllm.system import processes
from localllm.types import Delta, Finish, LoadedModel, Timings, Usage
from localllm.worker.framing import FrameReader, FrameWriter
from localllm.worker.messages import Accepted, Cancel, Deltas, Hello, Load, Ping, Pong, Ready, Submit, Up, down_decoder


class Metronome:
    """The running requests, and the number of tokens left for each."""

    def __init__(self, writer: FrameWriter) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._tokens_left: dict[int, int] = {}

    def submit(self, message: Submit) -> None:
        """Start a request; its first token is sent immediately."""
        arrived = time.monotonic_ns()
        with self._lock:
            self._tokens_left[message.id] = message.request.params.max_tokens or 1
            self._send(Accepted(message.id, 1))
            self._beat([message.id], f"{arrived} ")

    def cancel(self, id: int) -> None:
        with self._lock:
            self._tokens_left.pop(id, None)

    def beat(self) -> None:
        with self._lock:
            self._beat(list(self._tokens_left))

    def answer(self, ping: Ping) -> None:
        with self._lock:
            self._send(Pong(ping.number, False, 0))

    def _beat(self, ids: list[int], before: str = "") -> None:
        made: list[tuple[int, Delta]] = []
        text = f"{before}{time.monotonic_ns()} "
        for id in ids:
            self._tokens_left[id] -= 1
            if self._tokens_left[id] == 0:
                del self._tokens_left[id]
                made.append((id, Delta(text, 1, Finish("length", Usage(1, 1), Timings(0.0, 0.0, 0.0)))))
            else:
                made.append((id, Delta(text, 1)))
        if made:
            self._send(Deltas(0, tuple(made)))

    def _send(self, message: Up) -> None:
        self._writer.write(message)


def main() -> None:
    source, sink = processes.claim_standard_streams()
    reader, writer = FrameReader(source, down_decoder), FrameWriter(sink)
    writer.write(Hello(os.getpid(), "metronome", "metronome", ()))
    load = reader.read()
    assert isinstance(load, Load)
    ready = LoadedModel(
        id=load.model_id, path=load.path, info=load.info, ctx=load.placement.ctx, slots=load.placement.slots,
        threads=1, layers_per_device={}, backend="metronome", load_s=0.0, created_unix_s=0,
    )  # fmt: skip
    writer.write(Ready(ready))
    metronome = Metronome(writer)

    def beat_for_ever() -> None:
        interval_s, next_s = 1 / float(sys.argv[1]), time.monotonic()
        while True:
            next_s += interval_s
            time.sleep(max(0.0, next_s - time.monotonic()))
            metronome.beat()

    threading.Thread(target=beat_for_ever, daemon=True).start()
    while (message := reader.read()) is not None:
        if isinstance(message, Submit):
            metronome.submit(message)
        elif isinstance(message, Cancel):
            metronome.cancel(message.id)
        elif isinstance(message, Ping):
            metronome.answer(message)
    os._exit(0)


if __name__ == "__main__":
    main()
