"""Progress where nobody sees a bar: a line now and then, and the last one says that all is done."""

from __future__ import annotations

import pytest

from localllm.cli.render.bars import Bar


def lines(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return capfd.readouterr().err.splitlines()


def test_without_a_terminal_the_last_line_says_all(capfd: pytest.CaptureFixture[str]) -> None:
    with Bar("model") as bar:
        bar.show("looking", 0, None)
        bar.show("downloading", 1000, 4000, 500.0)
        bar.show("downloading", 2000, 4000)
        bar.show("done", 4000, 4000)
    assert lines(capfd) == [
        "downloading model: 1 kB of 4 kB (25%), 500 B/s, 6 s left",
        "downloading model: 4 kB of 4 kB (100%)",
    ]


def test_what_is_said_already_is_not_said_again(capfd: pytest.CaptureFixture[str]) -> None:
    with Bar("model") as bar:
        bar.show("verifying", 4000, 4000)
    assert lines(capfd) == ["verifying model: 4 kB of 4 kB (100%)"]


def test_what_was_broken_off_is_not_said_to_be_done(capfd: pytest.CaptureFixture[str]) -> None:
    def breaks_off() -> None:
        with Bar("model") as bar:
            bar.show("downloading", 1000, 4000)
            bar.show("downloading", 3000, 4000)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        breaks_off()
    assert lines(capfd) == ["downloading model: 1 kB of 4 kB (25%)"]


def test_nothing_to_do_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with Bar("model") as bar:
        bar.show("done", 0, None)
    assert lines(capfd) == []


def test_an_unknown_total_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    with Bar("model") as bar:
        bar.show("verifying", 1000, None)
        bar.show("verifying", 4000, None)
    assert lines(capfd) == ["verifying model: 1 kB", "verifying model: 4 kB"]


def test_a_wait_without_new_bytes_is_a_line_every_ten_seconds(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    monkeypatch.setattr("localllm.cli.render.bars.time.monotonic", lambda: now_s)
    with Bar("model") as bar:
        for _ in range(25):
            bar.show("waiting for hub.example", 1000, 4000)
            now_s += 1
        bar.show("downloading", 2000, 4000)
    assert lines(capfd) == [
        *["waiting for hub.example model: 1 kB of 4 kB (25%)"] * 3,
        "downloading model: 2 kB of 4 kB (50%)",
    ]
