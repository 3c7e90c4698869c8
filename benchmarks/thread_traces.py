"""Times of one stream's steps with each number of threads, beside other work; input of the governor's tests.

    python -m benchmarks.thread_traces MODEL.gguf OUT.json [--seconds S]

For each kind of other work and each number of threads, in turns: from the end of one step to the end of the next, the
wall time, the CPU time of this process and that of all processes; and the wall time of the step alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks.busy import CONDITIONS, beside
from localllm.engine.building import build_engine
from localllm.engine.engine import Engine
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.sampling import native
from localllm.engine.threads.governor import Governor
from localllm.engine.threads.team import Reading, Team
from localllm.llama import library
from localllm.llama.backend import open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.types import ResolvedSampling
from localllm.worker.cpu_clocks import CLOCKS

THREADS = 2
BLOCK_S = 2.5
"""Time with one number of threads, before the next one's turn."""
UNIT_S = 1e-4
"""Unit of all times in the file."""
MOST_STEPS = 150
"""Maximum number of steps per condition and number of threads."""

Steps = list[tuple[int, int, int, int]]


class Recorder(Team):
    """Computes with a given number of threads, and records the times of each step."""

    def __init__(self) -> None:
        super().__init__(Governor(THREADS), CLOCKS)
        self.recorded = THREADS
        self.steps: Steps = []
        self._before: Reading | None = None

    def use(self, threads: int) -> None:
        """Use this number from the next step on, which is not recorded because it starts or ends threads."""
        self.recorded, self._before = threads, None

    def begin(self, num_tokens: int, *, is_text: bool = False) -> int:
        super().begin(num_tokens, is_text=is_text)
        self._threads = self.recorded
        return self.recorded

    def end(self, seconds: float, *, is_comparable: bool = True) -> None:
        before, now = self._before, CLOCKS.read()
        if before is not None and is_comparable and len(self.steps) < MOST_STEPS:
            machine_s = 0.0 if now.machine is None or before.machine is None else now.machine - before.machine
            all_s = (seconds, now.now - before.now, now.process - before.process, machine_s)
            step_s, wall_s, process_s, busy_s = (round(each / UNIT_S) for each in all_s)
            self.steps.append((step_s, wall_s, process_s, busy_s))
        self._before = now


def record(engine: Engine, recorder: Recorder, seconds: float) -> dict[str, Steps]:
    recorded: dict[str, Steps] = {str(threads): [] for threads in range(1, THREADS + 1)}
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        for threads, steps in recorded.items():
            recorder.use(int(threads))
            recorder.steps = steps
            block_end_s = time.perf_counter() + BLOCK_S
            while time.perf_counter() < block_end_s:
                engine.step()
                assert engine.scheduler.has_work, "the stream ended"
    return recorded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=6.0, help="per kind of other work")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lib = library.load(selftest.choose(Path(folder)).choice)
    model = LlamaModel(lib, arguments.model, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(lib, model, KvMemory(8192, 1), Batching(512), threads=THREADS, attention=Attention("on"))
    recorder = Recorder()
    engine = build_engine(backend, lambda _: None, sampler=native.load(threads=THREADS), team=recorder)
    stream = Sequence(
        Request(
            0, [1000] * 64, sampling=ResolvedSampling(temperature=0), max_tokens=8000, ending=Ending(ignore_eos=True)
        )
    )
    engine.submit(stream)
    engine.step()
    traces = {}
    for condition in CONDITIONS:
        with beside(condition):
            traces[condition.name] = record(engine, recorder, arguments.seconds)
        print(condition.name, {threads: len(steps) for threads, steps in traces[condition.name].items()}, flush=True)
    # A line for each number of threads: a diff shows what was recorded again.
    lines = [
        f'"{name}": {{\n'
        + ",\n".join(f'"{threads}": {json.dumps(steps, separators=(",", ":"))}' for threads, steps in of.items())
        + "\n}"
        for name, of in traces.items()
    ]
    arguments.out.write_text("{\n" + ",\n".join(lines) + "\n}\n", "ascii")


if __name__ == "__main__":
    main()
