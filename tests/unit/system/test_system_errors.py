"""What the system refuses is one line with a remedy: a home that is no folder or cannot be written, a full disk."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from localllm.cli.app import run_app
from localllm.cli.commands.serve import serve_model
from localllm.cli.shared import sidecar
from localllm.client.ready import Failure, decode
from localllm.errors import sentence_of
from localllm.settings.config import Settings
from localllm.system import files
from tests.each import each

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "localllm" / "data" / "demo.gguf"
NOBODY = 65534

COMMANDS = (
    "list",
    "list --json",
    "show demo",
    "show x:1b",
    "pull hf.co/ann/tiny-GGUF",
    "rm x:1b",
    "cp x:1b y:1b",
    "search qwen --offline",
    f"import {DEMO}",
    f"import {DEMO} --how copy",
    "import",
    "create made:1b -f Modelfile",
    "quantize demo small q4_0",
    "gc",
    "gc --dry-run",
    "kv list",
    "kv clear --yes",
    "runtime list",
    "runtime use auto",
    "runtime remove x",
    "launch",
    "launch codex --print",
    "launch --undo",
    "ps",
    "stop x",
    "mcp demo",
    "doctor",
    "run demo hi",
    "embed demo hi",
    "serve demo",
    "bench demo",
)
"""One of each at least; those that only start a model are told of the home before they do."""
NATIVE = ("doctor", "run demo hi", "embed demo hi", "serve demo", "bench demo", "quantize demo small q4_0", "mcp demo")
Homes = Callable[[str], Path]


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    """A home that is not what it should be, by what is wrong with it."""

    def make(kind: str) -> Path:
        home = tmp_path / "home"
        if kind == "a file":
            home.write_text("x")
        elif kind == "below a file":
            home.write_text("x")
            return home / "deeper"
        else:
            home.mkdir()
            place = home / kind
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("x")
        return home

    return make


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a Modelfile, a user who has nothing, and a hub that is not there."""
    (tmp_path / "Modelfile").write_text(f"FROM {DEMO}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("LOCALLLM_DOWNLOAD_PATIENCE_S", "1")
    monkeypatch.setenv("LOCALLLM_PORT", "9")


def told(words: str, home: Path, capfd: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit code and stderr of a command in that home; whatever it does not handle itself fails the test."""
    patch.setenv("LOCALLLM_HOME", str(home))
    patch.setattr(sys, "argv", ["localllm", *words.split()])
    code = run_app()
    return code, capfd.readouterr().err


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("kind", ["a file", "below a file"])
def test_a_home_that_is_no_folder_is_told_in_one_line(
    words: str,
    kind: str,
    homes: Homes,
    elsewhere: None,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, err = told(words, homes(kind), capfd, monkeypatch)
    assert code or words == "launch"  # which only lists agents
    if code:
        assert err.count("\n") == 1, err
        assert "Errno" not in err
        assert "LOCALLLM_HOME" in err or "Usage" in err


def in_place() -> Iterator[Any]:
    """Every command with two of the folders, every folder with several commands; exhaustive: all of them."""
    kinds = ("models", "models/manifests", "models/blobs", "launch", "runtimes", "config.toml/x", "kv")
    for place, words in enumerate(words for words in COMMANDS if words not in NATIVE):
        for number, kind in enumerate(kinds):
            is_tried = number in (place % len(kinds), (place + place // len(kinds) + 1) % len(kinds))
            owns = words.startswith(("import /", "create")) and kind == "models"
            yield pytest.param(words, kind, marks=() if is_tried or owns else pytest.mark.exhaustive)


@pytest.mark.parametrize(("words", "kind"), list(in_place()))
def test_a_file_in_place_of_a_folder_of_the_home_is_no_traceback(
    words: str,
    kind: str,
    homes: Homes,
    elsewhere: None,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, err = told(words, homes(kind), capfd, monkeypatch)
    assert "Errno" not in err
    if kind == "models" and words.startswith(("import /", "create")):
        assert code
        assert "LOCALLLM_HOME" in err


@pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")
@pytest.mark.parametrize("words", ["run demo hi", "fit demo"])
def test_what_a_server_or_a_child_cannot_read_or_store_is_told_without_traceback(
    words: str, homes: Homes, elsewhere: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = homes("models")
    (home / "selftest.json").mkdir()
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        _, err = told(words, home, capfd, monkeypatch)
    assert "Traceback" not in err
    assert "Errno" not in err
    assert f"{home / ('selftest.json' if words == 'fit demo' else 'models/manifests')}: " in err
    assert "LOCALLLM_HOME" in err or "move it away" in err


@pytest.fixture
def read_only_home() -> Iterator[Path]:
    """A folder that this user may read and not write; root becomes nobody for the test."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(NOBODY)
    try:
        yield home
    finally:
        if was_root:
            os.seteuid(0)
        home.chmod(0o755)
        shutil.rmtree(home)


STARTS_A_CHILD = ("show demo", "runtime list")
"""Which nobody may not do where Python is in root's own folder."""


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX's here")
@pytest.mark.parametrize("words", [words for words in COMMANDS if words not in (*NATIVE, *STARTS_A_CHILD)])
def test_a_home_that_cannot_be_written_is_read_or_told_in_one_line(
    words: str,
    read_only_home: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("LOCALLLM_DOWNLOAD_PATIENCE_S", "1")
    monkeypatch.setenv("LOCALLLM_PORT", "9")
    code, err = told(words, read_only_home, capfd, monkeypatch)
    assert "Errno" not in err or words.startswith("pull")
    if words.startswith("import /"):
        assert code
        assert err.count("\n") == 1, err
        assert "LOCALLLM_HOME" in err
    if words in ("list", "gc", "kv list"):
        assert code == 0, err


@pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")
def test_quantizing_into_what_is_no_folder_is_told_in_one_line(
    elsewhere: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, err = told("quantize demo Modelfile/small.gguf q4_0", tmp_path / "home", capfd, monkeypatch)
    assert code
    assert err.count("\n") == 1, err
    assert "folder" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", ["list", "list --json", "show demo", "search qwen --offline", "show --help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_stdout_is_told_in_one_line(words: str, unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "localllm", *words.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "no space left" in done.stderr.lower()


@each("number", sorted(errno.errorcode))
def test_every_error_of_the_system_is_a_sentence(number: int) -> None:
    sentence = sentence_of(OSError(number, os.strerror(number), "folder/file", None, "folder/other"))
    assert "folder/file" in sentence
    assert "\n" not in sentence
    assert "Errno" not in sentence


def test_the_remedy_of_a_file_that_the_user_chose_names_no_home() -> None:
    error = OSError(errno.EACCES, os.strerror(errno.EACCES), "chosen/chat.md")
    assert "LOCALLLM_HOME" in sentence_of(error)
    assert sentence_of(error, is_in_home=False) == f"chosen/chat.md: {error.strerror}; allow it for this user"


def test_an_error_without_number_or_file_is_a_sentence() -> None:
    assert sentence_of(OSError("the tape is torn")) == "the tape is torn"
    assert sentence_of(OSError())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no file system that refuses every new folder")
def test_a_home_where_no_folder_can_be_made_is_told_with_a_remedy(
    elsewhere: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, err = told("app", Path("/proc/home"), capfd, monkeypatch)
    assert (code, err.count("\n")) == (1, 1), err
    assert "/proc/home" in err
    assert "LOCALLLM_HOME" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_below_the_window_is_told_with_the_file(
    elsewhere: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "private_file", lambda path: path.exists() or path.symlink_to("/dev/full"))
    code, err = told("app", tmp_path / "home", capfd, monkeypatch)
    assert (code, err.count("\n")) == (1, 1), err
    assert "window/address.json: No space left on device; make room" in err


@pytest.mark.skipif(find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed")
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no file system that refuses every new folder")
def test_the_doctor_does_not_say_that_it_stored_what_it_could_not(
    elsewhere: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALLLM_HOME", "/proc/home")
    monkeypatch.setattr(sys, "argv", ["localllm", "doctor"])
    code, out = run_app(), " ".join(capfd.readouterr().out.split())
    assert code == 0, out
    assert "not stored: /proc/home: No such file or directory; check the path; --home or LOCALLLM_HOME chooses" in out
    assert "stored in" not in out


def test_a_sidecar_tells_its_parent_what_the_system_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent quoted the end of its log, so that the same was said twice."""

    async def refused(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", "models/blobs/x")

    monkeypatch.setattr("localllm.server.main.serve", refused)
    monkeypatch.setattr("localllm.server.edge.log.configure", lambda *_: None)
    assert serve_model(Settings(home=tmp_path), ["demo"], ready="json") == 1
    out, err = capfd.readouterr()
    line = decode(out.encode())
    assert isinstance(line, Failure)
    assert line.error.message.startswith("models/blobs/x: Permission denied; allow it for this user")
    assert err == ""


def test_a_chat_whose_log_cannot_be_written_says_so_and_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").write_text("x")
    with sidecar._log_file(Settings(home=tmp_path)) as log:
        log.write(b"a line")
    assert capfd.readouterr().err.startswith(f"localllm: the server's log is not kept: {tmp_path / 'logs'}: ")


@pytest.mark.parametrize("kind", ["tuned", "full"])
def test_tune_says_what_cannot_be_kept_before_it_measures(
    kind: str, homes: Homes, elsewhere: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It measured for minutes, and then lost what it had found."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if kind == "full":
        monkeypatch.setattr("localllm.planning.tuned.tempfile.TemporaryFile", full)
    monkeypatch.setattr("localllm.tuning.tuner.Workers", lambda *_: pytest.fail("it measures"))
    home = homes("tuned" if kind == "tuned" else "other")
    code, err = told("tune demo", home, capfd, monkeypatch)
    assert (code, err.count("\n")) == (1, 1), err
    assert err.startswith(f"localllm: {home / 'tuned'}: ")
