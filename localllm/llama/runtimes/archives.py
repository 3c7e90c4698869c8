"""The shared libraries of a folder or an archive, copied into one folder.

Archives are untrusted: their names never decide where a file goes, and what they unpack to is bounded before it is
written or kept in memory. Loads nothing.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from io import FileIO
from pathlib import Path
from typing import IO, Any, cast

from localllm.errors import LoadFailed
from localllm.system.windows_names import is_device

MAX_BYTES = 4 * 2**30
"""Limit for all libraries together, and for a tar archive's whole content."""
MAX_ENTRIES = 20_000
MAX_READ_BYTES = 16 * 2**20
"""Limit for one read: tarfile reads some headers whole, whatever size they claim."""
MAX_LINK_BYTES = 4096
_BLOCK_BYTES = 1 << 20
_LIBRARY = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9._+-]{0,120}\.(so|dylib|dll)(\.[0-9.]{1,20})?")
_MAGIC: tuple[tuple[bytes, Callable[[Path], Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ", lzma.open),
)
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError, UnicodeError,
    NotImplementedError,  # an unknown compression
    RuntimeError,  # a password is needed
    ValueError,
)  # fmt: skip

Opener = Callable[[], IO[bytes]]


def unpack(source: Path, folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> None:
    """Copy the libraries of `source` whose names are `wanted` into `folder`, following links.

    Raises `LoadFailed`, `OSError`.
    """
    total = 0
    try:
        with ExitStack() as stack:
            for name, open_file in _libraries(source, stack):
                if not wanted(name):
                    continue
                with open_file() as file, open(folder / name, "wb") as out:
                    while block := file.read(_BLOCK_BYTES):
                        total += len(block)
                        if total > MAX_BYTES:
                            raise LoadFailed(f"its libraries are larger than {MAX_BYTES / 1e9:.1f} GB")
                        out.write(block)
    except (*_DAMAGE, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise
        # Without a number it is bz2's "Invalid data stream".
        raise LoadFailed(f"{source.name} is not an archive of libraries: {error}") from error


def is_library(name: str) -> bool:
    """Whether a file is named like a shared library."""
    return bool(_LIBRARY.fullmatch(name)) and not is_device(name)


def _libraries(source: Path, stack: ExitStack) -> Iterator[tuple[str, Opener]]:
    """Each library's name and how to read it."""
    if source.is_dir():
        for path in sorted(source.rglob("*")):
            if path.is_file() and is_library(path.name):
                yield path.name, partial(FileIO, path)
    elif zipfile.is_zipfile(source):
        yield from _zipped(stack.enter_context(zipfile.ZipFile(source)))
    else:
        yield from _tarred(source, stack)


def _zipped(archive: zipfile.ZipFile) -> Iterator[tuple[str, Opener]]:
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise LoadFailed(f"it holds more than {MAX_ENTRIES:,} files")
    files: dict[str, Opener] = {}
    links: dict[str, str] = {}
    for entry in entries:
        if entry.header_offset < 0:  # zipfile seeks there, and says "Invalid argument"
            raise LoadFailed(f"{entry.filename!r} is said to begin before the archive")
        if stat.S_ISLNK(entry.external_attr >> 16):
            if entry.file_size <= MAX_LINK_BYTES:
                links[_name(entry.filename)] = _name(archive.read(entry).decode("utf-8"))
        elif not entry.is_dir():
            files[_name(entry.filename)] = partial(archive.open, entry)
    yield from _linked(files, links)


def _tarred(source: Path, stack: ExitStack) -> Iterator[tuple[str, Opener]]:
    with open(source, "rb") as start:
        magic = start.read(6)
    opens = next((opener for head, opener in _MAGIC if magic.startswith(head)), partial(open, mode="rb"))
    stream = cast(IO[bytes], _Careful(stack.enter_context(opens(source))))
    tar = stack.enter_context(tarfile.TarFile(fileobj=stream))
    files: dict[str, Opener] = {}
    links: dict[str, str] = {}
    for number, member in enumerate(tar):
        if number >= MAX_ENTRIES or member.offset_data + member.size > MAX_BYTES:
            raise LoadFailed(f"it holds more than {MAX_ENTRIES:,} files or {MAX_BYTES / 1e9:.1f} GB")
        if member.isfile():
            files[_name(member.name)] = partial(_opened, tar, member)
        elif member.issym() or member.islnk():
            links[_name(member.name)] = _name(member.linkname)
    yield from _linked(files, links)


class _Careful:
    """A file that refuses to be read in huge pieces."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.seek: Callable[..., int] = file.seek
        self.tell: Callable[[], int] = file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_READ_BYTES:
            raise LoadFailed("it has a header of an absurd size")
        data: bytes = self._file.read(size)
        return data


def _opened(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(member)
    assert file is not None, "it is a regular file"
    return file


def _linked(files: Mapping[str, Opener], links: Mapping[str, str]) -> Iterator[tuple[str, Opener]]:
    for name in {**files, **links}:
        opener = files.get(name) or files.get(_followed(name, links))
        if opener is not None and is_library(name):
            yield name, opener


def _followed(name: str, links: Mapping[str, str]) -> str:
    for _ in links:
        if name not in links:
            break
        name = links[name]
    return name


def _name(path: str) -> str:
    """The last component of a path, whichever system's separators it has."""
    return re.split(r"[/\\]", path)[-1]
