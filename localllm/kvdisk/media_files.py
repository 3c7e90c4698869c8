"""Encoded pictures and sounds on disk, one small file each: whole or absent, bounded together, a folder per model.

A file is its format, a hash, and the content; one that was cut or changed is not read. The least recently used go
first, whichever worker of the data directory wrote them. Knows nothing of what the content means.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from localllm.system import files

FOLDER = "media"
"""Below the data directory."""
MAGIC = b"LLMROWS1"
_HASH_BYTES = 32
_ENDING, _PART = ".rows", ".part"

logger = logging.getLogger("localllm")


class MediaFiles:
    """Any thread. Failures of the disk cost only speed."""

    def __init__(self, data_dir: Path, model: str, max_bytes: int) -> None:
        """`max_bytes`: of all models; 0: nothing is kept."""
        self._root, self._folder = data_dir / FOLDER, _folder_of(data_dir, model)
        self._max_bytes = max_bytes
        self._written = max_bytes
        """Bytes since the folder was last measured."""

    def has(self, name: str) -> bool:
        return self._max_bytes > 0 and self._path(name).is_file()

    def read(self, name: str) -> bytes | None:
        if not self._max_bytes:
            return None
        path = self._path(name)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        content = memoryview(data)[len(MAGIC) + _HASH_BYTES :]
        if data[: len(MAGIC) + _HASH_BYTES] != _head(name, content):
            logger.warning("%s is damaged and was deleted", path)
            path.unlink(missing_ok=True)
            return None
        with suppress(OSError):
            os.utime(path)
        return bytes(content)

    def write(self, name: str, content: bytes | memoryview) -> None:
        if not self._max_bytes or len(content) > self._max_bytes:
            return
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, suffix=_PART, delete=False) as part:
                part.write(_head(name, content))
                part.write(content)
            files.replace_file(Path(part.name), self._path(name))
        except OSError as error:
            logger.warning("an encoded picture cannot be kept on disk: %s", error.strerror)
            return
        self._written += len(content)
        if self._written > self._max_bytes // 16:
            self._written = 0
            self._make_room()

    def _path(self, name: str) -> Path:
        return self._folder / (hashlib.sha256(name.encode()).hexdigest()[:48] + _ENDING)

    def _make_room(self) -> None:
        """Delete the oldest above the bound, and what a killed process left behind."""
        found = []
        for path in _all_files(self._root):
            with suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        total = 0
        for _, size, path in sorted(found, reverse=True):
            total += size
            if total > self._max_bytes:
                with suppress(OSError):
                    path.unlink()


def clear_media(data_dir: Path, model: str | None = None) -> int:
    """Delete all of them, or a model's; returns how many bytes there were. Raises `OSError`."""
    freed = 0
    for path in _all_files(data_dir / FOLDER if model is None else _folder_of(data_dir, model)):
        with suppress(FileNotFoundError):
            size = path.stat().st_size
            path.unlink()
            freed += size
    return freed


def _folder_of(data_dir: Path, model: str) -> Path:
    return data_dir / FOLDER / hashlib.sha256(model.encode()).hexdigest()[:32]


def _all_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix in (_ENDING, _PART)]


def _head(name: str, content: bytes | memoryview) -> bytes:
    return (
        MAGIC + hashlib.blake2b(content, digest_size=_HASH_BYTES, key=hashlib.sha256(name.encode()).digest()).digest()
    )
