"""What `localllm tune` says at its end: every outcome with what to do about it, and a table that hides no doubt."""

from __future__ import annotations

from typing import Any

import pytest

from localllm.cli.commands.tune import Progress, show, story
from localllm.tuning.tuner import Result, Row
from localllm.tuning.workload import Work

WINNER = Row(
    candidate="ubatch 1024", verdict="faster", num_pairs=6, prompt_tokens_per_s=1234.5, answer_tokens_per_s=98.76,
    gain=1.25, noise=0.013,
)  # fmt: skip
DEFAULT = Row(candidate="default", verdict="", num_pairs=9, prompt_tokens_per_s=1000, answer_tokens_per_s=78, gain=1.0)


def result(**fields: Any) -> Result:
    base = {"model": "demo", "outcome": "default", "work": Work((128, 1024), 32), "default": DEFAULT, "rows": (WINNER,)}
    return Result(**{**base, **fields})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"outcome": "kept", "winner": "ubatch 1024"}, "Kept: ubatch 1024."),
        ({"outcome": "kept", "winner": "ubatch 1024"}, "`localllm tune --forget m` undoes this"),
        ({"outcome": "noisy", "noise": 0.42}, "identical rounds differed by 42%"),
        ({"outcome": "noisy", "noise": 0.42}, "`localllm tune m --minutes 4`"),
        ({"outcome": "short"}, "2 min 0 s was too short"),
        ({"outcome": "default", "check": WINNER}, "ubatch 1024 was not faster in the final check"),
        ({"outcome": "default"}, "is faster than the default"),
        ({"suggestion": "q8_0"}, "`localllm set m kv_type=q8_0` enables it"),
        ({"other_cores": 1.53}, "Other programs used 1.5 cores"),
    ],
)
def test_every_outcome_is_told_with_what_to_do_about_it(fields: dict[str, Any], words: str) -> None:
    assert words in " ".join(story(result(**fields), "m", 2.0))


def test_a_quiet_machine_is_not_worth_a_word() -> None:
    assert "Other programs" not in " ".join(story(result(other_cores=0.1), "m", 2.0))


def test_the_table_has_speeds_noise_and_verdict_of_each_and_of_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    failed = Row(candidate="ubatch 2048", verdict="failed", failure="no memory")
    unsure = Row(
        candidate="repack off", verdict="not clear", num_pairs=2, prompt_tokens_per_s=9, answer_tokens_per_s=9,
        gain=0.97, noise=3.0,
    )  # fmt: skip
    show(
        result(rows=(WINNER, failed, unsure), check=Row(candidate="ubatch 1024", verdict="kept", gain=1.2, noise=0.02))
    )
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "prompt tokens/s answer tokens/s vs. default rounds verdict"
    assert lines[1:6] == [
        "default 1,000 78.0 9",
        "ubatch 1024 1,234 98.8 +25.0% ± 1.3% 6 faster",
        "ubatch 2048 cannot be loaded: no memory",
        "repack off 9.0 9.0 -3.0% ± ? 2 no clear difference",
        "check: ubatch 1024 +20.0% ± 2.0% kept",
    ]


def test_without_a_terminal_only_stages_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(total_s=180)
    progress.state("loading ubatch 1024", 12.0)
    progress.say("check: ubatch 1024 against the default again")
    progress.clear()
    assert capsys.readouterr().err == "localllm: check: ubatch 1024 against the default again\n"


def test_on_a_terminal_a_line_tells_the_time_and_leaves_nothing_behind(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = Progress(total_s=180)
    progress.state("loading ubatch 1024", 72.0)
    assert "1:12 of 3:00  loading ubatch 1024" in capsys.readouterr().err
    progress.clear()
    assert capsys.readouterr().err == "\r\x1b[K"
