"""`python -m localllm.llama.quantizing.quantize_child`: a `Job` on stdin; lines of `Step`, `Done`, `Failed` out.

Ends, without leaving a half-written file, as soon as its stdin ends, so it never outlives its parent. It may crash,
like any process that lets native code read a file.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import BinaryIO

import msgspec

from localllm.errors import LoadFailed, LocalLLMError, sentence_of
from localllm.llama import library
from localllm.llama.probes import selftest
from localllm.llama.quantizing import quantize
from localllm.system import processes
from localllm.types.quantization import Done, Failed, Job, Message

EXIT_ORPHANED = 3


def main() -> None:
    """Does the one job. Native code may print or crash; messages use a private descriptor."""
    jobs, messages = processes.claim_standard_streams()
    processes.die_quietly()
    job = msgspec.json.decode(_line(jobs), type=Job)
    lock = threading.Lock()

    def report(message: Message) -> None:
        with lock, contextlib.suppress(OSError):  # if the parent is gone, the pipe's watcher notices
            messages.write(msgspec.json.encode(message) + b"\n")

    threading.Thread(target=_end_with_parent, args=(jobs, Path(job.temporary)), daemon=True).start()
    report(_do(job, report))
    messages.close()


def _do(job: Job, report: quantize.Report) -> Done | Failed:
    try:
        source = quantize.check(job)
        choice = selftest.choose_quantizing(Path(job.data_dir)).choice
        return quantize.run(job, source, library.load(choice), report)
    except LocalLLMError as error:
        return Failed(error.info())
    except OSError as error:
        return Failed(LoadFailed(f"{job.target} cannot be written: {sentence_of(error)}").info())
    finally:
        with contextlib.suppress(OSError):  # on a read-only disk there is none
            Path(job.temporary).unlink(missing_ok=True)


def _line(stream: BinaryIO) -> bytes:
    """Unbuffered, because the watcher continues reading."""
    line = b""
    while not line.endswith(b"\n"):
        piece = stream.read(1)
        if not piece:
            raise SystemExit(EXIT_ORPHANED)
        line += piece
    return line


def _end_with_parent(stream: BinaryIO, temporary: Path) -> None:
    while stream.read(4096):
        pass
    with contextlib.suppress(OSError):  # on Windows it is still open; the parent removes it then
        temporary.unlink(missing_ok=True)
    os._exit(EXIT_ORPHANED)


if __name__ == "__main__":
    main()
