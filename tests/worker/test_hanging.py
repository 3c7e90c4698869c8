"""A worker that hangs: stopped, deaf, or stuck in a step. Its requests end all the same, with the reason."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from localllm.errors import RequestTimeout, WorkerCrashed
from localllm.supervisor import pending, process
from localllm.supervisor import session as session_module
from localllm.supervisor.session import Session
from localllm.supervisor.session_observer import SessionObserver
from localllm.types import GenerationRequest
from localllm.types.embeddings import EmbeddingRequest, RerankRequest
from tests.worker.conftest import StartSession
from tests.worker.test_session import TIMEOUT_S, read_all, read_until_error

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stops a process as POSIX systems do")

FOR_EVER = GenerationRequest(prompt="for ever")
Ask = Callable[[Session], Awaitable[object]]


async def answered(session: Session) -> None:
    await read_all(session.submit(GenerationRequest(prompt="x")).mailbox)


async def started(start_session: StartSession, mode: str = "as-told", **given: object) -> Session:
    session = start_session(mode, **given)
    await asyncio.wait_for(session.ready, TIMEOUT_S)
    return session


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_process_that_is_stopped_is_ended_and_everybody_told(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = await started(start_session, worker_timeout_s=0.5)
        running = session.submit(FOR_EVER)
        await running.mailbox.accepted
        os.kill(session.pid, signal.SIGSTOP)
        waiting = session.submit(FOR_EVER)
        texts = asyncio.create_task(session.embed(EmbeddingRequest(texts=("x",))))
        call = asyncio.create_task(session.call("tokenize", "x"))
        for one in (running, waiting):
            _, error = await asyncio.wait_for(read_until_error(one.mailbox), TIMEOUT_S)
            assert "was ended: it did not answer for 0.5 s (worker_timeout_s)" in str(error)
        for task in (texts, call):
            with pytest.raises(WorkerCrashed, match="worker_timeout_s"):
                await asyncio.wait_for(task, TIMEOUT_S)
        assert is_gone(session.pid)
        await session.aclose()

    asyncio.run(scenario())


def test_a_process_that_never_reads_is_ended(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = await started(start_session, "deaf", worker_timeout_s=0.5)
        _, error = await asyncio.wait_for(read_until_error(session.submit(FOR_EVER).mailbox), TIMEOUT_S)
        assert "worker_timeout_s" in str(error)
        await session.aclose()

    asyncio.run(scenario())


def test_a_step_that_never_ends_is_ended_though_the_process_answers(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = await started(start_session, worker_timeout_s=TIMEOUT_S, step_timeout_s=0.5)
        stuck = session.submit(GenerationRequest(prompt="stuck"))
        _, error = await asyncio.wait_for(read_until_error(stuck.mailbox), TIMEOUT_S)
        assert "a step of the model did not end within 0.5 s (step_timeout_s)" in str(error)
        await session.aclose()

    asyncio.run(scenario())


def test_a_loop_that_was_held_up_does_not_take_its_worker_for_dead(start_session: StartSession) -> None:
    """As a suspended machine does: the clock jumps while nobody could ask or answer."""

    async def scenario() -> None:
        session = await started(start_session, worker_timeout_s=1.5)
        time.sleep(1.7)  # noqa: ASYNC251  on purpose: longer than the worker has to answer
        await answered(session)
        assert session.alive
        await session.aclose()

    asyncio.run(scenario())


def test_a_process_that_cannot_even_be_killed_is_given_up(
    start_session: StartSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that hangs in a driver."""
    monkeypatch.setattr(process, "UNKILLABLE_S", 0.1)

    async def scenario() -> None:
        session = await started(start_session, worker_timeout_s=0.3)
        running = session.submit(FOR_EVER)
        await running.mailbox.accepted
        kill = session._process._handle._process.kill
        with monkeypatch.context() as patch:
            patch.setattr(session._process._handle._process, "kill", lambda: None)
            os.kill(session.pid, signal.SIGSTOP)
            _, error = await asyncio.wait_for(read_until_error(running.mailbox), TIMEOUT_S)
            assert "it still exists" in str(error)
            assert not session.alive
        kill()
        await session.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (GenerationRequest(prompt="for ever", timeout_s=0.1), r"not answered within the 0.1 s that it allows"),
        (GenerationRequest(prompt="silent", timeout_s=0.1), r"not answered within the 0.1 s that it allows"),
        (GenerationRequest(prompt="silent", queue_timeout_s=0.1), r"no slot was free within the 0.1 s"),
        (EmbeddingRequest(texts=("x",), timeout_s=0.1), r"not computed within the 0.1 s that the request allows"),
        (EmbeddingRequest(texts=("x",), queue_timeout_s=0.1), r"none of its texts began within the 0.1 s"),
        (RerankRequest(query="x", documents=("x",), timeout_s=0.1), r"not computed within the 0.1 s"),
    ],
)
def test_a_request_ends_when_its_time_is_over_though_its_worker_says_nothing(
    request_: GenerationRequest | EmbeddingRequest | RerankRequest,
    reason: str,
    start_session: StartSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending, "DEADLINE_GRACE_S", 0.1)
    monkeypatch.setattr(session_module, "DEADLINE_GRACE_S", 0.1)
    ends: list[object] = []

    async def scenario() -> None:
        observer = SessionObserver()
        monkeypatch.setattr(observer, "ended", lambda end, **_: ends.append(end))
        session = await started(start_session, observer=observer)
        if isinstance(request_, GenerationRequest):
            one = session.submit(request_)
            with pytest.raises(RequestTimeout, match=reason):
                await asyncio.wait_for(read_all(one.mailbox), TIMEOUT_S)
        else:
            os.kill(session.pid, signal.SIGSTOP)
            with pytest.raises(RequestTimeout, match=reason):
                await asyncio.wait_for(session.embed(request_), TIMEOUT_S)
            os.kill(session.pid, signal.SIGCONT)
        assert session.num_requests == 0
        assert ends == ["timeout"], "told once"
        await answered(session)
        await session.aclose()

    asyncio.run(scenario())


