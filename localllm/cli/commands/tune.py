"""`localllm tune MODEL`: shows the progress and the results of tuning. Decides nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from localllm.cli.render.units import duration
from localllm.cli.shared import report
from localllm.settings.config import Settings
from localllm.system.shell_words import shell_word
from localllm.types.ranges import check_range

if TYPE_CHECKING:
    from localllm.tuning.tuner import Result, Row

MOST_MINUTES = 24 * 60.0
LEAST_MINUTES = 0.05
MANY_CORES = 0.3
"""CPU cores used by other programs that are worth mentioning."""
MOST_SHOWN = 0.5
"""Larger noise is shown as unknown."""
_WORDS = {
    "faster": "faster",
    "slower": "slower",
    "no faster": "no faster",
    "one-sided": "faster in one, slower in the other",
    "behind": "another value is better",
    "not clear": "no clear difference",
    "open": "too few rounds",
    "not measured": "no time left",
    "failed": "cannot be loaded",
}
_CLEAR = "\r\x1b[K"


def tune_model(settings: Settings, model: str, *, minutes: float, kv: bool, as_json: bool) -> int:
    """Measure, print and keep the result; returns the exit code: 130 after Ctrl-C, which keeps nothing.

    Raises what `Tuner.run` raises.
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
    """The outcome, and what to do next."""
    undo = f"`localllm tune --forget {model}` undoes this"
    again = f"`localllm tune {shell_word(model)} --minutes {max(2 * minutes, 3):g}`"
    if result.outcome == "kept":
        yield f"Kept: {result.winner}. Used from now on, unless set otherwise; {undo}."
    elif result.outcome == "noisy":
        yield (
            f"Nothing kept: identical rounds differed by {result.noise:.0%}, too much to tell what is faster; stop "
            f"other programs, then try {again}."
        )
    elif result.outcome == "short":
        yield f"Nothing kept: {duration(60 * minutes)} was too short to tell what is faster; try {again}."
    elif result.check is not None:
        yield f"Nothing kept: {result.check.candidate} was not faster in the final check."
    else:
        yield "Nothing that was tried is faster than the default."
    if result.suggestion:
        yield (
            f"A {result.suggestion} KV cache is faster and takes less memory, but answers are slightly less precise: "
            f"`localllm set {shell_word(model)} kv_type={result.suggestion}` enables it."
        )
    if result.other_cores is not None and result.other_cores > MANY_CORES:
        yield f"Other programs used {result.other_cores:.1f} cores at the start, which lowers the speeds measured."


def show(result: Result) -> None:
    """Print the table."""
    head = ("", "prompt tokens/s", "answer tokens/s", "vs. default", "rounds", "verdict")
    default = _cells(result.default, "", "")
    rows = [default, *(_cells(row, _gain(row), _verdict(row)) for row in result.rows)]
    if result.check is not None:
        check = result.check
        rows.append(
            _cells(msgspec.structs.replace(check, candidate=f"check: {check.candidate}"), _gain(check), check.verdict)
        )
    report.write_table(head, rows)
    noise = f"Identical rounds of the default differ by {result.noise:.1%}; " if result.default.num_pairs > 2 else ""
    report.write(f"{noise}{result.took_s:.0f} s in total.")


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
    """One line per stage on stderr; on a terminal also a status line for the current step."""

    def __init__(self, *, total_s: float) -> None:
        self._total_s = total_s
        self._visible = sys.stderr.isatty()
        self._drawn = False

    def say(self, text: str) -> None:
        """Announce a stage."""
        self.clear()
        report.say(f"localllm: {text}")

    def state(self, text: str, elapsed_s: float) -> None:
        """Show the current step."""
        if self._visible:
            report.draw(f"{_time(elapsed_s)} of {_time(self._total_s)}  {text}", before=_CLEAR)
            self._drawn = True

    def clear(self) -> None:
        """Erase the status line."""
        if self._drawn:
            report.draw("", before=_CLEAR)
            self._drawn = False


def _time(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
