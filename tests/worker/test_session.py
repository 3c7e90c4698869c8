"""What the user gets when the worker misbehaves: real child processes that really do."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest

from localllm.errors import Draining, InternalError, QueueFull, WorkerCrashed
from localllm.supervisor.mailbox import Mailbox
from localllm.types import GenerationRequest
from tests.worker.conftest import StartSession

REQUEST = GenerationRequest(prompt="x")
TIMEOUT_S = 20


async def read_all(mailbox: Mailbox) -> str:
    text = ""
    while True:
        delta = await mailbox.get()
        text += delta.text
        if delta.finish is not None:
            return text


async def read_until_error(mailbox: Mailbox) -> tuple[str, WorkerCrashed]:
    text = ""
    try:
        while True:
            text += (await mailbox.get()).text
    except WorkerCrashed as error:
        return text, error


@pytest.mark.parametrize("mode", ["behaves", "prints-noise"])
def test_a_worker_answers_whatever_native_code_prints_to_stdout(mode: str, start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session(mode)
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        mailbox = session.submit(REQUEST).mailbox
        assert await mailbox.accepted == 3
        assert await read_all(mailbox) == "0 1 2 3 4 5 6 7 "
        await session.aclose()

    asyncio.run(scenario())


def test_a_crash_at_a_step_reaches_every_request_with_signal_and_last_words(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session("crashes", "3")
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        mailboxes = [session.submit(REQUEST).mailbox for _ in range(2)]
        text, error = await read_until_error(mailboxes[0])
        assert text == "0 1 2 "
        assert error.details["signal"] == "SIGABRT"
        assert "ggml_abort: something is wrong" in str(error)
        with pytest.raises(WorkerCrashed):
            await mailboxes[1].accepted
        with pytest.raises(WorkerCrashed):
            session.submit(REQUEST)
        assert not session.alive
        await session.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("mode", ["half-frame", "garbage"])
def test_a_worker_that_stops_making_sense_is_dead_to_us(mode: str, start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session(mode, "2")
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        mailbox = session.submit(REQUEST).mailbox
        text, error = await asyncio.wait_for(read_until_error(mailbox), TIMEOUT_S)
        assert text == "0 1 "
        assert "an invalid message" in str(error)
        await session.aclose()

    asyncio.run(scenario())


def test_a_death_before_hello_or_while_loading_fails_the_load_with_its_reason(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session("dies-before-hello")
        with pytest.raises(WorkerCrashed, match=r"exit code 7.*cannot open shared object"):
            await asyncio.wait_for(session.ready, TIMEOUT_S)
        await session.aclose()
        session = start_session("dies-loading")
        with pytest.raises(WorkerCrashed, match="SIGSEGV"):
            await asyncio.wait_for(session.ready, TIMEOUT_S)
        await session.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("mode", ["hangs", "ignores-termination"])
def test_a_worker_that_will_not_leave_is_killed(mode: str, start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session(mode)
        if mode == "ignores-termination":
            await asyncio.wait_for(session.ready, TIMEOUT_S)
        await asyncio.wait_for(session.aclose(), TIMEOUT_S)
        with pytest.raises(ProcessLookupError):
            os.kill(session.pid, 0)

    asyncio.run(scenario())


def test_more_requests_than_may_wait_are_refused_and_the_others_answered(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session("behaves", max_waiting=1)
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        mailboxes = [session.submit(REQUEST).mailbox for _ in range(3)]
        with pytest.raises(QueueFull, match="1 requests are waiting already, of 1 that may") as caught:
            session.submit(REQUEST)
        assert caught.value.details == {"waiting": 1, "limit": 1}
        for mailbox in mailboxes:
            await read_all(mailbox)
        for _ in range(3):
            session.submit(REQUEST)
        with pytest.raises(QueueFull, match="a place should be free in") as caught:
            session.submit(REQUEST)
        assert "retry_after_s" in caught.value.details
        await session.aclose()

    asyncio.run(scenario())


def test_a_cancelled_request_is_forgotten_and_what_still_comes_is_dropped(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session("never-ends", max_waiting=0)
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        for _ in range(5):  # more than slots + max_waiting: each one cancelled makes room
            pending = session.submit(REQUEST)
            await pending.mailbox.accepted
            pending.cancel()
        mailbox = session.submit(REQUEST).mailbox
        assert (await mailbox.get()).text.startswith("0 "), "the answer to this request, not to one before"
        await session.aclose()

    asyncio.run(scenario())


def test_an_answer_that_still_runs_when_its_model_is_unloaded_is_told_so(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session("never-ends")
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        mailbox = session.submit(REQUEST).mailbox
        await mailbox.accepted
        await session.aclose()
        with pytest.raises(Draining):
            await read_all(mailbox)

    asyncio.run(scenario())


def test_what_the_planner_raises_fails_the_load(start_session: StartSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_hello: object) -> object:
        raise InternalError("does not fit")

    monkeypatch.setattr("tests.worker.conftest.make_load", refuse)

    async def scenario() -> None:
        session = start_session("behaves")
        with pytest.raises(InternalError, match="does not fit"):
            await asyncio.wait_for(session.ready, TIMEOUT_S)
        await session.aclose()

    asyncio.run(scenario())


def test_late_deltas_of_a_slow_reader_merge_instead_of_queueing() -> None:
    async def scenario() -> None:
        from localllm.types import Delta

        mailbox = Mailbox(asyncio.get_running_loop())
        mailbox.put(Delta("a", 1))
        mailbox.put(Delta("b", 2))
        mailbox.fail(WorkerCrashed("gone"))
        merged = await mailbox.get()
        assert (merged.text, merged.num_tokens) == ("ab", 3)
        with pytest.raises(WorkerCrashed):
            await mailbox.get()
        mailbox.accepted.exception()

    asyncio.run(scenario())


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for another process's child with a pidfd (Linux)")
def test_no_worker_outlives_a_parent_that_was_killed(start_session: StartSession) -> None:
    parent_code = textwrap.dedent("""
        import asyncio
        from tests.worker.conftest import bad_worker, make_load
        from localllm.supervisor.session import Session, SessionLimits

        async def main():
            session = Session(bad_worker("behaves"), make_load, SessionLimits(1))
            await session.ready
            print(session.pid, flush=True)
            await asyncio.Event().wait()

        asyncio.run(main())
    """)
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", parent_code], cwd=root, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.send_signal(signal.SIGKILL)
            gone, _, _ = select.select([worker], [], [], 2.0)
            assert gone, "the worker is still there 2 s after its parent was killed"
        finally:
            os.close(worker)


def test_a_queue_full_of_batches_has_room_for_requests_that_are_served_before_them(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session("behaves", max_waiting=1)
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        batch = msgspec.structs.replace(REQUEST, batch=True)
        mailboxes = [session.submit(batch).mailbox for _ in range(3)]
        with pytest.raises(QueueFull):
            session.submit(batch)
        mailboxes += [session.submit(REQUEST).mailbox for _ in range(3)]
        with pytest.raises(QueueFull, match="1 requests are waiting already, of 1 that may"):
            session.submit(REQUEST)
        for mailbox in mailboxes:
            await read_all(mailbox)

    asyncio.run(scenario())


def test_calls_that_wait_are_counted_and_one_that_is_given_up_makes_room(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = start_session("behaves", max_waiting=2)  # it answers no calls
        await asyncio.wait_for(session.ready, TIMEOUT_S)
        calls = [asyncio.create_task(session.call("tokenize", "x", True, True)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull, match="2 short calls are waiting already"):
            await session.call("render", ())
        other = asyncio.create_task(session.call("status"))
        await asyncio.sleep(0)
        assert not other.done(), "whoever looks at slots has places of their own"
        calls[0].cancel()
        await asyncio.wait(calls[:1])
        again = asyncio.create_task(session.call("pieces", (1,), True))
        await asyncio.sleep(0)
        assert not again.done()
        await session.aclose()
        for call in (calls[1], other, again):
            with pytest.raises(Draining):
                await call

    asyncio.run(scenario())
