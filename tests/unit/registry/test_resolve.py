"""From a name to a file: what is here is found, what is not is explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.registry.disk.store import now_text
from localllm.registry.listing import copy, id_of, remove, store_of
from localllm.registry.manifest import Manifest
from localllm.registry.names.suggested import storable
from localllm.registry.resolve import among, is_downloadable, resolve
from localllm.types import Message, SamplingParams

NOWHERE = Path("no-such-folder")
"""A data directory with no store in it."""


def test_a_file_is_found_by_its_path_and_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tiny.gguf", "big-00001-of-00003.gguf", "user-repo"):
        (tmp_path / name).touch()
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "repo").touch()
    monkeypatch.chdir(tmp_path)
    assert resolve("tiny.gguf", NOWHERE)[:2] == ("tiny", tmp_path / "tiny.gguf")
    assert resolve(Path("./big-00001-of-00003.gguf"), NOWHERE).id == "big"
    assert resolve(tmp_path / "user-repo", NOWHERE).id == "user-repo"
    assert resolve("user/repo", NOWHERE).path == tmp_path / "user" / "repo", "it could mean nothing else"


def test_a_link_keeps_its_name_as_in_hugging_faces_cache(tmp_path: Path) -> None:
    """There, names are links to files called by their digests, and shards are found by name."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshots").mkdir()
    paths = []
    for number in (1, 2):
        (tmp_path / "blobs" / str(number)).write_bytes(b"GGUF")
        paths.append(tmp_path / "snapshots" / f"big-0000{number}-of-00002.gguf")
        paths[-1].symlink_to(Path("..") / "blobs" / str(number))
    found = resolve(paths[0], tmp_path)
    assert (found.id, found.path.name) == ("big", paths[0].name)
    assert found.path.samefile(tmp_path / "blobs" / "1")
    assert resolve(paths[0].parent, tmp_path).path == found.path, "the folder has this one model"


def test_a_folder_means_its_only_model(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    with pytest.raises(ModelNotFound, match="no GGUF file in the folder"):
        resolve(folder, tmp_path)
    for name in ("a.gguf", "mmproj-a.gguf", "README.md"):
        (folder / name).touch()
    assert resolve(str(folder), tmp_path).path == folder / "a.gguf"
    (folder / "b.gguf").touch()
    with pytest.raises(InvalidParameter, match=r"several models: a.gguf, b.gguf; name one"):
        resolve(folder, tmp_path)


def test_the_carried_model_is_found_wherever_one_is_even_beside_a_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo").touch()
    monkeypatch.chdir(tmp_path)
    assert resolve("demo", NOWHERE).path.name == "demo.gguf"
    assert resolve("./demo", NOWHERE).path == tmp_path / "demo"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing.gguf", r"no model file 'nothing\.gguf'"),
        ("qwen3:0.6b", r"localllm pull qwen3:0\.6b downloads it: hf\.co/Qwen/Qwen3-0\.6B-GGUF \(Q8_0, about 0\.6 GB,"),
        ("qwen3:latest", r"localllm pull qwen3:4b downloads it"),
        ("qwen33", "did you mean qwen3 "),
        ("wholly-unheard-of", r"no model is called 'wholly-unheard-of'; localllm search finds more \(a file"),
        ("hf.co/a/b:Q4_K_M", r"hf\.co/a/b:Q4_K_M is not on this machine"),
        ("ollama:llama3.2", "ollama:llama3.2:latest is not on this machine"),
    ],
)
def test_what_is_not_on_this_machine_is_explained(name: str, says: str) -> None:
    with pytest.raises(ModelNotFound, match=says):
        resolve(name, NOWHERE)


@pytest.mark.parametrize("name", ["user/repo", "Qwen3", "a\0b", ""])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameter, match="is not a model name"):
        resolve(name, NOWHERE)


def test_models_of_this_machine_are_suggested_first(tmp_path: Path) -> None:
    put(tmp_path, "llama-tuned:1b")
    for name, meant in (("dmo", "demo"), ("lama-tuned:1b", "llama-tuned:1b"), ("qwen33", "qwen3 ")):
        with pytest.raises(ModelNotFound, match=f"did you mean {meant}"):
            resolve(name, tmp_path)


def put(data_dir: Path, name: str, **fields: Any) -> Manifest:
    store = store_of(data_dir)
    file = store.add_bytes(b"GGUF", file_name="tiny.gguf")
    manifest = Manifest(name=name, created_at=now_text(), files=(file,), **fields)
    store.put(manifest)
    return manifest


