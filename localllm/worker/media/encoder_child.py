"""The worker's encoder process: a projector beside its text model, without the weights or a context of that.

Beside the steps of streams and at a lower priority; an assertion in libmtmd ends this process and not the worker. Sizes
are answered at once, while a thread of its own encodes.

    python -P -m localllm.worker.media.encoder_child        frames on stdin and stdout
"""

from __future__ import annotations

import os
import queue
import threading
import time
import traceback
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
import numpy as np

from localllm.errors import ErrorInfo, InvalidParameter, LocalLLMError
from localllm.system import processes
from localllm.system.threads import start_thread
from localllm.worker.framing import FrameReader, FrameWriter
from localllm.worker.media.cutting import cut_all
from localllm.worker.media.encoder_messages import (
    Chunk,
    Describe,
    Described,
    Down,
    Encode,
    Encoded,
    Forgotten,
    Open,
    Opened,
    Refused,
    Source,
    Up,
)

if TYPE_CHECKING:  # loads the library's bindings
    from localllm.llama.media.projector import Chunks, Projector, RowsChunk, TextChunk

NICENESS = 5
"""A third of the steps' share where both want the same core."""
MAX_PREPARED = 4
"""Sources that are kept prepared: those whose chunks are encoded by turns."""


class Encoder:
    """Answers the parent."""

    def __init__(self, sink: BinaryIO) -> None:
        self._writer = FrameWriter(sink)
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Encode] = queue.SimpleQueue()
        self._sounds: queue.SimpleQueue[Describe] = queue.SimpleQueue()
        """Their spectrum is computed first, which takes a second for some minutes."""
        self._prepared: OrderedDict[str, Chunks] = OrderedDict()

    def run(self, source: BinaryIO) -> None:
        """Until the parent is gone."""
        decoder: msgspec.msgpack.Decoder[Down] = msgspec.msgpack.Decoder(Down)
        reader = FrameReader(source, decoder)
        first = reader.read()
        if not isinstance(first, Open):
            return
        try:
            self._projector = _open(first)
        except LocalLLMError as error:
            self._send(Refused(0, error.info()))
            return
        self._cut_s = first.cut_s
        self._send(Opened(0, self._projector.sample_rate))
        start_thread(self._encode_all, "encode")
        start_thread(self._describe_sounds, "describe-sounds")
        while (message := reader.read()) is not None:
            if isinstance(message, Describe) and message.source.width:
                self._describe(message)
            elif isinstance(message, Describe):
                self._sounds.put(message)
            elif isinstance(message, Encode):
                self._work.put(message)

    def _send(self, message: Up) -> None:
        with self._lock:
            self._writer.write(message)

    def _describe(self, message: Describe) -> None:
        try:
            chunks = self._read(message.source)
            layout = tuple(map(_chunk, chunks.layout()))
        except ValueError as error:
            self._send(Refused(message.id, _refusal(error)))
            return
        if message.source.data:
            self._keep(message.key, chunks)
        else:
            chunks.close()
        self._send(Described(message.id, layout))

    def _read(self, source: Source) -> Chunks:
        """Raises `ValueError`."""
        from localllm.llama.media.projector import Pixels, Samples

        if source.width:
            return self._projector.read(Pixels(source.width, source.height, source.data or None))
        if not self._cut_s:
            return self._projector.read([Samples(source.data)])
        samples = np.frombuffer(source.data, np.float32)
        parts = cut_all(samples, self._projector.sample_rate, max_s=self._cut_s)
        return self._projector.read([Samples(part.tobytes()) for part in parts])

    def _describe_sounds(self) -> None:
        while True:
            self._describe(self._sounds.get())

    def _encode_all(self) -> None:
        while True:
            message = self._work.get()
            try:
                self._send(self._encoded(message))
            except ValueError as error:
                self._send(Refused(message.id, _refusal(error)))

    def _encoded(self, message: Encode) -> Up:
        began = time.perf_counter()
        chunks = self._take(message.key)
        if chunks is None and message.source is None:
            return Forgotten(message.id)
        if chunks is None:
            assert message.source is not None
            chunks = self._read(message.source)
        self._projector.set_threads(message.threads)
        try:
            rows = tuple(each.tobytes() for each in chunks.encode(message.first, message.count))
        finally:
            self._keep(message.key, chunks)
        return Encoded(message.id, rows, time.perf_counter() - began)

    def _take(self, key: str) -> Chunks | None:
        """Until it is kept again, nobody closes it."""
        with self._lock:
            return self._prepared.pop(key, None)

    def _keep(self, key: str, chunks: Chunks) -> None:
        with self._lock:
            closed = [self._prepared.pop(key)] if key in self._prepared else []
            self._prepared[key] = chunks
            if len(self._prepared) > MAX_PREPARED:
                closed.append(self._prepared.popitem(last=False)[1])
        for each in closed:
            each.close()


def _open(wanted: Open) -> Projector:
    from localllm.llama import library
    from localllm.llama.media.projector import Projector

    return Projector(
        library.load(
            wanted.choice, plugin_dir=Path(wanted.plugin_dir) if wanted.plugin_dir else None, needs=wanted.needs
        ),
        Path(wanted.model),
        Path(wanted.projector),
        kind=wanted.kind,
        device=wanted.device,
        min_rows=wanted.min_rows,
        max_rows=wanted.max_rows,
    )


def _refusal(error: ValueError) -> ErrorInfo:
    return InvalidParameter(f"llama.cpp cannot read it: {error}").info()


def _chunk(made: TextChunk | RowsChunk) -> Chunk:
    from localllm.llama.media.projector import TextChunk

    if isinstance(made, TextChunk):
        return Chunk(tokens=made.tokens)
    planes, moves = (b"", b"") if made.planes is None else (each.tobytes() for each in made.planes)
    return Chunk(
        (), made.num_rows, made.num_positions, planes, made.is_causal, moves, made.num_leading, made.is_numbered
    )


def _die_loudly(problem: threading.ExceptHookArgs) -> None:
    """A thread that ends unexpectedly would leave questions without an answer."""
    try:
        traceback.print_exception(problem.exc_value)
    finally:
        os._exit(1)


def main() -> None:
    source, sink = processes.claim_standard_streams()
    # A failed assertion in ggml would start gdb on us: a minute of silence, then a backtrace in place of the reason.
    os.environ["GGML_NO_BACKTRACE"] = "1"
    threading.excepthook = _die_loudly
    processes.die_quietly()
    processes.lower_priority(NICENESS)
    try:
        Encoder(sink).run(source)
    finally:
        os._exit(0)  # the encoding thread may be inside native code


if __name__ == "__main__":
    main()
