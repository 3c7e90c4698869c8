"""Workers of one parent know each other's CPU time: no stranger's, none that has ended, and it never falls."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from localllm.gguf import read_model_info
from localllm.planning.plan import plan
from localllm.registry.resolve import carried
from localllm.supervisor.session import Session, SessionLimits
from localllm.system import cpu
from localllm.types import GenerationRequest, SamplingParams
from localllm.types.load_options import LoadOptions
from localllm.types.states import EngineStatus
from localllm.worker.command import worker_command
from localllm.worker.messages import Hello, Load
from localllm.worker.siblings import LOOK_S, Siblings
from tests.waiting import until
from tests.worker.test_session import TIMEOUT_S, read_all

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no such clocks")
MARK = "localllm.worker-of-a-test"


@contextmanager
def busy(name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A child that computes until it is ended."""
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass", name], stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
    finally:
        child.kill()
        child.communicate()


@pytest.fixture
def siblings() -> Siblings:
    """As one of our own children would see them, with a look whenever it is asked."""
    looks = iter(range(10**9))
    return Siblings(parent=os.getpid, module=MARK.encode(), now=lambda: next(looks) * LOOK_S)


def test_what_a_sibling_computes_is_seen_and_stays_when_it_ends(siblings: Siblings) -> None:
    assert siblings.cpu_s() == 0
    with busy(MARK):
        assert siblings.cpu_s() == 0, "what it computed before it was seen was nobody's"
        until(lambda: siblings.cpu_s() > 0.1)
    seen_s = siblings.cpu_s()
    assert seen_s > 0.1
    with busy(MARK):
        until(lambda: siblings.cpu_s() > seen_s + 0.05)


def test_another_child_and_another_parents_worker_are_no_siblings(siblings: Siblings) -> None:
    code = "import os, subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass', os.environ['MARK']])"
    grandparent = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"MARK": MARK})
    try:
        with busy("something else"):
            until(lambda: Path(f"/proc/{grandparent.pid}/task/{grandparent.pid}/children").read_text() != "")
            assert {siblings.cpu_s() for _ in range(50)} == {0.0}
    finally:
        for pid in Path(f"/proc/{grandparent.pid}/task/{grandparent.pid}/children").read_text().split():
            os.kill(int(pid), 9)
        grandparent.wait()


def test_a_system_without_such_files_has_no_siblings(tmp_path: Path) -> None:
    assert Siblings(tmp_path).cpu_s() == 0


def test_a_reading_costs_next_to_nothing(siblings: Siblings) -> None:
    """Twice a step: of 20 ms it may not be felt."""
    quiet = Siblings(module=MARK.encode())
    with busy(MARK):
        quiet.cpu_s()
        costs = []
        for _ in range(200):
            began_s = time.perf_counter()
            quiet.cpu_s()
            costs.append(time.perf_counter() - began_s)
        assert sorted(costs)[100] < 2e-4


TURNS, ROUNDS = 16, 3
PROMPT = "One day the cat ran away and a girl went out to look for it. " * 20


@pytest.mark.skipif(cpu.num_physical_cores() < 2, reason="one core is never given up")
def test_two_loaded_models_that_answer_by_turns_have_all_cores_each(home: Path) -> None:
    """The threads of each prompt's last step, by turns against alone: others' programs, which may want cores here as
    well, do so in both. Before workers knew each other, next to none by turns were as many as alone.
    """

    async def whole() -> None:
        sessions = [await _started(home), await _started(home)]
        try:
            found = [await _round(sessions) for _ in range(ROUNDS)]
        finally:
            for session in sessions:
                await session.aclose()
        quiet = [(alone, by_turns) for alone, by_turns in found if alone > 0.6]
        if not quiet:
            pytest.skip("other programs want this machine's cores")
        assert max(by_turns - alone for alone, by_turns in quiet) > -0.3, found

    asyncio.run(whole())


async def _round(sessions: Sequence[Session]) -> tuple[float, float]:
    """Of the prompts that one answers alone, and that both answer by turns, the part with all cores."""
    alone = [await _uses_all(sessions[0]) for _ in range(TURNS)]
    by_turns = [await _uses_all(sessions[turn % 2]) for turn in range(2 * TURNS)]
    return statistics.fmean(alone), statistics.fmean(by_turns[2:])


async def _uses_all(session: Session) -> bool:
    params = SamplingParams(temperature=0, max_tokens=1)
    await read_all(session.submit(GenerationRequest(prompt=PROMPT, params=params, cache_prompt=False)).mailbox)
    status = msgspec.convert(await session.call("status"), EngineStatus)
    return status.num_threads == session.ready.result().threads


async def _started(home: Path) -> Session:
    path, options = carried("demo.gguf"), LoadOptions(slots=1, kv_disk_mb=0, ctx=1024)
    info = read_model_info(path)
    command = worker_command(data_dir=home, runtime="auto", plugin_dir=None, verbose=False, debug=False)

    def make_load(hello: Hello) -> Load:
        return Load("demo", str(path), info, options, plan(info, options, hello.devices))

    session = Session(command, make_load, SessionLimits(8))
    await asyncio.wait_for(session.ready, TIMEOUT_S)
    return session
