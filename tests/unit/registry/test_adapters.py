"""Adapters by name: how they are written, and those that were added to models."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from localllm.cli.commands.store.adapters import manage_adapters
from localllm.errors import InvalidModelFile, InvalidParameter, ModelNotFound
from localllm.gguf.control_vectors import write_control_vector
from localllm.gguf.info import read_model_info
from localllm.registry.adapters.names import (
    GivenAdapter,
    NamedAdapter,
    composed,
    name_of,
    parse_all_given,
    parse_given,
    with_given,
)
from localllm.registry.adapters.shelf import Shelf
from localllm.registry.making.modelfile import format_modelfile, parse_modelfile
from localllm.registry.names.digest import encode_digest
from localllm.registry.resolve import carried
from localllm.runtime.adapters import AdapterNames
from localllm.settings import config
from localllm.settings.config import Settings
from localllm.types import Layers
from tests.models.activated import write_activated
from tests.models.families import write_lora

PIRATE = carried("demo-pirate-lora.gguf")


def test_a_file_has_a_name_and_a_scale_or_those_that_it_gets() -> None:
    assert parse_given("x=a/b.gguf:0.5") == GivenAdapter("x", Path("a/b.gguf"), 0.5)
    assert parse_given("a/My Style.gguf") == GivenAdapter("my-style", Path("a/My Style.gguf"), 1.0)
    assert parse_given("C:\\x\\y.gguf").path == Path("C:\\x\\y.gguf")
    assert parse_given("./a=b.gguf:-1").path == Path("./a=b.gguf")
    assert parse_given("x=a.gguf:0.5:2-9") == GivenAdapter("x", Path("a.gguf"), 0.5, Layers(2, 9))
    assert parse_given("a.gguf:2-9") == GivenAdapter("a", Path("a.gguf"), 1.0, Layers(2, 9))
    assert with_given("demo", "x=a.gguf, b.gguf:2", "c.gguf:0.5:1-3") == "demo+x+b+c"
    assert name_of(Path("Über Größe.GGUF")) == "ber-gr-e"
    for wrong in ("X=a.gguf", "con=a.gguf", "x=", "x=a.gguf:1001"):
        with pytest.raises(InvalidParameter):
            parse_given(wrong)
    with pytest.raises(InvalidParameter, match="same name"):
        parse_all_given("a.gguf,b/a.gguf", None)
    with pytest.raises(InvalidParameter, match="same name"):
        parse_all_given("a.gguf", "b/a.gguf")


def test_a_models_name_may_have_adapters_behind_it() -> None:
    assert composed("demo+pirate:0.5+x") == ("demo", (NamedAdapter("pirate", 0.5), NamedAdapter("x", None)))
    assert composed("hf.co/a/b:Q4_K_M+x") == ("hf.co/a/b:Q4_K_M", (NamedAdapter("x", None),))
    assert composed("demo+x:0.5:10-20+y:3-3") == (
        "demo",
        (NamedAdapter("x", 0.5, Layers(10, 20)), NamedAdapter("y", None, Layers(3, 3))),
    )
    for other in (
        "demo+x:10-20:0.5",
        "demo+x:0-3",
        "demo",
        "demo+",
        "+x",
        "./a+b.gguf",
        "demo+X",
        "demo+x:fast",
        "a+b/c",
    ):
        assert composed(other) is None
    with pytest.raises(InvalidParameter, match="at most 16"):
        composed("demo" + "+x" * 17)


def test_an_adapter_is_kept_until_it_is_removed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    file = tmp_path / "mine.gguf"
    file.write_bytes(PIRATE.read_bytes())
    first, other = shelf.add("demo", "sailor", file), shelf.add("demo:latest", "captain", file, 0.5)
    file.unlink()
    assert (first.base, first.rank, other.scale) == ("demo", 8, 0.5)
    assert [each.name for each in shelf.all()] == ["captain", "sailor"]
    assert shelf.path(first).read_bytes() == PIRATE.read_bytes()
    shelf.remove("sailor")
    assert shelf.path(other).exists(), "another has the same content"
    shelf.remove("captain")
    assert list(shelf.folder.iterdir()) == []
    with pytest.raises(ModelNotFound, match="no adapter is called"):
        shelf.remove("captain")


def test_what_is_kept_of_an_activated_adapter_says_so(tmp_path: Path) -> None:
    added = Shelf(tmp_path).add("demo", "judge", write_activated(PIRATE, tmp_path / "judge.gguf", (5, 7)))
    assert added.invocation == (5, 7)
    (known,) = (each for each in AdapterNames(Settings(home=tmp_path)).everything() if each.name == "judge")
    assert known.invocation == (5, 7)


def test_a_control_vector_keeps_the_layers_that_it_was_added_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    width, made = read_model_info(carried("demo.gguf")).embedding_length or 0, Settings(home=tmp_path)
    write_control_vector(tmp_path / "v.gguf", "llama", np.ones((3, width), np.float32), first=1)
    words = ["demo", "calm", str(tmp_path / "v.gguf")]
    for layers, reason in (("3", "is not FIRST-LAST"), ("2-4", "layers 2-4 of v.gguf: the model has vectors")):
        with pytest.raises(InvalidParameter, match=reason):
            manage_adapters(made, "add", words, scale=0.5, layers=layers, type="F16", as_json=False)
    manage_adapters(made, "add", words, scale=0.5, layers="2-3", type="F16", as_json=False)
    manage_adapters(made, "list", [], scale=1.0, type="F16", as_json=False)
    assert "0.5:2-3" in capsys.readouterr().out
    names = AdapterNames(made)
    for name, scale, wanted in (("calm", 0.5, Layers(2, 3)), ("demo+calm:2:3-3", 2.0, Layers(3, 3))):
        found = names.variant(name)
        assert found is not None
        ((adapter, strength),) = found.adapters
        assert (strength, adapter.layers) == (scale, wanted)


def test_taken_names_files_of_other_models_and_damaged_records_are_refused(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.add("demo", "sailor", PIRATE)
    for name, reason in (("sailor", "already"), ("demo", "name of a model"), ("../x", "not a name"), ("con", "not a")):
        with pytest.raises(InvalidParameter, match=reason):
            shelf.add("demo", name, PIRATE)
    with pytest.raises(InvalidModelFile):
        shelf.add("demo", "foreign", write_lora(tmp_path / "foreign.gguf"))
    with pytest.raises(ModelNotFound):
        shelf.add("demo", "gone", tmp_path / "gone.gguf")
    (shelf.folder / "broken.json").write_text("{")
    (shelf.folder / "other.json").write_bytes((shelf.folder / "sailor.json").read_bytes())
    assert [each.name for each in shelf.all()] == ["sailor"]


def test_names_mean_models_under_adapters(tmp_path: Path) -> None:
    names = AdapterNames(Settings(home=tmp_path))
    Shelf(tmp_path).add("demo", "sailor", PIRATE, 0.5)

    def meant(name: str) -> tuple[str, list[tuple[str, float]]]:
        found = names.variant(name)
        assert found is not None
        return found.base, [(adapter.name, scale) for adapter, scale in found.adapters]

    assert meant("sailor") == meant("sailor:latest") == ("demo", [("sailor", 0.5)])
    assert meant("demo+pirate:0.25") == ("demo", [("pirate", 0.25)])
    assert meant("sailor+pirate") == ("demo", [("sailor", 0.5), ("pirate", 1.0)])
    assert names.variant("demo") is None
    assert (names.base("sailor"), names.base("demo+pirate"), names.base("x")) == ("demo", "demo", "x")
    assert [model.base for model in names.listed()] == ["demo"]
    with pytest.raises(ModelNotFound, match="has no adapter called 'poet'; it has sailor, pirate"):
        names.variant("demo+poet")
    assert names.base("demo+poet") == "demo+poet"
    Shelf(tmp_path).remove("sailor")
    assert names.variant("sailor") is None


def test_a_section_names_a_combination_and_an_adapter_that_is_gone_is_a_problem_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[models."captain"]\nbase = "demo"\nadapters = ["sailor:0.25", "pirate"]\n'
        '[models."sailor"]\nbase = "demo"\nadapters = ["sailor:2"]\n'
    )
    names = AdapterNames(config.load({"home": tmp_path}, environ={}))
    Shelf(tmp_path).add("demo", "sailor", PIRATE, 0.5)
    for name, adapters in (("captain", [("sailor", 0.25), ("pirate", 1.0)]), ("sailor", [("sailor", 2.0)])):
        found = names.variant(name)
        assert found is not None
        assert (found.name, found.base) == (name, "demo")
        assert [(adapter.name, scale) for adapter, scale in found.adapters] == adapters
    assert sorted((model.id, model.base, model.problem) for model in names.listed()) == [
        ("captain", "demo", None),
        ("sailor", "demo", None),
    ]
    Shelf(tmp_path).remove("sailor")
    with pytest.raises(ModelNotFound, match=r'\[models."captain"\] in config.toml: .* no adapter called .sailor'):
        names.variant("captain")
    assert [model.problem is None for model in names.listed()] == [False, False]


def test_five_hundred_adapters_are_found_by_name_in_a_moment(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    stored = shelf.add("demo", "first", PIRATE)
    for number in range(500):
        name = f"a{number}"
        raw = msgspec.json.encode(msgspec.structs.replace(stored, name=name), enc_hook=encode_digest)
        (shelf.folder / f"{name}.json").write_bytes(raw)
    names = AdapterNames(Settings(home=tmp_path))
    assert len(names.listed()) == 501
    began_s = time.process_time()
    for number in range(0, 500, 5):
        assert names.variant(f"demo+a{number}") is not None
    assert time.process_time() - began_s < 0.5, "5 ms for each, of which it takes a tenth"


def test_a_modelfile_may_name_an_adapter_and_a_strength() -> None:
    text = "FROM demo\nADAPTER ./my style.gguf 0.5\n"
    found = parse_modelfile(text)
    assert (found.adapter, found.adapter_scale) == ("./my style.gguf", 0.5)
    assert format_modelfile(found) == text
    assert parse_modelfile("FROM demo\nADAPTER a.gguf").adapter_scale == 1.0
