"""Which projector a model gets, and what is said where it gets none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from localllm.errors import InvalidParameter, LoadFailed
from localllm.gguf import read_model_info
from localllm.planning.projector_plan import Companion
from localllm.registry.projector_choice import find_projector, useful_projector
from localllm.registry.resolve import ModelFile, resolve
from localllm.types.load_options import LoadOptions
from tests.models.media import write_media_model
from tests.models.raw import STRING, U32, key
from tests.models.rekeyed import Rekeyed


def found(model: Path, **options: object) -> Companion:
    file = resolve(model, Path("no-such-folder"))
    return find_projector(file, read_model_info(model), LoadOptions(**options))  # type: ignore[arg-type]


def test_a_bare_file_gets_the_projector_beside_it_if_that_is_for_no_other_model(tmp_path: Path) -> None:
    made = write_media_model("gemma3", tmp_path)
    projector = found(made.model).projector
    assert projector is not None
    assert (projector.path, projector.info.reads) == (made.projector, ("image", "video"))
    other = shutil.copy(made.model, tmp_path / "other.gguf")
    assert found(made.model).projector == projector, "its name says whose it is"
    assert found(Path(other)).no_media == "it has no projector (mmproj); --mmproj FILE names one"
    better = shutil.copy(made.projector, tmp_path / "mmproj-tiny-gemma3-F16.gguf")
    again = found(made.model).projector
    assert again is not None
    assert again.path == Path(better)


def test_a_projector_that_was_named_is_used_or_is_an_error(tmp_path: Path) -> None:
    made = write_media_model("mlp", tmp_path)
    wide = tmp_path / "wide.gguf"
    layers = "llama.n_deepstack_layers"
    wide.write_bytes(Rekeyed(made.model.read_bytes()).having(layers, key(layers, U32, 3)))
    assert found(made.model, mmproj=str(made.projector)).projector is not None
    with pytest.raises(LoadFailed, match="64 numbers, and this model with its 3 deepstack layers reads 256"):
        found(wide, mmproj=str(made.projector))
    with pytest.raises(LoadFailed, match="is not a projector"):
        found(made.model, mmproj=str(made.model))
    no_wish_for_one = found(wide, projector="cpu")  # as it may be set for all models
    assert no_wish_for_one.no_media == "it has no projector (mmproj); --mmproj FILE names one"
    assert "deepstack" not in useful_projector(resolve(wide, tmp_path), read_model_info(wide), LoadOptions()).no_media


def test_one_that_nobody_named_and_is_of_no_use_leaves_text_and_its_reason(tmp_path: Path) -> None:
    made = write_media_model("qwen2vl", tmp_path)
    with pytest.raises(InvalidParameter, match="5000 is more than the 4,096 tokens of this model's largest picture"):
        found(made.model, image_min_tokens=5000)
    assert found(made.model, projector="off").no_media.startswith("its projector is off")
    kind = "clip.projector_type"
    whole = made.projector.read_bytes()
    made.projector.write_bytes(Rekeyed(whole).having(kind, key(kind, STRING, "newest")))
    assert "is of the unknown type 'newest'" in found(made.model).no_media
    made.projector.write_bytes(whole[:1000])
    companion = found(made.model)
    assert companion.projector is None
    assert "its projector cannot be used: mmproj-tiny-qwen2vl.gguf is not a usable GGUF file" in companion.no_media
    pulled = ModelFile("hf.co/u/m-GGUF:Q4_K_M", made.model)
    said = find_projector(pulled, read_model_info(made.model), LoadOptions()).no_media
    assert "localllm pull hf.co/u/m-GGUF:Q4_K_M downloads it if the model has one" in said
    bundled = resolve("demo", tmp_path)._replace(projector=None)
    said = find_projector(bundled, read_model_info(bundled.path), LoadOptions()).no_media
    assert said == "it has no projector (mmproj); --mmproj FILE names one", "no pull brings one for what is carried"