def test_the_workers_own_answer_comes_first(start_session: StartSession) -> None:
    async def scenario() -> None:
        session = await started(start_session)
        one = session.submit(GenerationRequest(prompt="x", timeout_s=0.001, queue_timeout_s=0.001))
        assert await read_all(one.mailbox) == "0 1 2 3 4 5 6 7 "
        await session.aclose()

    asyncio.run(scenario())


def test_a_question_that_nobody_answers_ends(start_session: StartSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CALL_TIMEOUT_S", 0.2)

    async def scenario() -> None:
        session = await started(start_session)
        os.kill(session.pid, signal.SIGSTOP)
        with pytest.raises(RequestTimeout, match=r"did not answer 'status' within 0.2 s"):
            await asyncio.wait_for(session.call("status"), TIMEOUT_S)
        assert session.num_requests == 0
        os.kill(session.pid, signal.SIGCONT)
        assert await session.call("tokenize", "x") == [1, 2, 3]
        await session.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("saves", [False, True])
def test_a_stopped_process_is_unloaded_soon(
    saves: bool, start_session: StartSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM does not end it, and it saves nothing either."""
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.2)
    monkeypatch.setattr(process, "SAVING_ANSWER_S", 0.5)

    async def scenario() -> None:
        session = await started(start_session, saves=saves)
        os.kill(session.pid, signal.SIGSTOP)
        running = session.submit(FOR_EVER)
        await asyncio.wait_for(session.aclose(), TIMEOUT_S)
        assert is_gone(session.pid)
        running.cancel()

    asyncio.run(scenario())


def test_a_process_that_saves_may_take_longer_than_one_that_does_not(
    start_session: StartSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.0)

    async def scenario() -> None:
        session = await started(start_session, "saves", saves=True)
        await asyncio.wait_for(session.aclose(), TIMEOUT_S)
        code = session._process._handle._process.returncode
        assert code == 0, "it left by itself, after all was saved"

    asyncio.run(scenario())


def test_leaving_goes_on_when_who_asked_for_it_goes_away(
    start_session: StartSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.2)

    async def scenario() -> None:
        session = await started(start_session)
        os.kill(session.pid, signal.SIGSTOP)
        leaving = asyncio.create_task(session.aclose())
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait_for(session.aclose(), TIMEOUT_S)
        assert is_gone(session.pid)

    asyncio.run(scenario())
