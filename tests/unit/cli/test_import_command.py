"""The bodies of `localllm import` and `localllm create`: what they print, what they return, whom they ask."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from localllm.cli.commands.store.create import create_model
from localllm.cli.commands.store.import_models import import_models
from localllm.errors import InvalidParameter, ModelNotFound
from localllm.registry.listing import store_of
from localllm.registry.names.model_names import parse
from localllm.settings.config import Settings
from tests.foreign_stores import OllamaStore, write_adapter
from tests.models.maker import write_llama

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A user whose other programs have nothing."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "user"))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "LLAMA_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    return Settings(home=tmp_path / "home")


@pytest.fixture
def ollama(settings: Settings, tmp_path: Path, tiny_model: Path) -> OllamaStore:
    store = OllamaStore(tmp_path / "user" / ".ollama" / "models")
    store.add("registry.ollama.ai/library/tiny/1b", tiny_model, params={"num_gpu": 1})
    store.manifest("registry.ollama.ai/library/broken/1b", b"{}")
    return store


def test_listing_shows_what_is_there_and_what_is_wrong_with_it(
    settings: Settings, ollama: OllamaStore, capsys: Capture
) -> None:
    assert import_models(settings, list_only=True) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["PROGRAM", "MODEL", "SIZE", "QUANT", "AS"]
    assert lines[2][:2] == ["ollama", "tiny:1b"]
    assert lines[2][-1] == "ollama:tiny:1b"
    assert "unusable: has a damaged manifest" in out
    assert "localllm import --all imports them" in err
    assert store_of(settings.data_dir).list() == ()
    assert not settings.data_dir.exists()


def test_everything_that_can_be_used_is_taken_in_once(settings: Settings, ollama: OllamaStore, capsys: Capture) -> None:
    assert import_models(settings, how="reference") == 0
    out, err = capsys.readouterr()
    assert "imported, as ollama:tiny:1b" in out
    assert "num_gpu" in err
    assert store_of(settings.data_dir).find(parse("ollama:tiny:1b")) is not None
    assert import_models(settings) == 0
    assert "here already, as ollama:tiny:1b" in capsys.readouterr().out


def test_json_has_a_row_for_each(settings: Settings, ollama: OllamaStore, capsys: Capture) -> None:
    import_models(settings, list_only=True, as_json=True)
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["tiny:1b"]["state"] == "found"
    assert rows["tiny:1b"]["paths"] == [str(path) for path in map(os.path.realpath, rows["tiny:1b"]["paths"])]
    assert rows["broken:1b"]["state"] == "unusable"
    assert "damaged manifest" in rows["broken:1b"]["reason"]


def test_a_name_or_a_path_chooses_and_may_be_renamed(
    settings: Settings, ollama: OllamaStore, tmp_path: Path, capsys: Capture
) -> None:
    assert import_models(settings, ["tiny:1b"], name="mine") == 0
    write_llama(tmp_path / "loose.gguf", seed=5)
    assert import_models(settings, [str(tmp_path / "loose.gguf")]) == 0
    assert {manifest.name for manifest in store_of(settings.data_dir).list()} == {"mine", "loose"}
    with pytest.raises(ModelNotFound, match="localllm import lists"):
        import_models(settings, ["no-such:1b"])
    with pytest.raises(InvalidParameter, match="--name needs exactly one model"):
        import_models(settings, name="all")


def test_a_failure_is_told_and_does_not_keep_the_others(settings: Settings, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    write_adapter(folder / "a\x1b[31mlora.gguf")
    write_llama(folder / "good.gguf")
    assert import_models(settings, [str(folder)]) == 4
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "unusable: is a LoRA adapter" in out
    assert "imported, as good" in out


def test_where_nothing_is_found_the_remedy_is_named(settings: Settings, capsys: Capture) -> None:
    assert import_models(settings, tool="lmstudio") == 0
    assert "name a file or folder" in capsys.readouterr().err


def test_a_model_is_created_of_the_carried_one_and_of_it_another(
    settings: Settings, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "Modelfile"
    file.write_text("FROM demo\nSYSTEM Speak like a pirate.\nREQUIRES 0.14.0\n")
    assert create_model(settings, "pirate", file) == 0
    assert "no effect here" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"FROM pirate\nPARAMETER temperature 0\n")))
    assert create_model(settings, "calm-pirate", Path("-"), as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "calm-pirate"
    made = store_of(settings.data_dir).find(parse("calm-pirate"))
    assert made is not None
    assert (made.system, made.params.temperature) == ("Speak like a pirate.", 0.0)


def test_a_modelfile_that_is_none_is_refused(settings: Settings, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "nothing", tmp_path, tmp_path / "pipe"):
        with pytest.raises(InvalidParameter, match="name another with -f"):
            create_model(settings, "x", file)
    (tmp_path / "Modelfile").write_text("FROM never-heard-of\n")
    with pytest.raises(ModelNotFound, match="never-heard-of"):
        create_model(settings, "x", tmp_path / "Modelfile")
