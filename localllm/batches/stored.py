"""Files that clients upload and batches write, on disk: a folder for each owner, within its limits.

    OWNER/files/ID.data      the content
    OWNER/files/ID.json      what it is, written last and deleted first: a file without it is not there
    OWNER/jobs/ID/           see `jobs`

An id is looked for in the owner's folder alone, so none leads to another owner's file. Methods block, and may be
called from any thread. Knows nothing of HTTP.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import threading
import time
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, naming
from localllm.system import files

Purpose = Literal["batch", "batch_output"]
FOLDER = "batches"
"""In the data directory."""
OWNER_CHARACTERS = 32
STALE_S = 3600.0
"""Age of what a killed process left; younger files may be another server's uploads."""
ID = re.compile(r"[a-z]{1,12}[-_][0-9a-f]{28}", re.ASCII)


class Limits(NamedTuple):
    """What an owner may keep, and how much a batch may hold. Named like the settings."""

    max_file_mb: int
    max_files_mb: int
    max_files: int
    max_batches: int
    max_batch_lines: int
    max_line_bytes: int
    """Of a batch's line: `max_body_bytes`."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file."""

    id: str
    size_bytes: int
    created_s: int
    """Seconds since 1970, here and below."""
    name: str
    purpose: Purpose
    expires_s: int | None = None

    @property
    def is_expired(self) -> bool:
        return self.expires_s is not None and self.expires_s <= time.time()


def new_id(prefix: str) -> str:
    """An id that nobody guesses; later ones are greater."""
    return f"{prefix}{time.time_ns() // 1000:014x}{secrets.token_hex(7)}"


class Owned:
    """The folder of one owner."""

    def __init__(self, root: Path, owner: str, limits: Limits) -> None:
        self.owner = owner
        self.limits = limits
        self.folder = root / folder_name(owner)
        self.jobs_folder = self.folder / "jobs"
        self._files = self.folder / "files"
        self._incoming: dict[Upload, int] = {}
        """Uploads that are not whole yet, and their bytes."""
        self._lock = threading.Lock()

    def prepare(self, folder: Path) -> None:
        """Create one of the owner's folders, which no other user of this machine may look into. Raises `OSError`."""
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(parents=True, exist_ok=True)

    def list(self) -> list[StoredFile]:
        """All files, oldest first."""
        ids = sorted(path.stem for path in self._files.glob("*.json"))
        return [kept for id in ids if (kept := self.get(id)) is not None]

    def get(self, id: str) -> StoredFile | None:
        """None if the owner has no such file; one that has expired is deleted."""
        if not ID.fullmatch(id):
            return None
        try:
            kept = msgspec.json.decode((self._files / f"{id}.json").read_bytes(), type=StoredFile)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        if kept.is_expired:
            self.delete(id)
            return None
        return kept

    def path(self, id: str) -> Path:
        """Of the content of a file that is there."""
        return self._files / f"{id}.data"

    def delete(self, id: str) -> bool:
        """Whether it was there."""
        if not ID.fullmatch(id):
            return False
        is_here = (self._files / f"{id}.json").exists()
        files.remove_file(self._files / f"{id}.json")
        files.remove_file(self.path(id))
        return is_here

    def upload(self) -> Upload:
        """Begin a file. Raises `InvalidParameter` if there is no room for another, `OSError`."""
        self._check_count()
        self.prepare(self._files)
        upload = Upload(self, self._files / f"{files.TEMPORARY}{secrets.token_hex(8)}", self.room_bytes())
        self._incoming[upload] = 0
        return upload

    def take(self, source: Path, id: str, name: str, expires_s: int | None) -> None:
        """Make a file of a batch's results, if it was not made before. Its limits were checked as it grew."""
        self.prepare(self._files)
        if source.exists():
            files.replace_file(source, self.path(id))
        self.keep(id, name, "batch_output", expires_s)

    def keep(self, id: str, name: str, purpose: Purpose, expires_s: int | None) -> StoredFile:
        """Let the content with that id be a file."""
        size_bytes = self.path(id).stat().st_size
        created_s = int(time.time())
        kept = StoredFile(
            id=id, size_bytes=size_bytes, created_s=created_s, name=name, purpose=purpose, expires_s=expires_s
        )
        files.write_whole(self._files / f"{id}.json", msgspec.json.encode(kept))
        return kept

    def room_bytes(self) -> int:
        """How much may be added now."""
        held = sum(_size(path) for path in self.folder.rglob("*") if not path.name.startswith(files.TEMPORARY))
        return self.limits.max_files_mb * 10**6 - held

    def check_size(self, upload: Upload, size_bytes: int, room_bytes: int) -> None:
        """Raises `InvalidParameter` if the upload may not grow to this size. `room_bytes`: when it began."""
        limits = self.limits
        if size_bytes > limits.max_file_mb * 10**6:
            raise InvalidParameter(f"the file is larger than {limits.max_file_mb:,} MB (max_file_mb)", param="file")
        with self._lock:
            self._incoming[upload] = size_bytes
            is_full = sum(self._incoming.values()) > room_bytes
        if is_full:
            raise full(limits)

    def ended(self, upload: Upload) -> None:
        """The upload takes no more room, or that of a file."""
        with self._lock:
            self._incoming.pop(upload, None)

    def sweep(self) -> None:
        """Delete what a killed process left: content without a description, and uploads that nobody goes on with."""
        for path in self._files.glob("*"):
            is_alone = path.suffix == ".data" and not path.with_suffix(".json").exists()
            if (is_alone or path.name.startswith(files.TEMPORARY)) and time.time() - path.stat().st_mtime > STALE_S:
                files.remove_file(path)

    def _check_count(self) -> None:
        held, most = len(self.list()), self.limits.max_files
        if held + len(self._incoming) >= most:
            raise InvalidParameter(
                f"{held:,} files are kept, and at most {most:,} may be (max_files); delete some", param="file"
            )


