"""However a program stops using a model, its slot and its process are free: Ctrl-C, threads, garbage, forks, exits.

What needs signals or the end of an interpreter runs in a Python process of its own, with a real worker.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from localllm import LLM, AsyncLLM, AsyncStream, Cancel, NotLoaded, SamplingParams, WrongOwner
from localllm.worker.handle import WorkerHandle
from tests.homes import share_findings

TIMEOUT_S = 60
GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
ENDLESS = SamplingParams(temperature=0)
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def llm(endless_model: Path) -> Iterator[LLM]:
    """With one slot: it is free, or the next request waits for ever."""
    with LLM(endless_model, slots=1, threads=1, ctx=65536) as llm:
        yield llm


def is_free(llm: LLM) -> bool:
    return llm.complete("x", params=GREEDY, timeout=TIMEOUT_S).finish.reason == "length"


def is_gone(pid: int) -> bool:
    """Waits for it. A zombie is gone as well."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.01)
    return False


def worker_of(llm: LLM | AsyncLLM) -> int:
    runtime = (llm._llm if isinstance(llm, LLM) else llm)._loaded_runtime()
    (model,) = runtime.running()
    assert model.pid is not None
    return model.pid


PROGRAM = """
import gc, os, signal, sys, threading
from localllm import LLM, AsyncLLM, SamplingParams
MODEL, ENDLESS = sys.argv[1], SamplingParams(temperature=0)
GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
def load(**options):
    llm = LLM(MODEL, slots=1, threads=1, ctx=65536, **options)
    print(llm._llm._loaded_runtime().running()[0].pid, flush=True)
    return llm
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
"""


def run(model: Path, program: str) -> tuple[int, list[str]]:
    """The exit code, and the lines of stdout, of which the first is the worker's process id."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program, str(model)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "never" not in done.stderr, done.stderr
    assert "Fatal" not in done.stderr, done.stderr
    lines = done.stdout.split("\n")[:-1]
    assert lines, done.stderr
    return done.returncode, lines


def test_ctrl_c_in_a_blocking_chat_frees_the_slot(endless_model: Path) -> None:
    code, lines = run(
        endless_model,
        """
llm = load()
for _ in range(3):
    stream = llm.complete("x", stream=True, params=ENDLESS)
    next(stream)
    stream.close()
    threading.Timer(0.2, interrupt).start()
    try:
        llm.chat([{"role": "user", "content": "x"}], params=ENDLESS)
    except KeyboardInterrupt as error:
        kept = error  # as a shell keeps the last traceback
    print(llm.complete("x", params=GREEDY, timeout=30).finish.reason)
llm.close()
""",
    )
    assert (code, lines[1:]) == (0, ["length"] * 3)


def test_ctrl_c_in_a_stream_frees_the_slot_while_somebody_holds_the_traceback(endless_model: Path) -> None:
    code, lines = run(
        endless_model,
        """
llm = load()
def read():
    stream = llm.complete("x", stream=True, params=ENDLESS)
    threading.Timer(0.2, interrupt).start()
    for _ in stream:
        pass
try:
    read()
except KeyboardInterrupt as error:
    kept = error
print(llm.complete("x", params=GREEDY, timeout=30).finish.reason)
llm.close()
""",
    )
    assert (code, lines[1:]) == (0, ["length"])


def test_ctrl_c_while_loading_leaves_no_worker(endless_model: Path) -> None:
    code, lines = run(
        endless_model,
        """
from localllm.worker.handle import WorkerHandle
start = WorkerHandle.__init__
def begin(self, *args, **kwargs):
    start(self, *args, **kwargs)
    print(self.pid, flush=True)
    interrupt()
WorkerHandle.__init__ = begin
try:
    LLM(MODEL, threads=1)
except KeyboardInterrupt:
    print(sorted(thread.name for thread in threading.enumerate() if thread.name != "MainThread"))
""",
    )
    assert (code, lines[1:]) == (0, ["[]"])
    assert is_gone(int(lines[0]))


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "sys.exit(3)",
        "stream = llm.complete('x', stream=True, params=ENDLESS); next(stream)",
        "threading.Thread(target=lambda: llm.chat([dict(role='user', content='x')]), daemon=True).start()",
        "raise KeyboardInterrupt",
        "global_cycle = [llm]; global_cycle.append(global_cycle); del llm",
        "import atexit; atexit.register(lambda: print(llm.complete('x', params=GREEDY).finish.reason))",
    ],
)
def test_an_interpreter_that_ends_without_close_does_so_at_once_and_leaves_no_worker(
    endless_model: Path, ending: str
) -> None:
    code, lines = run(endless_model, f"llm = load()\n{ending}")
    assert code == {"sys.exit(3)": 3, "raise KeyboardInterrupt": -signal.SIGINT}.get(ending, 0)
    assert lines[1:] == (["length"] if "atexit" in ending else [])
    assert is_gone(int(lines[0]))


def test_conversations_are_saved_to_the_disk_when_the_interpreter_ends_without_close(
    endless_model: Path, home: Path, tmp_path: Path
) -> None:
    share_findings(home, tmp_path)
    program = f"""
