"""Steps end in time on any machine, and prompts get their part of them: bounds, on machines unknown before."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from localllm.engine.building import build_engine
from localllm.engine.cache.held import SlotRecord
from localllm.engine.engine import Engine
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request
from localllm.engine.scheduling.cost import MAX_SLOWDOWN, TILE, CostModel, Part, StepCost
from localllm.engine.scheduling.pace import LONGEST_TILE, Pace, StepBudget, StepLimits
from localllm.engine.scheduling.shares import MAX_FINISHING_STRETCH, MIN_PART_TOKENS, OVERHEAD, Shares
from localllm.types import ResolvedSampling
from tests.draining import drain
from tests.machines import AMX, GPU, MACHINES, SLOW, XEON, Machine, MachineBackend
from tests.unit.engine.test_engine import Collector

GREEDY = ResolvedSampling(temperature=0)
KNOWN_MACHINES = {"xeon": XEON, "amx": AMX, "slow": SLOW, "gpu": GPU}
MAX_STEP_S, PREFILL_STEP_S = 0.3, 0.1


def engine_on(backend: MachineBackend) -> tuple[Engine, Collector]:
    collector = Collector()
    clock = lambda: backend.now_s  # noqa: E731
    return build_engine(backend, collector, limits=StepLimits(MAX_STEP_S, PREFILL_STEP_S), clock=clock), collector


def steps_of_a_server(machine: Machine, count: int, seed: int) -> list[list[Part]]:
    """Streams that get deeper, beside which prompts of many sizes come and go."""
    source = random.Random(seed)
    depths = [source.choice([0, 10, 300, 1500, 3000]) for _ in range(8)]
    steps: list[list[Part]] = []
    while len(steps) < count:
        slots = sorted(source.sample(range(8), source.randint(1, 8)))
        prompts = set(source.sample(slots, source.randint(0, len(slots)))) if source.random() < 0.5 else set()
        for _ in range(source.randint(1, 8)):
            rows = source.choice([8, 16, 30, 64, 65, 72, 129]) if prompts else 1
            parts = [(slot, depths[slot], min(rows, 64) if slot in prompts else 1) for slot in slots]
            steps.append(parts)
            for slot, _, computed in parts:
                depths[slot] = (depths[slot] + computed) % 4000
    return steps[:count]


@settings(max_examples=60)
@given(machine=MACHINES, seed=st.integers(0, 1000))
def test_any_machine_is_known_after_some_dozens_of_its_steps(machine: Machine, seed: int) -> None:
    """Steps of all kinds, each with an error of 10 % (one standard deviation), and one in fifty much too long."""
    cost, noise = StepCost(), random.Random(seed)
    errors: list[float] = []
    for parts in steps_of_a_server(machine, 160, seed):
        seconds = machine.seconds(parts)
        errors.append(cost.seconds(parts) / seconds)
        held_up = noise.uniform(2, 10) if noise.random() < 0.02 else 1
        cost.observe(parts, seconds * noise.lognormvariate(0, 0.1) * held_up)
    later = sorted(errors[60:])
    assert 0.8 < statistics.median(later) < 1.35
    assert later[len(later) // 10] > 0.6, "nine of ten steps are not much longer than predicted"
    assert later[-len(later) // 10] < 2.5


@settings(max_examples=60)
@given(machine=MACHINES, factor=st.floats(0.1, 10), seed=st.integers(0, 1000))
def test_a_machine_that_changes_its_speed_is_known_again_within_a_few_steps(
    machine: Machine, factor: float, seed: int
) -> None:
    """As when threads are taken away, or other work ends. The same step again and again: no new kind of it."""
    cost = machine.known()
    parts = steps_of_a_server(machine, 1, seed)[0]
    for _ in range(8):
        cost.observe(parts, factor * machine.seconds(parts))
    assert cost.seconds(parts) / machine.seconds(parts) == pytest.approx(factor, rel=0.1)


@given(amounts=st.lists(st.floats(0, 1e6), min_size=1, max_size=4), seconds=st.floats(0, 1e5))
def test_rates_stay_positive_and_one_measurement_changes_a_prediction_by_a_bounded_factor(
    amounts: list[float], seconds: float
) -> None:
    assume(max(amounts) > 1e-3)
    model = CostModel([0.01] * len(amounts))
    model.observe(amounts, 1.0)
    model.observe(amounts, seconds)
    assert all(rate > 0 for rate in model.rates)
    assert model.seconds(amounts) < MAX_SLOWDOWN**1.5


def test_what_took_no_part_in_a_step_keeps_its_rate() -> None:
    cost = XEON.known()
    tile: list[Part] = [(0, 1358, 64)]
    before = cost.seconds(tile)
    for depth in range(200):
        cost.observe([(0, depth, 1)], XEON.seconds([(0, depth, 1)]))
    assert cost.seconds(tile) == pytest.approx(before, rel=0.01)


def test_a_tile_that_was_too_slow_once_is_tried_again() -> None:
    cost = XEON.known()
    tile: list[Part] = [(0, 3000, 64)]
    for _ in range(3):
        cost.observe(tile, 8.0)
    for _ in range(100):
        cost.observe([(0, 3000, 20)], XEON.seconds([(0, 3000, 20)]))
    assert cost.seconds(tile) < 2 * XEON.seconds(tile)


def running_on(machine: Machine, depths: list[int], pending: list[int]) -> list[Sequence]:
    """A stream behind each of `depths`, and prompts of which so many tokens are left behind as many others."""
    running = []
    for slot, (depth, left) in enumerate([*((depth, 1) for depth in depths), *((2 * left, left) for left in pending)]):
        sequence = Sequence(Request(slot, [1] * (depth + left), sampling=GREEDY))
        sequence.progress.held = SlotRecord(slot, 0)
        sequence.progress.held.length = depth
        running.append(sequence)
    return running


@settings(max_examples=200)
@given(
    machine=MACHINES,
    depths=st.lists(st.integers(0, 4000), max_size=5),
    pending=st.lists(st.integers(2, 2000), min_size=1, max_size=8),
    takes_turns=st.booleans(),
)
def test_no_step_is_planned_longer_than_it_may_be_and_none_wastes_its_time(
    machine: Machine, depths: list[int], pending: list[int], *, takes_turns: bool
) -> None:
    """Where streams take turns with prompts, both steps together count."""
    running = running_on(machine, depths, pending)
    pace = Pace(machine.known(), StepLimits(MAX_STEP_S, PREFILL_STEP_S))
    budget = pace.budget(len(depths), len(pending))
    shares = Shares(batch_capacity=512, takes_turns=takes_turns)
    share = shares.of(running, budget)
    assert sum(share.values()) <= 512
    streams = [(slot, depth, 1) for slot, depth in enumerate(depths)]
    streams_s = machine.seconds(streams)
    if takes_turns and depths and max(share.values()) > 1:
        assert not any(share[one.id] for one in running[: len(depths)])
        assert set(shares.of(running, budget).values()) == {1}, "then every stream gets its token"
    else:
        assert all(share[one.id] == 1 for one in running[: len(depths)]), "every stream gets its token"
    parts = [(one.slot or 0, one.progress.num_computed, share[one.id]) for one in running if share[one.id]]
    seconds = machine.seconds(parts)
    if depths and not share[0]:
        seconds += streams_s
    slow_s = OVERHEAD * (streams_s + machine.a_pass)
    most_rows = max(share.values())
    chosen = [one for one in running[len(depths) :] if share[one.id]]
    ends = all(share[one.id] == one.progress.num_pending for one in chosen)
    allowed_s = max(budget.step_s, slow_s) * (MAX_FINISHING_STRETCH if ends and depths else 1)
    if most_rows >= TILE and not depths:
        assert seconds <= max(allowed_s, machine.seconds([parts[0]])) * 1.001
    else:
        longest_s = budget.longest_s if TILE <= most_rows <= TILE + 1 else 0
        assert seconds <= max(allowed_s, longest_s) * 1.001
    prompts = sum(share[one.id] for one in chosen)
    is_one_done = any(share[one.id] == one.progress.num_pending for one in chosen)
    if not is_one_done and 1 < most_rows < TILE and prompts + len(depths) < 512 / 2:
        assert seconds - streams_s > 0.2 * (max(budget.step_s, slow_s) - streams_s), "prompts wait for nothing"


@pytest.mark.parametrize("name", KNOWN_MACHINES)
def test_steps_beside_streams_are_short_on_a_machine_that_nobody_knew(name: str) -> None:
    """A prompt of 3,000 tokens arrives beside four streams. The first steps find out how fast the machine is."""
    machine = KNOWN_MACHINES[name]
    backend = MachineBackend(machine, noise=0.05)
    engine, collector = engine_on(backend)
    for id in range(4):
        engine.submit(Sequence(Request(id, [id + 1] * 40, sampling=GREEDY, max_tokens=4000)))
    while engine.scheduler.num_streams < 4 or len(backend.steps_s) < 20:
        engine.step()
    began_s, first = backend.now_s, len(backend.steps_s)
    engine.submit(Sequence(Request(9, [7] * 3000, sampling=GREEDY, max_tokens=1)))
    while 9 not in collector.finish:
        engine.step()
    steps_s = backend.steps_s[first:]
    tile_s = machine.seconds([*((slot, 300, 1) for slot in range(4)), (4, 2936, 65)])
    streams_s = machine.seconds([(slot, 300, 1) for slot in range(4)])
    allowed_s = max(PREFILL_STEP_S, OVERHEAD * (streams_s + machine.a_pass))
    assert statistics.median(steps_s) < 1.3 * max(allowed_s, min(tile_s, LONGEST_TILE * MAX_STEP_S))
    assert max(steps_s) < 1.5 * max(allowed_s, tile_s)
    alone_s = sum(machine.seconds([(0, start, TILE)]) for start in range(0, 3000, TILE))
    assert backend.now_s - began_s < 3.5 * alone_s, (
        "the prompt gets a third of the time, in tiles where these are cheap"
    )


@pytest.mark.parametrize("name", KNOWN_MACHINES)
def test_a_prompt_that_is_alone_is_computed_nearly_as_fast_as_in_tiles_without_any_bound(name: str) -> None:
    machine = KNOWN_MACHINES[name]
    backend = MachineBackend(machine, noise=0.05)
    engine, _ = engine_on(backend)
    engine.submit(Sequence(Request(1, [7] * 47 * TILE, sampling=GREEDY, max_tokens=1)))
    drain(engine)
    assert backend.now_s < 1.4 * sum(machine.seconds([(0, start, TILE)]) for start in range(0, 3000, TILE))
    tile_s = machine.seconds([(0, 2944, TILE)])
    assert max(backend.steps_s) < 1.4 * max(MAX_STEP_S, OVERHEAD * machine.a_pass, tile_s)


def test_where_more_wait_than_stream_prompts_get_more_of_a_step_within_its_bound() -> None:
    pace = Pace(StepCost(), StepLimits(0.3, 0.1))
    assert [pace.budget(1, hungry).step_s for hungry in (0, 1, 2, 7)] == [0.1, 0.1, 0.2, 0.3]
    assert pace.budget(4, 4).step_s == 0.1
    assert pace.budget(0, 4).step_s == 0.3


def test_a_tile_too_slow_to_ride_along_comes_once_the_steps_before_left_the_time_for_it() -> None:
    machine = Machine(0.02, 0.006, 60e-6, 10e-6)
    running, shares = running_on(machine, [100] * 4, [900]), Shares(batch_capacity=512)
    pace = Pace(machine.known(), StepLimits(MAX_STEP_S, PREFILL_STEP_S))
    budget = pace.budget(4, 1)
    given = [shares.of(running, budget)[4] for _ in range(60)]
    tile_s = machine.seconds([*((slot, 100, 1) for slot in range(4)), (4, 1800, 65)])
    assert tile_s > budget.longest_s
    assert set(given) == {0, TILE + 1}, "anything less would cost much more a token"
    between = [
        later - earlier for earlier, later in zip(*(iter([i for i, n in enumerate(given) if n]),) * 2, strict=False)
    ]
    assert all(1 < gap <= tile_s / PREFILL_STEP_S * 2 for gap in between)


def test_long_prompts_beside_slow_streams_come_to_their_end_and_so_do_short_ones_among_them() -> None:
    backend = MachineBackend(SLOW, num_slots=4)
    engine, collector = engine_on(backend)
    engine.submit(Sequence(Request(0, [1], sampling=GREEDY, max_tokens=4000)))
    for _ in range(8):
        engine.step()
    engine.submit(Sequence(Request(1, [7] * 700, sampling=GREEDY, max_tokens=1)))
    engine.submit(Sequence(Request(2, [8] * 700, sampling=GREEDY, max_tokens=1)))
    for number in range(600):
        if number % 10 == 0:
            engine.submit(Sequence(Request(3 + number, [9 + number] * 30, sampling=GREEDY, max_tokens=1)))
        engine.step()
        if {1, 2} <= collector.finish.keys():
            break
    assert {1, 2} <= collector.finish.keys(), "they starved beside the short ones that kept coming"
    assert len(collector.finish) > 5, "and they beside them"


def test_the_time_of_a_copy_is_not_taken_for_that_of_tokens() -> None:
    backend = MachineBackend(AMX, copy_s=5.0)
    engine, _ = engine_on(backend)
    for id in range(2):
        engine.submit(Sequence(Request(id, [7] * 2000 + [id] * 300, sampling=GREEDY, max_tokens=1)))
    drain(engine)
    assert backend.copies
    assert engine._cycle._planner._pace.cost.seconds([(0, 2000, 64)]) < 3 * AMX.seconds([(0, 2000, 64)])


def test_prompts_that_come_together_beside_a_stream_begin_to_answer_one_after_the_other() -> None:
    backend = MachineBackend(XEON)
    engine, collector = engine_on(backend)
    engine.submit(Sequence(Request(0, [1], sampling=GREEDY, max_tokens=4000)))
    for _ in range(8):
        engine.step()
    began_s = backend.now_s
    answered_s: dict[int, float] = {}
    for id in range(1, 8):
        engine.submit(Sequence(Request(id, [id] * 72, sampling=GREEDY, max_tokens=1)))
    while len(answered_s) < 7:
        engine.step()
        answered_s |= {id: backend.now_s - began_s for id in collector.finish if id and id not in answered_s}
    assert min(answered_s.values()) < 0.5 * max(answered_s.values())
    assert sum(answered_s.values()) / 7 < 0.75 * max(answered_s.values())
    whole_s = XEON.seconds([(slot, 0, 72) for slot in range(7)])
    assert max(answered_s.values()) < 2 * whole_s, "and the last is not much later than if all were computed at once"


@pytest.mark.parametrize("takes_turns", [True, False])
def test_the_last_few_rows_of_a_prompt_do_not_take_a_step_of_their_own(takes_turns: bool) -> None:
    def rows_of(pending: int) -> int:
        running = running_on(XEON, [100] * 4, [pending])
        budget = Pace(XEON.known(), StepLimits(MAX_STEP_S, PREFILL_STEP_S)).budget(4, 1)
        return Shares(batch_capacity=512, takes_turns=takes_turns).of(running, budget)[4]

    most = rows_of(60)
    assert 10 < most < 50
    assert rows_of(most + 5) == most + 5
    assert rows_of(most + 2 * MIN_PART_TOKENS) < most + MIN_PART_TOKENS // 2, "more of them do"


def test_prompts_that_are_alone_are_computed_side_by_side_in_parts_that_are_worth_a_pass() -> None:
    running = running_on(XEON, [], [20] * 8)
    share = Shares(batch_capacity=512).of(running, StepBudget(0.25, 0.6, XEON.known()))
    computed = [rows for rows in share.values() if rows]
    assert 2 <= len(computed) < 8
    assert min(computed) >= 10, "not 5 of each"
