"""Steps end in time on any machine: the first one is short, the others as long as what was learned allows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from localllm.engine.backend import Segment
from localllm.engine.engine import Engine
from localllm.engine.scheduling.pace import TILE, Pace
from localllm.engine.sequence import Sequence as Request
from localllm.types import ResolvedSampling
from tests.fakes import FakeBackend
from tests.unit.test_engine import Collector, drain

GREEDY = ResolvedSampling(temperature=0)


@pytest.mark.parametrize("token_s", [0.01, 0.004, 0.001, 0.0001])
def test_no_step_is_planned_longer_than_the_limit(token_s: float) -> None:
    pace = Pace(max_step_s=0.3, batch_capacity=512)
    assert pace.budget()[:2] == (64, 64), "little, while nothing is known"
    pace.observe(0, 64, 64 * token_s, tiled=True)
    for _ in range(10):
        tokens = pace.budget().tiled
        assert tokens * token_s <= 0.3 or tokens == TILE
        pace.observe(0, tokens, tokens * token_s, tiled=True)
    if token_s <= 0.3 / 512:
        assert pace.budget().tiled == 512


def test_a_machine_too_slow_for_a_tile_gets_one_all_the_same_because_less_takes_as_long() -> None:
    pace = Pace(max_step_s=0.3, batch_capacity=512)
    pace.observe(0, 64, 0.55, tiled=True)
    pace.observe(0, 24, 0.5, tiled=False)
    assert pace.budget()[:3] == (64, 14, True)


def test_where_smaller_tiles_do_steps_of_a_slow_machine_are_as_short() -> None:
    pace = Pace(max_step_s=0.3, batch_capacity=512, tile=32, grain=16)
    pace.observe(0, 64, 1.2, tiled=True)
    assert pace.budget().tiled == 32
    backend = FakeBackend(num_slots=2, slot_capacity=512, batch_capacity=512)
    backend.tile, backend.grain = 32, 16
    engine = Engine(backend, Collector(), max_step_s=0.3, clock=lambda: 0.0)
    engine._pace.observe(0, 64, 0.11, tiled=True)
    for id in range(2):
        engine.submit(Request(id, [id] * 200, sampling=GREEDY, max_tokens=1))
    engine.step()
    assert [len(segment.tokens) for segment in backend.batches[0]] == [80, 80], "174 in all, in multiples of 16"


def test_prompts_that_fill_no_tile_are_reckoned_at_their_own_rate() -> None:
    pace = Pace(max_step_s=0.3, batch_capacity=512)
    pace.observe(0, 64, 0.1, tiled=True)
    pace.observe(0, 40, 0.2, tiled=False)
    assert pace.budget()[:3] == (192, 60, True)
    backend = FakeBackend(num_slots=4, slot_capacity=512, batch_capacity=512)
    engine = Engine(backend, Collector(), max_step_s=0.3, clock=lambda: 0.0)
    engine._pace = pace
    for id in range(4):
        engine.submit(Request(id, [id] * 30, sampling=GREEDY, max_tokens=1))
    engine.step()
    assert sum(len(segment.tokens) for segment in backend.batches[0]) == 60


def test_one_slow_step_is_forgotten_within_a_few() -> None:
    pace = Pace(max_step_s=0.3, batch_capacity=512)
    pace.observe(0, 64, 0.05, tiled=True)
    pace.observe(0, 64, 8.0, tiled=True)
    assert pace.budget().tiled == 96, "as if everything took four times as long"
    for _ in range(8):
        tokens = pace.budget().tiled
        pace.observe(0, tokens, 0.005 + tokens * 0.001, tiled=True)
    assert pace.budget().tiled >= 192


def test_tiles_beside_streams_are_tried_again_after_a_slow_one() -> None:
    pace = Pace(max_step_s=0.3, prefill_step_s=0.1, batch_capacity=512)
    pace.observe(4, 0, 0.02, tiled=False)
    pace.observe(4, 64, 0.52, tiled=True)
    assert pace.budget(4).tiled < TILE
    assert not pace.budget(4).prefers_tiles
    for _ in range(300):
        pace.observe(4, 32, 0.02 + 32 * 0.001, tiled=False)
    assert pace.budget(4).tiled == TILE


class SlowBackend(FakeBackend):
    """So long for every token, by a clock of its own; a copy takes its time with the next decode, as llama.cpp's."""

    now_s = 0.0
    num_copies = 0

    def __init__(
        self,
        *,
        copy_s: float = 0.0,
        row_s: float = 0.002,
        tile_row_s: float | None = None,
        num_slots: int,
        slot_capacity: int,
        batch_capacity: int,
    ) -> None:
        super().__init__(num_slots=num_slots, slot_capacity=slot_capacity, batch_capacity=batch_capacity)
        self._copy_s = copy_s
        self._row_s = row_s
        self._tile_row_s = row_s if tile_row_s is None else tile_row_s
        self._copying_s = 0.0

    def copy(self, source: int, slot: int, length: int) -> None:
        super().copy(source, slot, length)
        self.num_copies += 1
        self._copying_s += self._copy_s

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        is_whole = super().decode(segments, within_s=within_s)
        for segment in segments:
            rows = len(segment.tokens)
            self.now_s += rows * (self._row_s if rows < TILE else self._tile_row_s)
        self.now_s += self._copying_s
        self._copying_s = 0.0
        return is_whole