from localllm import LoadOptions
llm = load(options=LoadOptions(kv_disk_mb=64), home={str(tmp_path)!r})
print(llm.complete("word " * 600, params=GREEDY).finish.usage.cached_tokens)
"""
    assert run(endless_model, program)[1][1:] == ["0"]
    assert int(run(endless_model, program)[1][1]) > 600


def test_letting_go_of_a_model_ends_its_process_and_its_thread(tiny_model: Path) -> None:
    llm = LLM(tiny_model, threads=1)
    pid, thread = worker_of(llm), llm._thread._thread
    del llm
    gc.collect()
    assert is_gone(pid)
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_a_stream_keeps_its_model_until_it_is_let_go_of(tiny_model: Path) -> None:
    stream = LLM(tiny_model, threads=1).complete("x", stream=True, params=GREEDY)
    gc.collect()
    assert stream.result().finish.reason == "length"
    pid = worker_of(stream._owner)  # type: ignore[arg-type]
    del stream
    gc.collect()
    assert is_gone(pid)


def test_a_half_read_stream_may_be_finalized_on_the_loops_own_thread(llm: LLM) -> None:
    stream = llm.complete("x", stream=True, params=ENDLESS)
    next(stream)
    held = [stream]
    held.append(held)  # type: ignore[arg-type]  # a cycle, so that only the garbage collector finds it
    del stream, held

    async def collect() -> int:
        return gc.collect()

    assert llm._run(collect()) > 0
    assert is_free(llm)


def test_a_stream_may_be_closed_on_the_loops_own_thread_and_twice(llm: LLM) -> None:
    stream = llm.complete("x", stream=True, params=ENDLESS)
    next(stream)

    async def close() -> None:
        stream.close()

    llm._run(close())
    stream.close()
    assert list(stream) == []
    assert is_free(llm)


def test_many_threads_may_close_at_once_while_others_ask(endless_model: Path) -> None:
    llm = LLM(endless_model, slots=2, threads=1, ctx=65536)
    pid = worker_of(llm)
    errors: list[str] = []
    finished = llm.complete("x", stream=True, params=GREEDY)
    finished.result()
    asking = threading.Barrier(3)

    def ask() -> None:
        stream = llm.complete("x", stream=True, params=ENDLESS)
        next(stream)
        asking.wait(TIMEOUT_S)
        try:
            for _ in stream:
                pass
        except Exception as error:  # noqa: BLE001  which it is, is what the test looks at
            errors.append(type(error).__name__)

    askers = [threading.Thread(target=ask) for _ in range(2)]
    closers = [threading.Thread(target=llm.close) for _ in range(4)]
    for thread in askers:
        thread.start()
    asking.wait(TIMEOUT_S)
    for thread in closers:
        thread.start()
    for thread in askers + closers:
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
    assert len(errors) == 2
    assert finished.result().finish.reason == "length"
    assert list(finished) == []
    assert set(errors) <= {"Draining", "NotLoaded"}
    assert is_gone(pid)
    with pytest.raises(NotLoaded, match="closed"):
        llm.complete("x")
    with pytest.raises(NotLoaded, match="closed"):
        _ = llm.info
    assert repr(llm) == "<LLM 'endless', closed>".replace("endless", str(endless_model))
    llm.close()


def test_what_is_asked_before_a_close_is_answered_with_an_error_and_nobody_hangs(tiny_model: Path) -> None:
    llm = LLM(tiny_model, threads=1)
    ended = threading.Event()

    async def never() -> None:
        await asyncio.Event().wait()

    def wait() -> None:
        with pytest.raises(NotLoaded, match="closed"):
            llm._run(never())
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    llm._run(asyncio.sleep(0))
    llm.close()
    assert ended.wait(TIMEOUT_S)
    thread.join()


def test_a_callback_cannot_wait_for_its_own_thread(tiny_model: Path) -> None:
    seen: list[BaseException] = []
    box: list[LLM] = []

    async def call_back() -> None:
        try:
            box[0].complete("x")
        except WrongOwner as error:
            seen.append(error)
        box[0].close()  # begins, and does not wait

    with LLM(tiny_model, threads=1) as llm:
        box.append(llm)
        with pytest.raises(NotLoaded):
            llm._run(_forever(call_back()))
    assert "thread of your own" in str(seen[0])


async def _forever(first: object) -> None:
    await first  # type: ignore[misc]
    await asyncio.Event().wait()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_a_clear_error_and_ends_without_harm_to_its_parent(endless_model: Path) -> None:
    code, lines = run(
        endless_model,
        """
