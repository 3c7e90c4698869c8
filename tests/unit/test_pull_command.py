"""`localllm pull` of a model that this machine has no memory for: a person is asked, a script is refused."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localllm import osdep
from localllm.cli.app import run_app
from localllm.registry.listing import store_of
from tests.registry.hub_server import HubServer, Repo

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


@pytest.fixture
def pull(hub: HubServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Pull:
    """`localllm pull` on a machine of 10 kB of memory: the exit code and what was said."""
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path))
    monkeypatch.setattr(osdep, "total_memory", lambda: 10_000)

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
    monkeypatch.setattr(osdep, "total_memory", lambda: None)
    code, err = pull()
    assert code == 0, err
    assert "memory" not in err
