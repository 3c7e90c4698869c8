"""A real registry (Debian's `docker-registry`): a tiny model is pushed, planned and downloaded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localllm.cli.commands.store.push import push_model
from localllm.cli.render.units import size
from localllm.errors import (
    AccessDenied,
    ForbiddenAddress,
    InvalidParameter,
    LocalLLMError,
    ModelNotFound,
    UnsupportedParameter,
)
from localllm.gguf import read_model_info
from localllm.registry.fetch.download import download
from localllm.registry.fetch.net import Net
from localllm.registry.listing import store_of, stored
from localllm.registry.making.create import create, resolver
from localllm.registry.making.modelfile import parse_modelfile
from localllm.registry.manifest import Manifest
from localllm.registry.names.model_names import RegistryName
from localllm.registry.pull import Puller
from localllm.registry.push import push
from localllm.registry.sources import oci
from localllm.settings import config
from localllm.settings.config import Settings
from localllm.types.states import PushState
from tests.models.maker import write_llama
from tests.registry.docker_registry import BINARY, Registry, docker_registry

pytestmark = [
    pytest.mark.docker_registry,
    pytest.mark.skipif(BINARY is None, reason="docker-registry is not installed (Debian's package of that name)"),
]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = tmp_path_factory.mktemp("docker-registry")
    with docker_registry(folder) as registry:
        yield registry


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry for one user with the password `se,cret`."""
    folder = tmp_path_factory.mktemp("private-registry")
    (folder / "htpasswd").write_text("somebody:$2b$04$kaDwgoJw3xOg73rXpsDV4.EYLHGsZPx4x2Smdz2SvOGEBKowPkDOG\n")
    login = f"auth:\n  htpasswd:\n    realm: here\n    path: {folder / 'htpasswd'}\n"
    with docker_registry(folder, login) as registry:
        yield registry


def test_a_model_pushed_to_a_real_registry_is_planned_and_downloaded(registry: Registry, tmp_path: Path) -> None:
    model = write_llama(tmp_path / "tiny.gguf").read_bytes()
    layers = [
        ("model", model),
        ("system", b"You are tiny."),
        ("params", b'{"temperature": 0.5, "stop": ["</s>"]}'),
        ("license", b"MIT License\n\nCopyright"),
        ("template", b"{{ .Prompt }}"),
    ]
    registry.push(layers, {"model_format": "gguf", "model_family": "llama", "file_type": "F32"})
    with Net() as net:
        plan = oci.plan(RegistryName(registry.host, "library", "tiny", "q8"), net)
        assert (plan.system, plan.stop, plan.license, plan.quant) == ("You are tiny.", ("</s>",), "MIT", "F32")
        assert plan.params.temperature == 0.5
        assert plan.size_bytes == len(model)
        partial = tmp_path / "partial"
        arrived: list[int] = []
        digest = download(
            plan.files[0],
            partial,
            net=net,
            on_bytes=arrived.append,
            cancel=threading.Event(),
            require_room=lambda _: None,
        )
        assert digest == plan.files[0].digest
        assert sum(arrived) == len(model)
        assert partial.read_bytes() == model
        assert read_model_info(partial.rename(tmp_path / "again.gguf")).architecture == "llama"
        with pytest.raises(ModelNotFound, match="check the name and the tag"):
            oci.plan(RegistryName(registry.host, "library", "tiny", "q9"), net)


def made(home: Path, name: str) -> Settings:
    """A home with a model that sets everything that can be set."""
    settings = config.load({"home": str(home)})
    home.mkdir(exist_ok=True)
    text = """FROM demo
SYSTEM Be brief.
TEMPLATE {% for message in messages %}{{ message.content }}{% endfor %}
PARAMETER temperature 0.25
PARAMETER stop END
PARAMETER stop STOP
PARAMETER num_ctx 64
MESSAGE user Hi
LICENSE Mine
"""
    store = store_of(settings.data_dir)
    create(name, parse_modelfile(text), store, base_dir=home, resolve=resolver(store))
    return settings


