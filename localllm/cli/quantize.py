"""`localllm quantize`: starts the child process that does it, shows how far it is, and removes what is left of it.

Never loads llama.cpp. Ctrl-C ends the child and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from localllm import osdep
from localllm.cli import report
from localllm.cli.bars import Bar
from localllm.cli.units import duration, size
from localllm.config import Settings
from localllm.errors import InvalidParameter, LoadFailed, from_info
from localllm.quantizing import Done, Failed, Job, Message, Step, type_of

END_S = 5.0
"""For the child to end when it is told to."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    source: str
    target: str
    type: str
    source_bytes: int
    target_bytes: int
    seconds: float
    notices: tuple[str, ...]


def child_command() -> list[str]:
    """The argv of the child; a frozen desktop app replaces it."""
    return [sys.executable, "-P", "-m", "localllm.llama.quantize_child"]


def quantize_named(settings: Settings, source: str, target: Path, type: str, **options: Any) -> int:
    """`quantize_model` of a model by its name or path. Raises `ModelNotFound` too."""
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
    as_json: bool = False,
    command: Sequence[str] | None = None,
) -> int:
    """Write `target`; `source` is a file, of a split model the first. Raises `LocalLLMError`s."""
    target = target.expanduser()
    if not target.name:
        raise InvalidParameter(f"{target} is no file's name", param="target")
    job = Job(
        source=str(source.expanduser().absolute()),
        target=str(target.absolute()),
        temporary=str(target.absolute().with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")),
        type=type_of(type),
        allow_requantize=allow_requantize,
        force=force,
        threads=threads,
        data_dir=str(settings.data_dir.absolute()),
    )
    done = _run(job, command or child_command())
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
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(result)).decode() + "\n")
        return report.OK
    for notice in done.notices:
        report.say(f"localllm: {notice}")
    share = f"{done.target_bytes / max(1, done.source_bytes):.0%}"
    report.say(
        f"localllm: {target} is written in {job.type}: {size(done.source_bytes)} became {size(done.target_bytes)} "
        f"({share}) in {duration(done.seconds)}"
    )
    return report.OK


def _run(job: Job, command: Sequence[str]) -> Done:
    try:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **osdep.own_process_group())
    except OSError as error:
        raise LoadFailed(f"{command[0]} does not start: {error}") from error
    try:
        with child, Bar(Path(job.target).name) as bar:
            try:
                done = _follow(child, job, bar)
            finally:
                _end(child)
    finally:
        with contextlib.suppress(OSError):
            Path(job.temporary).unlink(missing_ok=True)
    return done


def _follow(child: subprocess.Popen[bytes], job: Job, bar: Bar) -> Done:
    """Its messages to the last. Raises what it failed with, or `LoadFailed` if it died."""
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(OSError):  # dead already: told below
        child.stdin.write(msgspec.json.encode(job) + b"\n")
        child.stdin.flush()
    for line in child.stdout:
        try:
            message: Message = msgspec.json.decode(line, type=Message)
        except msgspec.MsgspecError:
            continue  # a line cut short by a death
        if isinstance(message, Step):
            bar.show("quantizing", message.done_bytes, message.total_bytes)
        elif isinstance(message, Failed):
            raise from_info(message.error)
        else:
            return message
    reason = osdep.exit_reason(child.wait())
    raise LoadFailed(
        f"the process that quantizes ended early ({reason}); the source may be damaged, or memory was short",
        reason=str(reason),
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """It ends with its stdin, or is killed."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
