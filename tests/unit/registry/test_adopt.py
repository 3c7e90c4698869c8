"""Taking the models of other programs in: verified, not copied, and with what the other program set for them."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from localllm.errors import InvalidModelFile, InvalidParameter, LocalLLMError
from localllm.registry.adopt import adopt, find_foreign, is_adopted
from localllm.registry.disk.store import Store
from localllm.registry.foreign.foreign_model import ForeignModel, Root, Tool
from localllm.registry.names.model_names import parse
from localllm.registry.remote import Cancelled
from tests.foreign_stores import HubCache, OllamaStore, write_projector
from tests.models.maker import shards_of, write_llama

COMMIT = "c" * 40


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home" / "models")


@pytest.fixture
def in_ollama(tmp_path: Path, tiny_model: Path) -> ForeignModel:
    ollama = OllamaStore(tmp_path / "ollama")
    ollama.add("registry.ollama.ai/library/tiny/1b", tiny_model, params={"temperature": 0.5}, system="Be kind.")
    return only("ollama", ollama.root)


def only(tool: Tool, path: Path) -> ForeignModel:
    (model,) = find_foreign([Root(tool, path)], skipped=lambda text: pytest.fail(text))
    return model


def test_a_model_of_ollamas_is_taken_in_with_its_settings_and_without_a_copy(
    store: Store, in_ollama: ForeignModel, tiny_model: Path
) -> None:
    progress: list[int] = []
    manifest = adopt(in_ollama, store, how="hardlink", on_bytes=progress.append)
    assert manifest == store.find(parse("ollama:tiny:1b"))
    assert (manifest.system, manifest.params.temperature, manifest.quant) == ("Be kind.", 0.5, "F32")
    assert sum(progress) == in_ollama.size_bytes == tiny_model.stat().st_size
    with store.open_model(manifest) as opened:
        assert opened.path.samefile(in_ollama.files[0].path)
    assert not any(damaged for damaged in store.verify(manifest))


def test_by_reference_nothing_is_put_beside_the_manifest_and_a_lost_file_is_a_clear_error(
    store: Store, in_ollama: ForeignModel
) -> None:
    manifest = adopt(in_ollama, store, how="reference", name="mine")
    assert manifest.name == "mine"
    assert not any(store.root.joinpath("blobs").glob("sha256-*"))
    in_ollama.files[0].path.unlink()
    with pytest.raises(LocalLLMError, match="no longer exists"):
        store.open_model(manifest)


def test_what_is_not_what_its_program_says_is_refused_and_not_published(store: Store, in_ollama: ForeignModel) -> None:
    path = in_ollama.files[0].path
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidModelFile, match="is damaged"):
        adopt(in_ollama, store)
    assert store.list() == ()
    assert path.read_bytes() == bytes(content)


def test_a_file_that_changed_since_it_was_found_is_looked_at_again(store: Store, in_ollama: ForeignModel) -> None:
    in_ollama.files[0].path.write_text("something else")
    with pytest.raises(InvalidModelFile, match=r"tiny:1b \(ollama\) cannot be read as GGUF"):
        adopt(in_ollama, store)


def test_a_broken_model_is_refused_with_its_problem(store: Store, tmp_path: Path) -> None:
    model = only("folder", write_projector(tmp_path / "mmproj-x.gguf"))
    with pytest.raises(InvalidModelFile, match="projector"):
        adopt(model, store)


def test_a_split_model_with_a_projector_opens_under_its_shards_names(store: Store, tmp_path: Path) -> None:
    write_llama(tmp_path / "Big-F32.gguf", max_tensors_per_file=8)
    shards = shards_of(tmp_path / "Big-F32.gguf")
    cache = HubCache(tmp_path / "hub")
    projector = write_projector(tmp_path / "mmproj-Big.gguf")
    cache.add("some/Big", COMMIT, {shard.name: shard for shard in [*shards, projector]})
    manifest = adopt(only("huggingface", cache.root), store)
    assert manifest.source == f"hf.co/some/Big@{COMMIT}"
    with store.open_model(manifest) as opened:
        assert opened.path.name == shards[0].name
        assert opened.path.with_name(shards[1].name).read_bytes() == shards[1].read_bytes()
        assert opened.projector is not None
        assert opened.projector.read_bytes() == projector.read_bytes()


def test_adopting_twice_reads_nothing_again(store: Store, in_ollama: ForeignModel) -> None:
    assert not is_adopted(in_ollama, store)
    adopt(in_ollama, store)
    assert is_adopted(in_ollama, store)
    os.utime(in_ollama.files[0].path)
    assert adopt(in_ollama, store).files[0].size_bytes == in_ollama.size_bytes


def test_a_suggested_name_never_displaces_another_model(store: Store, tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        write_llama(tmp_path / str(number) / "same.gguf", seed=number)
    first = adopt(only("folder", tmp_path / "1"), store)
    second = only("folder", tmp_path / "2")
    with pytest.raises(InvalidParameter, match="--name"):
        adopt(second, store)
    assert store.find(parse("same")) == first
    assert adopt(second, store, name="other").name == "other"
    assert adopt(second, store, name="same").files != first.files


@pytest.mark.parametrize("name", ["demo", "./x", "x.gguf", "a b"])
def test_a_name_for_it_must_be_one(store: Store, in_ollama: ForeignModel, name: str) -> None:
    with pytest.raises(InvalidParameter):
        adopt(in_ollama, store, name=name)


def test_a_cancelled_adoption_leaves_no_model(store: Store, in_ollama: ForeignModel) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        adopt(in_ollama, store, cancel=cancel)
    assert store.list() == ()


def test_a_hugging_face_blob_with_a_wrong_name_is_refused(store: Store, tmp_path: Path, tiny_model: Path) -> None:
    cache = HubCache(tmp_path / "hub")
    snapshot = cache.add("some/Repo", COMMIT, {"m-Q8_0.gguf": tiny_model})
    wrong = snapshot.parent.parent / "blobs" / ("0" * 64)
    shutil.move((snapshot / "m-Q8_0.gguf").resolve(), wrong)
    (snapshot / "m-Q8_0.gguf").unlink()
    (snapshot / "m-Q8_0.gguf").symlink_to(wrong)
    with pytest.raises(InvalidModelFile, match="is damaged"):
        adopt(only("huggingface", cache.root), store)
