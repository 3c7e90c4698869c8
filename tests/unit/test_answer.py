"""What a model writes reaches a file as it is, and a terminal without what a terminal would obey."""

from __future__ import annotations

import pytest

from localllm.cli.answer import PrintedAnswer
from localllm.types import Delta

HOSTILE = "a\x1b[2Jb\x07\x9b31m\tc\n"


@pytest.mark.parametrize(("on_terminal", "shown"), [(False, HOSTILE), (True, "a�[2Jb��31m\tc\n")])
def test_escape_sequences_reach_a_pipe_but_not_a_terminal(
    on_terminal: bool, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: on_terminal)
    printed = PrintedAnswer()
    printed.print(delta for delta in [Delta(HOSTILE)])
    assert capsys.readouterr().out == shown
    assert printed.text == HOSTILE, "the conversation keeps what the model said"
