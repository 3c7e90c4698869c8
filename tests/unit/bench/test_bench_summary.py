"""The figures of `localllm bench`: from what was seen to percentiles, rates, remarks and a table."""

from __future__ import annotations

import json
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.bench.answer import Answer, Failure
from localllm.bench.levels import LEVEL_LIMIT_S, LEVEL_S, Plan, parse_levels
from localllm.bench.load import LevelRun
from localllm.bench.report import Environment, Report, aligned, table, to_json
from localllm.bench.summary import percentile, remarks, spread, summarize
from localllm.bench.target import Target
from localllm.errors import InvalidParameter

MS = 1_000_000
PLAN = Plan(levels=(1, 2), max_tokens=3)


def answer(start_ms: int, *arrivals_ms: int, end_ms: int, tokens: int | None = 3, prompt: int | None = 10) -> Answer:
    arrivals = array("q", [ms * MS for ms in arrivals_ms])
    return Answer(
        start_ms * MS, arrivals, arrivals[-1], end_ms * MS, len(arrivals), prompt, tokens, None if prompt is None else 2
    )


def run_of(*answers: Answer, wall_ms: int = 1000, failures: tuple[Failure, ...] = (), concurrency: int = 1) -> LevelRun:
    run = LevelRun(concurrency)
    run.answers += answers
    run.failures += failures
    run.started_ns, run.ended_ns, run.cpu_s, run.is_whole = 5 * MS, (5 + wall_ms) * MS, 0.1, True
    return run


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.floats(0, 100))
def test_percentiles_are_those_of_numpy(values: list[float], percent: float) -> None:
    expected = float(np.percentile(values, percent))
    assert percentile(sorted(values), percent) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_a_spread_names_its_percentiles_right() -> None:
    found = spread(float(value) for value in range(100, 0, -1))
    assert found is not None
    assert (found.count, found.mean, found.max) == (100, 50.5, 100)
    assert (found.p50, found.p90, found.p99) == pytest.approx((50.5, 90.1, 99.01))
    assert spread([]) is None


def test_times_are_counted_from_the_request_and_per_token() -> None:
    level = summarize(run_of(answer(100, 150, 170, 210, end_ms=220)))
    assert level.ttft_s is not None
    assert level.tpot_s is not None
    assert level.gap_s is not None
    assert level.latency_s is not None
    assert level.ttft_s.p50 == pytest.approx(0.050)
    assert level.tpot_s.p50 == pytest.approx(0.030)  # 60 ms for the two tokens after the first
    assert level.gap_s.count == 2
    assert level.gap_s.max == pytest.approx(0.040)
    assert level.latency_s.p50 == pytest.approx(0.120)
    assert level.tokens_per_s_per_request is not None
    assert level.tokens_per_s_per_request.p50 == pytest.approx(3 / 0.120)


def test_rates_are_of_the_whole_level() -> None:
    level = summarize(run_of(answer(0, 50, 60, end_ms=70), answer(0, 500, 990, end_ms=1000, tokens=5), wall_ms=2000))
    assert level.output_tokens_per_s == pytest.approx(4)
    assert level.prompt_tokens_per_s == pytest.approx(10)
    assert level.requests_per_s == pytest.approx(1)
    assert (level.output_tokens_per_answer, level.cached_tokens_per_answer) == (4, 2)
    assert level.generator_cpu == pytest.approx(0.05)


def test_an_answer_of_one_token_has_no_time_per_token() -> None:
    level = summarize(run_of(answer(0, 50, end_ms=60, tokens=1)))
    assert (level.tpot_s, level.gap_s) == (None, None)
    assert level.ttft_s is not None


def test_failures_are_shown_by_kind_and_are_in_no_figure() -> None:
    failures = (Failure("timeout", "a"), Failure("http_500", "first"), Failure("http_500", "second"))
    level = summarize(run_of(answer(0, 50, 60, end_ms=70), failures=failures))
    assert (level.num_answers, level.num_failures) == (1, 3)
    assert [(each.kind, each.count, each.message) for each in level.failures] == [
        ("http_500", 2, "first"),
        ("timeout", 1, "a"),
    ]
    assert level.latency_s is not None
    assert level.latency_s.count == 1
    notes = " ".join(remarks([level], PLAN, ()))
    assert "2 failed with http_500: first" in notes
    assert "1 failed with timeout: a" in notes


def test_tokens_without_usage_are_counted_by_pieces_and_that_is_said() -> None:
    level = summarize(run_of(answer(0, 50, 60, 70, end_ms=80, tokens=None, prompt=None)))
    assert level.output_tokens == 3
    assert not level.output_tokens_counted
    assert (level.prompt_tokens_per_s, level.prompt_tokens_per_answer) == (None, None)
    assert any("reports no usage" in note for note in remarks([level], PLAN, ()))


