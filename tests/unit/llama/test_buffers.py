"""Buffers of saved states: nobody's bytes are ever overwritten, and no more memory lies ready than may."""

from __future__ import annotations

import queue
import threading
import time
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from localllm.llama.states.arena import Arena
from localllm.llama.states.save_buffers import (
    BLOCK_BYTES,
    CHUNK_BYTES,
    LEAST_BYTES,
    READY_SHARE,
    SHARE,
    SHARE_AT_REST,
    SHARE_BEHIND,
    BufferPool,
)
from localllm.system import memory

resource = pytest.importorskip("resource")
MB = 2**20


class TakenAndGiven(RuleBasedStateMachine):
    """An arena beside a list that knows of each block whether it is free, and ready."""

    SIZE = 24

    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena(self.SIZE)
        self.blocks = [" "] * self.SIZE
        self.taken: list[tuple[int, int]] = []

    @rule(size=st.integers(1, 10))
    def take(self, size: int) -> None:
        start = self.arena.find(size)
        places = [at for at in range(self.SIZE - size + 1) if "x" not in self.blocks[at : at + size]]
        assert (start is None) == (not places)
        if start is not None:
            ready = [self.blocks[at : at + size].count("r") for at in places]
            assert self.blocks[start : start + size].count("r") == max(ready), "another place has more pages"
            self.arena.take(start, start + size)
            self.blocks[start : start + size] = "x" * size
            self.taken.append((start, start + size))

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), is_ready=st.booleans())
    def give(self, data: st.DataObject, is_ready: bool) -> None:
        start, end = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        self.arena.give(start, end, is_ready=is_ready)
        self.blocks[start:end] = ("r" if is_ready else " ") * (end - start)

    @rule(start=st.integers(0, SIZE - 1), size=st.integers(1, SIZE))
    def populate_the_first_part_without_pages(self, start: int, size: int) -> None:
        fresh = self.arena.first_fresh(start, start + size)
        assert (fresh is not None) == (" " in self.blocks[start : start + size])
        if fresh is not None:
            assert fresh[0] == self.blocks.index(" ", start)
            self.arena.mark(*fresh, is_ready=True)
            self.blocks[fresh[0] : fresh[1]] = "r" * (fresh[1] - fresh[0])

    @rule(start=st.integers(0, SIZE), size=st.integers(0, SIZE))
    def give_back_what_is_ready_elsewhere(self, start: int, size: int) -> None:
        run = self.arena.ready_outside(start, start + size)
        elsewhere = [*self.blocks[:start], *self.blocks[start + size :]]
        assert (run is not None) == ("r" in elsewhere)
        if run is not None:
            assert set(self.blocks[run.start : run.end]) == {"r"}
            assert run.within(start, start + size) == 0
            self.arena.mark(run.start, run.end, is_ready=False)
            self.blocks[run.start : run.end] = " " * run.size

    @invariant()
    def both_agree(self) -> None:
        drawn = ["x"] * self.SIZE
        for run in self.arena.runs:
            drawn[run.start : run.end] = ("r" if run.is_ready else " ") * run.size
        assert drawn == self.blocks
        assert self.arena.num_ready == self.blocks.count("r")
        assert self.arena.longest == max(map(len, "".join(drawn).replace("r", " ").split("x")))


TestTakenAndGiven = TakenAndGiven.TestCase
TestTakenAndGiven.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


class SavedAndDropped(RuleBasedStateMachine):
    """States of all sizes, held by caches, by slices of them, or by nobody."""

    MAX_BYTES = 24 * MB

    def __init__(self) -> None:
        super().__init__()
        self.pool = BufferPool(self.MAX_BYTES)
        self.held: dict[int, tuple[memoryview, int, int]] = {}
        """Marks -> views, where to look, the state's size."""
        self.next_mark = 1

    @rule(num_bytes=st.sampled_from([1, 1000, LEAST_BYTES - 1, LEAST_BYTES, 3 * MB + 1, 5 * MB, 11 * MB, 30 * MB]))
    def save(self, num_bytes: int) -> None:
        state = self.pool.take(num_bytes)
        assert len(state) == num_bytes
        self.mark(state)
        self.held[self.next_mark] = state, 0, num_bytes
        self.next_mark += 1

    def mark(self, state: memoryview) -> None:
        state[0] = state[-1] = self.next_mark % 256

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        del self.held[data.draw(st.sampled_from(sorted(self.held)))]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop_but_for_the_last_byte(self, data: st.DataObject) -> None:
        mark = data.draw(st.sampled_from(sorted(self.held)))
        view, _, size = self.held[mark]
        self.held[mark] = view[-1:], -1, size

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def look_at_it_through_an_array(self, data: st.DataObject) -> None:
        mark = data.draw(st.sampled_from(sorted(self.held)))
        view, _, size = self.held[mark]
        self.held[mark] = np.frombuffer(view, np.uint8)[-1:].data, -1, size

    @rule(largest=st.integers(0, 12), all=st.integers(0, 40))
    def expect(self, largest: int, all: int) -> None:
        self.pool._expected = largest * MB, all * MB  # without the thread: what it does comes when it is asked for

    @rule(times=st.integers(1, 8))
    def prepare(self, times: int) -> None:
        for _ in range(times):
            self.pool.prepare()

    @rule()
    def rest(self) -> None:
        self.pool.rest()

    @rule()
    def shrink(self) -> None:
        self.pool._shrink()

    @invariant()
    def what_is_held_is_what_was_written(self) -> None:
        for mark, (view, place, _) in self.held.items():
            assert view[place] == view[-1] == mark % 256

    @invariant()
    def no_more_lies_ready_than_may(self) -> None:
        held, ready = self.pool.held_bytes, ready_bytes(self.pool)
        sizes = [size for _, _, size in self.held.values()]
        assert sum(sizes) <= held <= sum(sizes) + BLOCK_BYTES * len(sizes)
        assert ready == 0 or held + ready <= self.MAX_BYTES

    def teardown(self) -> None:
        self.pool.close()
        self.what_is_held_is_what_was_written()


