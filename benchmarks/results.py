"""Where figures go: printed as one line of JSON and kept in results/NAME.json with the machine they came from."""

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
    """What `localllm doctor` says of CPU, library and backend: a ratio means little without them."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "localllm", "doctor", "--json"], check=True, capture_output=True, text=True
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def save(name: str, figures: dict[str, Any], keys: Sequence[str] = KEYS) -> None:
    """Prints the figures and keeps them; `keys` names what is kept of the doctor's report."""
    report = machine()
    kept = {key: report[key] for key in keys if key in report}
    print(json.dumps(figures, indent=2))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({**figures, "machine": kept}, indent=2) + "\n", "utf-8")