def beside_a_stream(backend: SlowBackend) -> tuple[Engine, Collector]:
    """Request 0 streams, and its pace is known."""
    collector = Collector()
    engine = Engine(backend, collector, max_step_s=0.3, prefill_step_s=0.1, clock=lambda: backend.now_s)
    engine.submit(Request(0, [1], sampling=GREEDY, max_tokens=4000))
    for _ in range(8):
        engine.step()
    return engine, collector


def test_prompts_take_less_of_a_step_while_answers_stream_but_never_nothing() -> None:
    pace = Pace(max_step_s=0.3, prefill_step_s=0.1, batch_capacity=512)
    pace.observe(4, 0, 0.02, tiled=False)
    pace.observe(0, 64, 0.064, tiled=True)
    assert (pace.budget().tiled, pace.budget(num_streams=4).tiled) == (300, 80), "of 100 ms, 20 are the streams'"
    pace.observe(0, 32, 0.16, tiled=False)
    assert pace.budget(num_streams=4).small == 32, "16 fit into the 80 ms, 32 into what any step may take"


def test_where_more_wait_than_stream_prompts_get_more_of_a_step_within_its_bound() -> None:
    pace = Pace(max_step_s=0.3, prefill_step_s=0.1, batch_capacity=512)
    pace.observe(1, 0, 0.02, tiled=False)
    pace.observe(0, 64, 0.064, tiled=True)
    budgets = [pace.budget(num_streams=1, num_hungry=hungry).tiled for hungry in (1, 2, 7)]
    assert budgets == [80, 180, 280], "of 100 ms, 200, 300"
    assert pace.budget(num_streams=4, num_hungry=4).tiled == 80


def test_prompts_beside_streams_on_a_slow_machine_get_as_much_time_as_those() -> None:
    pace = Pace(max_step_s=0.3, prefill_step_s=0.1, batch_capacity=512)
    pace.observe(8, 0, 0.24, tiled=False)
    pace.observe(8, 24, 0.24 + 24 * 0.02, tiled=False)
    assert pace.budget(num_streams=8).small == 12


def test_what_few_tokens_cost_behind_nothing_is_not_believed_where_tiles_are_dear_by_now() -> None:
    """Steps of 330 to 440 ms were seen where 200 were asked for, each with twice as many tokens as fit."""
    pace = Pace(max_step_s=0.3, prefill_step_s=0.2, batch_capacity=512, tile=32, grain=16)
    pace.observe(4, 0, 0.033, tiled=False)
    pace.observe(4, 12, 0.033 + 12 * 0.0015, tiled=False)
    for behind in (0.002, 0.004, 0.0057):
        pace.observe(4, 32, 0.033 + 32 * behind, tiled=True)
    tiled, small = pace.budget(num_streams=4)[:2]
    assert tiled == 29
    assert small == 32, "the least that rides along in any case, and not the 111 that 1.5 ms a token would allow"


def test_a_tile_too_slow_to_ride_along_comes_once_the_steps_before_left_the_time_for_it() -> None:
    pace = Pace(max_step_s=0.3, prefill_step_s=0.1, batch_capacity=512)
    pace.observe(4, 0, 0.1, tiled=False)
    pace.observe(4, 64, 0.6, tiled=True)
    assert pace.budget(num_streams=4).tiled < TILE, "as far as is known, less is as good"
    pace.observe(4, 20, 0.1 + 20 * 0.02, tiled=False)
    assert pace.budget(num_streams=4).tiled == TILE, "less would cost twice as much, and it takes 490 ms"
    pace.observe(4, 64, 0.1 + 64 * 0.011, tiled=True)
    for _ in range(7):
        assert pace.budget(num_streams=4).tiled < TILE
        pace.observe(4, 0, 0.1, tiled=False)
    assert pace.budget(num_streams=4).tiled == TILE, "704 ms, of which each step leaves 100"


