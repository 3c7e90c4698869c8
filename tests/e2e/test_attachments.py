"""Pictures and sounds in the terminal: options, stdin and a chat, with a real server and a model that sees."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from localllm.cli.shared import hearing
from localllm.client.sidecar import Sidecar
from localllm.errors import UnsupportedParameter
from localllm.registry import listing
from localllm.settings import config
from tests.documents import made
from tests.e2e.conftest import COMMAND, TIMEOUT_S, Cli
from tests.e2e.terminal import PROMPT, Terminal, needs_pty
from tests.e2e.test_pictures import noise, picture
from tests.homes import share_findings
from tests.models.media import MediaModel, MediaModelKind
from tests.pictures import png

GREEDY = ("--temperature", "0", "--max-tokens", "8")


@pytest.fixture(scope="module")
def seeing(
    home: Path,
    cli: Cli,
    tiny_chat_model: Path,
    media_model: Callable[[MediaModelKind], MediaModel],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, str]]:
    """The environment of commands that ask a server with `omni`, which sees and hears, and `blind`."""
    folder, files = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("files")
    share_findings(home, folder)
    made = media_model("omni")
    for path in (made.model, made.projector):
        shutil.copy(path, files / path.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCALLLM_HOME", str(folder))
        assert cli("import", files / made.model.name, "--name", "omni").returncode == 0
        assert cli("import", tiny_chat_model, "--name", "blind").returncode == 0
        with Sidecar.start(["omni", "--threads=1"]) as sidecar:
            yield {
                "LOCALLLM_HOME": str(folder),
                "LOCALLLM_PORT": sidecar.url.rpartition(":")[2],
                "LOCALLLM_API_KEYS": sidecar.token,
            }


@pytest.fixture
def files(seeing: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with pictures and a sound, in which commands run beside the server."""
    for name, value in seeing.items():
        monkeypatch.setenv(name, value)
    for color in ("red", "green", "blue"):
        (tmp_path / f"{color}.png").write_bytes(picture(color))
    (tmp_path / "high.wav").write_bytes(noise(is_high=True))
    (tmp_path / "it's mine.png").write_bytes(picture("cyan"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_run_sends_pictures_and_sounds_from_options_and_stdin_and_says_what_it_cannot(files: Path, cli: Cli) -> None:
    notes = list[str]()

    def ask(*args: str, stdin: bytes = b"", model: str = "omni") -> tuple[int, str]:
        done = subprocess.run(
            [*COMMAND, "run", model, *args, *GREEDY], input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False
        )
        notes.append(done.stderr.decode().strip())
        return done.returncode, (done.stdout or done.stderr).decode().strip()

    assert ask("What?", "--image", "red.png", "--image", "blue.png") == (0, "blue")
    assert ask("--audio", "high.wav") == (0, "high")
    assert ask("What?", stdin=picture("green")) == (0, "green")
    (files / "odd.pdf").write_bytes(b"%PDF-1.4 broken")
    code, said = ask("What?", "--file", "odd.pdf", model="blind")
    assert (code, said.startswith("localllm: odd.pdf is a broken PDF")) == (2, True), said
    (files / "rent.pdf").write_bytes(made.pdf(["Rent is due.", ""]))
    assert ask("What?", "--file", "rent.pdf#pages=1", "--file", "red.png")[1] == "red"
    assert ask("What?", stdin=(files / "rent.pdf").read_bytes(), model="blind")[0] == 0
    assert notes[-1].startswith("localllm: the standard input: page 2 omitted"), notes[-1]
    (files / "half.png").write_bytes(png(np.zeros((64, 64, 3), np.uint8))[:50])
    code, said = ask("What?", "--image", "red.png", "--image", "half.png")
    assert (code, said.startswith("localllm: half.png: the picture is broken")) == (2, True), said
    code, said = ask("What?", "--image", "red.png", model="blind")
    assert (code, said.startswith("localllm: blind cannot see images: it has no projector")) == (2, True), said


@needs_pty
def test_files_typed_dropped_and_attached_in_a_chat_are_seen_taken_back_and_saved(files: Path) -> None:
    with Terminal("omni", *GREEDY) as terminal:

        def enter(line: str, *shown: str) -> None:
            terminal.until(PROMPT)
            terminal.type(line.encode() + b"\r")
            for each in shown:
                terminal.until(each.encode())

        enter("/image red.png", "[red.png, 32x32] goes with")
        enter("/undo", "took back: [red.png, 32x32]")
        enter(f"'{files}/it'\\''s mine.png' what is this?", "[it's mine.png, 32x32]", "cyan")
        enter("compare red.png with blue.png", "[red.png, 32x32] [blue.png, 32x32]", "blue")
        enter("/undo", "took back: [red.png, 32x32] [blue.png, 32x32] compare")
        enter((files / "green.png").as_uri(), "[green.png, 32x32] goes with")
        enter("what?", "[green.png, 32x32]", "green")
        enter("/regen", "green")
        enter("/save chat", "saved 4 messages")
        enter("/clear")
        (files / "rent.pdf").write_bytes(made.pdf(["Rent is due."]))
        enter("/file rent.pdf#pages=1", "[rent.pdf, pages 1, ")
        enter("/undo", "took back: [rent.pdf")
        enter("/audio high.wav and this?", "[high.wav, 2.0 s]", "high")
        enter("/bye")
        assert terminal.end() == 0
    saved = json.loads((files / "chat.json").read_bytes())["messages"]
    assert [[each["path"] for each in turn.get("attached", ())] for turn in saved[::2]] == [
        [str(files / "it's mine.png")],
        [str(files / "green.png")],
    ]
    (files / "green.png").unlink()
    with Terminal("omni", *GREEDY) as terminal:
        enter("/load chat", "loaded 4 messages", "gone")
        enter("what was it?", "cyan")
        enter("/bye")
        assert terminal.end() == 0


def test_the_only_model_that_hears_is_found_by_the_headers(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALLLM_PORT", "0")
    settings = config.load()
    assert hearing.only(settings) == "omni"
    with pytest.raises(UnsupportedParameter, match=r"^blind cannot hear audio: .*; these models here do: omni$"):
        hearing.check_hears("blind", settings)
    listing.copy("omni", "another", settings.data_dir)
    try:
        with pytest.raises(UnsupportedParameter, match="several models here hear: another, omni; --model says which"):
            hearing.only(settings)
    finally:
        listing.remove("another", settings.data_dir)
    hearing.check_hears(str(files / "unknown.gguf"), settings)
