"""Interactive requests beside batches that fill all slots: time to the first token, and what the batches lose.

    python -m benchmarks.preemption [--seconds N]                 on the virtual clock
    python -m benchmarks.preemption MODEL [--seconds N]           on a model

Every 5 s comes one interactive request. Compared are its first token beside batches with that of an idle machine, and
the batches' tokens per second with those of batches alone; the time that the interactive requests themselves take is
shown, since no scheduler gives it back. On the virtual clock a step takes what a formula says (`virtual_chats`).
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import threading
import time
from typing import NamedTuple

from benchmarks.virtual_chats import CPUS, SLOTS, Cost, VirtualBackend
from localllm import LLM
from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Due, Request, Reuse
from localllm.types import ResolvedSampling

EVERY_S = 5.0
BATCH_PROMPT, BATCH_ANSWER = 200, 300
"""Tokens of each request of the batch class."""
PROMPT, ANSWER = 60, 20
"""Tokens of each interactive one."""


class Served(NamedTuple):
    """What one load saw."""

    first_tokens_s: list[float]
    """Of interactive requests."""
    batch_tokens_s: float
    busy_share: float = 0.0
    """Share of the time in which anything was computed."""


class Virtual:
    """The engine on the virtual clock, and its clients."""

    def __init__(self, cost: Cost, *, num_batches: int, every_s: float, seconds: float, are_equal: bool) -> None:
        """`are_equal`: all requests are of one class."""
        self._backend = VirtualBackend(cost, 1)
        self._engine = build_engine(self._backend, self._take, tiers=Tiers(1 << 30), clock=self._clock)
        self._num_batches, self._every_s, self._seconds, self._are_equal = num_batches, every_s, seconds, are_equal
        self._ids = itertools.count()
        self._batches: set[int] = set()
        self._arrived: dict[int, float] = {}
        self._first: dict[int, float] = {}
        self._num_tokens = 0
        self._next_s = every_s
        self._idle_s = 0.0
        self._backend.during = self._receive

    def _clock(self) -> float:
        return self._backend.now_s

    def run(self) -> Served:
        while self._clock() < self._seconds:
            self._receive()
            self._engine.step()
            if not self._engine.scheduler.has_work:
                self._idle_s += self._next_s - self._clock()
                self._backend.now_s = self._next_s
        rate, busy = self._num_tokens / self._clock(), 1 - self._idle_s / self._clock()
        return Served([at - self._arrived[id] for id, at in self._first.items()], rate, busy)

    def _receive(self) -> None:
        while self._num_batches and len(self._batches) < self._num_batches:
            self._batches.add(id := next(self._ids))
            self._ask(id, BATCH_PROMPT, BATCH_ANSWER, Due(is_batch=not self._are_equal, created_s=self._clock()))
        if self._clock() >= self._next_s:
            self._arrived[id := next(self._ids)] = self._next_s
            self._ask(id, PROMPT, ANSWER, Due(created_s=self._next_s))
            self._next_s += self._every_s

    def _ask(self, id: int, num_prompt: int, num_answer: int, due: Due) -> None:
        prompt, sampling = [id % 89 + 1] * num_prompt, ResolvedSampling(temperature=0)
        reuse = Reuse(cache_prompt=False)
        self._engine.submit(
            Sequence(Request(id, prompt, sampling=sampling, max_tokens=num_answer, due=due, reuse=reuse))
        )

    def _take(self, output: StepOutput) -> None:
        for id, delta in output.deltas:
            if id in self._arrived:
                self._first.setdefault(id, self._clock())
            else:
                self._num_tokens += delta.num_tokens
            if delta.finish is not None:
                self._batches.discard(id)


def virtual(cost: Cost, seconds: float) -> None:
    def served(num_batches: int, every_s: float = EVERY_S, *, are_equal: bool = False) -> Served:
        clients = Virtual(cost, num_batches=num_batches, every_s=every_s, seconds=seconds, are_equal=are_equal)
        return clients.run()

    idle, alone = served(0), served(SLOTS + 2, math.inf)
    _print("of one class", idle, alone, served(SLOTS + 2, are_equal=True))
    _print("batch class", idle, alone, served(SLOTS + 2))


class Real:
    """Threads that ask a model."""

    def __init__(self, llm: LLM, seconds: float) -> None:
        self._llm, self._seconds = llm, seconds
        self._num_tokens = 0
        self._lock = threading.Lock()

    def run(self, num_batches: int, *, has_interactive: bool, is_batch: bool = True) -> Served:
        self._num_tokens = 0
        until_s = time.monotonic() + self._seconds
        threads = [
            threading.Thread(target=self._batches, args=(number, until_s), kwargs={"is_batch": is_batch})
            for number in range(num_batches)
        ]
        for thread in threads:
            thread.start()
        first: list[float] = []
        busy_s = 0.0
        for number in itertools.count(1) if has_interactive else ():
            at_s = until_s - self._seconds + number * EVERY_S
            if at_s > until_s - 1:
                break
            time.sleep(max(0.0, at_s - time.monotonic()))
            began_s = time.monotonic()
            prompt = f"Question {number} of a user who waits: " + "why is the sky blue? " * 10
            with self._llm.complete(prompt, stream=True, max_tokens=ANSWER, ignore_eos=True, seed=1) as stream:
                for place, _ in enumerate(stream):
                    if not place:
                        first.append(time.monotonic() - began_s)
            busy_s += time.monotonic() - began_s
        for thread in threads:
            thread.join()
        return Served(first, self._num_tokens / self._seconds, busy_s / self._seconds)

    def _batches(self, number: int, until_s: float, *, is_batch: bool) -> None:
        for turn in itertools.count():
            prompt = f"Text {number}.{turn} of a batch: " + "it says that it is long. " * 25
            stream = self._llm.complete(
                prompt, stream=True, max_tokens=BATCH_ANSWER, ignore_eos=True, seed=number, batch=is_batch
            )
            with stream:
                for delta in stream:
                    if time.monotonic() > until_s:
                        return
                    with self._lock:
                        self._num_tokens += delta.num_tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--threads", type=int)
    asked = parser.parse_args()
    if asked.model is None:
        for name, cost in CPUS.items():
            print(name)
            virtual(cost, asked.seconds)
        return
    with LLM(asked.model, slots=asked.slots, threads=asked.threads) as llm:
        real, count = Real(llm, asked.seconds), asked.slots + 2
        real.run(count, has_interactive=True)  # what steps cost is learned
        idle, alone = real.run(0, has_interactive=True), real.run(count, has_interactive=False)
        _print("of one class", idle, alone, real.run(count, has_interactive=True, is_batch=False))
        _print("batch class", idle, alone, real.run(count, has_interactive=True))


def _print(name: str, idle: Served, alone: Served, both: Served) -> None:
    first, idle_s = statistics.median(both.first_tokens_s or [math.inf]), statistics.median(idle.first_tokens_s)
    longest_s = max(both.first_tokens_s or [math.inf])
    kept = both.batch_tokens_s / alone.batch_tokens_s
    print(
        f"  {name:12} first token {first:.3f} s (idle {idle_s:.3f}: {first / idle_s:.2f} x, longest {longest_s:.3f}); "
        f"batches {both.batch_tokens_s:.1f} tokens/s, {kept:.3f} of alone; the others alone take {idle.busy_share:.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
