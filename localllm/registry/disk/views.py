"""Views: folders that hold the shards of a split model under their own names, as links to blobs.

llama.cpp opens the first shard and derives the other names from its name. Each link is created atomically, and a view
is used only once all are in place, so an incomplete or damaged view is repaired when the model is next opened. Knows
nothing of locks.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from localllm.errors import LoadFailed
from localllm.registry.disk.layout import Layout, id_of
from localllm.registry.manifest import Manifest, StoredFile
from localllm.system import files as system_files
from localllm.system.files import TEMPORARY


class Shard(NamedTuple):
    """One file of a split model and its location."""

    file: StoredFile
    path: Path


def shards_of(manifest: Manifest) -> tuple[StoredFile, ...]:
    """The model's own files, in order."""
    return tuple(file for file in manifest.files if file.role == "model")


def view_id(files: Sequence[StoredFile]) -> str | None:
    """The folder's name, determined by the files and their names; None for a single file, which needs no view."""
    return None if len(files) < 2 else id_of("\n".join(f"{file.file_name}:{file.digest}" for file in files))


def open_view(layout: Layout, shards: Sequence[Shard]) -> Path:
    """The path of the first shard, with all others beside it. Raises `LoadFailed` if links cannot be created."""
    id = view_id([shard.file for shard in shards])
    first = shards[0].path
    if id is None or all(path == first.with_name(file.file_name) for file, path in shards):
        return first
    folder = layout.views / id
    if folder.is_symlink():  # links created in it would end up elsewhere
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
        pass  # missing, or a dangling symbolic link
    temporary = link.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    makers: list[Callable[[Path, Path], None]] = [os.link, os.symlink]
    if shard.file.path is not None:  # another program's file: a hard link would keep it after that program deletes it
        makers.reverse()
    failures = []
    for make in makers:
        try:
            system_files.remove_file(temporary)
            make(shard.path, temporary)
            system_files.replace_file(temporary, link)
        except OSError as error:
            failures.append(f"{make.__name__}: {error.strerror}")
            continue
        finally:
            with contextlib.suppress(OSError):  # renaming a link over a link to the same file leaves both
                system_files.remove_file(temporary)
        return
    raise LoadFailed(
        f"a model of several files needs links, but {link.parent} cannot link to {shard.path} "
        f"({', '.join(failures)}); move the data folder (--home or LOCALLLM_HOME) to a file system with links",
        path=str(link),
    )


def num_links(folder: Path) -> dict[tuple[int, int], int]:
    """Number of links per (device, inode) in a view, since links take no disk space of their own."""
    counts: dict[tuple[int, int], int] = {}
    for name in os.listdir(folder):
        try:
            found = os.lstat(folder / name)
        except FileNotFoundError:
            continue  # a temporary link that another process has just moved into place
        if stat.S_ISREG(found.st_mode):
            counts[found.st_dev, found.st_ino] = counts.get((found.st_dev, found.st_ino), 0) + 1
    return counts


def remove_view(folder: Path) -> None:
    """Deletes the folder and its links, not their targets."""
    if folder.is_symlink():
        folder.unlink()
        return
    for name in os.listdir(folder):
        system_files.remove_file(folder / name)
    folder.rmdir()
