"""A control vector from pairs of texts, computed by a child process and kept as an adapter of its model."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from localllm.errors import InvalidParameter, LoadFailed, from_info
from localllm.registry.adapters.names import checked_layers
from localllm.registry.adapters.shelf import Shelf, StoredAdapter
from localllm.registry.resolve import resolve
from localllm.settings.config import Settings
from localllm.system import cpu, files, processes
from localllm.system.programs import own_command
from localllm.types.headers.steering import Failed, Job, Pair, Reply

MAX_PAIRS = 1000
MAX_BYTES = 16 * 1024 * 1024


class MadeVector(NamedTuple):
    """What was kept."""

    adapter: StoredAdapter
    num_pairs: int
    first: int
    """The first layer that it changes."""
    strengths: list[float]
    """As in `Done`."""


def make_vector(
    settings: Settings, model: str, name: str, file: Path, *, layers: str | None, scale: float
) -> MadeVector:
    """Compute it and add it as `name`. Raises `InvalidParameter`, `ModelNotFound`, `LoadFailed`s."""
    first, last = (1, 0) if layers is None else checked_layers(layers)
    pairs, shelf = _pairs(file.expanduser()), Shelf(settings.data_dir)
    base = settings.sections().model_named(model)
    shelf.check(base, name)
    found = resolve(base, settings.data_dir)
    try:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / f"{name}.gguf"
            job = Job(
                model=str(found.path.absolute()),
                target=str(target),
                pairs=pairs,
                first=first,
                last=last,
                name=name,
                data_dir=str(settings.data_dir.absolute()),
                threads=settings.threads or cpu.num_physical_cores(),
            )
            done = _computed(job)
            added = shelf.add(base, name, target, scale, source=f"{file.name}, {len(pairs)} pairs of texts")
    finally:
        found.release()
    return MadeVector(added, len(pairs), first, done)


def _computed(job: Job) -> list[float]:
    """By a child process, since native code reads the model there."""
    command = own_command("localllm.llama.adapters.steer_child")
    child = subprocess.run(
        command, input=msgspec.json.encode(job), stdout=subprocess.PIPE, check=False, **processes.own_process_group()
    )
    try:
        reply = msgspec.json.decode(child.stdout, type=Reply)
    except msgspec.MsgspecError:
        reason = str(processes.exit_reason(child.returncode))
        raise LoadFailed(f"the process that computes the vector ended early ({reason})", reason=reason) from None
    if isinstance(reply, Failed):
        raise from_info(reply.error)
    return reply.strengths


def _pairs(file: Path) -> list[Pair]:
    """One JSON object with `positive` and `negative` a line."""
    raw = files.bounded_bytes(file, MAX_BYTES, param="pairs")
    found = []
    for number, line in enumerate(raw.splitlines(), 1):
        if line.strip():
            try:
                found.append(msgspec.json.decode(line, type=Pair))
            except msgspec.MsgspecError as error:
                example = '{"positive": "TEXT", "negative": "TEXT"}'
                raise InvalidParameter(f"{file}, line {number} is not {example}: {error}", param="pairs") from None
    if not 1 <= len(found) <= MAX_PAIRS:
        raise InvalidParameter(f"{file} has {len(found):,} pairs; 1 to {MAX_PAIRS:,} are possible", param="pairs")
    return found
