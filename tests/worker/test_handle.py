"""The parent's end of the pipes: a thread of it that fails ends the process, with the reason, and never in silence."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from localllm.errors import InvalidParameter, QueueFull, WorkerCrashed
from localllm.supervisor.session import Session, SessionLimits
from localllm.supervisor.session_observer import SessionObserver
from localllm.types import Finish, GenerationRequest
from localllm.worker import handle as handle_module
from localllm.worker.framing import FrameReader, FrameWriter, encode
from localllm.worker.handle import Outbox, WorkerHandle
from localllm.worker.messages import Call, Hello, Ping
from localllm.worker.outbox import Outbox as WorkerOutbox
from tests.worker.conftest import StartSession, bad_worker, make_load
from tests.worker.test_session import REQUEST, TIMEOUT_S, read_all, read_until_error


async def death_of(session: Session) -> WorkerCrashed:
    """What a request is told that runs when it happens."""
    pending = session.submit(REQUEST)
    _, error = await asyncio.wait_for(read_until_error(pending.mailbox), TIMEOUT_S)
    assert not session.alive
    with pytest.raises(ProcessLookupError):
        os.kill(session.pid, 0)
    await session.aclose()
    return error


def fail(*_: object, **__: object) -> None:
    raise LookupError("nobody expects this")


def break_reader(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FrameReader, "read", fail)


def break_writer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FrameWriter, "write_frame", fail)


def break_drainer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(handle_module, "STDERR_BYTES", "many")


@pytest.mark.parametrize("breaks", [break_reader, break_writer, break_drainer])
def test_a_thread_of_the_handle_that_fails_ends_its_session_with_the_reason(
    breaks: Callable[[pytest.MonkeyPatch], None], start_session: StartSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = breaks.__name__.replace("break_", "worker-").replace("drainer", "stderr")

    async def scenario() -> None:
        session = start_session("says-something")
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        breaks(monkeypatch)
        error = await death_of(session)
        assert f"its {name} failed here with" in str(error)

    asyncio.run(scenario())


def test_a_stderr_that_nobody_can_write_to_stops_no_worker(
    start_session: StartSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A desktop app has none, and a closed terminal takes nothing: the worker would block on its full pipe."""

    async def scenario() -> None:
        session = Session(bad_worker("says-something"), make_load, SessionLimits(8), verbose=True)
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        for broken in (None, io.TextIOWrapper(io.BytesIO(), encoding="ascii")):
            if broken is not None:
                broken.close()
            monkeypatch.setattr(sys, "stderr", broken)
            assert (await session.submit(REQUEST).mailbox.get()).text
        await session.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("callback", ["ended", "make_load", "loading"])
