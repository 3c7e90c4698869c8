"""A real worker one of whose threads fails: the process ends at once, with the reason, whichever thread it was.

Also what it is asked that it cannot read: that request fails, and no other.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from localllm.errors import InternalError, InvalidParameter, WorkerCrashed
from localllm.gguf import read_model_info
from localllm.planning.plan import plan
from localllm.supervisor import process
from localllm.supervisor.session import Session, SessionLimits
from localllm.types import GenerationRequest, Message, SamplingParams
from localllm.types.embeddings import EmbeddingRequest, RerankRequest
from localllm.types.load_options import LoadOptions
from localllm.worker.command import worker_command
from localllm.worker.messages import Hello, Load
from tests.worker.test_session import TIMEOUT_S, read_all

GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
LONG = GenerationRequest(prompt="word " * 100, params=GREEDY)
Ask = Callable[[Session], Awaitable[object]]


async def start(model: Path, home: Path, fault: str = "", *, disk: bool = False, **given: float) -> Session:
    """A session with a real worker whose code was changed."""
    info, options = read_model_info(model), LoadOptions(slots=2, threads=1, kv_disk_mb=64 if disk else 0)
    command = worker_command(data_dir=home, runtime="auto", plugin_dir=None, verbose=False, debug=False)
    code = f"def fail(*_, **__):\n    raise LookupError('nobody expects this')\n\n{textwrap.dedent(fault)}\n"
    code += "from localllm.worker.process import main\nmain()"
    arguments = command[command.index("localllm.worker") + 1 :]

    def make_load(hello: Hello) -> Load:
        return Load("m", str(model), info, options, plan(info, options, hello.devices))

    session = Session(
        [sys.executable, "-P", "-c", code, *arguments],
        make_load,
        SessionLimits(8, **given),
        saves=disk,
    )
    await asyncio.wait_for(session.ready, TIMEOUT_S)
    return session


async def generate(session: Session) -> object:
    return await read_all(session.submit(LONG).mailbox)


async def keep(session: Session) -> object:
    await generate(session)
    return await session.call("keep")


THREADS: dict[str, tuple[str, Ask]] = {
    "reader": ("from localllm.worker.prompts.preparer import Preparer; Preparer.submit = fail", generate),
    "writer": (
        """
        from localllm.worker import outbox
        from localllm.worker.messages import Accepted
        encode = outbox.encode
        outbox.encode = lambda message: fail() if isinstance(message, Accepted) else encode(message)
        """,
        generate,
    ),
    "preparer": ("from localllm.worker.prompts.preparer import Preparer; Preparer._prepare = fail", generate),
    "text preparer": (
        "from localllm.worker.prompts.text_preparer import TextPreparer; TextPreparer._draft = fail",
        lambda session: session.embed(EmbeddingRequest(texts=("x",))),
    ),
    "engine": ("from localllm.engine.stepping import Stepper; Stepper.compute = fail", generate),
    "slot filer": (
        "from localllm.worker.states.slot_files import SlotFiler; SlotFiler._answer = fail",
        lambda session: session.call("erase_slot", 0),
    ),
    "disk": ("from localllm.kvdisk.cache import DiskCache; DiskCache._write = fail", keep),
}


@pytest.mark.parametrize("thread", THREADS)
def test_a_thread_of_a_worker_that_fails_ends_it_with_the_reason(thread: str, tiny_model: Path, home: Path) -> None:
    fault, provoke = THREADS[thread]

    async def scenario() -> None:
        session = await start(tiny_model, home, fault, disk=thread == "disk")
        with pytest.raises(WorkerCrashed, match="LookupError: nobody expects this"):
            await asyncio.wait_for(provoke(session), TIMEOUT_S)
        assert not session.alive
        await session.aclose()

    asyncio.run(scenario())


def test_a_load_that_fails_by_surprise_says_why(tiny_model: Path, home: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(WorkerCrashed, match="LookupError: nobody expects this"):
            await start(tiny_model, home, "from localllm.worker import loading; loading.load_model = fail")

    asyncio.run(scenario())


async def ask(session: Session, request: GenerationRequest | EmbeddingRequest | RerankRequest) -> object:
    if isinstance(request, GenerationRequest):
        return await read_all(session.submit(request).mailbox)
    return await session.embed(request)


def test_what_a_worker_cannot_read_or_say_fails_alone(tiny_model: Path, home: Path) -> None:
    """As from Python code of any kind, past what type checkers and constructors look at."""
    wrong: list[GenerationRequest | EmbeddingRequest | RerankRequest] = [
        GenerationRequest(prompt=5),  # type: ignore[arg-type]
        GenerationRequest(prompt="x", suffix=b"x"),  # type: ignore[arg-type]
        GenerationRequest(prompt="x", cache_prompt="x"),  # type: ignore[arg-type]
        GenerationRequest(messages=(Message("user", 5),)),  # type: ignore[arg-type]
        GenerationRequest(prompt="x", priority=1.5),  # type: ignore[arg-type]
        GenerationRequest(prompt="x", params=SamplingParams(max_tokens=1.5)),  # type: ignore[arg-type]
        GenerationRequest(prompt="x", params=SamplingParams(stop="ab")),  # type: ignore[arg-type]
        GenerationRequest(prompt="x", params=5),  # type: ignore[arg-type]
        EmbeddingRequest(texts=(5,)),  # type: ignore[arg-type]
        EmbeddingRequest(texts=("x",), dimensions=1.5),  # type: ignore[arg-type]
        RerankRequest(query=5, documents=("x",)),  # type: ignore[arg-type]
    ]
    half = """
        from localllm.worker.prompts import preparer
        answer = preparer.answer_call
        def half_a_pair(method, args, *more):
            yield
            return "\\ud800" if args[0] == "half" else (yield from answer(method, args, *more))
        preparer.answer_call = half_a_pair
    """

    async def scenario() -> None:
        session = await start(tiny_model, home, half)
        for request in wrong:
            with pytest.raises(InvalidParameter) as caught:
                await asyncio.wait_for(ask(session, request), TIMEOUT_S)
            assert caught.value.param, caught.value
        with pytest.raises(InvalidParameter):
            await asyncio.wait_for(session.call(5), TIMEOUT_S)  # type: ignore[arg-type]
        with pytest.raises(InternalError, match="the answer of the model's process cannot be sent"):
            await asyncio.wait_for(session.call("tokenize", "half", True, True), TIMEOUT_S)
        assert await generate(session)
        assert session.alive
        await session.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("messages", [5, "x", [5], [{"role": "user"}], [{"role": "user", "content": 5}]])
def test_messages_that_are_none_cannot_be_rendered_and_silence_nobody(
    tiny_chat_model: Path, home: Path, messages: object
) -> None:
    async def scenario() -> None:
        session = await start(tiny_chat_model, home, "")
        with pytest.raises(InvalidParameter, match="messages"):
            await asyncio.wait_for(session.call("render", messages), TIMEOUT_S)
        assert await generate(session)
        await session.aclose()

    asyncio.run(scenario())


def test_a_template_or_tokenizer_that_never_returns_is_ended_and_its_requests_told(
    tiny_model: Path, home: Path
) -> None:
    stuck = "import threading; from localllm.worker.prompts.preparer import Preparer; " + (
        "Preparer._prepare = lambda *_: threading.Event().wait()"
    )

    async def scenario() -> None:
        session = await start(tiny_model, home, stuck, worker_timeout_s=TIMEOUT_S, step_timeout_s=1.0)
        with pytest.raises(
            WorkerCrashed, match=r"it neither accepted nor rejected a request for 1 s \(step_timeout_s\)"
        ):
            await asyncio.wait_for(generate(session), TIMEOUT_S)
        await session.aclose()

    asyncio.run(scenario())


def test_a_decode_that_never_returns_is_ended_and_its_requests_told(tiny_model: Path, home: Path) -> None:
    stuck = "import threading; from localllm.engine.stepping import Stepper; " + (
        "Stepper.compute = lambda *_, **__: threading.Event().wait()"
    )

    async def scenario() -> None:
        session = await start(tiny_model, home, stuck, worker_timeout_s=TIMEOUT_S, step_timeout_s=1.0)
        assert await session.call("tokenize", "a", False, False), "the others go on"
        with pytest.raises(WorkerCrashed, match=r"a step of the model did not end within 1 s \(step_timeout_s\)"):
            await asyncio.wait_for(generate(session), TIMEOUT_S)
        await session.aclose()

    asyncio.run(scenario())


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stops a process as POSIX systems do")
def test_a_stopped_worker_with_conversations_to_save_is_unloaded_soon(
    tiny_model: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SAVING_ANSWER_S", 1.0)

    async def scenario() -> None:
        session = await start(tiny_model, home, disk=True)
        await generate(session)
        os.kill(session.pid, signal.SIGSTOP)
        await asyncio.wait_for(session.aclose(), TIMEOUT_S)
        with pytest.raises(ProcessLookupError):
            os.kill(session.pid, 0)

    asyncio.run(scenario())