llm = load()
stream = llm.complete("x", stream=True, params=ENDLESS)
next(stream)
pid = os.fork()
if pid == 0:
    for attempt in (lambda: llm.complete("x"), lambda: next(stream)):
        try:
            attempt()
        except Exception as error:
            print(type(error).__name__, "fork" in str(error), flush=True)
    llm.close()
    del llm, stream
    gc.collect()
    sys.exit(0)
print(os.waitpid(pid, 0)[1], next(stream).text != "")
stream.close()
print(llm.complete("x", params=GREEDY, timeout=30).finish.reason)
llm.close()
""",
    )
    assert (code, lines[1:]) == (0, ["WrongOwner True", "WrongOwner True", "0 True", "length"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_that_lives_on_keeps_no_worker_and_no_sidecar_alive(endless_model: Path) -> None:
    program = """
import json, subprocess
from localllm import Sidecar
llm = load()
server = "import sys; print(json.dumps(dict(url='', token='', model=None, pid=0, version=''))); sys.stdout.flush(); "
sidecar = Sidecar.start(["x"], command=[sys.executable, "-c", "import json, sys; " + server + "sys.stdin.read()"])
print(sidecar.process.pid, flush=True)
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", PROGRAM + program, str(endless_model)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(parent.stdout.readline()) for _ in range(2)]
        assert parent.wait(TIMEOUT_S) == -signal.SIGKILL
        assert all(is_gone(pid) for pid in pids)  # the fork still waits for our end of its stdin


def test_a_cancelled_task_frees_its_slot(endless_model: Path) -> None:
    async def scenario() -> None:
        async with AsyncLLM(endless_model, slots=1, threads=1, ctx=65536) as llm:
            for _ in range(3):
                asking = asyncio.create_task(llm.chat(HELLO, params=ENDLESS))
                while llm._loaded_runtime().running()[0].num_requests == 0:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
            assert (await llm.complete("x", params=GREEDY, timeout=TIMEOUT_S)).finish.reason == "length"

    asyncio.run(scenario())


