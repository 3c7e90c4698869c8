"""A file of the user's is changed while an agent runs, and is as it was afterwards, whatever happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localllm.errors import LocalLLMError
from localllm.launch import journal, jsonc
from localllm.launch.journal import Journal
from localllm.launch.setup import Change, Key

KEYS = (
    Key(("language_models", "openai_compatible", "localllm"), {"api_url": "http://127.0.0.1:1/v1"}),
    Key(("agent", "default_model"), {"provider": "localllm", "model": "m"}),
)
MINE = '{\n  // my own\n  "theme": "One Dark",\n  "agent": {"default_model": {"provider": "x", "model": "y"},},\n}\n'


def planned(file: Path) -> journal.PlannedChange:
    return journal.plan(Change(file, KEYS))


@pytest.mark.parametrize("before", [MINE, "", "{}", "// nothing\n", '\ufeff{ "a": 1 }', '{"a":1,}\r\n', None])
def test_it_is_as_it_was_to_the_byte_when_the_agent_has_ended(tmp_path: Path, before: str | None) -> None:
    file = tmp_path / "zed" / "settings.json"
    if before is not None:
        file.parent.mkdir()
        file.write_bytes(before.encode())
    with Journal(tmp_path) as launched:
        launched.change(planned(file))
        now = jsonc.read(file.read_text("utf-8"))
        assert now["agent"]["default_model"]["provider"] == "localllm"
        assert now["language_models"]["openai_compatible"]["localllm"] == KEYS[0].value
    assert (file.read_bytes().decode() if file.exists() else None) == before
    assert list((tmp_path / "launch").glob("*/*")) == []


ENTRIES = st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.dictionaries(st.sampled_from(["theme", "agent", "language_models"]), ENTRIES))
def test_whatever_the_file_says_it_comes_back(tmp_path: Path, before: dict[str, dict[str, int]]) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(before, indent=2))
    with Journal(tmp_path) as launched:
        launched.change(planned(file))
    assert file.read_text() == json.dumps(before, indent=2)


def test_what_the_user_changed_meanwhile_stays_and_only_ours_goes(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(MINE)
    with Journal(tmp_path) as launched:
        launched.change(planned(file))
        text = jsonc.put(file.read_text(), ["theme"], "Gruvbox")
        file.write_text(jsonc.put(text, ["language_models", "ollama"], {"api_url": "z"}))
        (said,) = launched.undo()
    now = jsonc.read(file.read_text())
    assert now["theme"] == "Gruvbox"
    assert now["language_models"] == {"ollama": {"api_url": "z"}}
    assert now["agent"]["default_model"] == {"provider": "x", "model": "y"}
    assert "// my own" in file.read_text()
    assert "only the keys of this launch" in said


def test_a_model_that_the_user_chose_meanwhile_stays_chosen(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(MINE)
    chosen = {"provider": "openai", "model": "gpt"}
    with Journal(tmp_path) as launched:
        launched.change(planned(file))
        file.write_text(jsonc.put(file.read_text(), ["agent", "default_model"], chosen))
    assert jsonc.read(file.read_text())["agent"]["default_model"] == chosen
    assert "language_models" not in jsonc.read(file.read_text())


def test_a_file_that_cannot_be_read_any_more_is_left_and_its_backup_is_named(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(MINE)
    with Journal(tmp_path) as launched:
        launched.change(planned(file))
        file.write_text("{ this is not finished")
        (said,) = launched.undo()
    backup = Path(said.rpartition(" is in ")[2])
    assert file.read_text() == "{ this is not finished"
    assert backup.read_text() == MINE
    file.write_text(MINE)
    assert journal.recover(tmp_path) == [f"{file} is unchanged"]
    assert not backup.exists()


def test_a_lock_that_cannot_be_opened_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(MINE)
    with Journal(tmp_path) as launched:
        launched.change(planned(file))
    (lock,) = (tmp_path / "launch").glob("*.lock")
    lock.unlink()
    lock.mkdir()
    with Journal(tmp_path) as launched, pytest.raises(LocalLLMError, match=lock.name):
        launched.change(planned(file))
    assert file.read_text() == MINE


CHANGE_AND_WAIT = """
import sys
from pathlib import Path
from localllm.launch.journal import Journal
from tests.unit.launch.test_launch_journal import planned
with Journal(Path(sys.argv[1])) as launched:
    launched.write({"metadata.json": "{}"})
    launched.change(planned(Path(sys.argv[2])))
    print("changed", flush=True)
    sys.stdin.read()
"""


def changer(home: Path, file: Path) -> subprocess.Popen[str]:
    """A launch that has changed the file."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHANGE_AND_WAIT, str(home), str(file)],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "changed\n"
    return process


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_after_a_kill_the_next_launch_changes_it_back_and_not_while_the_first_lives(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(MINE)
    with changer(tmp_path, file) as first:
        assert journal.recover(tmp_path) == []
        assert file.read_text() != MINE
        with Journal(tmp_path) as second, pytest.raises(LocalLLMError, match="another localllm launch"):
            second.change(planned(file))
        first.kill()
        first.wait()
        (said,) = journal.recover(tmp_path)
        assert first.stdin is not None
        first.stdin.close()
    assert said == f"{file} was restored"
    assert file.read_text() == MINE
    assert [path for path in (tmp_path / "launch").iterdir() if path.is_dir()] == []
    with Journal(tmp_path) as third:
        third.change(planned(file))
    assert file.read_text() == MINE


@pytest.mark.skipif(os.name == "nt", reason="links and modes of POSIX")
def test_a_link_stays_a_link_and_the_file_keeps_its_mode(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.json", tmp_path / "settings.json"
    real.write_text(MINE)
    real.chmod(0o640)
    link.symlink_to(real)
    with Journal(tmp_path) as launched:
        launched.change(planned(link))
        assert link.is_symlink()
        assert real.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert real.read_text() == MINE
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_temporary_files_and_backups_are_the_users_own(tmp_path: Path) -> None:
    with Journal(tmp_path) as launched:
        launched.write({"a.yml": "x"})
        assert launched.files.stat().st_mode & 0o077 == 0
        assert (launched.files / "a.yml").stat().st_mode & 0o077 == 0
    assert not launched.files.exists()


@pytest.mark.parametrize("text", ["[1, 2]", "{ not json", '{"agent": 5}'])
def test_a_file_that_is_not_what_it_should_be_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.json"
    file.write_text(text)
    with pytest.raises(LocalLLMError, match="not changed"):
        planned(file)


def test_the_diff_shows_what_is_added_and_nothing_else_is_touched(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(MINE)
    diff = planned(file).diff
    assert '+      "localllm": {' in diff
    assert [line for line in diff.splitlines() if line.startswith("-") and not line.startswith("---")] == [
        '-  "agent": {"default_model": {"provider": "x", "model": "y"},},'
    ]
