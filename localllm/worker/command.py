"""How a worker process is started: one function, so that a frozen desktop app can replace it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def worker_command(
    *,
    data_dir: Path,
    runtime: str,
    plugin_dir: Path | None,
    verbose: bool,
    debug: bool,
    devices: Sequence[str] = (),
    rpc: str | None = None,
) -> list[str]:
    """The argv of `localllm.worker`. `-P` keeps the current folder off the import path."""
    command = [sys.executable, "-P", "-m", "localllm.worker", "--data-dir", str(data_dir), "--runtime", runtime]
    if plugin_dir is not None:
        command += ["--plugin-dir", str(plugin_dir)]
    if devices:
        command += ["--devices", ",".join(devices)]
    if rpc:
        command += ["--rpc", rpc]
    return [*command, *(["--verbose"] if verbose else []), *(["--debug"] if debug else [])]
