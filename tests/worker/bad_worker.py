"""A real child process that speaks the worker's protocol and then misbehaves, as its first argument says."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

from localllm.system import processes
from localllm.types import Delta, Finish, LoadedModel, Timings, Usage
from localllm.worker.framing import FrameReader, FrameWriter
from localllm.worker.messages import (
    Accepted,
    Call,
    Cancel,
    Deltas,
    Down,
    Embed,
    Hello,
    Load,
    Loading,
    Ping,
    Pong,
    Ready,
    Reply,
    Shutdown,
    Submit,
    Tokenized,
    Vectors,
    down_decoder,
)


def main() -> None:
    mode, step = sys.argv[1], int(sys.argv[2]) if sys.argv[2:] and sys.argv[2].isdecimal() else 3
    if mode == "ignores-termination":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    life = count_life() if mode == "as-told" else 1
    if mode == "dies-before-hello":
        sys.stderr.write("libnothing.so: cannot open shared object file\n")
        sys.exit(7)
    source, sink = processes.claim_standard_streams()
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
    if mode == "deaf":
        threading.Event().wait()
    if mode == "as-told":
        as_told(reader, writer, life)
    while (message := reader.read()) is not None:
        if isinstance(message, Submit):
            answer(mode, step, message.id, writer)
        elif isinstance(message, Shutdown) and mode == "saves":
            save(reader, writer)
            return
        elif isinstance(message, Shutdown) and mode != "ignores-termination":
            return
        elif isinstance(message, Call) and mode in ("answers-calls", "loads-when-told"):
            writer.write(Reply(message.id, [1]))
        elif isinstance(message, Cancel):
            print("cancel", message.id)
        elif isinstance(message, Ping):
            writer.write(Pong(message.number, False, 0))


def save(reader: FrameReader[Down], writer: FrameWriter) -> None:
    """Something at every question, and three in all."""
    for number in range(3):
        while not isinstance(message := reader.read(), Ping):
            assert message is not None
        writer.write(Pong(message.number, True, number))


def count_life() -> int:
    """How many workers there have been, this one counted."""
    lives = Path(os.environ["BAD_WORKER_LIVES"])
    with lives.open("a") as file:
        file.write("x")
    return lives.stat().st_size


def as_told(reader: FrameReader[Down], writer: FrameWriter, life: int) -> None:
    """Every request says what becomes of it: `poison` kills, `once` kills the first worker, `wait` is not answered by
    that one, `late` kills after a token, `stuck` is a step that never ends; all else is answered."""
    is_stuck = False
    while (message := reader.read()) is not None:
        if isinstance(message, Ping):
            writer.write(Pong(message.number, is_stuck, 7))
        elif isinstance(message, Shutdown):
            os._exit(0)
        elif not isinstance(message, Submit | Embed | Call):
            continue
        else:
            what = told(message)
            if what == "poison" or (what == "once" and life == 1):
                sys.stderr.write("poisoned\n")
                sys.stderr.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            is_stuck = what == "stuck"
            if isinstance(message, Call):
                writer.write(Reply(message.id, [1, 2, 3]))
            elif isinstance(message, Embed):
                writer.write(Tokenized(message.id, 1, (1,), (2,), ()))
                writer.write(Vectors(message.id, (0,), b"\x00\x00\x80\x3f", is_last=True))
            elif what == "late":
                writer.write(Accepted(message.id, 3))
                writer.write(Deltas(0, ((message.id, Delta("0 ", 1)),)))
                os.kill(os.getpid(), signal.SIGKILL)
            elif what in ("stuck", "for ever") or (what == "wait" and life == 1):
                writer.write(Accepted(message.id, 3))
            elif what != "silent":
                answer("behaves", 0, message.id, writer)


def told(message: Submit | Embed | Call) -> str:
    if isinstance(message, Submit):
        return message.request.prompt or ""
    if isinstance(message, Call):
        return str(message.args[0]) if message.args else ""
    if message.ranking is not None:
        return message.ranking.query
    assert message.embedding is not None
    return (message.embedding.texts or ("",))[0]


def answer(mode: str, step: int, id: int, writer: FrameWriter) -> None:
    if mode == "says-something":
        sys.stderr.write("something\n")
        sys.stderr.flush()
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
    if mode not in ("never-ends", "says-something"):
        writer.write(Deltas(8, ((id, Delta(finish=Finish("stop", Usage(3, 8), Timings(0, 0, 0)))),)))


def loaded(load: Load) -> LoadedModel:
    return LoadedModel(
        id=load.model_id, path=load.path, info=load.info, ctx=load.placement.ctx, slots=load.placement.slots,
        threads=1, layers_per_device={"CPU": 1}, backend="fake", load_s=0.0, created_unix_s=0,
        draft="" if load.draft is None else load.draft.id, draft_reason=load.no_draft,
    )  # fmt: skip


if __name__ == "__main__":
    main()
