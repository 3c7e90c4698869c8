"""`localllm tune MODEL`: measures what is fastest for it here, with a table at the end. Decides nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from localllm.cli import report
from localllm.cli.units import duration
from localllm.settings.config import Settings
from localllm.types.ranges import check_range

if TYPE_CHECKING:
    from localllm.tuning.tuner import Result, Row

MOST_MINUTES = 24 * 60.0
LEAST_MINUTES = 0.05
MANY_CORES = 0.3
"""Of other programs, that are worth a word."""
MOST_SHOWN = 0.5
"""Of noise: what may be off by more is not known at all."""
_WORDS = {
    "faster": "faster",
    "slower": "slower",
    "no faster": "no faster",
    "one-sided": "faster in one, slower in the other",
    "behind": "another value is better",
    "not clear": "no clear difference",
    "open": "too few rounds to tell",
    "not measured": "no time for it",
    "failed": "cannot be loaded so",
}
_CLEAR = "\r\x1b[K"


def tune_model(settings: Settings, model: str, *, minutes: float, kv: bool, as_json: bool) -> int:
    """Measure, print, keep; returns the exit code: 130 after a Ctrl-C, when nothing is kept.

    Raises as `Tuner.run`.
    """
    from localllm.tuning.tuner import Tuner

    check_range("minutes", minutes, LEAST_MINUTES, MOST_MINUTES)
    progress = Progress(total_s=60 * minutes)
    tuner = Tuner(settings, model, total_s=60 * minutes, kv=kv, watcher=progress)
    try:
        result = asyncio.run(tuner.run())
    except KeyboardInterrupt:
        progress.clear()
        report.say("localllm: interrupted; nothing was changed")
        return report.INTERRUPTED
    finally:
        progress.clear()
    if as_json:
        report.write_json(msgspec.json.encode(result))
        return report.OK
    show(result)
    report.write(*story(result, model, minutes))
    return report.OK


def story(result: Result, model: str, minutes: float) -> Iterator[str]:
    """What came of it, and what to do."""
    undo = f"`localllm tune --forget {model}` undoes it"
    again = f"`localllm tune {model} --minutes {max(2 * minutes, 3):g}`"
    if result.outcome == "kept":
        yield f"Kept: {result.winner}. Loads that set nothing else use it from now on; {undo}."
    elif result.outcome == "noisy":
        yield (
            f"Nothing is kept: equal rounds differed by {result.noise:.0%}, too much to tell what is faster; end what "
            f"else runs here, then try {again}."
        )
    elif result.outcome == "short":
        yield f"Nothing is kept: {duration(60 * minutes)} were too short to tell what is faster here; {again} has more."
    elif result.check is not None:
        yield f"Nothing is kept: {result.check.candidate} was not faster again in the last check."
    else:
        yield "The default is as fast as anything that was tried."
    if result.suggestion:
        yield (
            f"A KV cache in {result.suggestion} is faster and takes less memory, and answers are a little less exact: "
            f"`localllm set {model} kv_type={result.suggestion}` uses it."
        )
    if result.other_cores is not None and result.other_cores > MANY_CORES:
        yield f"Other programs used {result.other_cores:.1f} cores when it began; speeds are what these left."


def show(result: Result) -> None:
    """The table, on stdout."""
    head = ("", "prompt tokens/s", "answer tokens/s", "against the default", "rounds", "verdict")
    default = _cells(result.default, "", "")
    rows = [default, *(_cells(row, _gain(row), _verdict(row)) for row in result.rows)]
    if result.check is not None:
        check = result.check
        rows.append(
            _cells(msgspec.structs.replace(check, candidate=f"check: {check.candidate}"), _gain(check), check.verdict)
        )
    report.write_table(head, rows)
    equal = f"Equal rounds of the default differ by {result.noise:.1%}; " if result.default.num_pairs > 2 else ""
    report.write(f"{equal}{result.took_s:.0f} s in all.")


def _cells(row: Row, gain: str, verdict: str) -> tuple[str, ...]:
    rounds = str(row.num_pairs) if row.num_pairs else ""
    return row.candidate, _rate(row.prompt_tokens_per_s), _rate(row.answer_tokens_per_s), gain, rounds, verdict


def _rate(tokens_per_s: float | None) -> str:
    if tokens_per_s is None:
        return ""
    return f"{tokens_per_s:,.0f}" if tokens_per_s >= 100 else f"{tokens_per_s:.1f}"


def _gain(row: Row) -> str:
    if row.gain is None:
        return ""
    if row.noise is None or row.noise > MOST_SHOWN:
        return f"{row.gain - 1:+.1%} ± ?"
    return f"{row.gain - 1:+.1%} ± {row.noise:.1%}"


def _verdict(row: Row) -> str:
    words = _WORDS[row.verdict]
    return f"{words}: {row.failure}" if row.failure else words


class Progress:
    """A line on stderr for each stage; on a terminal one more, drawn over itself, for what is done just now."""

    def __init__(self, *, total_s: float) -> None:
        self._total_s = total_s
        self._visible = sys.stderr.isatty()
        self._drawn = False

    def say(self, text: str) -> None:
        """A stage begins."""
        self.clear()
        report.say(f"localllm: {text}")

    def state(self, text: str, elapsed_s: float) -> None:
        """What is done just now."""
        if self._visible:
            report.draw(f"{_time(elapsed_s)} of {_time(self._total_s)}  {text}", before=_CLEAR)
            self._drawn = True

    def clear(self) -> None:
        """Leave an empty line."""
        if self._drawn:
            report.draw("", before=_CLEAR)
            self._drawn = False


def _time(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
