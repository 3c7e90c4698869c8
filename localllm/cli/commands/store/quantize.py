"""`localllm quantize`: quantizes a model, with progress. Ctrl-C stops it and leaves no files behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from localllm.cli.render.bars import Bar
from localllm.cli.render.units import duration, size
from localllm.cli.shared import report
from localllm.errors import InvalidParameter
from localllm.registry.making.quantizing import job_of, quantize
from localllm.settings.config import Settings
from localllm.types.quantization import Step


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `--json`."""

    source: str
    target: str
    type: str
    source_bytes: int
    target_bytes: int
    seconds: float
    notices: tuple[str, ...]


def quantize_named(settings: Settings, source: str, target: Path, type: str, **options: Any) -> int:
    """`quantize_model` for a name or a path. Also raises `ModelNotFound`."""
    from localllm.registry.resolve import resolve

    file = resolve(source, settings.data_dir)
    try:
        return quantize_model(settings, file.path, target, type, **options)
    finally:
        file.release()


def quantize_model(
    settings: Settings,
    source: Path,
    target: Path,
    type: str,
    *,
    allow_requantize: bool = False,
    force: bool = False,
    threads: int | None = None,
    imatrix: Path | None = None,
    as_json: bool = False,
    command: Sequence[str] | None = None,
) -> int:
    """Write `target`; `source` is a file, the first one of a split model. Raises `LocalLLMError`s."""
    target = target.expanduser()
    if not target.name:
        raise InvalidParameter(f"{target} is not a file name", param="target")
    job = job_of(
        source.expanduser(),
        target,
        type,
        settings.data_dir,
        allow_requantize=allow_requantize,
        force=force,
        threads=threads,
        imatrix=imatrix,
    )
    with Bar(Path(job.target).name) as bar:

        def show(step: Step) -> None:
            bar.show("quantizing", step.done_bytes, step.total_bytes)

        done = quantize(job, show, command=command)
    if as_json:
        result = Result(
            source=job.source,
            target=job.target,
            type=job.type,
            source_bytes=done.source_bytes,
            target_bytes=done.target_bytes,
            seconds=done.seconds,
            notices=done.notices,
        )
        report.write_json(msgspec.json.encode(result))
        return report.OK
    for notice in done.notices:
        report.say(f"localllm: {notice}")
    share = f"{done.target_bytes / max(1, done.source_bytes):.0%}"
    report.say(
        f"localllm: wrote {target} as {job.type}: {size(done.source_bytes)} to {size(done.target_bytes)} "
        f"({share}) in {duration(done.seconds)}"
    )
    return report.OK
