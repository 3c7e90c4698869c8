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
    examines_devices: bool = False,
    requires_gpus: bool = False,
) -> list[str]:
    """The argv of `localllm.worker`.

    `architecture`: of the model, for choosing a library that knows it. `requires_gpus`: choose one with a backend of
    GPUs. `examines_devices`: try GPUs out, unless that was done before.
    """
    command = [*own_command("localllm.worker"), "--data-dir", str(data_dir), "--runtime", runtime]
    if plugin_dir is not None:
        command += ["--plugin-dir", str(plugin_dir)]
    if devices:
        command += ["--devices", ",".join(devices)]
    if rpc:
        command += ["--rpc", rpc]
    if architecture:
        command += ["--architecture", architecture]
    if examines_devices:
        command.append("--examine-devices")
    if requires_gpus:
        command.append("--require-gpus")
    return [*command, *(["--verbose"] if verbose else []), *(["--debug"] if debug else [])]