def test_long_prompts_beside_slow_streams_come_to_their_end_and_so_do_short_ones_among_them() -> None:
    backend = SlowBackend(num_slots=4, slot_capacity=4096, batch_capacity=512, row_s=0.02, tile_row_s=0.008)
    engine, collector = beside_a_stream(backend)
    engine.submit(Request(1, [7] * 700, sampling=GREEDY, max_tokens=1))
    engine.submit(Request(2, [8] * 700, sampling=GREEDY, max_tokens=1))
    for number in range(600):
        if engine.scheduler.find(3 + number) is None and number % 10 == 0:
            engine.submit(Request(3 + number, [9 + number] * 30, sampling=GREEDY, max_tokens=1))
        engine.step()
        if {1, 2} <= collector.finish.keys():
            break
    assert {1, 2} <= collector.finish.keys(), "they starved beside the short ones that kept coming"
    sizes = [len(segment.tokens) for batch in backend.batches for segment in batch if segment.tokens[0] in (7, 8)]
    assert sum(size for size in sizes if size >= TILE) >= 2 * 10 * TILE, "all but the last part in whole tiles"


def test_the_time_of_a_copy_is_not_taken_for_that_of_tokens() -> None:
    backend = SlowBackend(num_slots=2, slot_capacity=4096, batch_capacity=512, copy_s=5.0)
    engine = Engine(backend, Collector(), max_step_s=0.3, clock=lambda: backend.now_s)
    for id in range(2):
        engine.submit(Request(id, [7] * 2000 + [id] * 300, sampling=GREEDY, max_tokens=1))
    drain(engine)
    assert backend.num_copies == 1
    assert [len(segment.tokens) for segment in backend.batches[-3]] == [64, 64], "as much as before the copy"


def test_the_engine_keeps_to_what_its_clock_says() -> None:
    backend = SlowBackend(num_slots=1, slot_capacity=2048, batch_capacity=512)
    engine = Engine(backend, Collector(), max_step_s=0.3, clock=lambda: backend.now_s)
    engine.submit(Request(1, [7] * 1000, sampling=GREEDY, max_tokens=1))
    drain(engine)
    sizes = [len(batch[0].tokens) for batch in backend.batches]
    assert sizes[0] == 64
    assert set(sizes[1:-1]) == {128}, "128 tokens take 256 ms, 192 would take 384"


def test_prompts_that_come_together_beside_a_stream_begin_to_answer_one_after_the_other() -> None:
    backend = SlowBackend(num_slots=8, slot_capacity=4096, batch_capacity=512)
    engine, collector = beside_a_stream(backend)
    began_s = backend.now_s
    answered_s: dict[int, float] = {}
    for id in range(1, 8):
        engine.submit(Request(id, [id] * 72, sampling=GREEDY, max_tokens=1))
    while len(answered_s) < 7:
        engine.step()
        answered_s |= {id: backend.now_s - began_s for id in collector.finish if id and id not in answered_s}
    assert min(answered_s.values()) < 0.5 * max(answered_s.values())
    assert sum(answered_s.values()) / 7 < 0.85 * max(answered_s.values())
    assert max(answered_s.values()) < 1.2 * 7 * 72 * 0.002, "and the last is not much later than if all took turns"


def test_a_long_prompt_comes_to_its_end_among_short_ones_without_tiles_too() -> None:
    backend = SlowBackend(num_slots=4, slot_capacity=4096, batch_capacity=512)
    engine, collector = beside_a_stream(backend)
    engine.submit(Request(1, [7] * 2000, sampling=GREEDY, max_tokens=1))
    for number in range(200):
        if number < 100:
            engine.submit(Request(2 + number, [9 + number % 50] * 60, sampling=GREEDY, max_tokens=1))
        engine.step()
        if 1 in collector.finish:
            break
    assert 1 in collector.finish, "it starved beside the short ones that kept coming"
    assert len(collector.finish) > 15, "and they beside it"


def test_prompts_that_are_alone_get_parts_that_are_worth_a_pass() -> None:
    backend = FakeBackend(num_slots=8, slot_capacity=512, batch_capacity=512)
    engine = Engine(backend, Collector(), max_step_s=0.3, clock=lambda: 0.0)
    engine._pace.observe(0, 64, 0.48, tiled=True)
    engine._pace.observe(0, 40, 0.3, tiled=False)
    for id in range(8):
        engine.submit(Request(id, [id + 1] * 20, sampling=GREEDY, max_tokens=1))
    engine.step()
    assert sorted(len(segment.tokens) for segment in backend.batches[0]) == [13, 13, 14], "not 5 of each"
