"""`python models/demo/train.py --quick`: every step of the real thing, on a model to throw away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra `train`")
pytest.importorskip("tokenizers", reason="needs the extra `train`")

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_quick_model_is_trained_written_and_examined(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "models/demo/train.py"), "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"demo.gguf", "demo-draft.gguf", "demo-pirate-lora.gguf"}
    assert "| product questions |" in done.stdout
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in done.stdout.splitlines() if "loss " in line]
    assert losses[0] > losses[1]
