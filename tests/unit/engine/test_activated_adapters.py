"""Adapters that work from their invocation tokens on: before these, everything is the base's, and shared with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.cache.held import SlotRecord
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.media import Span
from localllm.engine.requests.activation import activation, last_occurrence
from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet, ScaledAdapter
from localllm.engine.requests.sequence import Sequence as Asked
from localllm.engine.requests.terms import SHIFT, Due, Request, Reuse, Shift
from localllm.errors import InvalidParameter
from localllm.types import AppliedAdapter
from localllm.worker.prompts.adapted import adapted, notes_on
from tests.fakes import illustrated
from tests.unit.engine.test_adapter_turns import GREEDY, Bench

INVOCATION = (2, 3)
JUDGE, POET, STYLE = (
    AppliedAdapter("aa", "", invocation=INVOCATION),
    AppliedAdapter("bb", "", 0.5, invocation=(3,)),
    AppliedAdapter("cc", ""),
)
SETS: tuple[tuple[AppliedAdapter, ...], ...] = ((), (JUDGE,), (POET,), (STYLE,), (STYLE, JUDGE))
HISTORY = [5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 5, 6, 7, 8, 9]
ASKED = [*HISTORY, *INVOCATION, 4]


class Activated(Bench):
    """Checks after each step what every cell was computed under."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.backend.has_activations = True

    def want(
        self,
        prompt: list[int],
        applied: tuple[AppliedAdapter, ...] = (),
        count: int = 4,
        *,
        is_batch: bool = False,
        spans: Sequence[Span] = (),
        shift: Shift = SHIFT,
    ) -> int:
        id, under = len(self.sequences), adapted(applied, prompt)
        self.sequences[id] = Asked(
            Request(
                id,
                prompt,
                sampling=GREEDY,
                spans=spans,
                max_tokens=count,
                adapters=under.adapters,
                activation=under.activation,
                reuse=Reuse(domain=Domain.of(cache_salt="", adapters=under.shared)),
                shift=shift,
                due=Due(is_batch=is_batch),
            )
        )
        self.engine.submit(self.sequences[id])
        return id

    def step(self) -> None:
        self.engine.step()
        self.engine.check_integrity()
        for sequence in self.engine.scheduler.running:
            progress = sequence.progress
            assert progress.slot is not None
            under = self.backend.under[progress.slot][: progress.num_computed]
            wanted = [progress.adapters_at(index) for index in range(progress.num_computed)]
            assert all(found in (None, want) for found, want in zip(under, wanted, strict=True))

    def drain(self) -> None:
        self.step()  # which takes what has arrived
        while self.engine.scheduler.has_work:
            self.step()

    def cached(self, prompt: list[int], applied: tuple[AppliedAdapter, ...] = ()) -> int:
        """How many tokens of this prompt were cached."""
        id = self.want(prompt, applied)
        self.drain()
        assert self.is_right(id)
        return self.finish[id].usage.cached_tokens


def test_the_last_occurrence_counts_and_without_one_the_adapter_does_not_work() -> None:
    assert last_occurrence([2, 3, 1, 2, 3, 2], INVOCATION) == 3
    assert last_occurrence([2, 2, 3], INVOCATION) == 1
    assert last_occurrence([3], [3]) == 0
    assert [last_occurrence(each, INVOCATION) for each in ([], [2], [3, 2], [2, 1, 3])] == [None] * 4
    under = adapted((STYLE, JUDGE), [1, 2, 3, 2])
    assert under.activation is not None
    assert (under.activation.start, under.activation.before) == (1, (ScaledAdapter("cc", 1.0),))
    assert under.shared == under.activation.before
    assert notes_on((JUDGE,), under.activation) == notes_on((STYLE,), None) == ()
    plain = adapted((STYLE, JUDGE), [1, 2, 4])
    assert (plain.adapters, plain.activation) == (under.shared, None)
    assert "its invocation tokens are not in the prompt" in notes_on((STYLE, JUDGE), None)[0]
    assert adapted((JUDGE, AppliedAdapter("bb", "", 0.0, invocation=(1,))), [2, 3]).activation is not None
    with pytest.raises(InvalidParameter, match="2 of the adapters work behind invocation tokens"):
        adapted((JUDGE, POET), [2, 3])


def test_ids_in_the_cache_are_those_of_one_set_and_no_two_tokens_share_one() -> None:
    one, other = (ScaledAdapter("aa", 1.0),), (ScaledAdapter("aa", 0.5),)
    tokens = [1, 2, 3, *range(4, 3000), -7]
    ids = []
    for adapters in (one, other):
        found = activation(tokens, INVOCATION, NO_ADAPTERS, adapters)
        assert found is not None
        made = found.ids(0, tokens)
        assert made[:1] == tokens[:1]
        assert found.ids(2, tokens[2:]) == made[2:]
        assert all(-(2**31) <= each < 2**31 for each in made)
        ids.append(made[1:])
    assert len({*tokens, *ids[0], *ids[1]}) == len(tokens) + len(ids[0]) + len(ids[1])
    found = activation(tokens, INVOCATION, NO_ADAPTERS, one)
    assert found is not None
    starts = [found._replace(start=10).shifted(keep, drop).start for keep, drop in ((12, 4), (2, 5), (8, 4), (10, 3))]
    assert starts == [10, 5, 8, 10]