TestSavedAndDropped = SavedAndDropped.TestCase
TestSavedAndDropped.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)


def ready_bytes(pool: BufferPool) -> int:
    """Memory whose pages exist and that no state uses."""
    assert pool.held_bytes >= 0  # collects what was dropped
    return pool._arena.num_ready


def prepared(max_bytes: int, *, largest: int, all: int | None = None) -> BufferPool:
    pool = BufferPool(max_bytes)
    pool._expected = largest, largest if all is None else all
    pool.rest()
    while pool.prepare():
        continue
    return pool


def faults_of_writing(state: memoryview) -> int:
    """Pages that the thread touched for the first time."""
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    np.frombuffer(state, np.uint8)[:] = 1
    return int(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)


needs_thread_usage = pytest.mark.skipif(not hasattr(resource, "RUSAGE_THREAD"), reason="Linux counts by thread")


@needs_thread_usage
def test_a_save_that_was_expected_touches_no_fresh_page() -> None:
    pool = prepared(256 * MB, largest=40 * MB, all=80 * MB)
    assert ready_bytes(pool) == 80 * MB
    states = [pool.take(40 * MB) for _ in range(2)]
    assert [faults_of_writing(state) < 8 for state in states] == [True, True]
    pool.close()


@needs_thread_usage
def test_what_was_dropped_is_used_again_with_its_pages() -> None:
    pool = BufferPool(100 * MB)  # too little for all three: without reuse the third would be beyond it
    state: memoryview | None = pool.take(40 * MB)
    assert state is not None
    faults_of_writing(state)
    for size in (40, 25, 39):
        state = None
        state = pool.take(size * MB)
        assert faults_of_writing(state) < 8
    assert pool.held_bytes == 39 * MB
    pool.close()


def test_a_save_larger_than_all_of_the_pool_still_works() -> None:
    pool = prepared(16 * MB, largest=16 * MB)
    state = pool.take(64 * MB)
    state[:] = bytes(64 * MB)
    assert (pool.held_bytes, ready_bytes(pool)) == (64 * MB, 0)
    pool.close()


def test_a_pool_of_nothing_makes_nothing_ready() -> None:
    pool = prepared(0, largest=8 * MB)
    assert len(pool.take(8 * MB)) == 8 * MB
    assert ready_bytes(pool) == 0
    pool.close()


def test_states_outlive_the_pool() -> None:
    pool = prepared(32 * MB, largest=8 * MB)
    state = pool.take(8 * MB)
    state[:] = bytes([7]) * (8 * MB)
    pool.close()
    pool.close()
    assert len(pool.take(2 * MB)) == 2 * MB
    assert zlib.crc32(state) == zlib.crc32(bytes([7]) * (8 * MB))


