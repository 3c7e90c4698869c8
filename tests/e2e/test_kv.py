"""`localllm kv`: what is saved of conversations is shown, and forgotten on request only."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from localllm.cli.commands.store.kv import clear_saved
from localllm.settings.config import Settings
from tests.e2e.conftest import Cli
from tests.kvdisks import OTHER_PARTS, files, opened, put, tokens_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home with two conversations of one model and one of another."""
    with opened(tmp_path / "kv", model="tiny") as cache:
        put(cache, tokens_of(1, 2, 3), b"x" * 1000)
        put(cache, tokens_of(4), b"x" * 1000)
    with opened(tmp_path / "kv", model="other:1b", parts=OTHER_PARTS) as cache:
        put(cache, tokens_of(5, 6))
    return tmp_path


def test_saved_conversations_are_listed_per_model(cli: Cli, folder: Path) -> None:
    head, *rows = cli("kv", "list", "--home", folder).stdout.splitlines()
    assert head.split() == ["MODEL", "CONVERSATIONS", "SLOTS", "TOKENS", "SIZE", "LAST", "USED"]
    assert [row.split()[:4] for row in rows] == [["other:1b", "1", "0", "2"], ["tiny", "2", "0", "4"]]
    kept = json.loads(cli("kv", "list", "tiny", "--json", "--home", folder).stdout)
    assert [(one["model"], one["conversations"], one["tokens"]) for one in kept] == [("tiny", 2, 4)]
    assert kept[0]["parts"]["kv_types"] == ["f16", "f16"]
    assert kept[0]["size_bytes"] == sum(
        path.stat().st_size for path in files(folder / "kv") if b"xxx" in path.read_bytes()
    )


def test_one_models_or_all_are_forgotten_with_yes(cli: Cli, folder: Path) -> None:
    asked = cli("kv", "clear", "tiny", "--home", folder)
    assert (asked.returncode, len(files(folder / "kv"))) == (2, 3)
    assert "--yes" in asked.stderr
    cleared = cli("kv", "clear", "tiny", "--yes", "--home", folder)
    assert cleared.returncode == 0
    assert "2 conversations removed" in cleared.stderr
    assert [line.split()[0] for line in cli("kv", "list", "--home", folder).stdout.splitlines()] == [
        "MODEL",
        "other:1b",
    ]
    assert json.loads(cli("kv", "clear", "--yes", "--json", "--home", folder).stdout)["conversations"] == 1
    assert [path.name for path in (folder / "kv").iterdir()] == [".gate"]


def test_a_model_without_conversations_is_not_found(cli: Cli, folder: Path) -> None:
    for action in ("list", "clear"):
        done = cli("kv", action, "nobody", "--yes", "--home", folder)
        assert (done.returncode, "kv list" in done.stderr) == (3, True)


def test_nothing_saved_is_no_error(cli: Cli, tmp_path: Path) -> None:
    assert len(cli("kv", "list", "--home", tmp_path).stdout.splitlines()) == 1
    assert cli("kv", "clear", "--home", tmp_path).returncode == 0
    assert not (tmp_path / "kv").exists()


def test_damaged_conversations_are_counted(cli: Cli, folder: Path) -> None:
    for path in files(folder / "kv"):
        path.write_bytes(b"damaged")
    listed = cli("kv", "list", "--home", folder)
    assert listed.returncode == 0
    assert "3 of them are unreadable" in listed.stderr


@pytest.mark.parametrize(("answer", "left"), [("y\n", 1), ("\n", 3), ("n\n", 3), ("", 3)])
def test_a_person_is_asked_first(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, left: int) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(answer))
    code = clear_saved(Settings(home=folder), "tiny", sure=False, as_json=False)
    assert (code, len(files(folder / "kv"))) == (0 if left == 1 else 1, left)