def test_what_makes_figures_doubtful_is_said() -> None:
    run = run_of(answer(0, 50, 60, end_ms=70, tokens=2))
    run.cpu_s, run.is_whole = 0.9, False
    notes = " ".join(remarks([summarize(run)], PLAN, ["ignore_eos"]))
    for doubt in ("0.90 of a core", "interrupted", "field ignore_eos", "ended before 3 tokens", "p99 of 1 requests"):
        assert doubt in notes
    many = run_of(*[answer(0, 50, 60, 70, end_ms=80)] * 100)
    assert remarks([summarize(many)], PLAN, ()) == []


def test_a_level_without_answers_has_figures_too() -> None:
    level = summarize(run_of(failures=(Failure("connect", "refused"),)))
    rows = table([level])
    assert ("TTFT ms p50", "-") in rows
    assert ("requests failed", "1") in rows
    assert any("nothing beyond concurrency 1" in note for note in remarks([level], PLAN, ()))


def test_the_table_has_a_column_for_each_level_and_lines_up() -> None:
    levels = [summarize(run_of(answer(0, 50, 60, end_ms=70), concurrency=each)) for each in (1, 16)]
    rows = table(levels)
    assert rows[0] == ("concurrency", "1", "16")
    assert ("TTFT ms p90", "50.0", "50.0") in rows
    lines = aligned(rows)
    assert len({len(line) for line in lines}) == 1
    assert all(len(line) <= 80 for line in lines)


def test_six_levels_fit_a_terminal_of_80_columns() -> None:
    slow = [answer(0, 50_000, 99_999_000, end_ms=123_456_789, tokens=9, prompt=99_999)] * 3
    lines = aligned(table([summarize(run_of(*slow, concurrency=each)) for each in (1, 2, 4, 8, 16, 32)]))
    assert max(map(len, lines)) <= 100
    quick = [answer(0, 50, 60, end_ms=70)] * 3
    lines = aligned(table([summarize(run_of(*quick, concurrency=each)) for each in (1, 2, 4, 8, 16, 32)]))
    assert max(map(len, lines)) <= 80


def test_the_json_names_units_method_and_machine() -> None:
    environment = Environment(
        localllm="1", python="3", httpx="0", platform="Linux x", cpu="a CPU", num_physical_cores=2
    )
    found = Report(
        date="2026-01-01T00:00:00+00:00",
        environment=environment,
        target=Target(base_url="http://127.0.0.1:1/v1", model="m", api="chat"),
        started_here=False,
        plan=PLAN,
        tokens_per_word=None,
        levels=(summarize(run_of(answer(100, 150, 170, 210, end_ms=220))),),
        remarks=("x",),
        interrupted=False,
    )
    read = json.loads(to_json(found))
    assert read["levels"][0]["ttft_s"]["p50"] == pytest.approx(0.05)
    assert read["environment"]["cpu"] == "a CPU"
    assert "linear interpolation" in read["method"]["percentiles"]
    assert read["plan"]["max_tokens"] == 3


def test_a_level_ends_when_it_has_enough() -> None:
    plan = Plan()
    assert plan.may_start(4, 100, LEVEL_S - 0.1, 0)  # quick ones go on for a while
    assert not plan.may_start(4, 8, LEVEL_S + 0.1, 0)
    assert plan.may_start(4, 7, LEVEL_S + 0.1, 0)  # slow ones until each connection had two
    assert not plan.may_start(4, 7, LEVEL_LIMIT_S + 0.1, 0)  # or it takes too long
    assert not plan.may_start(4, 0, 0.1, 12)  # nobody is there


def test_a_number_of_requests_is_kept_and_time_ends_it_earlier() -> None:
    plan = Plan(levels=(2,), num_requests=10)
    assert plan.may_start(2, 9, 1e6, 0)
    assert not plan.may_start(2, 10, 0.0, 0)
    timed = Plan(levels=(2,), num_requests=10, duration_s=3)
    assert not timed.may_start(2, 5, 3.1, 0)
    assert Plan(levels=(2,), duration_s=3).may_start(2, 10**6, 2.9, 0)


def test_levels_are_read_in_any_order() -> None:
    assert parse_levels("8, 1,2,2") == (1, 2, 8)
    for wrong in ("", "1;2", "one", "1,"):
        with pytest.raises(InvalidParameter, match="--concurrency"):
            parse_levels(wrong)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"levels": (0,)}, "concurrency"),
        ({"levels": (4096,)}, "concurrency"),
        ({"levels": (4,), "num_requests": 3}, "--requests"),
        ({"max_tokens": 0}, "max-tokens"),
        ({"timeout_s": 0}, "timeout-s"),
        ({"num_warmup": -1}, "warmup"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_by_name(fields: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        Plan(**fields)  # type: ignore[arg-type]
