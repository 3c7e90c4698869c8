"""`localllm help`: the pages, and what a search finds in them."""

from __future__ import annotations

import pytest

from localllm.cli.app import run_app
from localllm.cli.commands import help as help_module
from localllm.cli.commands.help import show_help
from localllm.docs.pages import anchor, pages, relinked
from localllm.docs.searching import search
from localllm.errors import InvalidParameter

QUESTIONS = {
    "use my GPU": "gpu",
    "share on the LAN": "server",
    "larger context": "models",
    "where my models are": "models",
    "system prompt": "cli",
    "start at boot": "server",
    "Claude Code": "agents",
    "embeddings over HTTP": "apis",
    "update": "install",
    "uninstall": "install",
    "what to do when a load fails": "troubleshooting",
    "bigger context": "models",
    "autostart": "server",
    "config file": "cli",
    "port in use": "troubleshooting",
    "json schema": "structure",
}
"""What a new user asks, and the page whose section comes first."""


@pytest.mark.parametrize(("words", "topic"), QUESTIONS.items())
def test_a_question_finds_its_page_first(words: str, topic: str) -> None:
    assert search(words, 1)[0].topic == topic


def test_words_that_no_page_has_find_nothing() -> None:
    assert search("xylophone", 3) == []
    with pytest.raises(InvalidParameter, match="the pages are install, cli"):
        show_help("xylophone")


def test_a_pipe_gets_markdown_with_links_that_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_help("troubleshooting") == 0
    said = capsys.readouterr().out
    assert said.startswith("# Troubleshooting\n")
    assert "(`localllm help models`)" in said
    assert ".md" not in said


def test_a_terminal_gets_it_rendered(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(help_module, "is_drawable", lambda: True)
    show_help("system prompt")
    said = capsys.readouterr().out
    assert "\x1b[1;35mA system prompt (cli)" in said
    assert "```" not in said


def test_without_words_the_pages_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    show_help("")
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()] == [*pages()]


def test_a_command_that_is_no_page_is_answered_with_its_options(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["localllm", "help", "serve"])
    assert run_app() == 0
    assert "localllm serve --help" in capsys.readouterr().err


def test_links_within_code_stay_and_links_out_of_the_package_become_text() -> None:
    text = "[a](gpu.md#b) [c](../../x.md) <https://d>\n\n```\n[a](gpu.md)\n```\n[e](https://f)"
    linked = relinked(text, lambda label, topic, to: f"<{label} {topic} {to}>")
    assert linked == "<a gpu #b> c <https://d>\n\n```\n[a](gpu.md)\n```\n[e](https://f)"


def test_anchors_are_githubs() -> None:
    assert anchor("Share it on the LAN, with a key") == "share-it-on-the-lan-with-a-key"
