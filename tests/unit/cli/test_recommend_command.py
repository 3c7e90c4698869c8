"""What `recommend` prints: a table that says what is predicted, and by whom the scores are stated."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from localllm.cli.commands import recommend
from localllm.cli.shared import report
from localllm.planning import prediction
from localllm.planning.speeds import MachineSpeed, ProbeAnswer, ProbeQuestion
from localllm.registry.offers.recommending import Room, Use
from localllm.settings.config import Settings
from tests.unit.planning.test_speed import KERNEL

GB = 10**9


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    def ask(question: ProbeQuestion) -> ProbeAnswer:
        return ProbeAnswer(
            speed=MachineSpeed(threads=2, node_s=1e-6, element_s=2e-10, kernels=dict.fromkeys(question.kernels, KERNEL))
        )

    monkeypatch.setattr(prediction, "ask", ask)
    monkeypatch.setattr(recommend, "_room", lambda _: Room(8 * GB))
    return Settings(home=tmp_path)


@pytest.mark.parametrize("use", ["chat", "code", "vision", "embed", "agents"])
def test_five_models_are_named_with_their_sources(
    settings: Settings, use: Use, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recommend.recommend_models(settings, use, as_json=False) == 0
    said = capsys.readouterr().out
    table, notes = said.split("\n\n", 1)
    assert len(table.splitlines()) == 6
    assert "Memory with a context of " in notes
    assert "8 GB are free" in notes
    assert notes.count("https://") >= 1
    assert ("localllm run" in notes) == (use != "embed")


def test_a_narrow_terminal_gets_the_comparison_in_sentences(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "screen_columns", lambda: 60)
    recommend.recommend_models(settings, "chat", as_json=False)
    said = capsys.readouterr().out
    assert max(len(line) for line in said.splitlines() if "://" not in line) <= 60
    assert "THAN THE NEXT" not in said
    assert " larger than " in " ".join(said.split())


def test_json_has_the_same_with_exact_figures(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    recommend.recommend_models(settings, "chat", as_json=True)
    first, *rest = msgspec.json.decode(capsys.readouterr().out)
    assert first["source"].startswith("https://")
    assert first["score"] >= rest[0]["score"]
    assert (first["measure"], first["fits"], first["slow"], first["ctx"]) == ("MMLU-Pro", True, False, 8192)
    assert first["memory_bytes"] > first["disk_bytes"]
    assert first["than_next"].endswith(("larger", "smaller"))
    assert rest[-1]["than_next"] is None


def test_a_slow_model_is_called_slow_and_a_full_machine_gets_a_sentence(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = msgspec.structs.replace(KERNEL, byte_s=KERNEL.byte_s * 40)
    measured = MachineSpeed(threads=1, node_s=1e-6, element_s=2e-10, kernels=dict.fromkeys(("Q4_K", "Q8_0"), slow))
    monkeypatch.setattr(prediction, "ask", lambda _: ProbeAnswer(speed=measured))
    recommend.recommend_models(settings, "code", as_json=False)
    assert "slow: under 5 tokens/s" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr(recommend, "_room", lambda _: Room(10**8))
    assert recommend.recommend_models(settings, "chat", as_json=False) == 1
    assert "no model of the catalog fits into this machine's memory: 100 MB are free" in capsys.readouterr().err


def test_without_a_measurement_the_reason_is_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prediction, "ask", lambda _: ProbeAnswer(error="the probe ended early"))
    assert recommend.recommend_models(settings, "chat", as_json=False) == 0
    assert "? tokens/s: the probe ended early." in capsys.readouterr().out