def test_no_decode_takes_tokens_from_both_sides_of_the_start() -> None:
    bench = Activated()
    progress, held, start = bench.sequences[bench.want(ASKED, (JUDGE,))].progress, SlotRecord(0, 64), len(HISTORY)
    progress.held = held
    for held.length, following, before in ((0, start, 0), (9, start - 9, 9), (start, 3, 0), (start + 2, 1, 2)):
        assert (progress.num_next, progress.num_alike_before) == (following, before)


@pytest.mark.parametrize("options", [{}, {"can_rewind": False}, {"window": 4}, {"num_cells": 200}], ids=str)
def test_the_prefix_is_the_bases_in_both_directions_and_nothing_behind_it_is(options: dict[str, Any]) -> None:
    bench, before = Activated(**options), len(HISTORY)
    assert bench.cached(ASKED, (JUDGE,)) == 0
    assert bench.cached(ASKED, (JUDGE,)) > before, "its own"
    assert bench.cached([*HISTORY, 4, 4]) == before, "the base continues from what the adapter's request computed"
    assert bench.cached(ASKED) == before, "the same tokens of the base are others"
    assert bench.cached(ASKED, (POET,)) in (before, before + 1), "at most up to its own invocation"
    assert bench.cached(ASKED, (JUDGE,)) >= before
    assert bench.cached(ASKED, (STYLE, JUDGE)) == 0, "the prefix is another's"
    assert bench.cached(ASKED, (STYLE, JUDGE)) > before


def test_the_next_turn_computes_what_was_said_under_the_adapter_again() -> None:
    bench = Activated()
    id = bench.want(ASKED, (JUDGE,))
    bench.drain()
    said = bench.sequences[id].progress.tokens
    assert bench.cached([*said, 9], (JUDGE,)) == len(said) - 1, "the invocation is still the last one"
    assert bench.cached([*said, 9, *INVOCATION, 4], (JUDGE,)) == len(HISTORY)


def test_a_burst_of_several_adapters_computes_the_common_prefix_once() -> None:
    bench = Activated(num_slots=4)
    prompt = [5, 6, 7, 8] * 10 + [2, 3, 4]
    ids = [bench.want([*prompt, 9], each) for each in ((JUDGE,), (), (POET,), (JUDGE,))]
    bench.drain()
    assert all(map(bench.is_right, ids))
    cached = [bench.finish[id].usage.cached_tokens for id in ids]
    assert cached[0] == 0
    assert min(cached[1:]) >= 38, cached


def test_one_that_gave_up_its_slot_within_the_prefix_goes_on_there() -> None:
    bench = Activated(num_slots=1, batch_capacity=4, slot_capacity=64)
    batch = bench.want(ASKED, (JUDGE,), 6, is_batch=True)
    bench.step()
    urgent = bench.want([9, 9, 9])
    bench.drain()
    assert bench.is_right(batch)
    assert bench.is_right(urgent)
    assert bench.engine.scheduler.preemptions.total == 1


@pytest.mark.parametrize("keep", [0, 4, len(HISTORY), len(ASKED)])
def test_when_the_context_is_shifted_the_start_moves_with_its_token(keep: int) -> None:
    bench = Activated()
    bench.engine = build_engine(bench.backend, bench._emit, tiers=Tiers(10_000), context_shift=True)
    id = bench.want(ASKED, (JUDGE,), 150, shift=Shift(keep))
    bench.drain()
    assert bench.finish[id].usage.shifted_tokens > 0
    assert bench.cached([*ASKED[:keep], 9], (JUDGE,)) <= keep


@settings(max_examples=150, deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(
            st.integers(0, 6),
            st.lists(st.integers(1, 4), min_size=1, max_size=30),
            st.sampled_from(SETS),
            st.integers(1, 12),
            st.booleans(),
            st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=1),
        ),
        min_size=1,
        max_size=12,
    ),
    options=st.sampled_from([{}, {"can_rewind": False}, {"window": 4}, {"num_cells": 200}, {"ubatch_capacity": 4}]),
    slots=st.integers(1, 4),
)
def test_whatever_arrives_no_cell_is_computed_or_reused_under_another_set(
    arrivals: list[tuple[int, list[int], tuple[AppliedAdapter, ...], int, bool, list[tuple[int, int]]]],
    options: dict[str, Any],
    slots: int,
) -> None:
    """Some take the slots of others, some see a picture."""
    bench = Activated(num_slots=slots, **options)
    for steps, tokens, applied, count, is_batch, pictures in arrivals:
        for _ in range(steps):
            bench.step()
        prompt, spans = illustrated(tokens, pictures)
        bench.want(prompt, applied, count, is_batch=is_batch, spans=spans)
    bench.drain()
    assert not bench.failures
    assert len(bench.finish) == len(arrivals)
    assert all(map(bench.is_right, bench.sequences))


def test_domains_are_those_of_the_base() -> None:
    under = adapted((JUDGE,), ASKED)
    assert Domain.of(cache_salt="", adapters=under.shared) == COMMON
    sets: list[AdapterSet] = [adapted(each, ASKED).adapters for each in SETS]
    assert len(set(sets)) == len(sets)
