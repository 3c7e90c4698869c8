"""Writes a GGUF file in another type with `llama_model_quantize`, after refusing what cannot turn out well.

Native code reads the source, so this runs in a child process (`quantize_child`), and only after `localllm.gguf` has
found every tensor inside the file (CVE-2026-7482: an unchecked one leaked memory into the result). A dry run by
llama.cpp says how large the result will be before anything is written. Knows nothing of progress bars.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from localllm.errors import DiskFull, InvalidModelFile, InvalidParameter, LoadFailed, LocalLLMError
from localllm.gguf import Header, read_header, read_model_info, shard_paths
from localllm.gguf.kinds import not_a_model
from localllm.llama import log_text
from localllm.llama.enums import file_type
from localllm.llama.library import Library
from localllm.llama.log import INFO
from localllm.llama.quantizing.coverage import check_coverage, gaps
from localllm.llama.quantizing.imatrix import Importance, as_parameter, read_imatrix
from localllm.system import cpu
from localllm.types.quantization import Done, Job, Step

Report = Callable[[Step], None]

PRECISE = frozenset({"F32", "F16", "BF16"})
_INTEGERS = frozenset({"I8", "I16", "I32", "I64", "F64"})
"""Routing tables and the like: copied unchanged."""
POLL_S = 0.1
ROOM_BYTES = 16 * 1024 * 1024
"""Disk space kept free."""


class Source(NamedTuple):
    """What is known of the model to be quantized."""

    header: Header
    paths: tuple[Path, ...]
    tensor_bytes: dict[str, int]
    """Over all shards."""
    quantization: dict[str, int]
    file_type: str | None
    importance: Mapping[str, Importance]
    """Importance of each tensor's columns; empty: all count equally."""

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)


def check(job: Job) -> Source:
    """Every check that does not need llama.cpp.

    Raises `InvalidParameter`, `ModelNotFound`, `InvalidModelFile`.
    """
    source, target = Path(job.source), Path(job.target)
    first = read_header(source)
    _check_kind(first)
    paths = shard_paths(first)
    info = read_model_info(source)
    headers = [first, *(read_header(path) for path in paths[1:])]
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise InvalidParameter(f"{target.parent} is not a writable folder", param="target")
    if target.is_dir():
        raise InvalidParameter(f"{target} is a folder; name the file to write", param="target")
    if target.exists():
        if any(target.samefile(path) for path in paths):
            raise InvalidParameter(f"{target} is the source itself; choose another name for the result", param="target")
        if not target.is_file():
            raise InvalidParameter(f"{target} is not a regular file; name the file to write", param="target")
        if not job.force:
            raise InvalidParameter(f"{target} exists; --force replaces it", param="target")
    quantized = [kind for kind in info.quantization if kind not in PRECISE | _INTEGERS]
    if quantized and not job.allow_requantize:
        raise InvalidParameter(
            f"{source.name} is quantized already ({', '.join(quantized)}), and doing so again loses quality; use its "
            "F16 or BF16 file, or pass --allow-requantize",
            param="source",
        )
    tensors = {tensor.name: tensor.n_bytes for header in headers for tensor in header.tensors}
    importance = {} if job.imatrix is None else read_imatrix(Path(job.imatrix))
    if job.imatrix is not None:
        check_coverage(Path(job.imatrix), importance, [tensor for header in headers for tensor in header.tensors])
    return Source(first, paths, tensors, info.quantization, info.file_type, importance)


def run(job: Job, source: Source, library: Library, report: Report) -> Done:
    """Writes `job.temporary` and, on success, publishes it as `job.target`.

    Raises `InvalidParameter`, `DiskFull` or `LoadFailed` with llama.cpp's own reason.
    """
    began = time.monotonic()
    notices = _rehearse(job, source, library)
    with _progress(library, source, report):
        _quantize(job, source, library, dry=False)
    temporary, target = Path(job.temporary), Path(job.target)
    read_model_info(temporary)
    _make_durable(temporary)
    _publish(temporary, target, force=job.force)
    report(Step(sum(source.tensor_bytes.values()), sum(source.tensor_bytes.values())))
    return Done(
        source_bytes=source.size_bytes,
        target_bytes=target.stat().st_size,
        seconds=round(time.monotonic() - began, 3),
        notices=notices,
    )


def _check_kind(header: Header) -> None:
    if problem := not_a_model(header):
        name = header.path.name
        raise InvalidModelFile(f"{name} {problem}; only models can be quantized", path=str(header.path))


