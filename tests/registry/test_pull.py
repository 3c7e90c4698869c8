"""Pulls from a name to a stored model, from fakes of Hugging Face and of Ollama's registry."""

from __future__ import annotations

import hashlib
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from localllm.chat.jinja import apply
from localllm.errors import (
    ForbiddenAddress,
    InvalidModelFile,
    InvalidParameter,
    LoadFailed,
    LocalLLMError,
    ModelNotFound,
    PullFailed,
)  # fmt: skip
from localllm.gguf import read_model_info
from localllm.registry import catalog
from localllm.registry.listing import available, store_of
from localllm.registry.names.model_names import parse
from localllm.registry.pull import Puller
from localllm.registry.remote import Cancelled, PullPlan
from localllm.registry.resolve import resolve
from localllm.settings.config import Settings
from localllm.types import SamplingParams
from localllm.types.states import AvailableModel, PullState
from tests.foreign_stores import write_fused
from tests.models import raw
from tests.models.maker import shards_of, write_llama
from tests.registry.hub_server import HubServer, Repo
from tests.registry.loopback import Answer, Asked, ranged
from tests.registry.oci_server import OciServer

ARCHITECTURE = raw.key("general.architecture", raw.STRING, "llama")


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf").read_bytes()


@pytest.fixture
def hub(gguf: bytes) -> Iterator[HubServer]:
    repo = Repo({"Tiny-Q8_0.gguf": gguf, "README.md": b"x"}, card={"license": "apache-2.0"})
    with HubServer({"ann/tiny-GGUF": repo}) as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path, hub: HubServer) -> Settings:
    return Settings(home=tmp_path, hub_endpoint=hub.url)


def pull(
    settings: Settings, name: str, *, trusted: bool = True, on_state: Callable[[PullState], None] | None = None
) -> AvailableModel:
    with Puller(settings, named_by_user=trusted) as puller:
        return puller.pull(name, on_state=on_state or (lambda _: None), cancel=threading.Event())


def files_of(settings: Settings) -> set[str]:
    """Everything in the store except locks."""
    root = settings.data_dir / "models"
    paths = (path for path in root.rglob("*") if path.is_file() and "locks" not in path.parts)
    return {str(path.relative_to(root)) for path in paths}


def test_a_pulled_model_is_found_by_its_name_and_is_what_its_source_has(settings: Settings, gguf: bytes) -> None:
    states: list[PullState] = []
    model = pull(settings, "hf.co/ann/tiny-GGUF", on_state=states.append)
    assert (model.id, model.quant, model.license) == ("hf.co/ann/tiny-GGUF", "Q8_0", "apache-2.0")
    assert model.source == "hf.co/ann/tiny-GGUF@0123456789abcdef0123456789abcdef01234567"
    found = resolve("hf.co/ann/tiny-GGUF", settings.data_dir)
    assert found.path.read_bytes() == gguf
    found.release()
    assert states[0].phase == "looking"
    assert (states[-1].phase, states[-1].done_bytes, states[-1].total_bytes) == ("done", len(gguf), len(gguf))
    assert [one.id for one in available(settings.data_dir)] == ["demo", "hf.co/ann/tiny-GGUF"]
    assert not [name for name in files_of(settings) if name.startswith("partials/")]


def test_what_is_there_is_not_fetched_again_under_any_name(settings: Settings, hub: HubServer) -> None:
    pull(settings, "hf.co/ann/tiny-GGUF")
    before = len([asked for asked in hub.asked if "/resolve/" in asked.path])
    pull(settings, "hf.co/ann/tiny-GGUF:q8_0")
    pull(settings, "hf:ann/tiny-GGUF/Tiny-Q8_0.gguf")
    assert len([asked for asked in hub.asked if "/resolve/" in asked.path]) == before
    assert len([name for name in files_of(settings) if name.startswith("blobs/")]) == 1


