"""The Hugging Face cache: `models--USER--REPO/snapshots/COMMIT/PATH`, links into `blobs/`. Newer llama.cpp shares it.

A large file's blob is named by its sha256, which `adopt` verifies; on systems without links the files are in the
snapshot itself and no digest is known. Only GGUF files are considered. Layout: huggingface_hub's
docs/source/en/guides/manage-cache.md.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from localllm.errors import InvalidParameter
from localllm.registry.foreign.file_groups import GroupLocation, ScannedFile, found_at, models
from localllm.registry.foreign.foreign_model import ForeignModel, Skipped
from localllm.registry.foreign.walk import files_in, gguf_files, read_small, subfolders
from localllm.registry.names.digest import Digest
from localllm.registry.names.suggested import canonical

_PREFIX = "models--"
_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
MAX_DEPTH = 4
"""Maximum depth of folders inside a repository."""


def is_cache(folder: Path) -> bool:
    """Whether the folder contains repositories."""
    try:
        return any(path.is_dir() for path in folder.glob(f"{_PREFIX}*"))
    except OSError:
        return False


def is_repository(folder: Path) -> bool:
    return folder.name.startswith(_PREFIX) and (folder / "snapshots").is_dir()


def scan(cache: Path, skipped: Skipped) -> Iterator[ForeignModel]:
    """Every model of every repository in the cache."""
    for folder in subfolders(cache, skipped):
        if folder.name.startswith(_PREFIX):
            yield from scan_repository(folder, skipped)


def scan_repository(folder: Path, skipped: Skipped) -> Iterator[ForeignModel]:
    """The models of one repository: the newest snapshot's, and those of older snapshots that differ."""
    repo = folder.name.removeprefix(_PREFIX).replace("--", "/")
    named = canonical(f"hf.co/{repo}") is not None
    latest = _latest(folder)
    snapshots = [path for path in subfolders(folder / "snapshots", skipped) if _COMMIT.fullmatch(path.name)]
    if latest not in [path.name for path in snapshots]:
        latest = max(snapshots, key=_modified_ns).name if snapshots else None
    seen: set[tuple[str, Path]] = set()
    for snapshot in sorted(snapshots, key=lambda path: (path.name != latest, -_modified_ns(path))):
        files = [_found(path, snapshot, folder) for path in gguf_files(snapshot, skipped, max_depth=MAX_DEPTH)]
        place = GroupLocation(
            "huggingface", folder, repo if named else None, snapshot.name, latest=snapshot.name == latest
        )
        for model in models(files, place):
            key = (model.name, model.files[0].path if model.files else snapshot)
            if key not in seen:
                seen.add(key)
                yield model if named else dataclasses.replace(model, name=f"{repo}/{model.name}")
    unfinished = sum(path.name.endswith(".incomplete") for path in files_in(folder / "blobs", skipped))
    if unfinished:
        skipped(f"unfinished downloads of {repo} in {folder / 'blobs'} were skipped: {unfinished}")


def _latest(folder: Path) -> str | None:
    raw = read_small(folder / "refs" / "main", 100)
    commit = "" if raw is None else raw.decode("ascii", "replace").strip()
    return commit if _COMMIT.fullmatch(commit) else None


def _found(path: Path, snapshot: Path, folder: Path) -> ScannedFile:
    """Describes one file. A digest is taken only from a link into the repository's own blobs."""
    found = found_at(path, path.relative_to(snapshot).as_posix())
    if found.problem is not None:
        return dataclasses.replace(found, problem="is not fully downloaded")
    if not path.is_symlink() or found.path.parent != (folder / "blobs").resolve():
        return found
    try:
        return dataclasses.replace(found, digest=Digest(found.path.name))
    except InvalidParameter:  # a small file, whose blob is named by git's hash
        return found


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
