"""Training ends when it has seen its tokens, or when its time is up."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `train`")
pytest.importorskip("tokenizers", reason="needs the extra `train`")

import fit  # noqa: E402
from network import Network, Shape  # noqa: E402

SHAPE = Shape(vocab=64, width=32, layers=1, heads=2, kv_heads=1, hidden=32)


def training(minutes: float) -> tuple[list[str], list[float]]:
    """What it reports, and the learning rate of every step."""
    torch.manual_seed(0)
    ids = np.tile(np.arange(16, dtype=np.uint16), 200)
    tokens = fit.Tokens(ids, np.ones(len(ids), np.float32), bos=0)
    rates, lines = RecordedRates(), list[str]()
    fit.fit(
        Network(SHAPE), [(tokens, fit.Phase(2048, 32, 2))], seed=1, report=lines.append, minutes=minutes, rates=rates
    )
    return lines, rates.factors


class RecordedRates(fit.Rates):
    """Rates that remember what was asked of them."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "factors", [])

    factors: list[float]

    def at(self, done: float) -> float:
        self.factors.append(super().at(done))
        return self.factors[-1]


def test_a_training_with_time_enough_sees_every_token_and_ends_slowly() -> None:
    lines, factors = training(minutes=5)
    assert len(factors) == 32
    assert "step 32/32" in lines[-1]
    assert factors[-1] < 0.2


def test_a_training_whose_time_is_up_says_so_and_its_rates_have_fallen_with_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr(fit, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    lines, factors = training(minutes=10 / 60)
    assert lines[-1].startswith("cut short after")
    assert len(factors) == 9
    assert max(factors) == 1
    assert factors[-1] < 0.4