@pytest.mark.parametrize(
    ("situation", "share", "num_mb"),
    [
        ("beside steps", SHARE, 40),
        ("behind", SHARE_BEHIND, 40),
        ("at rest", SHARE_AT_REST, 60),
        ("beside devices", SHARE, 60),
    ],
)
def test_pages_are_made_ready_in_a_small_share_of_a_cores_time(
    monkeypatch: pytest.MonkeyPatch, situation: str, share: float, num_mb: int
) -> None:
    """Their thread takes a core from those that compute: a burst's decodes took four times as long beside it, and
    memory for all eight streams' states took 85 ms of a burst of 6.8 s."""
    spent_s, pauses_s = 0.0, []

    def thread_time() -> float:
        nonlocal spent_s
        spent_s += 0.005
        return spent_s

    pool = BufferPool(64 * MB, competes=situation != "beside devices")
    monkeypatch.setattr(time, "thread_time", thread_time)
    monkeypatch.setattr(pool._closing, "wait", lambda pause_s: pauses_s.append(pause_s))
    monkeypatch.setattr(pool, "_shrink", pool._closing.set)
    monkeypatch.setattr(pool._wake, "wait", lambda _: pool._wake.is_set())
    pool._expected = (40 * MB, 60 * MB)
    if situation == "at rest":
        pool.rest()
    elif situation == "behind":
        pool.take(LEAST_BYTES)
    pool._wake.set()
    pool._run()
    assert ready_bytes(pool) == num_mb * MB
    assert pauses_s == pytest.approx([0.005 / share - 0.005] * (num_mb // 4))
    pool.close()


def test_no_pages_are_made_between_a_save_and_the_step_that_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """They took a core from the first prompt after each save."""
    pool = BufferPool(64 * MB)
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    pool.expect(8 * MB, 8 * MB)
    pool._wake.clear()
    pool.take(8 * MB)
    assert not pool._wake.is_set()
    pool.refill()
    assert pool._wake.is_set()
    pool._wake.clear()
    pool.refill()
    assert not pool._wake.is_set(), "nothing was taken since"
    pool._thread = None
    pool.close()


def made_ready(pool: BufferPool) -> int:
    while pool.prepare():
        continue
    return ready_bytes(pool)


def test_memory_for_all_states_is_made_ready_while_nothing_is_computed() -> None:
    """Where only one state's was ready, each further save in succession held up a step by 590 ms instead of 38."""
    pool = BufferPool(64 * MB)
    pool._expected = 8 * MB, 40 * MB
    assert made_ready(pool) == 8 * MB, "one state's beside steps"
    pool.rest()
    assert made_ready(pool) == 40 * MB
    states = [pool.take(8 * MB) for _ in range(3)]
    assert made_ready(pool) == 16 * MB, "a request came: it is no longer at rest"
    pool.rest()
    pool.refill()
    assert made_ready(pool) == 16 * MB, "a step was computed"
    del states
    pool.close()


def test_a_save_that_lacked_pages_hastens_those_for_the_next_one() -> None:
    pool = BufferPool(64 * MB)
    pool._expected = 8 * MB, 24 * MB
    assert made_ready(pool) == 8 * MB
    states = [pool.take(8 * MB)]
    assert pool.prepare() == SHARE, "it had all pages"
    states.append(pool.take(8 * MB))
    assert [pool.prepare() for _ in range(3)] == [SHARE_BEHIND, SHARE_BEHIND, 0], "half of them were fresh"
    states.append(pool.take(8 * MB))
    assert pool.prepare() == SHARE
    del states
    pool.close()


def test_beside_devices_that_compute_memory_for_all_states_is_made_ready() -> None:
    """They leave the cores idle, and a save into fresh pages would hold them up."""
    pool = BufferPool(64 * MB, competes=False)
    pool._expected = 8 * MB, 40 * MB
    assert made_ready(pool) == 40 * MB
    pool.close()


def test_who_asks_an_idle_engine_often_does_not_wake_the_thread() -> None:
    pool = BufferPool(64 * MB)
    pool.rest()
    pool._wake.clear()
    pool.rest()
    assert not pool._wake.is_set()
    pool.close()


def test_beyond_the_largest_state_only_a_share_of_the_available_memory_is_made_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other programs need the rest sooner than the slots their second save."""
    available = 600 * MB
    monkeypatch.setattr(memory, "available_memory", lambda: available)
    pool = BufferPool(512 * MB)
    pool._expected = 8 * MB, 400 * MB
    pool.rest()
    assert made_ready(pool) == available * READY_SHARE // BLOCK_BYTES * BLOCK_BYTES
    pool._expected = 200 * MB, 400 * MB
    assert made_ready(pool) == 200 * MB
    pool.close()


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None)
def test_after_long_without_a_save_only_the_largest_states_memory_stays(sizes: list[int]) -> None:
    pool = prepared(48 * MB, largest=max(sizes) * MB, all=sum(sizes) * MB)
    assert ready_bytes(pool) == min(sum(sizes), 48) * MB
    pool._shrink()
    assert ready_bytes(pool) == max(sizes) * MB
    assert not pool.prepare()
    pool.close()


def test_a_thread_that_still_writes_a_state_never_sees_another_one() -> None:
    """As the disk does: from slices, when the cache has long dropped the state; beside the pool's own thread."""
    pool = BufferPool(32 * MB)
    pool.expect(6 * MB, 24 * MB)
    inbox: queue.Queue[tuple[int, memoryview] | None] = queue.Queue(maxsize=3)
    wrong: list[int] = []

    def write() -> None:
        while (item := inbox.get()) is not None:
            number, state = item
            chunks = [state[start : start + MB] for start in range(0, len(state), MB)]
            del item, state
            while chunks:
                if set(bytes(chunks.pop(0)[:: MB // 8])) != {number}:
                    wrong.append(number)

    writer = threading.Thread(target=write)
    writer.start()
    random = np.random.default_rng(0)
    for number in range(200):
        state = pool.take(int(random.integers(LEAST_BYTES, 6 * MB)))
        np.frombuffer(state, np.uint8)[:] = number
        inbox.put((number, state))
    inbox.put(None)
    writer.join()
    del state
    assert wrong == []
    assert pool.held_bytes == 0
    pool.close()


def test_sizes_are_whole_pages_and_chunks() -> None:
    assert BLOCK_BYTES % resource.getpagesize() == 0
    assert CHUNK_BYTES % BLOCK_BYTES == 0