def _rehearse(job: Job, source: Source, library: Library) -> tuple[str, ...]:
    """A dry run: refuses what cannot be done, and notes differences from what was asked."""
    dry = log_text.quantized(_quantize(job, source, library, dry=True))
    if dry.needs_importance:
        raise InvalidParameter(
            f"{job.type} needs an importance matrix for this model; choose a larger type", param="type"
        )
    if dry.num_bytes is None:
        raise LoadFailed("llama.cpp does not report how large the result will be")
    needed = dry.num_bytes + source.header.data_start + ROOM_BYTES
    free = shutil.disk_usage(Path(job.target).parent).free
    if needed > free:
        raise DiskFull(
            f"{job.target} needs {needed:,} bytes; {free:,} are free on its disk; delete something, or write to "
            "another disk",
            needed_bytes=needed,
            free_bytes=free,
        )
    notices = [] if job.imatrix is None else [*gaps(job, source.importance, dry.types)]
    if dry.other_types is not None:
        num_others, num_tensors = dry.other_types
        notices.append(
            f"{num_others} of {num_tensors} tensors do not fit the blocks of {job.type}; they get a larger type"
        )
    if job.allow_requantize and not set(source.quantization) <= PRECISE:
        notices.append("the source was quantized already: the result is worse than one made from F16 or BF16")
    return tuple(notices)


def _quantize(job: Job, source: Source, library: Library, *, dry: bool) -> list[str]:
    """The lines that llama.cpp logs about it."""
    api = library.api
    params = api.llama_model_quantize_default_params()
    params.nthread = job.threads or cpu.num_physical_cores()
    params.ftype = file_type(api, job.type)
    params.allow_requantize = job.allow_requantize
    params.dry_run = dry
    kept: list[object] = []
    if source.importance:
        params.imatrix, kept = as_parameter(library.api, source.importance)
    mark = library.log.mark()
    result = api.llama_model_quantize(os.fsencode(source.paths[0]), os.fsencode(job.temporary), ctypes.byref(params))
    del kept  # llama.cpp reads them until here
    if result != 0:
        raise _failure(job, library.log.errors_since(mark))
    return library.log.lines_since(mark, min_level=INFO)


def _failure(job: Job, reason: str) -> LocalLLMError:
    reason, is_indivisible = log_text.why_not_quantized(reason)
    if is_indivisible:
        return InvalidParameter(
            f"{Path(job.source).name} does not fit the blocks of {job.type}, and no fallback type is defined "
            f"({reason}); choose Q8_0, Q4_0 or a K type",
            param="type",
        )
    free = shutil.disk_usage(Path(job.target).parent).free
    if free < ROOM_BYTES:
        return DiskFull(f"{job.target} could not be written ({reason}); {free:,} bytes are free there", free_bytes=free)
    return LoadFailed(f"llama.cpp cannot quantize {Path(job.source).name}: {reason}", reason=reason)


@contextlib.contextmanager
def _progress(library: Library, source: Source, report: Report) -> Iterator[None]:
    """Reports progress from the log on a thread: llama.cpp has no callback for it, and logs each tensor as it
    begins."""
    over = threading.Event()
    total = sum(source.tensor_bytes.values())

    def watch() -> None:
        mark, done, last = library.log.mark(), 0, ""
        begun: dict[str, int] = {}
        while not over.wait(POLL_S):
            now = library.log.mark()  # before reading: a line in between is read twice, and none is missed
            for line in library.log.lines_since(mark, min_level=INFO):
                if (begins := log_text.tensor_begun(line)) is not None:
                    last = begins
                    begun[last] = source.tensor_bytes.get(last, 0)
            mark = now
            before, done = done, sum(begun.values()) - begun.get(last, 0)
            if done > before:
                report(Step(done, total))

    watcher = threading.Thread(target=watch, name="quantize-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _make_durable(path: Path) -> None:
    """Flush it, with the permissions of any new file."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _publish(temporary: Path, target: Path, *, force: bool) -> None:
    """Atomically; a file created meanwhile is not replaced without `force`."""
    if force:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError as error:
        raise InvalidParameter(f"{target} was created meanwhile; --force replaces it", param="target") from error
    except OSError:  # a file system without hard links
        if target.exists():
            raise InvalidParameter(f"{target} was created meanwhile; --force replaces it", param="target") from None
        os.rename(temporary, target)
    else:
        temporary.unlink()
