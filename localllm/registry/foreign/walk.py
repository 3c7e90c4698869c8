"""Searches folders that other programs fill: bounded, following each link once, and reporting what was skipped.

Opens only small files that are requested by name. Knows nothing of what it finds.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from localllm.registry.foreign.foreign_model import Skipped

MAX_FOLDERS = 20_000
MAX_ENTRIES = 500_000
"""Limit on the entries of all folders under one root."""
MAX_DEPTH = 16


def gguf_files(root: Path, skipped: Skipped, *, max_depth: int = MAX_DEPTH) -> Iterator[Path]:
    """Every file named *.gguf under `root` (including dangling links), folder by folder, in order of names.

    A folder reachable in several ways is entered once, so that loops of links end.
    """
    seen: set[tuple[int, int]] = set()
    pending = [(root, 0)]
    num_entries = 0
    while pending:
        folder, depth = pending.pop()
        if len(seen) >= MAX_FOLDERS or num_entries >= MAX_ENTRIES:
            skipped(
                f"{root} has more than {MAX_FOLDERS:,} folders or {MAX_ENTRIES:,} files; the rest was not searched: "
                "name a folder inside it"
            )
            return
        entries = _entries(folder, seen, skipped)
        num_entries += len(entries)
        folders = []
        for entry in entries[: MAX_ENTRIES - num_entries + len(entries)]:
            if _is_folder(entry):
                folders.append((Path(entry.path), depth + 1))
            elif entry.name.lower().endswith(".gguf"):
                yield Path(entry.path)
        if folders and depth >= max_depth:
            skipped(f"{folder} is {max_depth} folders deep; its subfolders were not searched")
        else:
            pending += reversed(folders)


def subfolders(folder: Path, skipped: Skipped) -> list[Path]:
    """The subfolders in order of their names; empty if `folder` does not exist."""
    found = [Path(entry.path) for entry in _entries(folder, set(), skipped) if _is_folder(entry)]
    if len(found) > MAX_FOLDERS:
        skipped(f"{folder} has more than {MAX_FOLDERS:,} folders; the rest was not searched")
    return found[:MAX_FOLDERS]


def files_in(folder: Path, skipped: Skipped) -> list[Path]:
    """The regular files in it, with links followed, in order of their names."""
    entries = _entries(folder, set(), skipped)
    return [Path(entry.path) for entry in entries[:MAX_ENTRIES] if _is_regular(Path(entry.path))]


def read_small(path: Path, max_bytes: int) -> bytes | None:
    """The content of a regular file of at most `max_bytes`; None for anything else."""
    try:
        if not _is_regular(path):
            return None
        # If a FIFO replaces the file in between, opening it must not wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            content = file.read(max_bytes + 1)
    except (OSError, ValueError):  # ValueError: a zero byte in the path
        return None
    return content if len(content) <= max_bytes else None


def size_of(path: Path) -> int | None:
    """The size of a regular file, with links followed; None for anything else."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _entries(folder: Path, seen: set[tuple[int, int]], skipped: Skipped) -> list[os.DirEntry[str]]:
    try:
        status = folder.stat()
        key = (status.st_dev, status.st_ino)
        if key in seen or not stat.S_ISDIR(status.st_mode):
            return []
        seen.add(key)
        with os.scandir(folder) as entries:
            found = []
            for entry in entries:
                found.append(entry)
                if len(found) > MAX_ENTRIES:
                    break
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its path is not valid"
        skipped(f"{folder} cannot be searched: {why}")
        return []
    return sorted(found, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links
        return False


def _is_regular(path: Path) -> bool:
    return size_of(path) is not None
