"""Models made from Modelfiles: settings on top of files that stay where they are."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from localllm.errors import InvalidModelFile, InvalidParameter, ModelNotFound
from localllm.registry.disk.store import Store
from localllm.registry.making.create import create, modelfile_of
from localllm.registry.making.modelfile import Modelfile, parse_modelfile
from localllm.registry.manifest import Manifest
from localllm.registry.names.model_names import CatalogName, parse
from localllm.types import Message, SamplingParams
from tests.foreign_stores import write_adapter, write_projector
from tests.models.maker import shards_of, write_llama


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home" / "models")


def nothing(name: str) -> Manifest:
    raise ModelNotFound(f"{name} is not here")


def stored(store: Store, name: str) -> Manifest:
    found = store.find(parse(name))
    assert found is not None
    return found


def test_a_model_is_made_of_a_file_beside_the_modelfile(tmp_path: Path, store: Store, tiny_model: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "tiny.gguf").write_bytes(tiny_model.read_bytes())
    text = "FROM ./weights/tiny.gguf\nPARAMETER temperature 0.5\nPARAMETER stop END\nSYSTEM Be kind.\nMESSAGE user Hi\n"
    made = create("kind", parse_modelfile(text), store, base_dir=tmp_path, resolve=nothing)
    assert made == stored(store, "kind")
    assert (made.params, made.stop, made.system) == (SamplingParams(temperature=0.5), ("END",), "Be kind.")
    assert made.messages == (Message("user", "Hi"),)
    assert made.quant == "F32"
    with store.open_model(made) as opened:
        assert opened.path.read_bytes() == tiny_model.read_bytes()


def test_settings_of_a_stored_model_stay_unless_the_modelfile_says_otherwise(store: Store, tiny_model: Path) -> None:
    base = create(
        "base",
        Modelfile(bases=(str(tiny_model),), params=SamplingParams(temperature=0.5, top_k=7), system="old", ctx=64),
        store,
        base_dir=Path("/"),
        resolve=nothing,
    )
    made = create(
        "derived",
        parse_modelfile('FROM base\nPARAMETER temperature 0\nSYSTEM new\nPARAMETER stop "<|x|>"\n'),
        store,
        base_dir=Path("/"),
        resolve=lambda name: stored(store, name),
    )
    assert made.files == base.files
    assert made.params == SamplingParams(temperature=0.0, top_k=7)
    assert (made.system, made.ctx, made.stop) == ("new", 64, ("<|x|>",))
    without = create(
        "silent",
        parse_modelfile('FROM base\nSYSTEM ""\n'),
        store,
        base_dir=Path("/"),
        resolve=lambda name: stored(store, name),
    )
    assert without.system is None


def test_a_model_can_be_made_again_of_its_modelfile(store: Store, tiny_model: Path) -> None:
    made = create(
        "whole",
        Modelfile(
            bases=(str(tiny_model),),
            params=SamplingParams(temperature=0.25, max_tokens=9, ignore_eos=True, logit_bias={3: -1.5}),
            stop=("a\nb",),
            ctx=128,
            system='two\n"lines"',
            template="{% for m in messages %}{{ m.content }}{% endfor %}",
            messages=(Message("user", "q"), Message("assistant", "a")),
            license_text=("MIT\n\nfree\n",),
        ),
        store,
        base_dir=Path("/"),
        resolve=nothing,
    )
    text = modelfile_of(made)
    assert "FROM whole\n" in text
    again = create("again", parse_modelfile(text), store, base_dir=Path("/"), resolve=lambda name: stored(store, name))
    assert msgspec.structs.replace(again, name="whole", created_at=made.created_at) == made


def test_a_second_from_is_the_projector(tmp_path: Path, store: Store, tiny_model: Path) -> None:
    write_projector(tmp_path / "mmproj.gguf")
    text = f"FROM {tiny_model}\nFROM ./mmproj.gguf\n"
    made = create("seeing", parse_modelfile(text), store, base_dir=tmp_path, resolve=nothing)
    assert [file.role for file in made.files] == ["model", "projector"]
    with pytest.raises(InvalidModelFile, match="is not a projector"):
        create("x", Modelfile(bases=(str(tiny_model),) * 2), store, base_dir=tmp_path, resolve=nothing)


def test_all_shards_of_a_split_model_are_taken(tmp_path: Path, store: Store) -> None:
    path = write_llama(tmp_path / "split.gguf", max_tensors_per_file=8)
    first = shards_of(path)[0]
    made = create("split", Modelfile(bases=(str(first),)), store, base_dir=tmp_path, resolve=nothing)
    assert [file.file_name for file in made.files] == [shard.name for shard in shards_of(path)]
    shards_of(path)[1].unlink()
    with pytest.raises(InvalidModelFile, match="is missing"):
        create("split2", Modelfile(bases=(str(first),)), store, base_dir=tmp_path, resolve=nothing)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "link to device", "text", "adapter", "projector"])
def test_from_takes_models_only_and_waits_for_nothing(tmp_path: Path, store: Store, kind: str) -> None:
    """CVE-2024-39721: FROM /dev/random never came to an end."""
    path = tmp_path / "m.gguf"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "link to device":
        path.symlink_to("/dev/random")
    elif kind == "text":
        path.write_text("no model at all, but long enough to be looked at")
    elif kind == "adapter":
        write_adapter(path)
    else:
        write_projector(path)
    with pytest.raises(InvalidModelFile):
        create("x", Modelfile(bases=(str(path),)), store, base_dir=tmp_path, resolve=nothing)
    assert store.find(CatalogName("x")) is None


def test_a_server_opens_no_path_and_does_not_tell_whether_it_is_there(store: Store, tiny_model: Path) -> None:
    """CVE-2024-39719: the errors of create told which files exist."""
    messages = set()
    for path in (str(tiny_model), "/etc/passwd", "./nothing.gguf", "~/x.gguf", "C:\\x.gguf", "\\\\host\\share"):
        with pytest.raises(InvalidParameter) as caught:
            create("x", Modelfile(bases=(path,)), store, base_dir=Path("/"), resolve=nothing, allow_paths=False)
        messages.add(caught.value.message.replace(repr(path), ""))
    assert len(messages) == 1


@pytest.mark.parametrize("name", ["demo", "./m.gguf", "m.gguf", "/abs", "A B", "../up", ""])
def test_a_model_cannot_have_a_name_that_means_something_else(store: Store, tiny_model: Path, name: str) -> None:
    with pytest.raises(InvalidParameter):
        create(name, Modelfile(bases=(str(tiny_model),)), store, base_dir=Path("/"), resolve=nothing)


def test_a_name_that_nobody_knows_is_the_resolvers_error(store: Store) -> None:
    with pytest.raises(ModelNotFound, match="no-such is not here"):
        create("x", Modelfile(bases=("no-such",)), store, base_dir=Path("/"), resolve=nothing)
