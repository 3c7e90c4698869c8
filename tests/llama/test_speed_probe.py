"""The probe in its child, on the real library: what it says, what it remembers, and what becomes of one that dies."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from localllm.gguf import read_model_info
from localllm.planning import prediction
from localllm.planning.speeds import MachineSpeed, NotPredicted, ProbeQuestion, Speed
from localllm.registry.resolve import carried
from localllm.settings.config import Settings, load
from localllm.types.load_options import LoadOptions
from tests.models.families import write_mixture


@pytest.fixture(scope="module")
def settings(home: Path) -> Settings:
    return load({"home": home, "device": "cpu"})


def question(settings: Settings, *kernels: str, heads: tuple[int, ...] = ()) -> ProbeQuestion:
    return ProbeQuestion(data_dir=str(settings.data_dir), runtime="auto", threads=1, kernels=kernels, heads=heads)


def asked(settings: Settings, *kernels: str, heads: tuple[int, ...] = ()) -> tuple[MachineSpeed, float]:
    answer = prediction.ask(question(settings, *kernels, heads=heads))
    assert answer.speed is not None, answer.error
    return answer.speed, answer.took_s


def test_what_was_measured_is_remembered_and_only_the_rest_measured(settings: Settings) -> None:
    first, took_s = asked(settings, "Q8_0", heads=(64,))
    assert took_s > 0
    while not first.kernels["Q8_0"].is_final:
        first, _ = asked(settings, "Q8_0", heads=(64,))
    again, took_s = asked(settings, "Q8_0", heads=(64,))
    assert (again, took_s) == (first, 0)
    more, took_s = asked(settings, "Q8_0", "Q4_K", heads=(64, 128))
    assert took_s > 0
    assert more.kernels["Q8_0"] == first.kernels["Q8_0"]
    assert set(more.kernels) >= {"Q8_0", "Q4_K"}
    assert set(more.attention) >= {"64", "128"}


def test_the_figures_are_those_of_a_cpu(settings: Settings) -> None:
    found, _ = asked(settings, "F32", "Q8_0", "Q4_K", "Q4_K experts", heads=(64,))
    assert 1e-9 < found.node_s < 1e-3
    for kernel in found.kernels.values():
        assert 1e8 < 1 / kernel.byte_s < 1e12, "bytes per second"
        assert kernel.cached_byte_s <= kernel.byte_s
        assert 1e8 < 1 / kernel.product_s < 1e14, "products per second"
    q8_0 = found.kernels["Q8_0"]
    assert q8_0.product_s < q8_0.byte_s, "many tokens at once share what is read"


def test_a_type_that_no_kernel_computes_with_is_left_out(settings: Settings) -> None:
    found, _ = asked(settings, "Q8_0", "NOTHING")
    assert "NOTHING" not in found.kernels


@pytest.mark.parametrize("of", ["demo", "mixture"])
def test_a_model_on_the_disk_has_a_speed(settings: Settings, tmp_path: Path, of: str) -> None:
    path = carried("demo.gguf") if of == "demo" else write_mixture(tmp_path / "mixture.gguf")
    (found,) = prediction.speeds(settings, LoadOptions(threads=1), [read_model_info(path)], ())
    assert isinstance(found, Speed), found
    assert 10 < found.answer_tokens_per_s < found.prompt_tokens_per_s < 1e7


def test_a_probe_that_dies_predicts_nothing_and_breaks_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "child_command", lambda: [sys.executable, "-c", "import os; os.abort()"])
    info = read_model_info(carried("demo.gguf"))
    (found,) = prediction.speeds(settings, LoadOptions(), [info], ())
    assert isinstance(found, NotPredicted)
    assert "ended early" in found.reason
