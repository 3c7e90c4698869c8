"""What a waiting sequence waits for is remembered: nothing is decided otherwise, and a step costs next to nothing."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from hypothesis import event, given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Due, Request, Reuse
from localllm.engine.scheduling.entrance import MAX_LOOKS
from tests.fakes import FakeBackend, FakeDiskCache
from tests.unit.engine.test_engine import GREEDY, Collector
from tests.unit.engine.test_liveness import LAYOUTS, Clock


class Arrival(NamedTuple):
    """One request of a traffic."""

    steps_before: int
    family: int
    common: int
    tail: list[int]
    num_tokens: int
    priority: int
    cancelled_after: int | None
    cache_prompt: bool
    slot_action: str | None


ARRIVALS = st.lists(
    st.builds(
        Arrival,
        steps_before=st.sampled_from([0, 0, 0, 1, 2, 7]),
        family=st.integers(1, 2),
        common=st.integers(1, 110),
        tail=st.lists(st.integers(1, 3), max_size=8),
        num_tokens=st.integers(1, 20),
        priority=st.sampled_from([0, 0, 0, -1, 1]),
        cancelled_after=st.none() | st.integers(0, 25),
        cache_prompt=st.sampled_from([True, True, True, False]),
        slot_action=st.sampled_from([None, None, None, "take", "put", "erase", "keep"]),
    ),
    min_size=1,
    max_size=24,
)


def traffic(
    arrivals: list[Arrival],
    *,
    remembers: bool,
    slots: int,
    batch: int,
    layout: dict[str, Any],
    host: int,
    disk: int | None,
) -> tuple[list[Any], list[Any], list[Any], int]:
    """Its batches, its copies and what clients saw, and how many full looks it took."""
    backend = FakeBackend(num_slots=slots, slot_capacity=128, batch_capacity=batch, **layout)
    files = FakeDiskCache(looks=disk or 0, num_prefetched=2)
    collector = Collector()
    engine = build_engine(
        backend,
        collector,
        tiers=Tiers(host, 3, None if disk is None else lambda _: cast(Any, files)),
        clock=(clock := Clock()),
    )
    if backend.num_cells is None:
        engine.kv.residency.copy_tokens = 2
    admitter = engine.scheduler._admitter
    admit, num_looks = admitter.admit, 0

    def counted(*arguments: Any) -> Any:
        nonlocal num_looks
        num_looks += 1
        return admit(*arguments)

    admitter.admit = counted  # type: ignore[method-assign, assignment]
    if not remembers:
        admitter.memory.still_waits = lambda *_: None  # type: ignore[method-assign]
    cancels: dict[int, int] = {}
    taken = []

    def step() -> None:
        files.tick()
        clock.now_s += 1
        for id in [id for id, steps in cancels.items() if steps <= 0]:
            engine.cancel(id)
            del cancels[id]
        for id in cancels:
            cancels[id] -= 1
        engine.step()
        engine.check_integrity()

    for id, arrival in enumerate(arrivals):
        for _ in range(arrival.steps_before):
            step()
        idle = [slot for slot in range(slots) if all(slot != one.slot for one in engine.scheduler.running)]
        if arrival.slot_action == "keep" and engine.writeback is not None:
            engine.writeback.store_next()
        elif idle and arrival.slot_action == "erase":
            engine.slots.erase(idle[0])
        elif idle and arrival.slot_action == "take" and backend.length(idle[-1]):
            taken.append(engine.slots.save(idle[-1]))
        elif idle and taken and arrival.slot_action == "put" and engine.scheduler.to_restore(idle[0], taken[-1]):
            engine.slots.restore(idle[0], taken[-1])
        engine.submit(
            Sequence(
                Request(
                    id,
                    [arrival.family] * arrival.common + arrival.tail + [4],
                    sampling=GREEDY,
                    max_tokens=arrival.num_tokens,
                    due=Due(priority=arrival.priority, created_s=clock.now_s),
                    reuse=Reuse(cache_prompt=arrival.cache_prompt),
                )
            )
        )
        if arrival.cancelled_after is not None:
            cancels[id] = arrival.cancelled_after
    for _ in range(5000):
        step()
        if not engine.scheduler.has_work:
            break
    assert not engine.scheduler.has_work
    cached = sorted((id, finish.usage.cached_tokens) for id, finish in collector.finish.items())
    return backend.batches, backend.copies, cached, num_looks


@settings(max_examples=150)
@given(
    arrivals=ARRIVALS,
    slots=st.integers(2, 5),
    batch=st.integers(5, 40),
    layout=st.sampled_from(LAYOUTS),
    host=st.sampled_from([0, 300, 2000]),
    disk=st.none() | st.integers(1, 12),
)
def test_what_is_remembered_decides_nothing_otherwise(
    arrivals: list[Arrival], slots: int, batch: int, layout: dict[str, Any], host: int, disk: int | None
) -> None:
    """Against looking at everything for everybody in every step: the same batches, copies and restores."""
    common: dict[str, Any] = {"slots": slots, "batch": batch, "layout": layout, "host": host, "disk": disk}
    *remembered, few = traffic(arrivals, remembers=True, **common)
    *exhaustive, many = traffic(arrivals, remembers=False, **common)
    assert remembered == exhaustive
    event(f"{min(100 * few // max(many, 1), 99) // 20 * 20} or more of 100 looks")


def test_while_nothing_happens_nobody_is_looked_at_and_after_something_no_more_than_a_few_each_step() -> None:
    """256 wait for one prefix while streams go on; then its leader is cancelled, and another takes its place."""
    backend = FakeBackend(num_slots=8, slot_capacity=4096, batch_capacity=64)
    engine = build_engine(backend, Collector(), clock=Clock())
    admitter, looks = engine.scheduler._admitter, list[int]()
    admit = admitter.admit

    def counted(sequence: Sequence, *arguments: Any) -> Any:
        looks.append(sequence.id)
        return admit(sequence, *arguments)

    admitter.admit = counted  # type: ignore[method-assign, assignment]
    for id in range(4):
        engine.submit(Sequence(Request(id, [id + 2] * 5, sampling=GREEDY, max_tokens=2000)))
    engine.step()
    for id in range(257):
        engine.submit(Sequence(Request(1000 + id, [1] * 4000, sampling=GREEDY, max_tokens=10)))

    def steps_until_it_is_quiet() -> int:
        for count in range(30):
            looks.clear()
            engine.step()
            assert len(looks) <= MAX_LOOKS
            if not looks:
                return count
        raise AssertionError("somebody is looked at in every step")

    assert steps_until_it_is_quiet() > 256 // MAX_LOOKS
    assert engine.scheduler.num_waiting == 256
    for _ in range(5):
        engine.step()
    assert looks == []
    engine.submit(Sequence(Request(5000, [9] * 10, sampling=GREEDY, max_tokens=2)))
    engine.step()
    assert looks == [5000], "one who passes is compared with nobody else"
    engine.cancel(1000)
    steps_until_it_is_quiet()
    assert [sequence.id for sequence in engine.scheduler.running if sequence.id >= 1000] == [1001]
