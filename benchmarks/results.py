"""Prints figures as JSON, and stores them in results/NAME.json with a description of the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
KEYS = ("cpu", "package_version", "llama_version", "commit", "used", "features")


def machine() -> dict[str, Any]:
    """The report of `localllm doctor` on CPU, library and backend, without which ratios mean little."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "localllm", "doctor", "--json"], check=True, capture_output=True, text=True
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def save(name: str, figures: dict[str, Any], keys: Sequence[str] = KEYS) -> None:
    """Print and store the figures; `keys`: the parts of the doctor's report to store."""
    report = machine()
    kept = {key: report[key] for key in keys if key in report}
    print(json.dumps(figures, indent=2))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({**figures, "machine": kept}, indent=2) + "\n", "utf-8")