def test_every_file_of_a_repository_is_pulled_by_the_name_that_is_suggested(
    settings: Settings, hub: HubServer, gguf: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["Mein Modell (Größe #1).gguf", "a/100% @home & 'more'.gguf", "模型?.gguf", "cafe\u0301.gguf"]
    hub.repos["ann/odd-GGUF"] = Repo({name: gguf + bytes([number]) for number, name in enumerate(files)})
    with pytest.raises(InvalidParameter) as caught:
        pull(settings, "hf.co/ann/odd-GGUF")
    suggested = shlex.split(caught.value.message.partition("name of a file: ")[2].replace(", ", " "))
    names = [word for word in suggested if word.startswith("hf:")]
    assert sorted(names) == sorted(f"hf:ann/odd-GGUF/{file}" for file in files if "?" not in file)
    for name in names:
        model = pull(settings, name)
        assert model.id == name
        resolve(model.id, settings.data_dir).release()
        with Puller(settings) as puller:
            assert [one.name for one in puller.offers(name, threading.Event())] == [name]
    assert pull(settings, "hf:ann/odd-GGUF/caf\u00e9.gguf").size_bytes == len(gguf) + 1, "written in another way"
    assert {one.id for one in available(settings.data_dir)} > set(names)


def test_a_name_of_the_catalog_brings_its_own_quantization_and_keeps_its_short_name(
    settings: Settings, hub: HubServer, gguf: bytes
) -> None:
    entry = catalog.load().find("smollm2", "135m")
    assert entry is not None
    hub.repos[entry.repo] = Repo({f"x-{entry.quant}.gguf": gguf, "x-F16.gguf": gguf + b"0"})
    assert pull(settings, "smollm2:135m").id == "smollm2:135m"
    assert resolve("smollm2:135m", settings.data_dir).path.read_bytes() == gguf


def test_a_split_model_is_one_model_and_a_later_pull_needs_only_its_projector(
    settings: Settings, hub: HubServer, tmp_path: Path
) -> None:
    write_llama(tmp_path / "model.gguf", max_tensors_per_file=8)
    shards = {path.name: path.read_bytes() for path in shards_of(tmp_path / "model.gguf")}
    hub.repos["ann/split-GGUF"] = Repo({**shards, "mmproj-F16.gguf": b"GGUF-not-looked-into"})
    model = pull(msgspec.structs.replace(settings, projector="off"), "hf.co/ann/split-GGUF")
    found = resolve(model.id, settings.data_dir)
    assert read_model_info(found.path).split_count == len(shards)
    assert found.projector is None
    found.release()
    with Puller(settings) as puller:
        plan = puller.plan(model.id, threading.Event())
        assert [file.role for file in plan.files] == [*["model"] * len(shards), "projector"]
        assert [file.role for file in puller.missing(plan)] == ["projector"]
    found = resolve(pull(settings, model.id).id, settings.data_dir)
    assert found.projector is not None
    assert found.projector.read_bytes() == b"GGUF-not-looked-into"
    found.release()
    manifest = store_of(settings.data_dir).find(parse(model.id))
    assert manifest is not None
    assert [file.role for file in manifest.files] == [*["model"] * len(shards), "projector"]


def test_a_model_of_a_registry_brings_what_it_sets(settings: Settings, gguf: bytes) -> None:
    with OciServer() as registry:
        layers = [("model", gguf), ("system", b"Be brief."), ("params", b'{"temperature": 0.5, "stop": ["END"]}')]
        registry.add("library/tiny", layers)
        model = pull(settings, f"ollama:{registry.host}/library/tiny")
    found = resolve(model.id, settings.data_dir)
    found.release()
    assert found.defaults.system == "Be brief."
    assert found.defaults.params == SamplingParams(temperature=0.5, stop=("END",))


def test_an_old_models_go_template_is_used_where_its_file_has_none(
    settings: Settings, gguf: bytes, tiny_chat_model: Path
) -> None:
    go = b"{{ if .System }}{{ .System }} {{ end }}USER: {{ .Prompt }} ASSISTANT: {{ .Response }}"
    with OciServer() as registry:
        registry.add("library/old", [("model", gguf), ("template", go)])
        registry.add("library/new", [("model", tiny_chat_model.read_bytes()), ("template", go)])
        registry.add("library/odd", [("model", gguf), ("template", b"{{ .Prompt }}{{ .Wishes }}")])
        told: list[PullState] = []
        for name in ("old", "new", "odd"):
            pull(settings, f"ollama:{registry.host}/library/{name}", on_state=told.append)
        old, new, odd = (
            resolve(f"ollama:{registry.host}/library/{name}", settings.data_dir) for name in ("old", "new", "odd")
        )
    try:
        assert old.template is not None
        messages = [{"role": "system", "content": "A"}, {"role": "user", "content": "B"}]
        assert apply(old.template, messages=messages) == "A USER: B ASSISTANT: "
        assert (new.template, odd.template) == (None, None)
        assert any("column 17: the field .Wishes" in notice for notice in told[-1].notices)
    finally:
        for file in (old, new, odd):
            file.release()


def test_a_plain_url_is_hashed_and_believed(settings: Settings, hub: HubServer, gguf: bytes) -> None:
    hub.scripted["/files/any.gguf"] = lambda asked: ranged(gguf, asked)
    model = pull(settings, f"{hub.url}/files/any.gguf")
    manifest = store_of(settings.data_dir).find(parse(model.id))
    assert manifest is not None
    assert manifest.files[0].digest.hex == hashlib.sha256(gguf).hexdigest()


def test_two_pulls_of_one_model_share_one_download(settings: Settings, hub: HubServer, gguf: bytes) -> None:
    path = "/ann/tiny-GGUF/resolve/0123456789abcdef0123456789abcdef01234567/Tiny-Q8_0.gguf"
    begun, go_on = threading.Event(), threading.Event()

    def slowly(asked: Asked) -> Answer:
        begun.set()
        go_on.wait(10)
        del hub.scripted[path]
        return hub.answer(asked)

    hub.scripted[path] = slowly
    waited = threading.Event()
    results: list[object] = []

    def second() -> None:
        results.append(pull(settings, "hf.co/ann/tiny-GGUF:Q8_0", on_state=lambda _: waited.set()))

    first = threading.Thread(target=lambda: results.append(pull(settings, "hf.co/ann/tiny-GGUF")))
    first.start()
    assert begun.wait(10)
    other = threading.Thread(target=second)
    other.start()
    assert waited.wait(10)
    go_on.set()
    first.join(20)
    other.join(20)
    assert len(results) == 2
    served = sum(asked.path == path for asked in hub.asked)
    assert served <= 2, "the first answer may be asked for in parts; a second download would ask for all again"
    assert {one.id for one in available(settings.data_dir)} >= {"hf.co/ann/tiny-GGUF", "hf.co/ann/tiny-GGUF:Q8_0"}


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (b"<html>not a model</html>", InvalidModelFile, "is not a usable model"),
        (b"GGUF", InvalidModelFile, "is not a usable model"),
        (raw.gguf([ARCHITECTURE, raw.key("general.type", raw.STRING, "adapter")], []), InvalidModelFile, "LoRA"),
        (raw.gguf([raw.key("general.architecture", raw.STRING, "clip")], []), InvalidModelFile, "projector"),
        (raw.gguf([ARCHITECTURE], []), InvalidModelFile, "a vocabulary but no weights"),
    ],
)
def test_what_is_no_model_never_gets_a_name(
    settings: Settings, hub: HubServer, content: bytes, error: type[LocalLLMError], says: str
) -> None:
    hub.repos["ann/rogue-GGUF"] = Repo({"x-Q8_0.gguf": content})
    with pytest.raises(error, match=says):
        pull(settings, "hf.co/ann/rogue-GGUF")
    assert store_of(settings.data_dir).list() == ()
    assert not [name for name in files_of(settings) if name.startswith("blobs/")]


