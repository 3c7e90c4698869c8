"""`localllm pull` of a model that this machine has no memory for: a person is asked, a script is refused."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localllm.cli.app import run_app
from localllm.registry.fetch.pacing import Backoff
from localllm.registry.listing import store_of
from localllm.system import memory
from tests.homes import measured_once
from tests.registry.hub_server import HubServer, Repo
from tests.registry.loopback import Answer, Asked

NAME = "hf.co/ann/tiny-GGUF"
Pull = Callable[..., tuple[int, str]]


class Typed(io.StringIO):
    """What a person types at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def hub(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer({"ann/tiny-GGUF": Repo({"tiny-F32.gguf": tiny_model.read_bytes()})}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture(autouse=True)
def own_home(home: Path, tmp_path: Path) -> Iterator[None]:
    """It knows how fast this machine is: measuring that takes seconds."""
    with measured_once(home, tmp_path):
        yield


@pytest.fixture
def pull(hub: HubServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Pull:
    """`localllm pull` on a machine of 10 kB of memory: the exit code and what was said."""
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALLLM_GPU_LAYERS", "0")  # no process lists the devices
    monkeypatch.setattr(memory, "total_memory", lambda: 10_000)

    def pull(*options: str, typed: str | None = None) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["localllm", "pull", NAME, *options])
        monkeypatch.setattr(sys, "stdin", io.StringIO() if typed is None else Typed(typed))
        return run_app(), capfd.readouterr().err

    return pull


def has_the_model(home: Path) -> bool:
    return bool(store_of(home).list())


def test_what_does_not_fit_into_memory_is_refused_where_nobody_can_be_asked(
    pull: Pull, hub: HubServer, tmp_path: Path
) -> None:
    code, err = pull()
    assert code == 1
    assert "10 kB of memory" in err
    assert "--force" in err
    fetched = [asked for asked in hub.asked if "/resolve/" in asked.path]
    assert all("range" in asked.headers for asked in fetched)  # its header, to know what it takes
    assert not has_the_model(tmp_path)


def test_force_downloads_it_all_the_same(pull: Pull, tmp_path: Path) -> None:
    code, err = pull("--force")
    assert code == 0, err
    assert "10 kB of memory" in err
    assert has_the_model(tmp_path)


@pytest.mark.parametrize(
    ("typed", "agreed"),
    [("y\n", True), ("Yes\n", True), ("\n", False), ("n\n", False), ("", False)],
)
def test_a_person_is_asked(pull: Pull, tmp_path: Path, typed: str, agreed: bool) -> None:
    code, err = pull(typed=typed)
    assert "[y/N]" in err
    assert (code == 0) == agreed == has_the_model(tmp_path)


def test_what_fits_is_not_asked_about(pull: Pull, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "total_memory", lambda: None)
    code, err = pull()
    assert code == 0, err
    assert "memory" not in err


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    tmp_path: Path, hub: HubServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """`localllm pull` with any arguments, on a machine with memory: exit code, stdout and stderr."""
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path))

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["localllm", "pull", *words])
        code = run_app()
        return code, *capfd.readouterr()

    return command


def test_several_are_pulled_and_one_that_is_not_there_holds_up_no_other(command: Command, tmp_path: Path) -> None:
    code, _, err = command("hf.co/ann/nowhere", f"{NAME}:F32", "hf:ann/tiny-GGUF/tiny-F32.gguf")
    assert code == 3
    assert "nowhere" in err
    assert sorted(model.name for model in store_of(tmp_path).list()) == [
        "hf.co/ann/tiny-GGUF:F32",
        "hf:ann/tiny-GGUF/tiny-F32.gguf",
    ]


def test_a_dry_run_says_what_would_come_and_fetches_no_model(
    command: Command, hub: HubServer, tmp_path: Path, tiny_model: Path
) -> None:
    size_bytes = tiny_model.stat().st_size
    code, out, err = command("--dry-run", NAME)
    assert code == 0
    assert out.split()[-1] == "tiny-F32.gguf"
    assert "would be downloaded" in err
    assert command("--dry-run", "-q", NAME)[2] == ""
    told = json.loads(command("--dry-run", "--json", NAME)[1])
    assert (told["download_bytes"], told["size_bytes"], told["files"][0]["name"]) == (
        size_bytes,
        size_bytes,
        "tiny-F32.gguf",
    )
    assert not has_the_model(tmp_path)
    assert command(NAME)[0] == 0
    assert json.loads(command("--dry-run", "--json", NAME)[1])["download_bytes"] == 0
    assert "nothing has to be downloaded" in command("--dry-run", NAME)[2]


def test_quiet_says_nothing_unless_something_is_wrong(command: Command, tmp_path: Path) -> None:
    assert command("-q", NAME) == (0, "", "")
    assert has_the_model(tmp_path)
    code, out, err = command("-q", "hf.co/ann/nowhere")
    assert (code, out) == (3, "")
    assert "nowhere" in err


def test_a_source_that_fails_before_the_first_byte_is_waited_for(
    command: Command, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_failures = 0

    def fails_at_first(asked: Asked) -> Answer:
        nonlocal num_failures
        num_failures += 1
        return Answer(500) if num_failures <= 5 else hub.answer(asked)

    monkeypatch.setattr(Backoff, "pause_s", lambda *_, **__: 0.3)
    hub.scripted["/api/models/ann/tiny-GGUF/revision/main"] = fails_at_first
    code, _, err = command(NAME)
    assert code == 0, err
    assert num_failures > 5
    assert err.count("localllm: 127.0.0.1 answered 500; trying again (Ctrl-C stops)\n") == 1
    assert f"waiting for {hub.host} (1 s) {NAME}\n" in err
