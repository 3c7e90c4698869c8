"""Who has the next turn on a thread that many share; every draft's step waits here until the test lets it go."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

from localllm.worker.prompts.fair_turns import MAX_BEGUN, TURN_S, Turns

TIMEOUT_S = 20


class Clock:
    """Stands still but for what steps take."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Drafts:
    """Notes each turn, and takes no more of them than the test lets it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.turns = Turns("turns", clock=self.clock)
        self.log: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.allowed = threading.Semaphore(0)
        self.unwanted: set[str] = set()

    def add(self, name: str, num_turns: int, *, step_s: float = TURN_S) -> None:
        self.turns.add(self._steps(name, num_turns, step_s), lambda: name not in self.unwanted)

    def _steps(self, name: str, num_turns: int, step_s: float) -> Iterator[None]:
        for _ in range(num_turns):
            self.allowed.acquire()
            self.log.put(name)
            self.clock.now_s += step_s
            yield

    def next(self, count: int) -> list[str]:
        """Whose the next turns are."""
        self.allowed.release(count)
        return [self.log.get(timeout=TIMEOUT_S) for _ in range(count)]


def test_one_that_comes_later_waits_for_a_turn_or_two_of_the_large_ones() -> None:
    drafts = Drafts()
    for name in "abc":
        drafts.add(name, 100)
    assert set(drafts.next(20)) == {"a", "b", "c"}
    drafts.add("small", 1)
    assert "small" in drafts.next(3)


def test_small_ones_that_never_end_leave_every_second_turn_to_the_large_one() -> None:
    drafts = Drafts()
    drafts.add("large", 20)
    for number in range(60):
        drafts.add(f"small {number}", 1, step_s=TURN_S / 2)
    assert drafts.next(45).count("large") == 20


def test_few_go_round_at_a_time_so_that_few_hold_half_done_results() -> None:
    drafts = Drafts()
    for number in range(3 * MAX_BEGUN):
        drafts.add(str(number), 10)
    seen = drafts.next(30 * MAX_BEGUN)
    ends = [max(at for at, name in enumerate(seen) if name == str(number)) for number in range(3 * MAX_BEGUN)]
    assert max(ends[:MAX_BEGUN]) < min(ends[2 * MAX_BEGUN :])


def test_what_nobody_wants_any_more_has_no_further_turn() -> None:
    drafts = Drafts()
    drafts.add("gone", 1000)
    drafts.add("waits", 1000)
    drafts.next(6)
    drafts.unwanted.add("gone")
    assert drafts.next(50).count("gone") <= 1, "it may have been in the middle of one"
