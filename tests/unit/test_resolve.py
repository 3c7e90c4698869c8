"""From a name to a file: what is here is found, what is not is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.registry.resolve import resolve


def test_a_file_is_found_by_its_path_and_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tiny.gguf", "big-00001-of-00003.gguf", "user-repo"):
        (tmp_path / name).touch()
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "repo").touch()
    monkeypatch.chdir(tmp_path)
    assert resolve("tiny.gguf") == ("tiny", tmp_path / "tiny.gguf")
    assert resolve(Path("./big-00001-of-00003.gguf")).id == "big"
    assert resolve(tmp_path / "user-repo").id == "user-repo"
    assert resolve("user/repo").path == tmp_path / "user" / "repo", "it could mean nothing else"


def test_the_carried_model_is_found_wherever_one_is_even_beside_a_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "demo").touch()
    monkeypatch.chdir(tmp_path)
    assert resolve("demo").path.name == "demo.gguf"
    assert resolve("./demo").path == tmp_path / "demo"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing.gguf", r"no model file 'nothing\.gguf'"),
        ("qwen3:0.6b", r"hf\.co/Qwen/Qwen3-0\.6B-GGUF \(Q8_0, about 0\.6 GB, Apache-2\.0\)"),
        ("qwen33", "did you mean qwen3 "),
        ("wholly-unheard-of", r"no model is called 'wholly-unheard-of' \(a file"),
        ("hf.co/a/b:Q4_K_M", r"hf\.co/a/b:Q4_K_M is not on this machine"),
        ("ollama:llama3.2", "ollama:llama3.2:latest is not on this machine"),
    ],
)
def test_what_is_not_on_this_machine_is_explained(name: str, says: str) -> None:
    with pytest.raises(ModelNotFound, match=says):
        resolve(name)


@pytest.mark.parametrize("name", ["user/repo", "Qwen3", "a\0b", ""])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameter, match="is no model's name"):
        resolve(name)