def test_what_fails_on_the_loop_ends_the_session_with_the_reason(
    callback: str, start_session: StartSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        observer = SessionObserver()
        setattr(observer, callback, fail)
        planned: Any = fail if callback == "make_load" else make_load
        session = Session(bad_worker("as-told"), planned, SessionLimits(8), observer=observer)
        if callback == "ended":
            await asyncio.wait_for(session.ready, TIMEOUT_S)
            unanswered, answered = session.submit(GenerationRequest(prompt="for ever")), session.submit(REQUEST)
            await read_all(answered.mailbox)
            with pytest.raises(WorkerCrashed, match="LookupError"):
                await asyncio.wait_for(read_all(unanswered.mailbox), TIMEOUT_S)
        else:
            with pytest.raises(WorkerCrashed, match="handling its message failed here with LookupError"):
                await asyncio.wait_for(session.ready, TIMEOUT_S)
        await session.aclose()

    asyncio.run(scenario())


def test_an_observer_that_fails_keeps_nobody_from_learning_of_a_death(start_session: StartSession) -> None:
    class Failing(SessionObserver):
        def ended(self, end: Finish | str, *, is_batch: bool = False) -> None:  # noqa: ARG002
            fail(end)

        def died(self) -> None:
            fail()

    async def scenario() -> None:
        session = Session(bad_worker("never-ends"), make_load, SessionLimits(8), observer=Failing())
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        pendings = [session.submit(REQUEST) for _ in range(3)]
        call = asyncio.create_task(session.call("tokenize", "x"))
        await pendings[-1].mailbox.accepted
        os.kill(session.pid, signal.SIGKILL)
        for pending in pendings:
            await asyncio.wait_for(read_until_error(pending.mailbox), TIMEOUT_S)
        with pytest.raises(WorkerCrashed):
            await asyncio.wait_for(call, TIMEOUT_S)
        await session.aclose()

    asyncio.run(scenario())


def test_a_process_that_cannot_be_started_is_an_error_that_says_so() -> None:
    with pytest.raises(WorkerCrashed, match="could not be started: No such file"):
        WorkerHandle(["/nowhere/at/all"], on_message=fail, on_exit=fail)


def test_no_thread_for_a_process_is_an_error_and_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(WorkerCrashed, match="can't start new thread"):
        WorkerHandle([sys.executable, "-c", "input()"], on_message=fail, on_exit=fail)


def test_one_request_that_cannot_be_sent_fails_alone(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session("behaves")
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        beside = session.submit(REQUEST)
        with pytest.raises(InvalidParameter, match=r"prompt: the text has an unpaired surrogate \(U\+D800\)") as caught:
            session.submit(GenerationRequest(prompt="\ud800"))
        assert caught.value.param == "prompt"
        with pytest.raises(InvalidParameter, match="an unpaired surrogate"):
            await session.call("tokenize", "\ud800")
        assert session.num_requests == 1
        assert await read_all(beside.mailbox)
        assert await read_all(session.submit(REQUEST).mailbox)
        await session.aclose()

    asyncio.run(scenario())


def test_a_worker_that_reads_nothing_is_not_sent_more_than_the_bound(start_session: StartSession) -> None:
    large = GenerationRequest(prompt="x" * 2**22)

    def submit_for_ever(session: Session) -> None:
        while True:
            session.submit(large)

    async def scenario() -> None:
        session = start_session("deaf", max_waiting=1000)
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        with pytest.raises(QueueFull, match="MB of requests are waiting for the model's process, of 268 allowed"):
            submit_for_ever(session)
        assert 63 <= session.num_requests <= 65, "one is being written"
        await session.aclose()

    asyncio.run(scenario())


def test_the_bound_leaves_room_for_what_ends_requests_and_for_one_large_frame() -> None:
    outbox = Outbox(max_bytes=10_000)
    outbox.put(b"x" * 20_000)
    with pytest.raises(QueueFull):
        outbox.put(b"x" * 5000)
    outbox.put(encode(Ping(1)))
    assert len(outbox.get() or b"") == 20_000
    outbox.put(b"x" * 5000)
    outbox.close()
    assert outbox.get() is None
    outbox.put(b"x")
    assert outbox.get() is None


def test_frames_leave_in_the_order_in_which_they_came() -> None:
    outbox = Outbox()
    for number in range(100):
        outbox.put(encode(Call(number, "tokenize", ())))
    assert [outbox.get() for _ in range(100)] == [encode(Call(number, "tokenize", ())) for number in range(100)]


def test_what_a_worker_cannot_say_fails_its_request_and_no_other() -> None:
    from localllm.errors import ErrorInfo
    from localllm.types import Delta
    from localllm.worker.messages import Deltas, Rejected, Reply, Up, up_decoder

    sink = io.BytesIO()
    unsaid: list[int] = []
    outbox = WorkerOutbox(FrameWriter(sink), on_gone=fail, on_failed=unsaid.append)
    half = "\ud800"
    said: list[Up] = [Deltas(1, ((1, Delta("a")),)), Reply(9, "b")]
    outbox.put(said[0])
    outbox.put(Deltas(2, ((1, Delta("b")), (2, Delta(half)), (3, Delta("c")))))
    outbox.put(Reply(4, [2**64]))
    outbox.put(Reply(5, half))
    outbox.put(Rejected(6, ErrorInfo("internal", half)))
    outbox.put(said[1])
    outbox.close()
    reader = FrameReader(io.BytesIO(sink.getvalue()), up_decoder)
    read = list(iter(reader.read, None))
    assert [read[0], read[1], read[3], read[-1]] == [
        said[0],
        Deltas(2, ((1, Delta("b")),)),
        Deltas(2, ((3, Delta("c")),)),
        said[1],
    ]
    failed = [(type(one), one.id) for one in read if isinstance(one, Rejected | Reply) and one != said[1]]
    assert failed == [(Rejected, 2), (Reply, 4), (Reply, 5), (Rejected, 6)]
    assert all("cannot be sent" in one.error.message for one in read if isinstance(one, Rejected | Reply) and one.error)
    assert unsaid == [2, 6]


def test_a_worker_whose_greeting_cannot_be_said_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", problems.append)  # in a worker it ends the process
    outbox = WorkerOutbox(FrameWriter(io.BytesIO()), on_gone=fail, on_failed=fail)
    outbox.put(Hello(1, "\ud800", "x", ()))
    outbox.close()
    assert "an unpaired surrogate" in str(problems[0].exc_value)
