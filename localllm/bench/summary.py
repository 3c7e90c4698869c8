"""Turns results into figures: percentiles, rates, counts, and remarks on how far to trust them. Pure.

`METHOD` defines each figure; it is part of the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from localllm.bench.answer import Failure
from localllm.bench.levels import Plan
from localllm.bench.load import LevelRun

METHOD = {
    "load": "closed loop: each connection sends its next request when the last one is answered; warm-up is not counted",
    "percentiles": "linear interpolation between the two nearest ranks, as numpy.percentile does by default",
    "ttft_s": "from sending the request to the first text, reasoning included",
    "tpot_s": "from the first text to the last token (text or finish reason), divided by output tokens - 1",
    "gap_s": "between two arrivals of text in one answer; what came in one read is one arrival",
    "latency_s": "from sending the request to the end of its stream",
    "tokens_per_s_per_request": "output tokens of a request divided by its latency",
    "output_tokens_per_s": "output tokens of whole answers, divided by wall_s: first request sent to last one ended",
    "prompt_tokens_per_s": "prompt tokens of whole answers, cached ones included, divided by wall_s",
    "failures": "excluded from percentiles and rates",
    "generator_cpu": "CPU time of the measuring process divided by wall_s; 1.0 is one core",
}
BUSY_CPU = 0.5
"""Share of a core above which the load generator distorts the figures."""
ENOUGH_FOR_P99 = 100


class Spread(msgspec.Struct, frozen=True):
    """How a quantity is distributed; `count` samples."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


class FailureCount(msgspec.Struct, frozen=True):
    """Failures of one kind, with the message of the first."""

    kind: str
    count: int
    message: str


class LevelSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one concurrency; None for those that no answer provides."""

    concurrency: int
    is_whole: bool
    """False: interrupted; unfinished answers are missing, so that the rates are too low."""
    num_answers: int
    num_failures: int
    failures: tuple[FailureCount, ...]
    wall_s: float
    output_tokens: int
    output_tokens_counted: bool
    """False: at least one answer came without usage, and its pieces of text were counted instead."""
    output_tokens_per_s: float
    output_tokens_per_answer: float | None
    prompt_tokens_per_s: float | None
    prompt_tokens_per_answer: float | None
    cached_tokens_per_answer: float | None
    requests_per_s: float
    ttft_s: Spread | None
    tpot_s: Spread | None
    gap_s: Spread | None
    latency_s: Spread | None
    tokens_per_s_per_request: Spread | None
    generator_cpu: float


def percentile(ordered: Sequence[float], percent: float) -> float:
    """A percentile of one or more ascending values, interpolated linearly between the two nearest ranks."""
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def spread(values: Iterable[float]) -> Spread | None:
    """The distribution of the values; None if there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    p50, p90, p99 = (percentile(ordered, percent) for percent in (50, 90, 99))
    return Spread(len(ordered), math.fsum(ordered) / len(ordered), p50, p90, p99, ordered[-1])


def summarize(run: LevelRun) -> LevelSummary:
    """A level's figures, whether it ran to its end or not."""
    answers, wall_s = run.answers, max(run.wall_s, 1e-9)
    output_tokens = sum(answer.num_tokens for answer in answers)
    prompts = _known(answer.prompt_tokens for answer in answers)
    return LevelSummary(
        concurrency=run.concurrency,
        is_whole=run.is_whole,
        num_answers=len(answers),
        num_failures=len(run.failures),
        failures=count_failures(run.failures),
        wall_s=run.wall_s,
        output_tokens=output_tokens,
        output_tokens_counted=all(answer.completion_tokens is not None for answer in answers),
        output_tokens_per_s=output_tokens / wall_s,
        output_tokens_per_answer=_mean([answer.num_tokens for answer in answers]),
        # A sum over only some of the answers would not be a rate.
        prompt_tokens_per_s=sum(prompts) / wall_s if prompts and len(prompts) == len(answers) else None,
        prompt_tokens_per_answer=_mean(prompts),
        cached_tokens_per_answer=_mean(_known(answer.cached_tokens for answer in answers)),
        requests_per_s=len(answers) / wall_s,
        ttft_s=spread(answer.ttft_s for answer in answers),
        tpot_s=spread(_known(answer.tpot_s for answer in answers)),
        gap_s=spread(gap for answer in answers for gap in answer.gaps_s),
        latency_s=spread(answer.latency_s for answer in answers),
        tokens_per_s_per_request=spread(answer.tokens_per_s for answer in answers),
        generator_cpu=run.cpu_s / wall_s,
    )


def count_failures(failures: Sequence[Failure]) -> tuple[FailureCount, ...]:
    """Failures counted by kind, the most frequent first."""
    first: dict[str, str] = {}
    counts: dict[str, int] = {}
    for failure in failures:
        first.setdefault(failure.kind, failure.message)
        counts[failure.kind] = counts.get(failure.kind, 0) + 1
    return tuple(
        FailureCount(kind, count, first[kind]) for kind, count in sorted(counts.items(), key=lambda item: -item[1])
    )


def remarks(levels: Sequence[LevelSummary], plan: Plan, forgone: Sequence[str]) -> list[str]:
    """What to know before comparing these figures with others."""
    answered = [level for level in levels if level.num_answers]
    notes = [
        f"concurrency {level.concurrency}: {failure.count} failed with {failure.kind}: {failure.message}"
        for level in levels
        for failure in level.failures
    ]
    notes += [
        f"concurrency {level.concurrency} was interrupted; its rates leave out unfinished answers"
        for level in levels
        if not level.is_whole
    ]
    if levels and not levels[-1].num_answers and levels[-1].is_whole and len(levels) < len(plan.levels):
        notes.append(f"nothing beyond concurrency {levels[-1].concurrency} was tried, since nothing was answered there")
    if any(not level.output_tokens_counted for level in answered):
        notes.append("the server reports no usage, so pieces of text were counted as output tokens: there may be more")
    notes += [f"the server refuses the field {name}, so it was left out" for name in forgone]
    if any((level.output_tokens_per_answer or 0) < 0.98 * plan.max_tokens for level in answered):
        notes.append(f"some answers ended before {plan.max_tokens} tokens: servers with longer answers do more work")
    few = min((level.num_answers for level in answered), default=ENOUGH_FOR_P99)
    if few < ENOUGH_FOR_P99:
        notes.append(f"p99 of {few} requests is close to their maximum; --requests or --duration-s gives more")
    for level in answered:
        if level.generator_cpu > BUSY_CPU:
            share = f"{level.generator_cpu:.2f} of a core"
            notes.append(f"concurrency {level.concurrency}: measuring took {share}, which distorts the figures")
    return notes


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
