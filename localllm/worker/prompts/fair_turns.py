"""Work for many requests on one thread in turns: a small one never waits for a large one.

Every second turn goes to work that has had none yet, if any; the others rotate among those that came first. Knows
nothing of requests.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from localllm.system.threads import start_thread

TURN_S = 0.02
MAX_BEGUN = 4
"""Work that rotates at a time. Other work that has begun keeps its partial results and waits."""


class _Draft(NamedTuple):
    steps: Iterator[None]
    is_wanted: Callable[[], bool]


class Turns:
    """`add` may be called on any thread."""

    def __init__(self, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._inbox: queue.SimpleQueue[_Draft] = queue.SimpleQueue()
        start_thread(self._run, name)

    def add(self, steps: Iterator[None], is_wanted: Callable[[], bool]) -> None:
        """Run these steps, a few milliseconds each, and drop them at their next turn once they are no longer wanted."""
        self._inbox.put(_Draft(steps, is_wanted))

    def _run(self) -> None:
        fresh: deque[_Draft] = deque()
        begun: deque[_Draft] = deque()
        is_turn_of_fresh = True
        while True:
            while not (fresh or begun) or not self._inbox.empty():
                fresh.append(self._inbox.get())
            source = fresh if fresh and (is_turn_of_fresh or not begun) else begun
            is_turn_of_fresh = source is begun
            draft = source.popleft()
            if self._goes_on(draft):
                begun.insert(len(begun) if source is fresh else MAX_BEGUN - 1, draft)

    def _goes_on(self, draft: _Draft) -> bool:
        if not draft.is_wanted():
            return False
        until = self._clock() + TURN_S
        return any(self._clock() >= until for _ in draft.steps)