def pulled(home: Path, name: str) -> Manifest:
    with Puller(config.load({"home": str(home)})) as puller:
        id = puller.pull(name, cancel=threading.Event()).id
    return stored(id, home)


def told(model: Manifest) -> tuple[object, ...]:
    """The model's content, independent of its source."""
    digests = [file.digest for file in model.files]
    return (
        digests,
        model.system,
        model.template,
        model.params,
        model.stop,
        model.ctx,
        model.messages,
        model.license_text,
    )


def test_a_model_that_is_pushed_is_pulled_as_it_was(registry: Registry, tmp_path: Path) -> None:
    settings = made(tmp_path / "mine", "me")
    states: list[PushState] = []
    target = f"{registry.host}/team/me:v1"
    name = push("me", target, settings, on_state=states.append, cancel=threading.Event())
    assert name == f"ollama:{target}"
    mine = stored("me", settings.data_dir)
    assert told(pulled(tmp_path / "theirs", name)) == told(mine)
    assert [state.phase for state in states[-2:]] == ["manifest", "done"]
    model = mine.files[0]
    sent = [state.done_bytes for state in states if state.digest == str(model.digest)]
    assert (sent[0], sent[-1], len(sent) > 3) == (0, model.size_bytes, True)
    states.clear()
    push("me", target, settings, on_state=states.append, cancel=threading.Event())
    again = [state.done_bytes for state in states if state.digest == str(model.digest)]
    assert again == [0, model.size_bytes], "it was sent again"


def test_the_last_line_of_a_push_counts_all_its_bytes(
    registry: Registry, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = made(tmp_path / "mine", "me")
    assert push_model(settings, "me", f"{registry.host}/team/whole:v1", as_json=False) == 0
    *_, last, done = capfd.readouterr().err.splitlines()
    size_bytes = stored("me", settings.data_dir).size_bytes
    assert last.startswith("uploading me: ")
    assert last.endswith(f"of {size(size_bytes)} (100%)")
    assert "localllm pull ollama:" in done


def test_a_private_registry_takes_what_somebody_pushes_who_has_logged_in(
    private: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = made(tmp_path / "mine", "me")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    target = f"ollama:{private.host}/team/me:v1"
    with pytest.raises(AccessDenied, match="configure a login"):
        push("me", target, settings, cancel=threading.Event())
    monkeypatch.setenv("LOCALLLM_REGISTRY_LOGINS", f"{private.host}=somebody:wrong")
    with pytest.raises(AccessDenied, match="lacks permission"):
        push("me", target, settings, cancel=threading.Event())
    monkeypatch.setenv("LOCALLLM_REGISTRY_LOGINS", f"{private.host}=somebody:se,cret")
    name = push("me", target, settings, cancel=threading.Event())
    assert told(pulled(tmp_path / "theirs", name)) == told(stored("me", settings.data_dir))


def test_names_from_the_network_lead_to_no_private_registry(registry: Registry, tmp_path: Path) -> None:
    settings = made(tmp_path / "mine", "me")
    target = f"ollama:{registry.host}/team/theirs:v1"
    with pytest.raises(ForbiddenAddress):
        push("me", target, settings, cancel=threading.Event(), named_by_user=False)


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (None, InvalidParameter),
        ("me", InvalidParameter),
        ("hf.co/user/repo", InvalidParameter),
        ("./file.gguf", InvalidParameter),
        ("ollama:me/mine", UnsupportedParameter),
    ],
)
def test_what_is_no_place_to_push_to_is_refused(target: str | None, error: type[LocalLLMError], tmp_path: Path) -> None:
    settings = made(tmp_path, "me")
    with pytest.raises(error, match="ollama:HOST/NAMESPACE/MODEL:TAG"):
        push("me", target, settings, cancel=threading.Event())
