"""Adapters from repositories, over real HTTP from a fake hub: fetched, verified, converted and kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localllm.cli.commands.store.adapters import manage_adapters
from localllm.errors import InvalidParameter, LocalLLMError, ModelNotFound, PullFailed
from localllm.registry.adapters.pulled import pulled_adapter
from localllm.registry.adapters.shelf import Shelf
from localllm.registry.names.model_names import HubFile, HubRepo, parse
from localllm.registry.resolve import carried
from localllm.settings.config import Settings
from tests.peft_folders import FOREIGN
from tests.registry.hub_server import COMMIT, HubServer, Repo

PIRATE = carried("demo-pirate-lora.gguf").read_bytes()
PEFT = {path.name: path.read_bytes() for path in FOREIGN.glob("adapter_*")}


@pytest.fixture
def hub() -> Iterator[HubServer]:
    repos = {
        "ann/peft": Repo({"README.md": b"x", **PEFT, "other.gguf": PIRATE}),
        "ann/gguf": Repo({"pirate-f16.gguf": PIRATE}),
        "ann/two": Repo({"a.gguf": PIRATE, "b/c.gguf": PIRATE}),
        "ann/pickled": Repo({"adapter_config.json": PEFT["adapter_config.json"], "adapter_model.bin": b"x"}),
        "ann/none": Repo({"model.safetensors": b"x"}),
    }
    with HubServer(repos) as server:
        yield server


def settings(hub: HubServer, home: Path) -> Settings:
    return Settings(home=home, hub_endpoint=hub.url)


def fetched(hub: HubServer, home: Path, name: str) -> tuple[str, list[str]]:
    wanted = parse(name)
    assert isinstance(wanted, HubRepo | HubFile)
    with pulled_adapter(settings(hub, home), wanted, on_bytes=lambda _: None, cancel=threading.Event()) as pulled:
        files = sorted(pulled.path.iterdir()) if pulled.path.is_dir() else [pulled.path]
        for file in files:
            content = file.read_bytes()
            assert content in (PIRATE, *PEFT.values())
        return pulled.source, [file.name for file in files]


def test_a_repository_has_a_peft_folder_or_a_gguf_file(hub: HubServer, tmp_path: Path) -> None:
    source = f"hf.co/ann/peft@{COMMIT}"
    assert fetched(hub, tmp_path, "hf.co/ann/peft") == (source, ["adapter_config.json", "adapter_model.safetensors"])
    assert fetched(hub, tmp_path, "hf:ann/peft/other.gguf")[1] == ["other.gguf"]
    assert fetched(hub, tmp_path, "hf.co/ann/gguf")[1] == ["pirate-f16.gguf"]
    for name, error, reason in (
        ("hf.co/ann/two", InvalidParameter, r"2 GGUF files; name one as hf:ann/two/FILE: a.gguf, b/c.gguf"),
        ("hf.co/ann/pickled", ModelNotFound, "pickled files may run code"),
        ("hf.co/ann/none", ModelNotFound, "is no adapter"),
        ("hf:ann/gguf/gone.gguf", ModelNotFound, "is no adapter"),
    ):
        with pytest.raises(error, match=reason):
            fetched(hub, tmp_path, name)
    assert not list((tmp_path / "models").glob(".adapter-*"))


@pytest.mark.parametrize("without_lfs", [False, True])
@pytest.mark.parametrize("in_git", [False, True])
@pytest.mark.parametrize("damaged", [None, *PEFT])
def test_files_with_another_hash_are_not_used(
    damaged: str | None, in_git: bool, without_lfs: bool, hub: HubServer, tmp_path: Path
) -> None:
    """Large files have a sha256, small ones git's hash, in the model's info or in its tree."""
    before = Repo(PEFT)
    repo = hub.repos["ann/peft"] = Repo(
        {name: b" " + raw[1:] if name == damaged else raw for name, raw in PEFT.items()},
        in_git=in_git,
        without_lfs=without_lfs,
    )
    repo.sha256, repo.git_id = before.sha256, before.git_id  # type: ignore[method-assign]
    if damaged is None:
        assert len(fetched(hub, tmp_path, "hf.co/ann/peft")[1]) == len(PEFT)
        return
    with pytest.raises(PullFailed, match=damaged):
        fetched(hub, tmp_path, "hf.co/ann/peft")


def test_lora_add_keeps_what_it_fetched_with_its_commit(
    hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def add(name: str, source: str) -> int:
        words = ["demo", name, source]
        return manage_adapters(settings(hub, tmp_path), "add", words, scale=0.5, type="F16", as_json=False)

    assert add("parrot", "hf.co/ann/peft") == add("sailor", "hf.co/ann/gguf") == 0
    stored = {each.name: each for each in Shelf(tmp_path).all()}
    assert (stored["parrot"].rank, stored["sailor"].rank, stored["parrot"].scale) == (4, 8, 0.5)
    assert stored["parrot"].source == f"hf.co/ann/peft@{COMMIT}"
    assert "parrot is demo under this adapter" in capsys.readouterr().err
    asked = len(hub.asked)
    with pytest.raises(LocalLLMError, match="already called parrot"):
        add("parrot", "hf.co/ann/peft")
    assert len(hub.asked) == asked, "nothing is fetched for a name that is taken"
