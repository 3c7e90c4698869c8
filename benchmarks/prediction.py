"""Tokens per second of a dozen models, predicted from the header and a short probe, against measurements.

    python -m benchmarks.prediction FOLDER [--threads N] [--rounds N]

FOLDER, outside the repository, gets sparse files, a few megabytes on disk. Each round probes the machine anew and
measures every model; the median of the ratios counts. A round takes about 2 minutes on a quiet machine. With
`--threads 1`, CPU time is measured, so that the machine may be busy.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.prediction_child import PROMPT
from benchmarks.prediction_models import write_all
from benchmarks.results import save
from localllm.gguf import read_model_info
from localllm.planning.prediction import speeds
from localllm.planning.speeds import Speed
from localllm.settings import config
from localllm.system import cpu
from localllm.types import ModelInfo
from localllm.types.load_options import LoadOptions

REPOSITORY = Path(__file__).parents[1]
WITHIN = 0.2


class Row(NamedTuple):
    """Tokens per second of one model in one round."""

    predicted: Speed
    prompt: float
    answer: float


def measured(path: Path, home: Path, threads: int) -> tuple[float, float]:
    """Median tokens per second of prompts and of answers."""
    command = [sys.executable, "-m", "benchmarks.prediction_child", str(path), str(home), str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPOSITORY)
    times = json.loads(done.stdout)
    return PROMPT / statistics.median(times["prompt_s"]), 1 / statistics.median(times["answer_s"])


def one_round(models: dict[str, Path], infos: dict[str, ModelInfo], home: Path, threads: int) -> dict[str, Row]:
    """Predict all speeds after a probe, then measure, so that no prediction knows a measurement."""
    (home / "speed.json").unlink(missing_ok=True)
    settings = config.load({"home": home, "device": "cpu"})
    predicted = speeds(settings, LoadOptions(threads=threads, gpu_layers=0), list(infos.values()), ())
    rows: dict[str, Row] = {}
    for (name, path), speed in zip(models.items(), predicted, strict=True):
        if not isinstance(speed, Speed):
            raise SystemExit(f"{name}: {speed.reason}")
        rows[name] = Row(speed, *measured(path, home, threads))
        print(line(name, [rows[name]]), flush=True)
    return rows


def line(name: str, rows: list[Row]) -> str:
    """A line with predicted / measured = ratio, for answers and prompts."""
    cells = [f"{name:<28}"]
    for kind in ("answer", "prompt"):
        found = _figures(rows, kind)
        cells.append(f"{kind} {found['predicted']:9.1f} / {found['measured']:9.1f} = {found['ratio']:.2f}")
    return "   ".join(cells) + f"   stated error: {statistics.median(row.predicted.error for row in rows):.0%}"


def _figures(rows: list[Row], kind: str) -> dict[str, float]:
    said = [getattr(row.predicted, f"{kind}_tokens_per_s") for row in rows]
    seen = [getattr(row, kind) for row in rows]
    return {
        "predicted": round(statistics.median(said), 1),
        "measured": round(statistics.median(seen), 1),
        "ratio": round(statistics.median(a / b for a, b in zip(said, seen, strict=True)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=cpu.num_physical_cores())
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    if folder.is_relative_to(REPOSITORY):
        parser.error("the folder must lie outside the repository")
    models = write_all(folder)
    infos = {name: read_model_info(path) for name, path in models.items()}
    found: dict[str, list[Row]] = {name: [] for name in models}
    home = Path(tempfile.mkdtemp())
    try:
        for _ in range(arguments.rounds):
            for name, row in one_round(models, infos, home, arguments.threads).items():
                found[name].append(row)
    finally:
        shutil.rmtree(home)
    table: dict[str, Any] = {
        name: {kind: _figures(rows, kind) for kind in ("answer", "prompt")} for name, rows in found.items()
    }
    print()
    for name, rows in found.items():
        print(line(name, rows))
    ratios = [kind["ratio"] for row in table.values() for kind in row.values()]
    within = sum(abs(ratio - 1) <= WITHIN for ratio in ratios)
    save(
        "prediction",
        {"threads": arguments.threads, "rounds": arguments.rounds, "within_20_percent": f"{within} of {len(ratios)}",
         "models": table},
    )  # fmt: skip


if __name__ == "__main__":
    main()
