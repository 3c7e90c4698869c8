"""Sets of adapters: nothing computed under one is used under another, they take turns, and none starves."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet, ScaledAdapter, adapter_set
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Due, Request, Reuse
from localllm.errors import LocalLLMError
from localllm.types import Finish, ResolvedSampling
from tests.draining import drain
from tests.fakes import FakeBackend, next_token

GREEDY = ResolvedSampling(temperature=0)
PIRATE, POET = (ScaledAdapter("aa", 1.0),), (ScaledAdapter("bb", 0.5),)
SETS: tuple[AdapterSet, ...] = (NO_ADAPTERS, PIRATE, POET, (*PIRATE, *POET))


class Bench:
    """An engine on the fake, and how its requests ended."""

    def __init__(self, *, step_s: float = 0.01, **options: Any) -> None:
        self.backend = FakeBackend(**options)
        self.now_s = 0.0
        self.engine: Engine = build_engine(self.backend, self._emit, tiers=Tiers(10_000), clock=lambda: self.now_s)
        self.engine.kv.residency.copy_tokens = 2
        self.sequences: dict[int, Sequence] = {}
        self.finish: dict[int, Finish] = {}
        self.failures: dict[int, LocalLLMError] = {}
        self.longest_s: dict[int, float] = {}
        self._last_s: dict[int, float] = {}
        decode, self._step_s = self.backend.decode, step_s

        def slow(*arguments: Any, **keywords: Any) -> bool:
            self.now_s += self._step_s
            return decode(*arguments, **keywords)

        self.backend.decode = slow  # type: ignore[method-assign]

    def _emit(self, output: StepOutput) -> None:
        self.failures.update(output.failures)
        for id, delta in output.deltas:
            waited_s = self.now_s - self._last_s.get(id, self.now_s)
            self.longest_s[id] = max(waited_s, self.longest_s.get(id, 0.0))
            self._last_s[id] = self.now_s
            if delta.finish is not None:
                self.finish[id] = delta.finish

    def ask(
        self,
        prompt: list[int],
        adapters: AdapterSet = NO_ADAPTERS,
        max_tokens: int = 8,
        salt: str = "",
        *,
        is_batch: bool = False,
    ) -> int:
        id = len(self.sequences)
        self.sequences[id] = Sequence(
            Request(
                id,
                prompt,
                sampling=GREEDY,
                max_tokens=max_tokens,
                adapters=adapters,
                reuse=Reuse(domain=Domain.of(cache_salt=salt, adapters=adapters)),
                due=Due(is_batch=is_batch),
            )
        )
        self.engine.submit(self.sequences[id])
        return id

    def drain(self) -> None:
        drain(self.engine)

    def is_right(self, id: int) -> bool:
        progress = self.sequences[id].progress
        tokens = progress.tokens
        return all(tokens[at] == next_token(tokens[:at]) for at in range(progress.num_prompt, len(tokens)))


def test_equal_sets_are_equal_in_any_order_and_zero_is_none() -> None:
    one, other = ScaledAdapter("aa", 0.5), ScaledAdapter("bb", 2)
    assert adapter_set([one, other]) == adapter_set([other, one])
    assert adapter_set([one, one]) == (ScaledAdapter("aa", 1.0),)
    assert adapter_set([one._replace(scale=0.0), ScaledAdapter("bb", 1), ScaledAdapter("bb", -1)]) == NO_ADAPTERS
    assert Domain.of(cache_salt="", adapters=NO_ADAPTERS) == COMMON
    made = [Domain.of(cache_salt=salt, adapters=each) for salt in ("", "x") for each in (*SETS, adapter_set([one]))]
    assert len(set(made)) == len(made)


def test_nothing_computed_under_one_set_is_used_under_another() -> None:
    bench = Bench()
    prompt = list(range(1, 20))
    for adapters in SETS:
        bench.ask(prompt, adapters)
        bench.drain()
    again = [bench.ask(prompt, adapters) for adapters in SETS]
    bench.drain()
    cached = [bench.finish[id].usage.cached_tokens for id in range(8)]
    assert cached[:4] == [0] * 4
    assert all(cached[id] > 0 for id in again)


def test_sets_at_once_take_turns_of_several_steps_and_answer_as_alone() -> None:
    bench = Bench(step_s=0.002)
    ids = [bench.ask([10 * number + 1, 2, 3], SETS[number % 3], max_tokens=40) for number in range(4)]
    bench.drain()
    assert all(map(bench.is_right, ids))
    turns = [len(list(turn)) for _, turn in groupby(bench.backend.sets)]
    assert len(turns) > 6
    assert sorted(turns)[len(turns) // 2] >= 5
    assert bench.backend.num_switches <= len(turns)


def test_no_stream_waits_longer_than_the_others_slices() -> None:
    """Without turns, a stream of another set would wait for the end of the first answers."""
    bench = Bench(num_slots=4, slot_capacity=300)
    ids = [bench.ask([number + 1, 2, 3], each, max_tokens=200) for number, each in enumerate(SETS)]
    bench.drain()
    assert bench.now_s > 4
    assert max(bench.longest_s[id] for id in ids) <= 4 * 0.1


def test_a_set_that_has_been_alone_makes_room_for_the_next_at_once() -> None:
    bench = Bench(slot_capacity=300)
    bench.ask([1, 2, 3], PIRATE, max_tokens=100)
    for _ in range(20):
        bench.engine.step()
    began_s, late = bench.now_s, bench.ask([4, 5, 6], POET, max_tokens=2)
    while late not in bench.finish:
        bench.engine.step()
    assert bench.now_s - began_s <= 0.1
    bench.drain()


def test_slots_of_one_set_lie_beside_each_other() -> None:
    """A pass over the weights computes adjacent slots; others between them cost a row each."""
    bench = Bench(num_slots=8, slot_capacity=300)
    for number in range(6):
        bench.ask([number + 1, 2, 3], SETS[number % 2], max_tokens=100)
    for _ in range(20):
        bench.engine.step()
    slots = {
        each: [one.slot or 0 for one in bench.engine.scheduler.running if one.request.adapters == each]
        for each in SETS[:2]
    }
    assert all(max(own) - min(own) < len(own) + 1 for own in slots.values()), slots
    bench.drain()


def test_an_adapter_that_cannot_be_loaded_fails_only_its_own_requests() -> None:
    bench = Bench()
    bench.backend.missing_adapter = "bb"
    ids = [bench.ask([number + 1, 2, 3], SETS[number % 4]) for number in range(4)]
    bench.drain()
    assert sorted(bench.failures) == [2, 3]
    assert "cannot be loaded" in bench.failures[2].message
    assert all(bench.is_right(id) and id in bench.finish for id in ids[:2])


@settings(max_examples=100, deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(
            st.integers(0, 6),
            st.lists(st.integers(1, 3), min_size=1, max_size=24),
            st.sampled_from(SETS),
            st.integers(1, 12),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    ),
    can_rewind=st.booleans(),
    slots=st.integers(1, 4),
)
def test_whatever_arrives_every_answer_is_the_one_it_has_alone(
    arrivals: list[tuple[int, list[int], AdapterSet, int, bool]], can_rewind: bool, slots: int
) -> None:
    """The fake refuses a prefix that was computed under another set. Some take the slots of others."""
    bench = Bench(num_slots=slots, can_rewind=can_rewind)
    for steps, prompt, adapters, count, is_batch in arrivals:
        for _ in range(steps):
            bench.engine.step()
        bench.ask(prompt, adapters, count, is_batch=is_batch)
    bench.drain()
    assert not bench.failures
    assert len(bench.finish) == len(arrivals)
    assert all(map(bench.is_right, bench.sequences))