def test_junk_is_found_by_its_first_bytes_and_goes_at_once(settings: Settings, hub: HubServer) -> None:
    """At this speed the whole file would take ten seconds, and its magic arrives in the first second."""
    junk = b"<html>" + bytes(5_000_000)
    hub.repos["ann/rogue-GGUF"] = Repo({"x-Q8_0.gguf": junk})
    slow = msgspec.structs.replace(settings, max_download_kb_per_s=500)
    states: list[PullState] = []
    with pytest.raises(InvalidModelFile, match="a GGUF file begins with"):
        pull(slow, "hf.co/ann/rogue-GGUF", on_state=states.append)
    assert max(state.done_bytes for state in states) < len(junk) // 2
    assert not [name for name in files_of(settings) if name.startswith(("blobs/", "partials/"))]


def test_a_file_that_is_not_what_was_promised_leaves_nothing_behind(settings: Settings, hub: HubServer) -> None:
    path = "/ann/tiny-GGUF/resolve/0123456789abcdef0123456789abcdef01234567/Tiny-Q8_0.gguf"
    size = hub.repos["ann/tiny-GGUF"].size("Tiny-Q8_0.gguf")
    hub.scripted[path] = lambda asked: ranged(b"GGUF" + b"x" * (size - 4), asked)
    with pytest.raises(PullFailed, match="sha256"):
        pull(settings, "hf.co/ann/tiny-GGUF")
    assert not [name for name in files_of(settings) if name.startswith(("blobs/", "manifests/"))]


