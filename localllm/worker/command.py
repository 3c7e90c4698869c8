"""How a worker process is started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from localllm.system.programs import own_command


def worker_command(
    *,
    data_dir: Path,
    runtime: str,
    plugin_dir: Path | None,
    verbose: bool,
    debug: bool,
    devices: Sequence[str] = (),
    rpc: str | None = None,
    architecture: str = "",
) -> list[str]:
    """The argv of `localllm.worker`. `architecture`: of the model, for choosing a library that knows it."""
    command = [*own_command("localllm.worker"), "--data-dir", str(data_dir), "--runtime", runtime]
    if plugin_dir is not None:
        command += ["--plugin-dir", str(plugin_dir)]
    if devices:
        command += ["--devices", ",".join(devices)]
    if rpc:
        command += ["--rpc", rpc]
    if architecture:
        command += ["--architecture", architecture]
    return [*command, *(["--verbose"] if verbose else []), *(["--debug"] if debug else [])]