def test_a_model_of_the_store_is_found_with_what_its_manifest_sets(tmp_path: Path) -> None:
    messages = (Message("user", "Hi"),)
    params = SamplingParams(temperature=0.5)
    put(tmp_path, "mine:1b", system="Be kind.", messages=messages, params=params, stop=("END",), template="x", ctx=99)
    found = resolve("mine:1b", tmp_path)
    found.release()
    assert found.path.read_bytes() == b"GGUF"
    assert (found.id, found.template, found.ctx) == ("mine:1b", "x", 99)
    assert (found.defaults.system, found.defaults.messages) == ("Be kind.", messages)
    assert found.defaults.params == msgspec.structs.replace(params, stop=("END",))


def test_a_short_name_without_a_tag_is_one_of_ours_else_the_catalogs_own(tmp_path: Path) -> None:
    put(tmp_path, "qwen3:4b")
    for name in ("qwen3:4b", "qwen3"):
        found = resolve(name, tmp_path)
        found.release()
        assert found.id == "qwen3:4b"
    put(tmp_path, "qwen3")
    found = resolve("qwen3", tmp_path)
    found.release()
    assert found.id == "qwen3"


def test_latest_is_the_tag_that_a_name_without_one_has(tmp_path: Path) -> None:
    put(tmp_path, "mine")
    put(tmp_path, "qwen3:4b")
    for name, id in (("mine:latest", "mine"), ("qwen3:latest", "qwen3:4b"), ("demo:latest", "demo")):
        found = resolve(name, tmp_path)
        found.release()
        assert found.id == id
    with pytest.raises(ModelNotFound, match="no model is called 'mine:1b'"):
        resolve("mine:1b", tmp_path)
    assert storable("mine:latest") == "mine", "a new model cannot be confused with the one without a tag"
    assert copy("mine", "yours:latest", tmp_path).name == "yours"
    put(tmp_path, "mine:latest")
    assert id_of("mine:latest", tmp_path) == "mine:latest", "a model stored under that very name comes first"
    assert remove("qwen3:latest", tmp_path).name == "qwen3:4b"


def test_a_labelled_version_stays_what_it_was_and_a_digest_means_nothing_else(tmp_path: Path) -> None:
    first = put(tmp_path, "mine", system="Be kind.")
    copy("mine", "mine@v1", tmp_path)
    second = put(tmp_path, "mine", system="Be brief.")
    for name, system in (
        ("mine", "Be brief."),
        ("mine@latest", "Be brief."),
        ("mine@v1", "Be kind."),
        (f"mine@{second.digest[:8]}", "Be brief."),
        (f"mine@{first.digest[:12]}", "Be kind."),
        ("mine:latest@v1", "Be kind."),
    ):
        found = resolve(name, tmp_path)
        found.release()
        assert found.defaults.system == system, name
    assert id_of(f"mine@{first.digest}", tmp_path) == "mine@v1"
    for name in ("mine@v2", f"mine@{first.digest[:7]}", "yours@v1", "mine@00000000"):
        with pytest.raises(ModelNotFound, match=f"no model here is {name}; localllm cp"):
            resolve(name, tmp_path)
    copy("mine@v1", "mine@v1", tmp_path)
    with pytest.raises(InvalidParameter, match="mine@v1 is another version already, and stays"):
        copy("mine", "mine@v1", tmp_path)
    assert not is_downloadable("mine@v1")
    with pytest.raises(InvalidParameter, match="demo is part of localllm and has no versions"):
        resolve("demo@v1", tmp_path)


def test_a_name_means_one_of_those_that_are_loaded() -> None:
    for name, id in (("a", "a"), ("a:latest", "a"), ("Tiny-Q8_0:latest", "Tiny-Q8_0"), ("qwen3", "qwen3:4b")):
        assert among(["a", "Tiny-Q8_0", "qwen3:4b"], name) == id
    assert among(["a:latest", "a"], "a:latest") == "a:latest"
    for name in ("a:1b", "b:latest", "a b"):
        assert among(["a", "qwen3:0.6b"], name) is None


def test_names_from_outside_tell_nothing_of_files(tmp_path: Path) -> None:
    (tmp_path / "secret.gguf").touch()
    told = set()
    for path in (tmp_path / "secret.gguf", tmp_path / "missing.gguf"):
        with pytest.raises(ModelNotFound) as error:
            resolve(str(path), tmp_path, allow_paths=False)
        told.add(error.value.message.replace(str(path), "PATH"))
    assert len(told) == 1
    with pytest.raises(ModelNotFound, match="is not a model name"):
        resolve("user/repo", tmp_path, allow_paths=False)