def test_a_cancelled_pull_goes_on_later(settings: Settings, hub: HubServer) -> None:
    cancel = threading.Event()
    cancel.set()
    with Puller(settings) as puller, pytest.raises(Cancelled):
        puller.pull("hf.co/ann/tiny-GGUF", cancel=cancel)
    assert pull(settings, "hf.co/ann/tiny-GGUF").id == "hf.co/ann/tiny-GGUF"


def test_what_only_ollama_reads_is_refused_and_removed(settings: Settings, hub: HubServer, tmp_path: Path) -> None:
    odd = write_fused(tmp_path / "odd.gguf")
    hub.repos["ann/odd-GGUF"] = Repo({"x-Q8_0.gguf": odd.read_bytes()})
    with pytest.raises((LoadFailed, InvalidModelFile), match="only Ollama"):
        pull(settings, "hf.co/ann/odd-GGUF")
    assert not [name for name in files_of(settings) if name.startswith(("blobs/", "manifests/"))]


@pytest.mark.parametrize("name", ["demo", "./x.gguf", "no-such-model", "user/repo"])
def test_what_cannot_be_pulled_is_explained(settings: Settings, name: str) -> None:
    with pytest.raises((InvalidParameter, ModelNotFound)):
        pull(settings, name)


def test_cve_2026_5530_names_from_the_network_reach_no_private_address(settings: Settings, hub: HubServer) -> None:
    with OciServer() as inside:
        inside.add("library/tiny", [("model", b"x")])
        for name in (
            f"{inside.url}/any.gguf",
            f"ollama:{inside.host}/library/tiny",
            "http://169.254.169.254/a.gguf",
        ):
            with pytest.raises(ForbiddenAddress):
                pull(settings, name, trusted=False)
        assert inside.asked == []
    assert pull(settings, "hf.co/ann/tiny-GGUF", trusted=False).id, "it was configured"


def test_a_plan_says_what_would_come(settings: Settings, gguf: bytes) -> None:
    plans: list[PullPlan] = []
    with Puller(settings) as puller:
        puller.pull("hf.co/ann/tiny-GGUF", on_plan=plans.append, cancel=threading.Event())
    assert (plans[0].size_bytes, plans[0].license, plans[0].quant) == (len(gguf), "apache-2.0", "Q8_0")
    assert msgspec.to_builtins([file.file_name for file in plans[0].files]) == ["Tiny-Q8_0.gguf"]


