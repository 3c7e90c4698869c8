"""Prompts' parts of a step made equally long, or as long as a tile, by computing a few tokens again."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.engine.scheduling.cost import TILE, Part, StepCost, passes
from localllm.engine.scheduling.recompute import computed_again
from tests.draining import drain
from tests.fakes import alone
from tests.machines import GPU, MACHINES, XEON, Machine, MachineBackend
from tests.unit.engine.test_engine import GREEDY, text_of
from tests.unit.engine.test_pace import engine_on


@given(
    machine=MACHINES,
    parts=st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 80), st.booleans()), min_size=1, max_size=8),
    gaps=st.sets(st.integers(0, 7), max_size=3),
    room=st.integers(0, 60),
)
def test_what_is_computed_again_makes_the_step_faster_and_stays_within_its_bounds(
    machine: Machine, parts: list[tuple[int, int, bool]], gaps: set[int], room: int
) -> None:
    slots = [slot for slot in range(len(parts) + len(gaps)) if slot not in gaps][: len(parts)]
    before: list[Part] = [(slot, depth, rows) for slot, (depth, rows, _) in zip(slots, parts, strict=False)]
    parts = parts[: len(before)]
    most = [depth if may else 0 for depth, _, may in parts]
    again, seconds = computed_again(before, most, machine.known(), room=room)
    assert len(again) == len(before)
    assert sum(again) <= room
    assert all(0 <= count <= its_most for count, its_most in zip(again, most, strict=True))
    if any(again):
        after = [(slot, depth - count, rows + count) for (slot, depth, rows), count in zip(before, again, strict=True)]
        assert machine.seconds(after) < machine.seconds(before)
        assert machine.seconds(after) == pytest.approx(seconds)
        assert len([*passes(after)]) <= len([*passes(before)])
        event("computed again")


def test_parts_that_differ_much_stay_as_they_are() -> None:
    assert computed_again([(0, 500, 17), (1, 500, 60)], [500, 500], XEON.known(), room=99).counts == [0, 0]
    assert computed_again([(0, 500, 17), (1, 500, 18)], [500, 500], XEON.known(), room=99).counts == [1, 0]
    assert computed_again([(0, 0, 72), (1, 3, 69), (2, 3, 69)], [0, 3, 3], GPU.known(), room=99).counts == [0, 3, 3]


def test_behind_a_long_prefix_a_part_that_is_nearly_a_tile_becomes_one() -> None:
    """Measured behind 6,000 tokens: 40 rows take 704 ms, 63 take 1,100, 64 take 603."""
    known = XEON.known()
    assert computed_again([(0, 6000, 45)], [6000], known, room=99).counts == [TILE - 45]
    assert computed_again([(0, 6000, 45)], [0], known, room=99).counts == [0]
    assert computed_again([(0, 6000, 45)], [6000], known, room=18).counts == [0]
    assert computed_again([(0, 6000, 10)], [6000], known, room=99).counts == [0]
    assert computed_again([(0, 20, 45)], [20], known, room=99).counts == [0], (
        "the pass and the rows take most of the time"
    )
    assert computed_again([(0, 6000, 80)], [6000], known, room=99).counts == [0]


def test_a_message_of_a_long_chat_is_computed_in_a_tile_and_answers_the_same() -> None:
    backend = MachineBackend(XEON, num_slots=1)
    engine, collector = engine_on(backend)
    engine.submit(Sequence(Request(0, [7] * 4000, sampling=GREEDY, max_tokens=20)))
    drain(engine)
    prompt = [7] * 4000 + [8] * 50
    engine.submit(Sequence(Request(1, prompt, sampling=GREEDY, max_tokens=4)))
    first = len(backend.batches)
    drain(engine)
    assert [(each.start, len(each.tokens)) for each in backend.batches[first]] == [(4050 - TILE, TILE)]
    assert collector.finish[1].usage.cached_tokens == 4000
    assert collector.text[1] == text_of(alone(prompt, 4))


def test_before_anything_is_measured_nothing_is_computed_again() -> None:
    assert computed_again([(0, 500, 17), (1, 500, 18)], [500, 500], StepCost(), room=99).counts == [0, 0]


def test_a_prompt_of_a_burst_that_is_a_little_shorter_is_computed_with_the_others_and_answers_the_same() -> None:
    backend = MachineBackend(XEON, num_slots=2)
    engine, collector = engine_on(backend)
    engine.submit(Sequence(Request(9, [7] * 12, sampling=GREEDY, max_tokens=1)))
    drain(engine)
    prompts = [[7] * 5 + [8] * 20, [9] * 22]
    first = len(backend.batches)
    for id, prompt in enumerate(prompts):
        engine.submit(Sequence(Request(id, prompt, sampling=GREEDY, max_tokens=4)))
    drain(engine)
    burst = backend.batches[first]
    assert [(each.start, len(each.tokens)) for each in burst] == [(3, 22), (0, 22)], "one pass instead of two"
    assert collector.finish[0].usage.cached_tokens == 5, "what it is told does not depend on costs"
    assert [collector.text[id] for id in range(2)] == [text_of(alone(prompt, 4)) for prompt in prompts]
