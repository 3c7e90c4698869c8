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
from localllm.worker.siblings import LOOK_S, MOST, Siblings
from tests.waiting import until
from tests.worker.test_session import TIMEOUT_S, read_all

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no such clocks")
MARK = "localllm.worker-of-a-test"


COMPUTED_S = 0.02
COMPUTE = f"""
import sys, time
print(flush=True)
for _ in sys.stdin:
    end_s = time.process_time() + {COMPUTED_S}
    while time.process_time() < end_s:
        pass
    print(flush=True)
"""


class Child:
    """Computes when it is told to: as long as that takes on a busy machine."""

    def __init__(self, name: str) -> None:
        command = [sys.executable, "-c", COMPUTE, name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.pid = self._process.pid
        self._wait()

    def compute(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._wait()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _wait(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline()


@contextmanager
def child(name: str) -> Iterator[Child]:
    made = Child(name)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def siblings() -> Siblings:
    """As one of our own children would see them, with a look whenever it is asked."""
    looks = iter(range(10**9))
    return Siblings(parent=os.getpid, module=MARK.encode(), now=lambda: next(looks) * LOOK_S)


def test_what_a_sibling_computes_is_seen_and_stays_when_it_ends(siblings: Siblings) -> None:
    assert siblings.cpu_s() == 0
    with child(MARK) as first:
        assert siblings.cpu_s() == 0, "what it computed before it was seen was nobody's"
        first.compute()
        seen_s = siblings.cpu_s()
        assert seen_s >= COMPUTED_S
    assert siblings.cpu_s() >= seen_s
    with child(MARK) as second:
        seen_s = siblings.cpu_s()
        second.compute()
        assert siblings.cpu_s() >= seen_s + COMPUTED_S


def test_another_child_and_another_parents_worker_are_no_siblings(siblings: Siblings) -> None:
    code = "import os, subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass', os.environ['MARK']])"
    grandparent = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"MARK": MARK})
    try:
        with child("something else") as other:
            other.compute()
            until(lambda: Path(f"/proc/{grandparent.pid}/task/{grandparent.pid}/children").read_text() != "")
            assert {siblings.cpu_s() for _ in range(50)} == {0.0}
    finally:
        for pid in Path(f"/proc/{grandparent.pid}/task/{grandparent.pid}/children").read_text().split():
            os.kill(int(pid), 9)
        grandparent.wait()


def test_a_worker_is_found_among_more_children_than_are_read(tmp_path: Path) -> None:
    """Ids begin anew at 32,768: those of other children may be higher."""
    with child(MARK) as worker:
        folder = tmp_path / str(os.getpid()) / "task" / "1"
        folder.mkdir(parents=True)
        (folder / "children").write_text(" ".join(map(str, [worker.pid, *range(10**7, 10**7 + MOST)])))
        (tmp_path / str(worker.pid)).symlink_to(f"/proc/{worker.pid}")
        siblings = Siblings(tmp_path, parent=os.getpid, module=MARK.encode())
        assert siblings.cpu_s() == 0
        worker.compute()
        assert siblings.cpu_s() >= COMPUTED_S


def test_a_system_without_such_files_has_no_siblings(tmp_path: Path) -> None:
    assert Siblings(tmp_path).cpu_s() == 0


def test_a_reading_costs_next_to_nothing(siblings: Siblings) -> None:
    """Twice a step: of 20 ms it may not be felt."""
    quiet = Siblings(module=MARK.encode())
    with child(MARK):
        quiet.cpu_s()
        costs = []
        for _ in range(200):
            began_s = time.thread_time()
            quiet.cpu_s()
            costs.append(time.thread_time() - began_s)
        assert sorted(costs)[100] < 2e-4


TURNS, ROUNDS = 10, 3
QUIET = 0.6
"""Part of the prompts with all cores, of one model alone, where other programs want few."""
PROMPT = "One day the cat ran away and a girl went out to look for it. " * 20


@pytest.mark.skipif(cpu.num_physical_cores() < 2, reason="one core is never given up")
def test_two_loaded_models_that_answer_by_turns_have_all_cores_each(home: Path) -> None:
    """The threads of each prompt's last step, by turns against alone: others' programs, which may want cores here as
    well, do so in both. Before workers knew each other, next to none by turns were as many as alone.
    """

    async def whole() -> None:
        sessions = [await _started(home), await _started(home)]
        try:
            found: list[tuple[float, float]] = []
            while len(found) < ROUNDS and not any(map(_is_shared, found)):
                found.append(await _round(sessions))
        finally:
            for session in sessions:
                await session.aclose()
        if max(alone for alone, _ in found) <= QUIET:
            pytest.skip("other programs want this machine's cores")
        assert _is_shared(found[-1]), found

    asyncio.run(whole())


def _is_shared(found: tuple[float, float]) -> bool:
    alone, by_turns = found
    return alone > QUIET and by_turns > alone - 0.3


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