@pytest.mark.parametrize("name", ["hf.co/ann/tiny-GGUF", "hf:ann/tiny-GGUF/tiny-F32.gguf"])
def test_hugging_face_is_not_asked_where_its_own_tools_would_not(
    name: str, settings: Settings, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(PullFailed, match="HF_HUB_OFFLINE is set"):
        pull(settings, name)
    assert hub.asked == []


@pytest.fixture
def well_known(hub: HubServer, gguf: bytes) -> HubServer:
    """Repositories as publishers name them, and others that look like them and are more popular."""
    for repo, quants, more in (
        ("unsloth/Qwen9.8-27B-GGUF", ("Q8_0", "Q4_K_M"), {}),
        ("bartowski/Qwen_Qwen9.8-27B-GGUF", ("Q8_0",), {}),
        ("stranger/Qwen9.8-27B-GGUF", ("Q8_0",), {"downloads": 10**6}),
        ("unsloth/Qwen9.8-27B-Coder-GGUF", ("Q8_0",), {"downloads": 10**6}),
        ("unsloth/Qwen9.8-4B-A1B-Instruct-GGUF", ("Q8_0",), {}),
        ("google/gemma-9-12b-it-qat-GGUF", ("Q8_0",), {}),
        ("google/gemma-9-12b-it-GGUF", ("Q8_0",), {"gated": "manual"}),
        ("ggml-org/gemma-9-12b-it-GGUF", ("Q8_0",), {}),
        ("unsloth/NVIDIA-Nemotron-9-Nano-GGUF", ("Q8_0",), {}),
        ("stranger/unheard-1b-GGUF", ("Q8_0",), {}),
    ):
        files = {f"m-{quant}.gguf": gguf + quant.encode() for quant in quants}
        hub.repos[repo] = Repo(files, **more)
    return hub


@pytest.mark.parametrize(
    ("name", "repo", "quant"),
    [
        ("qwen9.8:27b", "unsloth/Qwen9.8-27B-GGUF", "Q8_0"),
        ("qwen9.8:27b-q4_k_m", "unsloth/Qwen9.8-27B-GGUF", "Q4_K_M"),
        ("qwen9.8:4b", "unsloth/Qwen9.8-4B-A1B-Instruct-GGUF", "Q8_0"),
        ("gemma9:12b", "ggml-org/gemma-9-12b-it-GGUF", "Q8_0"),
        ("nemotron-9-nano", "unsloth/NVIDIA-Nemotron-9-Nano-GGUF", "Q8_0"),
    ],
)
def test_a_short_name_that_the_catalog_lacks_is_what_trusted_publishers_have(
    settings: Settings, well_known: HubServer, name: str, repo: str, quant: str
) -> None:
    with Puller(settings) as puller:
        plan = puller.plan(name, threading.Event())
    assert (plan.name, plan.source.partition("@")[0], plan.quant) == (name, f"hf.co/{repo}", quant)
    assert f"this is what {repo.partition('/')[0]} publishes" in plan.notices[0]
    assert "stranger" not in plan.notices[0]
    assert len([asked for asked in well_known.asked if asked.path == "/api/models"]) <= 2


def test_a_model_of_that_kind_is_stored_under_its_short_name_and_found_by_it(
    settings: Settings, well_known: HubServer, gguf: bytes
) -> None:
    assert pull(settings, "qwen9.8:27b", trusted=False).id == "qwen9.8:27b"
    found = resolve("qwen9.8:27b", settings.data_dir)
    assert found.path.read_bytes() == gguf + b"Q8_0"
    found.release()
    assert well_known.repos


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("qwen9.8", {}, "Hugging Face has qwen9.8:27b, qwen9.8:4b"),
        ("unheard:1b", {}, "Hugging Face has hf.co/stranger/unheard-1b-GGUF"),
        ("nobody-has-this", {}, "localllm search finds more"),
        ("qwen9.8:27b", {"hub_publishers": ""}, "no model is called"),
        ("qwen9.8:27b", {"hub_publishers": "nobody"}, "Hugging Face has hf.co/stranger/Qwen9.8-27B-GGUF"),
        ("qwen9.8:27b", {"hub_endpoint": "http://127.0.0.1:9"}, "whether Hugging Face has it is not known"),
    ],
)
def test_a_short_name_that_no_trusted_publisher_has_is_not_guessed(
    settings: Settings, well_known: HubServer, name: str, given: dict[str, str], said: str
) -> None:
    patient = msgspec.structs.replace(settings, download_patience_s=1, **given)
    with pytest.raises(ModelNotFound, match=re.escape(said)):
        pull(patient, name)
    assert not [asked for asked in well_known.asked if "/resolve/" in asked.path]
