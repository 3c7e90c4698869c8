"""The test models are what they promise to be: real llama.cpp loads them, in a child process, and they give numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localllm.gguf import read_model_info
from tests.models import families, quantized
from tests.models.maker import run_child, shards_of, write_llama

TEXT = "the hello wörld 日本 🙂\n\tend"
WRITERS: dict[str, Callable[[Path], Path]] = {
    "full": write_llama,
    "window": families.write_sliding_window,
    "recurrent": families.write_recurrent,
    "hybrid": families.write_hybrid,
    "mixture": families.write_mixture,
    "draft": families.write_draft,
}
MAX_BYTES = 1_000_000


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    made = {name: write(folder / f"{name}.gguf") for name, write in WRITERS.items()}
    write_llama(folder / "split.gguf", max_tensors_per_file=8)
    made["split"] = shards_of(folder / "split.gguf")[0]
    made["adapter"] = families.write_lora(folder / "adapter.gguf")
    made["embedding"] = families.write_embedding(folder / "embedding.gguf")
    made["reranker"] = families.write_reranker(folder / "reranker.gguf")
    return made


@pytest.fixture(scope="module")
def answers(paths: dict[str, Path]) -> dict[str, dict[str, Any]]:
    """What every model gave, from one child process for all of them."""
    jobs = {name: _job(paths[name]) for name in (*WRITERS, "split")}
    jobs["adapted"] = _job(paths["full"], adapter=str(paths["adapter"]))
    jobs["embedding"] = _job(paths["embedding"], mode="embed", text="hello there")
    jobs["reranker"] = _job(paths["reranker"], mode="rank", text="hello there")
    jobs["reranker, other text"] = _job(paths["reranker"], mode="rank", text="something else")
    return dict(zip(jobs, run_child("tests.models.decode_child", list(jobs.values())), strict=True))


def _job(path: Path, *, mode: str = "decode", text: str = TEXT, adapter: str | None = None) -> dict[str, Any]:
    return {"path": str(path), "mode": mode, "text": text, "adapter": adapter}


@pytest.mark.parametrize(
    ("name", "recurrent", "hybrid", "window"),
    [
        ("full", False, False, 0),
        ("window", False, False, families.SLIDING_WINDOW),
        ("recurrent", True, False, 0),
        ("hybrid", False, True, 0),
        ("mixture", False, False, 0),
        ("draft", False, False, 0),
    ],
)
def test_llama_cpp_reports_the_memory_class_that_the_model_was_made_for(
    answers: dict[str, dict[str, Any]], name: str, recurrent: bool, hybrid: bool, window: int
) -> None:
    answer = answers[name]
    assert (answer["recurrent"], answer["hybrid"], answer["window"]) == (recurrent, hybrid, window)


@pytest.mark.parametrize("name", list(WRITERS))
def test_any_text_tokenizes_and_comes_back_unchanged(answers: dict[str, dict[str, Any]], name: str) -> None:
    assert answers[name]["text"] == TEXT


@pytest.mark.parametrize("name", list(WRITERS))
def test_logits_cover_the_vocabulary_and_are_spread_out(answers: dict[str, dict[str, Any]], name: str) -> None:
    row = answers[name]["row"]
    assert len(row) == 320
    assert 2.0 < float(np.std(row)) < 8.0


def test_a_split_model_gives_the_same_logits_as_the_whole_one(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["split"]["row"] == answers["full"]["row"]


def test_the_draft_has_its_sibling_s_vocabulary(answers: dict[str, dict[str, Any]]) -> None:
    assert answers["draft"]["tokens"] == answers["full"]["tokens"]


def test_the_adapter_changes_the_logits(answers: dict[str, dict[str, Any]]) -> None:
    difference = np.subtract(answers["adapted"]["row"], answers["full"]["row"])
    assert float(np.abs(difference).max()) > 0.5


def test_the_embedding_model_gives_a_vector(answers: dict[str, dict[str, Any]]) -> None:
    assert len(answers["embedding"]["row"]) == families.N_EMBD
    assert float(np.std(answers["embedding"]["row"])) > 0.1


def test_the_reranker_scores_two_texts_differently(answers: dict[str, dict[str, Any]]) -> None:
    one, other = answers["reranker"]["row"], answers["reranker, other text"]["row"]
    assert len(one) == len(other) == 1
    assert one != other


def test_every_model_is_small_and_its_header_reads(paths: dict[str, Path]) -> None:
    for name, path in paths.items():
        assert path.stat().st_size < MAX_BYTES, name
        assert read_model_info(path).num_parameters > 0, name


def test_the_same_seed_writes_the_same_bytes(paths: dict[str, Path], tmp_path: Path) -> None:
    again = write_llama(tmp_path / "full.gguf")
    assert again.read_bytes() == paths["full"].read_bytes()
    assert write_llama(tmp_path / "other.gguf", seed=1).read_bytes() != again.read_bytes()


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], dict[str, Path]]:
    return quantized.write_every_type(tmp_path_factory.mktemp("types"))


@pytest.fixture(scope="module")
def rows(every_type: tuple[dict[str, Path], dict[str, Path]]) -> dict[Path, list[float]]:
    """Logits of every file, from one child process."""
    paths = sorted({path for folder in every_type for path in folder.values()})
    answers = run_child("tests.models.decode_child", [_job(path) for path in paths])
    return {path: answer["row"] for path, answer in zip(paths, answers, strict=True)}


@pytest.mark.parametrize("name", quantized.TYPE_NAMES)
def test_a_model_of_every_tensor_type_answers_nearly_as_in_f32(
    every_type: tuple[dict[str, Path], dict[str, Path]], rows: dict[Path, list[float]], name: str
) -> None:
    """Also proves our table of block sizes: a wrong one would refuse the tensor behind it."""
    path, reference = every_type[0][name], every_type[1][name]
    assert name in read_model_info(path).quantization
    assert path.stat().st_size < 2 * MAX_BYTES
    least = 0.99 if "in-f32" in reference.name else 0.8
    assert float(np.corrcoef(rows[path], rows[reference])[0, 1]) > least