def test_concurrent_loads_share_one_worker(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = WorkerHandle.__init__

    def count(self: WorkerHandle, *args: object, **kwargs: object) -> None:
        start(self, *args, **kwargs)  # type: ignore[arg-type]
        started.append(self.pid)

    monkeypatch.setattr(WorkerHandle, "__init__", count)

    async def scenario() -> None:
        llm = AsyncLLM(tiny_model, threads=1)
        await asyncio.gather(*(llm.load() for _ in range(5)))
        await llm.close()
        await llm.close()
        with pytest.raises(NotLoaded, match="was closed"):
            await llm.complete("x")
        await llm.load()  # it may be loaded again
        await llm.complete("x", params=GREEDY)
        await llm.close()

    asyncio.run(scenario())
    assert len(started) == 2
    assert all(is_gone(pid) for pid in started)


@pytest.mark.parametrize("steps", [0, 1, 3, 10, 100, 1000])
def test_a_load_that_is_cancelled_or_closed_meanwhile_leaves_no_worker(
    tiny_model: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    start = WorkerHandle.__init__

    def count(self: WorkerHandle, *args: object, **kwargs: object) -> None:
        start(self, *args, **kwargs)  # type: ignore[arg-type]
        started.append(self.pid)

    monkeypatch.setattr(WorkerHandle, "__init__", count)

    async def scenario(llm: AsyncLLM, *, close: bool) -> None:
        loading = asyncio.create_task(llm.load())
        for _ in range(steps):
            await asyncio.sleep(0)
        if close:
            await llm.close()
        else:
            loading.cancel()
        await asyncio.wait({loading})
        if loading.cancelled() or loading.exception() is not None:
            with pytest.raises(NotLoaded):
                await llm.complete("x")
        await llm.close()

    for close in (False, True):
        asyncio.run(scenario(AsyncLLM(tiny_model, threads=1), close=close))
    assert all(is_gone(pid) for pid in started)


def test_letting_go_of_an_async_model_ends_its_process(tiny_model: Path) -> None:
    async def inside() -> int:
        llm = await AsyncLLM(tiny_model, threads=1).load()
        pid = worker_of(llm)
        del llm
        gc.collect()
        while not await asyncio.to_thread(is_gone, pid):
            raise AssertionError("it lives on")
        return pid

    async def outlive() -> AsyncLLM:
        return await AsyncLLM(tiny_model, threads=1).load()

    asyncio.run(inside())
    left = asyncio.run(outlive())
    pid = worker_of(left)
    del left
    gc.collect()
    assert is_gone(pid)


def test_another_event_loop_gets_a_clear_error_and_may_close_once_the_first_is_over(tiny_model: Path) -> None:
    async def load() -> AsyncLLM:
        return await AsyncLLM(tiny_model, threads=1).load()

    llm = asyncio.run(load())
    pid = worker_of(llm)

    async def begin() -> tuple[AsyncLLM, AsyncStream]:
        llm = await load()
        stream = await llm.complete("x", stream=True, params=SamplingParams(ignore_eos=True))
        await anext(stream)
        return llm, stream

    async def read_elsewhere(llm: AsyncLLM, stream: AsyncStream) -> None:
        with pytest.raises(WrongOwner, match="event loop that made the request"):
            await anext(stream)
        await stream.aclose()
        assert [delta async for delta in stream] == []
        await llm.close()

    asyncio.run(read_elsewhere(*asyncio.run(begin())))

    async def elsewhere() -> None:
        for attempt in (llm.complete("x"), llm.tokenize("x"), llm.load(), llm.embed(["x"])):
            with pytest.raises(WrongOwner, match="another event loop"):
                await attempt
        await llm.close()
        await llm.load()
        assert (await llm.complete("x", params=GREEDY)).finish.reason == "length"
        await llm.close()

    asyncio.run(elsewhere())
    assert is_gone(pid)


def test_a_cancel_handle_ends_whole_answers_from_any_thread(llm: LLM) -> None:
    cancel = Cancel()
    threading.Timer(0.3, cancel.cancel).start()
    chat = llm.chat(HELLO, params=ENDLESS, cancel=cancel)
    assert chat.finish.reason == "cancelled"
    assert chat.finish.usage.completion_tokens > 0
    assert chat.text
    assert is_free(llm)
    late = llm.chat(HELLO, params=ENDLESS, cancel=cancel)
    assert (late.text, late.finish.reason) == ("", "cancelled")
    assert is_free(llm)


def test_a_cancel_handle_ends_an_answer_that_waits_for_a_slot(llm: LLM) -> None:
    cancel = Cancel()
    with llm.complete("x", stream=True, params=ENDLESS) as running:
        next(running)
        threading.Timer(0.1, cancel.cancel).start()
        assert llm.chat(HELLO, cancel=cancel).finish.reason == "cancelled"
        assert next(running).finish is None
    assert is_free(llm)


def test_a_stream_is_cancelled_from_another_thread_and_its_reader_is_told(llm: LLM) -> None:
    stream = llm.complete("x", stream=True, params=ENDLESS)
    first = next(stream)
    threading.Timer(0.2, stream.cancel).start()
    rest = list(stream)
    assert rest[-1].finish is not None
    assert rest[-1].finish.reason == "cancelled"
    assert stream.finish == rest[-1].finish
    assert rest[-1].finish.usage.completion_tokens == sum(delta.num_tokens for delta in [first, *rest])
    assert stream.result().text == "".join(delta.text for delta in [first, *rest])
    assert is_free(llm)


def test_streams_of_both_kinds_take_the_cancel_handle(endless_model: Path) -> None:
    async def scenario() -> None:
        async with AsyncLLM(endless_model, slots=1, threads=1, ctx=65536) as llm:
            cancel = Cancel()
            answer = await llm.chat(HELLO, stream=True, params=ENDLESS, cancel=cancel)
            await anext(answer)
            cancel.cancel()
            assert (await answer.result()).finish.reason == "cancelled"
            assert not cancel._stops or gc.collect() >= 0
            late = await llm.complete("x", stream=True, cancel=cancel)
            assert [delta.finish.reason async for delta in late if delta.finish] == ["cancelled"]
            other = await llm.complete("x", stream=True, params=ENDLESS)
            reading = asyncio.create_task(other.result())
            await asyncio.sleep(0)
            await other.aclose()  # whoever reads meanwhile is not left waiting
            assert (await reading).finish.reason == "cancelled"
            assert (await llm.complete("x", params=GREEDY, timeout=TIMEOUT_S)).finish.reason == "length"

    asyncio.run(scenario())


def test_a_handle_that_is_used_for_long_holds_no_finished_answers(llm: LLM) -> None:
    cancel = Cancel()
    for _ in range(3):
        llm.complete("x", params=GREEDY, cancel=cancel)
        llm.complete("x", stream=True, params=GREEDY, cancel=cancel).result()
    gc.collect()
    assert cancel._stops == {}
