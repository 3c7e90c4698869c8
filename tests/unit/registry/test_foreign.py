"""Finding the models of other programs, in stores built as those programs build them, broken and hostile ones too."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.gguf import read_model_info
from localllm.registry.adopt import find_foreign
from localllm.registry.foreign import ollama as foreign_ollama
from localllm.registry.foreign import walk
from localllm.registry.foreign.foreign_model import TOOLS, ForeignModel, Root, Tool
from localllm.registry.foreign.roots import default_roots
from localllm.registry.names import model_names
from localllm.registry.names.digest import Digest
from localllm.types import Message, SamplingParams
from tests.foreign_stores import HubCache, OllamaStore, write_adapter, write_fused, write_projector
from tests.models.maker import shards_of, write_llama

LIBRARY = "registry.ollama.ai/library"
COMMIT, OLDER = "a" * 40, "b" * 40


def found(tool: Tool, path: Path, skipped: list[str] | None = None) -> list[ForeignModel]:
    said: list[str] = []
    models = list(find_foreign([Root(tool, path)], skipped=said.append))
    if skipped is None:
        assert said == []
    else:
        skipped += said
    for model in models:
        assert str(model_names.parse(model.suggested_name)) == model.suggested_name
    return models


def only(tool: Tool, path: Path) -> ForeignModel:
    (model,) = found(tool, path)
    return model


@pytest.fixture
def ollama(tmp_path: Path) -> OllamaStore:
    return OllamaStore(tmp_path / "ollama")


def test_a_model_of_ollamas_comes_with_its_settings(ollama: OllamaStore, tiny_model: Path) -> None:
    digest = ollama.add(
        f"{LIBRARY}/tiny/1b",
        tiny_model,
        params={"temperature": 0.5, "stop": ["<|im_end|>", "END"], "num_ctx": 256, "num_gpu": 9},
        system="Be kind.",
        template="{{ .System }}{{ .Prompt }}",
        messages=[{"role": "user", "content": "Hi"}],
        license="MIT License\n\nfree",
    )
    model = only("ollama", ollama.root)
    assert (model.name, model.suggested_name, model.problem) == ("tiny:1b", "ollama:tiny:1b", None)
    assert (model.params, model.stop, model.ctx) == (SamplingParams(temperature=0.5), ("<|im_end|>", "END"), 256)
    assert (model.system, model.messages, model.license) == ("Be kind.", (Message("user", "Hi"),), "MIT")
    assert (model.architecture, model.quant) == ("llama", "F32")
    assert model.num_parameters == read_model_info(tiny_model).num_parameters
    (file,) = model.files
    assert (file.digest, file.file_name) == (Digest.parse(digest), "tiny-1b.gguf")
    assert file.path.read_bytes() == tiny_model.read_bytes()
    assert model.template is None
    assert model.fallback_template is not None
    assert any("num_gpu" in notice for notice in model.notices)


def test_names_of_other_registries_and_of_hugging_face_are_kept(ollama: OllamaStore, tiny_model: Path) -> None:
    for place in (f"{LIBRARY}/tiny/latest", "registry.ollama.ai/me/tiny/v1", "reg.example:5000/me/tiny/v1"):
        ollama.add(place, tiny_model)
    ollama.add("hf.co/some/Repo-GGUF/Q8_0", tiny_model)
    skipped: list[str] = []
    by_name = {model.name: model.suggested_name for model in found("ollama", ollama.root, skipped)}
    assert len(skipped) == 3  # all four are one file
    assert set(by_name.values()) == {"hf.co/some/Repo-GGUF:Q8_0"}


def test_a_repository_pulled_without_a_tag_is_named_by_what_was_got(ollama: OllamaStore, tiny_model: Path) -> None:
    ollama.add("hf.co/some/Repo-GGUF/latest", tiny_model)
    assert only("ollama", ollama.root).suggested_name == "hf.co/some/Repo-GGUF:F32"


def test_a_jinja_template_of_ollamas_store_is_kept(ollama: OllamaStore, tiny_model: Path) -> None:
    jinja = "{% for m in messages %}{{ m.content }}{% endfor %}"
    ollama.add(f"{LIBRARY}/tiny/1b", tiny_model, template=jinja)
    assert only("ollama", ollama.root).template == jinja


def test_a_projector_of_ollamas_store_is_recognised(ollama: OllamaStore, tiny_model: Path, tmp_path: Path) -> None:
    projector = write_projector(tmp_path / "p.gguf").read_bytes()
    ollama.add(f"{LIBRARY}/seeing/1b", tiny_model, projector=projector)
    model = only("ollama", ollama.root)
    assert [(file.role, file.file_name) for file in model.files] == [
        ("model", "seeing-1b.gguf"),
        ("projector", "mmproj-seeing-1b.gguf"),
    ]


@pytest.mark.parametrize(
    "case", ["partial", "missing", "short", "adapter", "tensor", "cloud", "two", "fused", "family"]
)
def test_what_cannot_be_used_of_ollamas_store_says_why(
    ollama: OllamaStore, tiny_model: Path, tmp_path: Path, case: str
) -> None:
    name = f"{LIBRARY}/tiny/1b"
    layer = ollama.layer("model", tiny_model.read_bytes())
    reason = "?"
    if case == "partial":
        blob = ollama.blob_path(layer["digest"])
        blob.rename(blob.with_name(f"{blob.name}-partial"))
        layers, reason = [layer], "is not fully downloaded"
    elif case == "missing":
        ollama.blob_path(layer["digest"]).unlink()
        layers, reason = [layer], "lacks its file sha256-"
    elif case == "short":
        layers, reason = [{**layer, "size": layer["size"] + 1}], "bytes instead of"
    elif case == "adapter":
        layers, reason = (
            [layer, ollama.layer("adapter", write_adapter(tmp_path / "a.gguf").read_bytes())],
            "LoRA adapter",
        )
    elif case == "tensor":
        layers, reason = [ollama.layer("tensor", b"x")], "safetensors"
    elif case == "cloud":
        layers, reason = [], "Ollama's servers"
    elif case == "two":
        layers, reason = [layer, layer], "2 model files"
    elif case == "fused":
        layers, reason = [ollama.layer("model", write_fused(tmp_path / "f.gguf").read_bytes())], "only Ollama's"
    else:
        write_llama(tmp_path / "g.gguf", extra={"general.type": "imatrix"})
        layers, reason = [ollama.layer("model", (tmp_path / "g.gguf").read_bytes())], "importance matrix"
    config = ollama.layer("config", json.dumps({"remote_host": "https://ollama.com"}).encode())
    ollama.manifest(name, {"config": config, "layers": layers})
    problem = only("ollama", ollama.root).problem
    assert problem is not None
    assert reason in problem


MODEL = "application/vnd.ollama.image.model"
ABSURD = {
    "traversal": {"layers": [{"mediaType": MODEL, "digest": "sha256:../../../../etc/passwd", "size": 1}]},
    "traversal with the right length": {
        "layers": [{"mediaType": MODEL, "digest": "sha256:" + "../" * 21 + "x", "size": 1}]
    },
    "upper case": {"layers": [{"mediaType": MODEL, "digest": "sha256:" + "A" * 64, "size": 1}]},
    "a text layer that leads elsewhere": {
        "layers": [{"mediaType": "application/vnd.ollama.image.system", "digest": "sha256-/etc/passwd", "size": 1}]
    },
    "null layers": {"layers": None},
    "no layers": {},
    "a number": 7,
    "negative size": {"layers": [{"mediaType": MODEL, "digest": "sha256:" + "0" * 64, "size": -1}]},
    "too many layers": {"layers": [{"mediaType": "x", "digest": "y", "size": 0}] * 5000},
    "deep": b"[" * 100_000,
    "not json": b"\x00\xff",
    "empty": b"",
    "huge": b" " * (4 * 1024 * 1024 + 1),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(ABSURD))
def test_an_absurd_manifest_is_one_broken_model_and_no_more(ollama: OllamaStore, case: str) -> None:
    ollama.manifest(f"{LIBRARY}/bad/1b", ABSURD[case])
    model = only("ollama", ollama.root)
    assert model.problem is not None
    assert model.files == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
LAYERS = st.lists(
    st.fixed_dictionaries(
        {"mediaType": st.sampled_from([MODEL, f"{MODEL[:-5]}system", f"{MODEL[:-5]}params", "x"]) | JSON},
        optional={"digest": st.just("sha256:" + "0" * 64) | st.text(max_size=80) | JSON, "size": st.integers() | JSON},
    ),
    max_size=4,
)


@settings(max_examples=60)
@given(JSON | st.fixed_dictionaries({"layers": LAYERS}))
def test_no_manifest_brings_the_search_down(content: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = OllamaStore(Path(folder) / "o")
        store.manifest(f"{LIBRARY}/any/1b", content)
        assert only("ollama", store.root).problem is not None


def test_a_store_of_countless_models_is_left_and_that_is_told(
    ollama: OllamaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        ollama.manifest(f"{LIBRARY}/many/{number}", {})
    monkeypatch.setattr(foreign_ollama, "MAX_MODELS", 3)
    skipped: list[str] = []
    assert len(found("ollama", ollama.root, skipped)) == 3
    assert "more than 3 models" in skipped[0]


def test_texts_that_are_not_what_their_digest_says_are_refused(ollama: OllamaStore, tiny_model: Path) -> None:
    layer = ollama.layer("system", b"Be kind.")
    ollama.blob_path(layer["digest"]).write_bytes(b"Be evil.")
    ollama.manifest(f"{LIBRARY}/t/1", {"layers": [ollama.layer("model", tiny_model.read_bytes()), layer]})
    assert "damaged system" in str(only("ollama", ollama.root).problem)


def test_a_pipe_among_the_manifests_or_texts_is_not_waited_for(ollama: OllamaStore, tiny_model: Path) -> None:
    layer = ollama.layer("system", b"Be kind.")
    blob = ollama.blob_path(layer["digest"])
    blob.unlink()
    os.mkfifo(blob)
    path = ollama.manifest(f"{LIBRARY}/t/1", {"layers": [ollama.layer("model", tiny_model.read_bytes()), layer]})
    assert "has a system (sha256-" in str(only("ollama", ollama.root).problem)
    os.mkfifo(path.with_name("2"))
    assert len(found("ollama", ollama.root)) == 1


def test_odd_names_of_manifests_are_told_and_cannot_escape(ollama: OllamaStore, tiny_model: Path) -> None:
    ollama.add(f"{LIBRARY}/con/1b", tiny_model)
    model = only("ollama", ollama.root)
    assert "name" in str(model.problem)
    assert model_names.parse(model.suggested_name)


def test_the_hugging_face_cache_gives_digest_revision_and_quantization(tmp_path: Path, tiny_model: Path) -> None:
    cache = HubCache(tmp_path / "hub")
    projector = write_projector(tmp_path / "p.gguf")
    cache.add("some/Tiny-GGUF", COMMIT, {"Tiny-Q8_0.gguf": tiny_model, "mmproj-Tiny-F16.gguf": projector})
    model = only("huggingface", cache.root)
    assert model.suggested_name == "hf.co/some/Tiny-GGUF:Q8_0"
    assert model.source == f"hf.co/some/Tiny-GGUF@{COMMIT}"
    assert [file.role for file in model.files] == ["model", "projector"]
    assert all(file.digest is not None and file.path.parent.name == "blobs" for file in model.files)
    assert model.files[0].file_name == "Tiny-Q8_0.gguf"


def test_without_links_the_files_of_a_snapshot_have_no_digest(tmp_path: Path, tiny_model: Path) -> None:
    cache = HubCache(tmp_path / "hub")
    cache.add("some/Tiny-GGUF", COMMIT, {"tiny-q4_0.gguf": tiny_model}, link=False)
    model = only("huggingface", cache.root)
    assert model.problem is None
    assert model.files[0].digest is None


def test_older_snapshots_are_listed_where_they_differ(tmp_path: Path, tiny_model: Path, tiny_chat_model: Path) -> None:
    cache = HubCache(tmp_path / "hub")
    cache.add("some/Repo", OLDER, {"m-Q8_0.gguf": tiny_chat_model, "m-Q4_0.gguf": tiny_model}, main=False)
    cache.add("some/Repo", COMMIT, {"m-Q8_0.gguf": tiny_model})
    skipped: list[str] = []
    names_found = [model.suggested_name for model in found("huggingface", cache.root, skipped)]
    assert names_found == ["hf.co/some/Repo:Q8_0", f"hf.co/some/Repo:Q8_0@{OLDER}"]
    assert len(skipped) == 1  # the older Q4_0 is the newer Q8_0's file here


def test_a_link_out_of_the_cache_is_not_believed_to_be_a_digest(tmp_path: Path, tiny_model: Path) -> None:
    cache = HubCache(tmp_path / "hub")
    snapshot = cache.add("some/Repo", COMMIT, {"m-Q8_0.gguf": tiny_model})
    elsewhere = tmp_path / ("0" * 64)
    shutil.copy(tiny_model, elsewhere)
    (snapshot / "m-Q8_0.gguf").unlink()
    (snapshot / "m-Q8_0.gguf").symlink_to(elsewhere)
    assert only("huggingface", cache.root).files[0].digest is None


def test_unfinished_downloads_of_the_cache_are_told(tmp_path: Path, tiny_model: Path) -> None:
    cache = HubCache(tmp_path / "hub")
    snapshot = cache.add("some/Repo", COMMIT, {"m-Q8_0.gguf": tiny_model})
    (snapshot / "m-Q8_0.gguf").resolve().rename(snapshot.parent.parent / "blobs" / "x.incomplete")
    skipped: list[str] = []
    (model,) = found("huggingface", cache.root, skipped)
    assert "not fully downloaded" in str(model.problem)
    assert skipped[0].endswith("were skipped: 1")


def test_shards_are_one_model_and_a_missing_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    write_llama(tmp_path / "plain" / "Big-F32.gguf", max_tensors_per_file=8)
    shards = shards_of(tmp_path / "plain" / "Big-F32.gguf")
    cache = HubCache(tmp_path / "hub")
    cache.add("some/Big", COMMIT, {f"F32/{shard.name}": shard for shard in shards})
    model = only("huggingface", cache.root)
    assert [file.file_name for file in model.files] == [shard.name for shard in shards]
    assert (model.suggested_name, model.problem) == ("hf.co/some/Big:F32", None)
    shards[1].unlink()
    broken = only("folder", tmp_path / "plain")
    assert f"is incomplete: {len(shards) - 1} of its {len(shards)}" in str(broken.problem)


def test_lm_studios_folders_name_the_repository(tmp_path: Path, tiny_model: Path) -> None:
    folder = tmp_path / "models"
    for place in ("pub/Repo-GGUF/m-Q4_K_M.gguf", "pub/Repo-GGUF/m-Q8_0.gguf", "loose.gguf"):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        write_llama(folder / place, seed=len(place))
    write_projector(folder / "pub" / "Repo-GGUF" / "mmproj-model-f16.gguf")
    models = {model.suggested_name: len(model.files) for model in found("lmstudio", folder)}
    assert models == {"loose": 1, "hf.co/pub/Repo-GGUF:Q4_K_M": 2, "hf.co/pub/Repo-GGUF:Q8_0": 2}


def test_llama_cpps_cache_is_read_in_its_old_form_and_its_new_one(tmp_path: Path, tiny_model: Path) -> None:
    cache = HubCache(tmp_path / "llama.cpp")
    cache.add("new/Repo", COMMIT, {"n-Q8_0.gguf": tiny_model})
    known = write_llama(cache.root / "old_Repo_o-Q4_0.gguf", seed=1)
    url = "https://huggingface.co/old/Repo/resolve/main/o-Q4_0.gguf"
    known.with_name(f"{known.name}.json").write_text(json.dumps({"etag": "x", "url": url}))
    plain = write_llama(cache.root / "who_knows.gguf", seed=2)
    plain.with_name(f"{plain.name}.json").write_text('{"url": ["not a text"]}')
    assert {model.suggested_name for model in found("llama.cpp", cache.root)} == {
        "hf.co/new/Repo:Q8_0", "hf.co/old/Repo:Q4_0", "who_knows",
    }  # fmt: skip


def test_in_a_plain_folder_a_projector_serves_the_model_it_is_named_after(tmp_path: Path) -> None:
    write_llama(tmp_path / "gemma-Q4_0.gguf", seed=1)
    write_llama(tmp_path / "qwen-Q4_0.gguf", seed=2)
    write_projector(tmp_path / "mmproj-gemma-f16.gguf")
    models = {model.name: [file.role for file in model.files] for model in found("folder", tmp_path)}
    assert models == {"gemma-Q4_0": ["model", "projector"], "qwen-Q4_0": ["model"]}


def test_a_named_file_is_one_model_whatever_its_suffix(tmp_path: Path, tiny_model: Path) -> None:
    blob = tmp_path / ("sha256-" + "0" * 64)
    shutil.copy(tiny_model, blob)
    write_llama(tmp_path / "other.gguf")
    write_llama(tmp_path / "split.gguf", max_tensors_per_file=8)
    shards = shards_of(tmp_path / "split.gguf")
    assert [file.path for file in only("folder", blob).files] == [blob]
    assert [file.path for file in only("folder", shards[1]).files] == shards
    assert (
        only("folder", write_projector(tmp_path / "mmproj.gguf")).problem
        == "is a projector (mmproj), not a model by itself"
    )


@pytest.mark.parametrize("kind", ["ollama", "hub", "repository", "folder"])
def test_a_named_folder_is_read_as_what_it_is(tmp_path: Path, tiny_model: Path, kind: str) -> None:
    if kind == "ollama":
        store = OllamaStore(tmp_path / "o")
        store.add(f"{LIBRARY}/tiny/1b", tiny_model)
        path, name = store.root, "ollama:tiny:1b"
    elif kind in ("hub", "repository"):
        snapshot = HubCache(tmp_path / "hub").add("some/Repo", COMMIT, {"m-Q8_0.gguf": tiny_model})
        path, name = tmp_path / "hub", "hf.co/some/Repo:Q8_0"
        path = snapshot.parent.parent if kind == "repository" else path
    else:
        (tmp_path / "deep" / "er").mkdir(parents=True)
        shutil.copy(tiny_model, tmp_path / "deep" / "er" / "My Model (v2).GGUF")
        path, name = tmp_path, "my-model-v2"
    assert only("folder", path).suggested_name == name


def test_two_models_never_get_the_same_name(tmp_path: Path) -> None:
    for number, folder in enumerate(("a", "b", "c")):
        (tmp_path / folder).mkdir()
        write_llama(tmp_path / folder / "model.gguf", seed=number)
    assert [model.suggested_name for model in found("folder", tmp_path)] == ["model", "model-2", "model-3"]


def test_a_name_of_the_catalog_or_of_the_carried_model_is_not_taken(tmp_path: Path) -> None:
    for number, name in enumerate(("demo", "smollm2", "nul")):
        write_llama(tmp_path / f"{name}.gguf", seed=number)
    assert [model.suggested_name for model in found("folder", tmp_path)] == ["demo-local", "model-nul", "smollm2-local"]


def test_loops_of_links_end_and_each_folder_is_entered_once(tmp_path: Path, tiny_model: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    shutil.copy(tiny_model, inner / "m.gguf")
    (inner / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(inner)
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "self.gguf").symlink_to("self.gguf")
    models = found("folder", tmp_path)
    assert [model.name for model in models if model.problem is None] == ["m"]
    assert [model.name for model in models if model.problem] == ["self"]


def test_a_folder_that_may_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path
) -> None:
    (tmp_path / "closed").mkdir()
    shutil.copy(tiny_model, tmp_path / "open.gguf")
    whole = os.scandir

    def refuse(path: Path) -> object:  # as root nothing is refused
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return whole(path)

    monkeypatch.setattr(os, "scandir", refuse)
    skipped: list[str] = []
    assert len(found("folder", tmp_path, skipped)) == 1
    assert "closed cannot be searched" in skipped[0]


def test_a_huge_tree_is_left_and_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}").mkdir()
    (tmp_path / "99").mkdir()
    write_llama(tmp_path / "99" / "far.gguf")
    monkeypatch.setattr(walk, "MAX_FOLDERS", 20)
    skipped: list[str] = []
    assert found("folder", tmp_path, skipped) == []
    assert "name a folder inside it" in skipped[0]
    deep = tmp_path.joinpath(*(["d"] * 20))
    deep.mkdir(parents=True)
    write_llama(deep / "deep.gguf")
    skipped.clear()
    assert found("folder", tmp_path / "d", skipped) == []
    assert "folders deep" in skipped[0]


def test_files_that_are_no_models_are_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<!DOCTYPE html><title>404</title>")
    (tmp_path / "empty.gguf").touch()
    os.mkfifo(tmp_path / "pipe.gguf")
    write_adapter(tmp_path / "lora.gguf")
    problems = {model.name: str(model.problem) for model in found("folder", tmp_path)}
    assert "web page" in problems["page"]
    assert "cannot be read as GGUF" in problems["empty"]
    assert "not a regular file" in problems["pipe"]
    assert "LoRA adapter" in problems["lora"]


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    skipped: list[str] = []
    assert found("folder", tmp_path / "nothing", skipped) == []
    assert "no file or folder" in skipped[0]
    for tool in TOOLS[:-1]:
        assert found(tool, tmp_path / "nothing") == []


def test_the_programs_own_variables_say_where_to_look(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".lmstudio").mkdir(parents=True)
    (home / ".lmstudio" / "settings.json").write_text(json.dumps({"downloadsFolder": str(tmp_path / "big")}))
    (home / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'elsewhere'}\n")
    plain = {root.path for root in default_roots({}, home)}
    assert {home / ".ollama" / "models", home / ".cache" / "huggingface" / "hub", tmp_path / "big"} <= plain
    assert {home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models"} <= plain
    assert tmp_path / "elsewhere" / "models" in plain
    environ = {"OLLAMA_MODELS": "/o", "HF_HOME": "/h", "LLAMA_CACHE": "/l"}
    roots = {(root.tool, root.path) for root in default_roots(environ, home)}
    assert {("ollama", Path("/o")), ("huggingface", Path("/h/hub")), ("llama.cpp", Path("/l"))} <= roots
    assert ("huggingface", Path("/x")) in default_roots({"HF_HUB_CACHE": "/x", "HF_HOME": "/h"}, home)
