"""Steps end in time on any machine: the first one is short, the others as long as what was learned allows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from localllm.engine.backend import Segment
from localllm.engine.engine import Engine
from localllm.engine.pace import Pace
from localllm.engine.sequence import Sequence as Request
from localllm.types import ResolvedSampling
from tests.fakes import FakeBackend
from tests.unit.test_engine import Collector, drain

GREEDY = ResolvedSampling(temperature=0)


@pytest.mark.parametrize("token_s", [0.2, 0.01, 0.005, 0.001, 0.0001])
def test_no_step_is_planned_longer_than_the_limit(token_s: float) -> None:
    pace = Pace(max_step_s=0.3, batch_capacity=512)
    assert pace.budget() == 64, "little, while nothing is known"
    pace.observe(pace.budget(), 64 * token_s)
    for _ in range(10):
        assert pace.budget() == 1 or pace.budget() * token_s <= 0.3
        pace.observe(pace.budget(), pace.budget() * token_s)
    if token_s <= 0.3 / 512:
        assert pace.budget() == 512


def test_one_slow_step_is_forgotten_within_a_few() -> None:
    pace = Pace(max_step_s=0.3, batch_capacity=512)
    pace.observe(64, 8.0)
    assert pace.budget() == 2
    for _ in range(8):
        pace.observe(pace.budget(), 0.005 + pace.budget() * 0.001)
    assert pace.budget() >= 192


class SlowBackend(FakeBackend):
    """Takes 2 ms a token, by a clock of its own."""

    now_s = 0.0

    def decode(self, segments: Sequence[Segment]) -> None:
        super().decode(segments)
        self.now_s += 0.002 * sum(len(segment.tokens) for segment in segments)


def test_prompts_take_less_of_a_step_while_answers_stream_but_never_nothing() -> None:
    pace = Pace(max_step_s=0.3, prefill_step_s=0.1, batch_capacity=512)
    pace.observe(64, 0.064)
    assert (pace.budget(), pace.budget(num_streams=4)) == (256, 64)
    pace.observe(64, 0.64)
    assert (pace.budget(), pace.budget(num_streams=4)) == (30, 30), "32 beside 4 streams would take longer than any may"
    pace.observe(30, 0.15)
    pace.observe(30, 0.15)
    assert pace.budget(num_streams=4) == 36 < pace.budget()


def test_the_engine_keeps_to_what_its_clock_says() -> None:
    backend = SlowBackend(num_slots=1, slot_capacity=2048, batch_capacity=512)
    engine = Engine(backend, Collector(), max_step_s=0.3, clock=lambda: backend.now_s)
    engine.submit(Request(1, [7] * 1000, sampling=GREEDY, max_tokens=1))
    drain(engine)
    sizes = [len(batch[0].tokens) for batch in backend.batches]
    assert sizes[0] == 64
    assert set(sizes[1:-1]) == {128}, "128 tokens take 256 ms, 192 would take 384"
