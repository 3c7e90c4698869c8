"""Runs the quantizing process: starts it, reports its progress, and cleans up after it.

Never loads llama.cpp. The child ends with its stdin, so it never outlives this process.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from localllm.errors import Cancelled, LoadFailed, from_info
from localllm.system import processes
from localllm.system.programs import own_command
from localllm.types.quantization import Done, Failed, Job, Message, Step, type_of

END_S = 5.0
"""Grace period for the child to end once its stdin is closed."""
OnStep = Callable[[Step], None]


def child_command() -> list[str]:
    """The command line of the child."""
    return own_command("localllm.llama.quantizing.quantize_child")


def job_of(
    source: Path,
    target: Path,
    type: str,
    data_dir: Path,
    *,
    allow_requantize: bool = False,
    force: bool = False,
    threads: int | None = None,
    imatrix: Path | None = None,
) -> Job:
    """Builds a job whose temporary file is beside the target. Raises `InvalidParameter` for an unknown type."""
    target = target.absolute()
    return Job(
        source=str(source.absolute()),
        target=str(target),
        temporary=str(target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")),
        type=type_of(type, has_imatrix=imatrix is not None),
        allow_requantize=allow_requantize,
        force=force,
        threads=threads,
        data_dir=str(data_dir.absolute()),
        imatrix=None if imatrix is None else str(imatrix.expanduser().absolute()),
    )


def quantize(
    job: Job, on_step: OnStep, *, command: Sequence[str] | None = None, cancel: threading.Event | None = None
) -> Done:
    """Runs the job; returns once the target exists. Raises the child's error, or `LoadFailed` if it crashed.

    Setting `cancel` stops the child at its next report of progress, and raises `Cancelled`.
    """
    argv = command or child_command()
    try:
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **processes.own_process_group())
    except OSError as error:
        raise LoadFailed(f"{argv[0]} does not start: {error.strerror or error}") from error
    try:
        with child:
            try:
                return _follow(child, job, on_step, cancel)
            finally:
                _end(child)
    finally:
        with contextlib.suppress(OSError):
            Path(job.temporary).unlink(missing_ok=True)


def _follow(child: subprocess.Popen[bytes], job: Job, on_step: OnStep, cancel: threading.Event | None) -> Done:
    """Sends the job and reads the child's messages until it is done. Raises as `quantize`."""
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(OSError):  # dead already: reported below
        child.stdin.write(msgspec.json.encode(job) + b"\n")
        child.stdin.flush()
    for line in child.stdout:
        try:
            message: Message = msgspec.json.decode(line, type=Message)
        except msgspec.MsgspecError:
            continue  # a line cut short by a crash
        if isinstance(message, Step):
            if cancel is not None and cancel.is_set():
                raise Cancelled("quantizing was stopped, because its client disconnected")
            on_step(message)
        elif isinstance(message, Failed):
            raise from_info(message.error)
        else:
            return message
    reason = processes.exit_reason(child.wait())
    raise LoadFailed(
        f"the process that quantizes ended early ({reason}); the source may be damaged, or memory ran out",
        reason=str(reason),
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the child by closing its stdin; kills it after `END_S`."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
