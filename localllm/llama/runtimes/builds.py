"""Builds of runtimes that are running or failed: their process, their progress, how to stop them.

A build writes its state beside the runtimes and holds a lock as long as its process lives, so that a reused process id
is never mistaken for it. Does not know how anything is compiled.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from localllm.errors import InvalidParameter, LoadFailed, LocalLLMError
from localllm.llama.runtimes.building import Progress, check_free, workshops_of
from localllm.llama.runtimes.found import folder_of
from localllm.system import files, processes
from localllm.system.programs import own_command

END_S = 10.0
"""Time for a build to clean up."""
TELL_EVERY_S = 0.5
"""Least time between two writes of its progress."""
_PREFIX = ".build-"


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """A build, as in its file."""

    name: str
    """Name of the runtime that it makes."""
    kind: str
    pid: int
    started_unix_s: float
    done: int = 0
    total: int = 0
    """Files to compile; 0: not known yet."""
    problem: str = ""
    """Why it failed."""
    log: str = ""
    """Log file; empty: the output is on a terminal."""

    @property
    def remaining_s(self) -> float | None:
        """Estimated from the time so far; None: unknown."""
        if not self.done:
            return None
        return (time.time() - self.started_unix_s) / self.done * (self.total - self.done)


class BuildStatus(msgspec.Struct, frozen=True):
    """A build, and whether its process is alive."""

    build: Build
    is_running: bool


def seen(data_dir: Path) -> list[BuildStatus]:
    """All builds that are running or failed, by name."""
    found = []
    for path in sorted(folder_of(data_dir).glob(f"{_PREFIX}*.json")):
        with contextlib.suppress(OSError, msgspec.MsgspecError):  # deleted meanwhile, or not ours
            build = msgspec.json.decode(path.read_bytes(), type=Build)
            found.append(BuildStatus(build, _is_locked(_lock_of(data_dir, build.name))))
    return found


@contextlib.contextmanager
def recorded(data_dir: Path, name: str, kind: str, *, log: str = "") -> Iterator[Progress]:
    """Records a build's state, and prevents another of the same name. Raises `InvalidParameter`."""
    folder = folder_of(data_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(_lock_of(data_dir, name), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise LoadFailed(f"{folder} cannot be written: {error.strerror}; choose another --home") from error
    try:
        if not files.try_lock(lock, exclusive=True):
            raise InvalidParameter(
                f"the runtime {name!r} is being built already; `localllm runtime list` shows how far it is, "
                f"`localllm runtime stop {name}` ends it",
                param="name",
            )
        _sweep(data_dir, name)
        state = _State(_path_of(data_dir, name), Build(
            name=name, kind=kind, pid=os.getpid(), started_unix_s=time.time(), log=log
        ))  # fmt: skip
        try:
            yield state.advance
        except (LocalLLMError, KeyboardInterrupt) as error:
            if log:
                state.write(problem=error.message if isinstance(error, LocalLLMError) else "it was stopped")
            else:  # it was watched on a terminal
                state.forget()
            raise
        state.forget()
    finally:
        files.unlock(lock)
        os.close(lock)


def start(data_dir: Path, name: str, kind: str, command: Sequence[str] | None = None) -> Build:
    """Build in a process that outlives this one and its terminal. Raises `InvalidParameter`, `LoadFailed`."""
    check_free(name, data_dir)
    if _is_locked(_lock_of(data_dir, name)):
        with recorded(data_dir, name, kind):  # raises if one is running
            pass
    forget(name, data_dir)
    folder = folder_of(data_dir)
    log = folder / f"{_PREFIX}{name}.log"
    argv = command or own_command("localllm.llama.runtimes.build_child")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as words:
            child = subprocess.Popen(
                [*argv, str(data_dir.absolute()), name, kind, str(log)],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                **processes.own_process_group(),
            )
    except OSError as error:
        raise LoadFailed(f"a build cannot be started: {error}") from error
    threading.Thread(target=child.wait, name="build-waiter", daemon=True).start()  # reaps the child
    return Build(name=name, kind=kind, pid=child.pid, started_unix_s=time.time(), log=str(log))


def stop(data_dir: Path, name: str) -> None:
    """End a build and its compilers; returns when they are gone. Raises `InvalidParameter` if none is running."""
    running = next((each for each in seen(data_dir) if each.build.name == name and each.is_running), None)
    if running is None:
        raise InvalidParameter(
            f"no build of {name!r} is running; `localllm runtime list` shows those that are", param="target"
        )
    if not running.build.log:
        raise InvalidParameter(f"the build of {name!r} is running on a terminal; press Ctrl-C there", param="target")
    with contextlib.suppress(OSError):  # it has just ended, or process groups are unsupported
        os.kill(-running.build.pid, signal.SIGTERM)  # ninja too: its compilers are in groups of their own
    _is_free(_lock_of(data_dir, name), END_S)
    with contextlib.suppress(OSError):
        processes.kill_group(running.build.pid)
    if not _is_free(_lock_of(data_dir, name), END_S):
        raise LoadFailed(f"the build of {name!r} does not stop; its process is {running.build.pid}")
    _sweep(data_dir, name)
    forget(name, data_dir)


def forget(name: str, data_dir: Path) -> bool:
    """Delete the record of a build that ended; returns whether there was one."""
    path = _path_of(data_dir, name)
    was_there = path.exists()
    for each in (path, path.with_suffix(".log")):
        each.unlink(missing_ok=True)
    return was_there


def forget_failed(name: str, data_dir: Path) -> bool:
    """Like `forget`, for a failed build. Raises `InvalidParameter` if it is running."""
    build = next((each for each in seen(data_dir) if each.build.name == name), None)
    if build is None:
        return False
    if build.is_running:
        raise InvalidParameter(
            f"the runtime {name!r} is being built; `localllm runtime stop {name}` stops it", param="target"
        )
    return forget(name, data_dir)


def _sweep(data_dir: Path, name: str) -> None:
    """Remove the folders that a killed build of that name left behind; call only while none is running."""
    for folder in folder_of(data_dir).glob(f"{workshops_of(name)}*"):
        shutil.rmtree(folder, ignore_errors=True)


class _State:
    """The state file of one build."""

    def __init__(self, path: Path, build: Build) -> None:
        self._path = path
        self._build = build
        self._written_s = 0.0
        self.write()

    def advance(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._written_s >= TELL_EVERY_S or done == total:
            self._written_s = now_s
            self.write(done=done, total=total)

    def write(self, **changes: int | str) -> None:
        self._build = msgspec.structs.replace(self._build, **changes)
        part = self._path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(self._build))
        files.replace_file(part, self._path)

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


def _path_of(data_dir: Path, name: str) -> Path:
    return folder_of(data_dir) / f"{_PREFIX}{name}.json"


def _lock_of(data_dir: Path, name: str) -> Path:
    return folder_of(data_dir) / f"{_PREFIX}{name}.lock"


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        if not files.try_lock(fd, exclusive=False):
            return True
        files.unlock(fd)
        return False
    finally:
        os.close(fd)


def _is_free(lock: Path, within_s: float) -> bool:
    """Polls, because the process holds the lock until it is gone and there is no notification of that."""
    deadline_s = time.monotonic() + within_s
    while _is_locked(lock):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True
