"""The trade-off of `prefill_step_ms`: gaps in running streams against the TTFT of a prompt that arrives among them.

    python -m benchmarks.prefill_share PEERS

Four streams run on the model of random weights while a prompt of 6,000 tokens arrives; once per setting in each round.
"""

from __future__ import annotations

import argparse
import random
import statistics
from pathlib import Path

from benchmarks.peers import MODEL, UNGUESSED
from benchmarks.results import save
from benchmarks.serving import SCENARIOS, SLOTS, THREADS, measure
from localllm.client.sidecar import Sidecar

SETTINGS_MS = (25, 50, 100, 200, 300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    model: Path = arguments.peers.resolve() / MODEL
    stall = SCENARIOS[-1]
    runs: dict[int, list[dict[str, float]]] = {}
    for _ in range(arguments.rounds):
        for setting in SETTINGS_MS:
            options = [str(model), f"--slots={SLOTS}", f"--ctx={stall.ctx}", f"--threads={THREADS}"]
            with Sidecar.start([*options, f"--prefill-step-ms={setting}", "--log-level=warning", UNGUESSED]) as server:
                figures = measure(server.url, server.token or "", model.stem, stall.load, random.randrange(1 << 30))
            runs.setdefault(setting, []).append(figures)
    curve = {}
    for setting, each in runs.items():
        alone, among = (statistics.median(run[f"ttft_{way}_s"] for run in each) for way in ("alone", "among_streams"))
        curve[f"{setting} ms"] = {
            "gap_p50_before_ms": statistics.median(run["gap_p50_before_ms"] for run in each),
            "gap_p50_during_ms": statistics.median(run["gap_p50_during_ms"] for run in each),
            "gap_max_during_ms": statistics.median(run["gap_max_during_ms"] for run in each),
            "ttft_ratio": round(among / alone, 2),
        }
    save(f"prefill_share-{model.stem}", curve)


if __name__ == "__main__":
    main()