class Upload:
    """A file that is being received. Ends with `commit` or `discard`."""

    def __init__(self, owned: Owned, path: Path, room_bytes: int) -> None:
        self._owned = owned
        self._path = path
        self._room_bytes = room_bytes
        self._file = open(files.create(path), "wb")  # noqa: SIM115 (closed at its end)
        self.size_bytes = 0

    def write(self, data: bytes) -> None:
        """Append. Raises `InvalidParameter` beyond a limit, `OSError`."""
        self.size_bytes += len(data)
        self._owned.check_size(self, self.size_bytes, self._room_bytes)
        with naming(self._path):
            self._file.write(data)

    def commit(self, name: str, purpose: Purpose, expires_after_s: int | None = None) -> StoredFile:
        """Let it be a file. Raises `OSError`."""
        with naming(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        id = new_id("file-")
        files.replace_file(self._path, self._owned.path(id))
        expires_s = None if expires_after_s is None else int(time.time()) + expires_after_s
        kept = self._owned.keep(id, name, purpose, expires_s)
        self._owned.ended(self)
        return kept

    def discard(self) -> None:
        """Leave nothing of it."""
        self._file.close()
        files.remove_file(self._path)
        self._owned.ended(self)


class Owners:
    """Every owner's folder in the data directory."""

    def __init__(self, root: Path, limits: Limits) -> None:
        self.root = root
        self.limits = limits
        self._owned: dict[str, Owned] = {}

    def of(self, owner: str) -> Owned:
        """The folder of this owner, which need not exist."""
        if owner not in self._owned:
            self._owned[owner] = Owned(self.root, owner, self.limits)
        return self._owned[owner]


def full(limits: Limits) -> InvalidParameter:
    """One message for uploads and results."""
    return InvalidParameter(
        f"files and batches of this key would have more than {limits.max_files_mb:,} MB (max_files_mb); delete some",
        param="file",
    )


def folder_name(owner: str) -> str:
    """A name that any file system takes, whatever the owner is called."""
    return hashlib.sha256(f"owner:{owner}".encode()).hexdigest()[:OWNER_CHARACTERS]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
