"""Folders in which the shards of a split model lie under their own names, as links to blobs.

llama.cpp opens the first shard and derives the other names from its name. Each link is put in its place in one step,
and a view is used only when all are there, so an incomplete or damaged one is repaired when the model is next opened.
Knows nothing of locks.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from localllm import osdep
from localllm.errors import LoadFailed
from localllm.registry.disk.files import TEMPORARY
from localllm.registry.disk.layout import Layout, id_of
from localllm.registry.manifest import Manifest, StoredFile


class Shard(NamedTuple):
    """One file of a split model, and where it lies."""

    file: StoredFile
    path: Path


def shards_of(manifest: Manifest) -> tuple[StoredFile, ...]:
    """The files of the model itself, in order."""
    return tuple(file for file in manifest.files if file.role == "model")


def view_id(files: Sequence[StoredFile]) -> str | None:
    """The folder's name, the same for the same files under the same names; None: one file needs no view."""
    return None if len(files) < 2 else id_of("\n".join(f"{file.file_name}:{file.digest}" for file in files))


def open_view(layout: Layout, shards: Sequence[Shard]) -> Path:
    """The first shard's path, with all others beside it. Raises `LoadFailed` where links cannot be made."""
    id = view_id([shard.file for shard in shards])
    first = shards[0].path
    if id is None or all(path == first.with_name(file.file_name) for file, path in shards):
        return first
    folder = layout.views / id
    if folder.is_symlink():  # links made in it would land elsewhere
        folder.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    for shard in shards:
        _ensure_link(folder / shard.file.file_name, shard)
    return folder / shards[0].file.file_name


def _ensure_link(link: Path, shard: Shard) -> None:
    try:
        if os.path.samefile(link, shard.path):
            return
    except FileNotFoundError:
        pass  # not there, or a symbolic link to nothing
    temporary = link.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    makers: list[Callable[[Path, Path], None]] = [os.link, os.symlink]
    if shard.file.path is not None:  # somebody else's file: it should be gone when they delete it
        makers.reverse()
    failures = []
    for make in makers:
        try:
            osdep.remove_file(temporary)
            make(shard.path, temporary)
            osdep.replace_file(temporary, link)
        except OSError as error:
            failures.append(f"{make.__name__}: {error.strerror}")
            continue
        finally:
            with contextlib.suppress(OSError):  # two links to one file are not replaced, and stay both
                osdep.remove_file(temporary)
        return
    raise LoadFailed(
        f"a model of several files needs links, and none can be made in {link.parent} to {shard.path} "
        f"({', '.join(failures)}); move the data folder (LOCALLLM_HOME) to a file system that has links",
        path=str(link),
    )


def num_links(folder: Path) -> dict[tuple[int, int], int]:
    """How many names each file has in a view, by device and inode: they do not make it bigger."""
    counts: dict[tuple[int, int], int] = {}
    for name in os.listdir(folder):
        try:
            found = os.lstat(folder / name)
        except FileNotFoundError:
            continue  # somebody who opens the model has just put it in its place
        if stat.S_ISREG(found.st_mode):
            counts[found.st_dev, found.st_ino] = counts.get((found.st_dev, found.st_ino), 0) + 1
    return counts


def remove_view(folder: Path) -> None:
    """Its links and itself; what a link leads to stays."""
    if folder.is_symlink():
        folder.unlink()
        return
    for name in os.listdir(folder):
        osdep.remove_file(folder / name)
    folder.rmdir()
