"""The menu of `localllm` alone: what it offers on a machine, how it looks in narrow terminals, and its keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from localllm.cli.app import app
from localllm.cli.chat.kept.saved import SavedChat, Turn
from localllm.cli.chat.kept.sessions import Sessions
from localllm.cli.commands import menu
from localllm.cli.commands.menu_screen import Choice, choose, lines
from localllm.cli.group import COMMANDS
from localllm.cli.shared import last_model
from localllm.registry import listing
from localllm.settings.config import Settings
from localllm.types.states import AvailableModel

TWO = [Choice("First", "a note", ("run", "demo")), Choice("Second", "", ("recommend",))]


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.mark.parametrize(
    ("keys", "taken"),
    [("\r", 0), ("2", 1), ("\x1b[B\r", 1), ("\x1b[A\r", 1), ("jj\r", 0), ("q", None), ("\x03", None), ("\x04", None)],
)
def test_arrows_and_numbers_take_an_entry_and_q_leaves(keys: str, taken: int | None, keyboard: PipeInput) -> None:
    keyboard.send_text(keys)
    assert choose("localllm", TWO) == (None if taken is None else TWO[taken])


def test_a_new_machine_offers_the_bundled_model_and_no_chat_to_go_on_with(settings: Settings) -> None:
    found = menu.choices(settings)
    assert found[0].words == ("run", "demo")
    assert all("--continue" not in each.words for each in found)
    assert app.info.name == "localllm", "which knows the commands"
    assert {each.words[0] for each in found} - {"--help"} <= {*COMMANDS}
    assert any("not tested yet" in each.note for each in found)


def test_the_last_model_and_the_last_chat_come_first(settings: Settings, tmp_path: Path) -> None:
    model = tmp_path / "My model.gguf"
    model.touch()
    last_model.remember(str(model), settings.data_dir)
    chat = SavedChat(localllm_chat=3, messages=(Turn("user", "Hello\nyou"),))
    Sessions(settings.data_dir).save("work", chat)
    first, second, *_ = menu.choices(settings)
    assert (first.title, first.words) == ("Chat with My model.gguf", ("run", str(model)))
    assert second.words == ("run", "--continue")
    assert second.note.endswith("ago: Hello you")


def test_without_a_last_model_it_is_the_largest_that_chats_and_fits(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"demo": 5 * 10**12, "small": 1, "large": 2, "too-large": 10**15, "qwen3-embedding:4b": 3}
    here = [AvailableModel(id=name, size_bytes=size, created_unix_s=0) for name, size in sizes.items()]
    monkeypatch.setattr(listing, "available", lambda _: here)
    assert menu.choices(settings)[0].words == ("run", "large")


@pytest.mark.parametrize("columns", [20, 40, 59, 79])
def test_no_line_is_wider_than_the_terminal_and_20_lines_are_enough(settings: Settings, columns: int) -> None:
    Sessions(settings.data_dir).save("work", SavedChat(localllm_chat=3, messages=(Turn("user", "x " * 200),)))
    text = "".join(part for _, part in lines("localllm 1.0", menu.choices(settings), 1, columns))
    assert max(map(len, text.split("\n"))) <= columns
    assert text.count("\n") < 20
