"""How a measurement is shown: as JSON, as the rows of a table, as the panels of a plot. Pure; knows no terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from localllm.bench.levels import Plan
from localllm.bench.summary import METHOD, LevelSummary, Spread
from localllm.bench.svg import Panel, Series, draw
from localllm.bench.target import Target

_BLUE, _ORANGE, _GREEN, _PURPLE = "#0072b2", "#d55e00", "#00795c", "#a2477f"
"""Distinguishable by colour-blind readers (Okabe and Ito), and dark enough on white."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The measuring machine; the server may run on another one."""

    localllm: str
    python: str
    httpx: str
    platform: str
    cpu: str
    num_physical_cores: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one measurement; `--json` prints it."""

    date: str
    """ISO 8601, UTC, when it began."""
    environment: Environment
    target: Target
    started_here: bool
    """Whether the server was started for this measurement, on the same machine."""
    plan: Plan
    tokens_per_word: float | None
    """Of the prompts' words in this model's vocabulary; None: the server reports no usage, and 1 was assumed."""
    levels: tuple[LevelSummary, ...]
    remarks: tuple[str, ...]
    interrupted: bool
    method: dict[str, str] = msgspec.field(default_factory=METHOD.copy)

    @property
    def num_answers(self) -> int:
        return sum(level.num_answers for level in self.levels)


def to_json(report: Report) -> str:
    """The report as JSON, indented by two spaces, with a final newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def headline(report: Report) -> list[str]:
    """What was measured where, in two lines."""
    plan, target = report.plan, report.target
    prompt = f"prompts of about {plan.prompt_tokens} tokens"
    if plan.shared_prefix_tokens:
        prompt += f" after {plan.shared_prefix_tokens} shared ones"
    where = "a server started for this" if report.started_here else target.base_url
    return [
        f"{target.model} at {where} ({target.api}), {report.date}",
        f"{prompt}, answers of {plan.max_tokens}; seed {plan.seed}",
    ]


Cell = Callable[[LevelSummary], float | None]


def table(levels: Sequence[LevelSummary]) -> list[tuple[str, ...]]:
    """Rows of a label and a cell for each level; the first row is the head."""
    rows: list[tuple[str, Cell]] = [
        ("requests answered", lambda level: level.num_answers),
        ("requests failed", lambda level: level.num_failures),
        ("output tokens/s", lambda level: level.output_tokens_per_s),
        ("prompt tokens/s", lambda level: level.prompt_tokens_per_s),
        ("requests/s", lambda level: level.requests_per_s),
        *_spread_rows("TTFT ms", lambda level: level.ttft_s, 1e3),
        *_spread_rows("TPOT ms", lambda level: level.tpot_s, 1e3),
        ("gap ms p99", lambda level: _of(level.gap_s, "p99", 1e3)),
        *_spread_rows("latency s", lambda level: level.latency_s, 1.0),
        ("tokens/s of a request p50", lambda level: _of(level.tokens_per_s_per_request, "p50")),
        ("prompt tokens, mean", lambda level: level.prompt_tokens_per_answer),
        ("  of these cached", lambda level: level.cached_tokens_per_answer),
        ("output tokens, mean", lambda level: level.output_tokens_per_answer),
        ("generator's CPU, cores", lambda level: level.generator_cpu),
    ]
    head = ("concurrency", *(f"{level.concurrency}{'' if level.is_whole else '*'}" for level in levels))
    return [head, *((label, *(_figure(cell(level)) for level in levels)) for label, cell in rows)]


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """As lines of plain text: labels to the left, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for label, *cells in rows:
        figures = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([label.ljust(widths[0]), *figures]))
    return lines


def plot(report: Report) -> str:
    """Throughput, and latencies, over concurrency; a level without answers has no points. An SVG document."""
    levels = [level for level in report.levels if level.num_answers]
    failed = {float(level.concurrency): f"{level.num_failures} failed" for level in report.levels if level.num_failures}

    def points(value: Cell) -> tuple[tuple[float, float], ...]:
        pairs = ((float(level.concurrency), value(level)) for level in levels)
        return tuple((x, y) for x, y in pairs if y is not None)

    def times(pick: Callable[[LevelSummary], Spread | None], name: str, colour: str) -> list[Series]:
        return [
            Series(f"{name} p50", colour, points(lambda level: _of(pick(level), "p50", 1e3))),
            Series(f"{name} p90", colour, points(lambda level: _of(pick(level), "p90", 1e3)), dashed=True),
        ]

    ticks = tuple(float(level.concurrency) for level in report.levels)
    throughput = Panel(
        title="Throughput",
        y_label="output tokens/s",
        x_label="concurrent requests",
        x_ticks=ticks,
        series=(
            Series("all requests together", _GREEN, points(lambda level: level.output_tokens_per_s)),
            Series("one request, p50", _PURPLE, points(lambda level: _of(level.tokens_per_s_per_request, "p50"))),
        ),
        x_notes=failed,
    )
    latency = Panel(
        title="Time to first token, time per output token",
        y_label="milliseconds (logarithmic)",
        x_label="concurrent requests",
        x_ticks=ticks,
        series=(
            *times(lambda level: level.ttft_s, "TTFT", _BLUE),
            *times(lambda level: level.tpot_s, "TPOT", _ORANGE),
        ),
        x_notes=failed,
        logarithmic=True,
    )
    return draw(headline(report), (throughput, latency))


Part = Literal["p50", "p90", "p99"]
_PARTS: tuple[Part, ...] = ("p50", "p90", "p99")


def _spread_rows(label: str, pick: Callable[[LevelSummary], Spread | None], scale: float) -> list[tuple[str, Cell]]:
    def cell(part: Part) -> Cell:
        return lambda level: _of(pick(level), part, scale)

    return [(f"{label} {part}", cell(part)) for part in _PARTS]


def _of(spread: Spread | None, part: Part, scale: float = 1.0) -> float | None:
    return None if spread is None else scale * {"p50": spread.p50, "p90": spread.p90, "p99": spread.p99}[part]


def _figure(value: float | None) -> str:
    """Up to three significant digits, and all of a count."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0:
        return "0"
    for limit, digits in ((0.0995, 3), (9.995, 2), (99.95, 1)):
        if value < limit:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"
