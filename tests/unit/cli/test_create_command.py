"""`localllm create` at the terminal: its template is tried, its FROM is fetched."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localllm.cli.app import run_app
from localllm.registry.listing import store_of
from localllm.registry.names.model_names import parse
from tests.homes import measured_once
from tests.registry.hub_server import HubServer, Repo

Create = Callable[[str], tuple[int, str]]


@pytest.fixture
def hub(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer({"ann/tiny-GGUF": Repo({"tiny-F32.gguf": tiny_model.read_bytes()})}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


@pytest.fixture
def create(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Create:
    """The exit code and what was said."""
    monkeypatch.setenv("LOCALLLM_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALLLM_GPU_LAYERS", "0")  # no process lists the devices

    def create(modelfile: str) -> tuple[int, str]:
        (tmp_path / "Modelfile").write_text(modelfile)
        monkeypatch.setattr(sys, "argv", ["localllm", "create", "mine", "-f", str(tmp_path / "Modelfile")])
        return run_app(), capfd.readouterr().err

    return create


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{% for m in messages %}{{ m.content }}", "endfor"),
        ("{% for m in messages %}{{ m.content | shout }}{% endfor %}", "shout"),
        ("{{ raise_exception('never') }}", "never"),
        ("{% for m in messages %}{{ m.role }}{% endfor %}", "leaves out the user's message"),
        ("{% for i in range(10**9) %}{% endfor %}{{ messages[0].content }}", "does not work"),
    ],
)
def test_a_template_that_does_not_work_is_refused_before_anything_is_made(
    create: Create, tmp_path: Path, template: str, says: str
) -> None:
    code, err = create(f'FROM demo\nTEMPLATE """{template}"""\n')
    assert code == 2
    assert says in err
    assert store_of(tmp_path).list() == ()


def test_a_template_that_works_is_taken(create: Create, tmp_path: Path) -> None:
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    code, err = create(f'FROM demo\nTEMPLATE """{template}"""\n')
    assert code == 0, err
    made = store_of(tmp_path).find(parse("mine"))
    assert made is not None
    assert made.template == template


def test_what_it_is_made_from_is_fetched(create: Create, hub: HubServer, home: Path, tmp_path: Path) -> None:
    with measured_once(home, tmp_path):
        code, err = create("FROM hf.co/ann/tiny-GGUF:F32\nSYSTEM Be brief.\n")
    assert code == 0, err
    assert sorted(model.name for model in store_of(tmp_path).list()) == ["hf.co/ann/tiny-GGUF:F32", "mine"]
    code, err = create("FROM hf.co/ann/nowhere\n")
    assert code == 3
    assert "nowhere" in err
