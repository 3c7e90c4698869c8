"""A real child process that speaks the worker's protocol and then misbehaves, as its first argument says."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

from localllm import osdep
from localllm.types import Delta, Finish, LoadedModel, Timings, Usage
from localllm.worker.framing import FrameReader, FrameWriter
from localllm.worker.messages import (
    Accepted,
    Call,
    Cancel,
    Deltas,
    Hello,
    Load,
    Loading,
    Ping,
    Pong,
    Ready,
    Reply,
    Shutdown,
    Submit,
    down_decoder,
)


def main() -> None:
    mode, step = sys.argv[1], int(sys.argv[2]) if sys.argv[2:] and sys.argv[2].isdecimal() else 3
    if mode == "ignores-termination":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "dies-before-hello":
        sys.stderr.write("libnothing.so: cannot open shared object file\n")
        sys.exit(7)
    source, sink = osdep.claim_standard_streams()
    reader, writer = FrameReader(source, down_decoder), FrameWriter(sink)
    writer.write(Hello(os.getpid(), "fake", "fake", ()))
    if mode == "hangs":
        threading.Event().wait()
    load = reader.read()
    assert isinstance(load, Load)
    if mode == "dies-loading":
        os.kill(os.getpid(), signal.SIGSEGV)
    writer.write(Loading(0.5))
    if mode == "loads-when-told":
        with open(sys.argv[2], "rb") as told:  # a FIFO: waits for somebody to write
            told.read()
    if mode == "prints-noise":
        print("python noise")
        os.write(1, b"native noise\n")
        ctypes.CDLL(None).puts(b"libc noise")
    writer.write(Ready(loaded(load)))
    while (message := reader.read()) is not None:
        if isinstance(message, Submit):
            answer(mode, step, message.id, writer)
        elif isinstance(message, Shutdown) and mode != "ignores-termination":
            return
        elif isinstance(message, Call):
            writer.write(Reply(message.id, [1]))
        elif isinstance(message, Cancel):
            print("cancel", message.id)
        elif isinstance(message, Ping):
            writer.write(Pong(message.number, False, 0))


def answer(mode: str, step: int, id: int, writer: FrameWriter) -> None:
    writer.write(Accepted(id, 3))
    for number in range(8):
        if mode == "crashes" and number == step:
            sys.stderr.write("ggml_abort: something is wrong\n")
            os.kill(os.getpid(), signal.SIGABRT)
        if mode == "half-frame" and number == step:
            writer._stream.write(b"\x50\x00\x00\x00half")
            os._exit(0)
        if mode == "garbage" and number == step:
            writer._stream.write(b"\xff\xff\xff\xffgarbage")
            time.sleep(60)
        writer.write(Deltas(number, ((id, Delta(f"{number} ", 1)),)))
    if mode != "never-ends":
        writer.write(Deltas(8, ((id, Delta(finish=Finish("stop", Usage(3, 8), Timings(0, 0, 0)))),)))


def loaded(load: Load) -> LoadedModel:
    return LoadedModel(
        id=load.model_id, path=load.path, info=load.info, ctx=load.placement.ctx, slots=load.placement.slots,
        threads=1, layers_per_device={"CPU": 1}, backend="fake", load_s=0.0, created_unix_s=0,
    )  # fmt: skip


if __name__ == "__main__":
    main()
