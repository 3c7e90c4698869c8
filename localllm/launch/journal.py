"""Changes the user's files and restores them: when the agent exits, or at the next launch after a kill.

    DATA/launch/ID/              one launch: temporary files, and for a changed file:
    DATA/launch/ID/change.json   the change, written before it is made
    DATA/launch/ID/before        the original file; missing if there was none
    DATA/launch/ID.lock          locked while that launch runs
    DATA/launch/FILE.lock        locked by the launch that changed that file (FILE: a digest of its path)

Locks are the operating system's and end with their process. If another program changed a file in the meantime, only
localllm's keys are removed. Knows nothing of agents.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from localllm.errors import LocalLLMError, sentence_of
from localllm.launch import jsonc
from localllm.launch.setup import PROVIDER, Change
from localllm.system import files as system_files

_CHANGE, _BEFORE = "change.json", "before"


class _Done(msgspec.Struct, frozen=True):
    """A key that was added to a file."""

    path: tuple[str, ...]
    before: str | None
    """The original text of the value; None if the key was absent."""
    made: int
    """Length of the shortest prefix of the path that was absent; of the whole path if none was."""


class _Record(msgspec.Struct, frozen=True):
    file: str
    existed: bool
    after: str
    """SHA-256 of the file after our change."""
    keys: tuple[_Done, ...]


class PlannedChange(NamedTuple):
    """A change not yet made."""

    file: Path
    before: str | None
    after: str
    keys: tuple[_Done, ...]

    @property
    def diff(self) -> str:
        """A diff for the user; empty if nothing changes."""
        before = (self.before or "").splitlines(keepends=True)
        lines = difflib.unified_diff(before, self.after.splitlines(keepends=True), str(self.file), str(self.file))
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def plan(change: Change) -> PlannedChange:
    """The changed file. Raises `LocalLLMError` if the file is not valid."""
    file = change.file.resolve()  # keep symbolic links
    try:
        before = file.read_bytes().decode("utf-8") if file.exists() else None
        after, done = before or "", []
        for key in change.keys:
            old = jsonc.raw(after, key.path)
            made = next(
                n for n in range(1, len(key.path) + 1) if jsonc.raw(after, key.path[:n]) is None or n == len(key.path)
            )
            done.append(_Done(key.path, old, made))
            after = jsonc.put(after, key.path, key.value)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise LocalLLMError(f"{file} is not changed, because it cannot be read: {why}") from error
    return PlannedChange(file, before, after, tuple(done))


class Journal:
    """One launch: a context manager that undoes its changes."""

    def __init__(self, data_dir: Path) -> None:
        self._home = data_dir / "launch"
        self._id = secrets.token_hex(8)
        self._locks: list[int] = []

    @property
    def files(self) -> Path:
        """A folder that only the user can read, deleted at the end."""
        return self._home / self._id

    def __enter__(self) -> Journal:
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            self._locks.append(_locked(self._home / f"{self._id}.lock"))
            self.files.mkdir(mode=0o700)
        except OSError as error:
            raise LocalLLMError(sentence_of(error)) from error
        return self

    def write(self, texts: Mapping[str, str]) -> None:
        """Write temporary files."""
        for name, text in texts.items():
            system_files.private_file(self.files / name)
            (self.files / name).write_text(text, "utf-8", newline="")

    def change(self, planned: PlannedChange) -> None:
        """Change a file. Raises `LocalLLMError` if another launch has changed it, or if it cannot be written."""
        try:
            self._locks.append(_locked(self._home / f"{_digest(str(planned.file).encode())[:16]}.lock"))
        except BlockingIOError as error:
            raise LocalLLMError(f"{planned.file} is changed by another localllm launch; end that one first") from error
        except OSError as error:
            raise LocalLLMError(sentence_of(error)) from error
        data = planned.after.encode()
        record = _Record(str(planned.file), planned.before is not None, _digest(data), planned.keys)
        try:
            if planned.before is not None:
                _replace(self.files / _BEFORE, planned.before.encode())
            _replace(self.files / _CHANGE, msgspec.json.encode(record))
            planned.file.parent.mkdir(parents=True, exist_ok=True)
            _replace(planned.file, data)
        except OSError as error:
            raise LocalLLMError(f"{planned.file} cannot be written: {error.strerror or error}") from error

    def undo(self) -> list[str]:
        """Undo the changes; returns a report for the user."""
        said = _undone(self.files)
        for fd in self._locks:
            _release(fd)
        self._locks.clear()
        if not self.files.exists():
            _forget(self._home / f"{self._id}.lock")
        return said

    def __exit__(self, *_: object) -> None:
        if self._locks:
            self.undo()


def recover(data_dir: Path) -> list[str]:
    """Undo the changes of killed launches; returns a report for the user."""
    home = data_dir / "launch"
    said: list[str] = []
    for folder in sorted(home.iterdir()) if home.is_dir() else []:
        if not folder.is_dir():
            continue
        lock = home / f"{folder.name}.lock"
        try:
            fd = _locked(lock)
        except BlockingIOError:
            continue  # it is running
        try:
            said += _undone(folder)
        finally:
            _release(fd)
        if not folder.exists():
            _forget(lock)
    return said


def _undone(folder: Path) -> list[str]:
    """Restore the file and delete the folder; if that fails, the folder is kept and the report says so."""
    try:
        record = msgspec.json.decode((folder / _CHANGE).read_bytes(), type=_Record)
    except FileNotFoundError:
        shutil.rmtree(folder, ignore_errors=True)
        return []
    except (OSError, msgspec.DecodeError) as error:
        return [f"{folder / _CHANGE} cannot be read: {error}"]
    file = Path(record.file)
    before = folder / _BEFORE if record.existed else None
    try:
        said = _changed_back(file, record, before)
    except (OSError, ValueError) as error:
        kept = f"; the original is in {before}" if before else ""
        return [f"{file} could not be restored: {error}{kept}"]
    shutil.rmtree(folder, ignore_errors=True)
    return [said]


def _changed_back(file: Path, record: _Record, before: Path | None) -> str:
    if not file.exists():
        return f"{file} no longer exists, so nothing is restored"
    now = file.read_bytes()
    if before is not None and now == before.read_bytes():
        return f"{file} is unchanged"  # it was not changed yet, or is already restored
    if _digest(now) == record.after:
        if before is None:
            file.unlink()
            return f"{file} was deleted again"
        _replace(file, before.read_bytes())
        return f"{file} was restored"
    text = now.decode("utf-8")
    for key in reversed(record.keys):
        text = _without(text, key)
    _replace(file, text.encode())
    return f"{file} was changed in the meantime: only the keys of this launch were removed"


def _without(text: str, key: _Done) -> str:
    """The text without our value, if it is still there, and without objects created for it, if they are empty."""
    now = jsonc.raw(text, key.path)
    if now is None or not (PROVIDER in key.path or f'"{PROVIDER}"' in now):
        return text
    if key.before is not None:
        return jsonc.put(text, key.path, jsonc.read(key.before))
    text = jsonc.drop(text, key.path)
    for length in range(len(key.path) - 1, key.made - 1, -1):
        rest = jsonc.raw(text, key.path[:length])
        if rest is not None and jsonc.read(rest) == {}:
            text = jsonc.drop(text, key.path[:length])
    return text


def _replace(file: Path, data: bytes) -> None:
    """Write atomically, keeping the file's mode."""
    handle, part = tempfile.mkstemp(prefix=f".{file.name[:100]}.", dir=file.parent)
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if file.exists():
            shutil.copymode(file, part)
        system_files.replace_file(Path(part), file)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    system_files.sync_folder(file.parent)


def _locked(path: Path) -> int:
    """A descriptor for the caller to close. Raises `BlockingIOError` if another process has the lock."""
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if not system_files.try_lock(fd, exclusive=True):
            raise BlockingIOError(f"{path} is locked")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _release(fd: int) -> None:
    system_files.unlock(fd)
    os.close(fd)


def _forget(lock: Path) -> None:
    """Delete a lock file, if possible; Windows cannot delete a file that is open elsewhere."""
    with contextlib.suppress(OSError):
        lock.unlink()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
