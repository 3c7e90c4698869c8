"""Garbage collection: surveys the disk, decides by a pure function what to delete, and deletes it.

`gc` holds the gate exclusively throughout. Operations that make content needed hold it shared, briefly:

    publish, add      write the note "fetched" and hold the blob, then create it
    put               check that every blob exists, create the manifest, delete the notes
    open              hold the files, then check that they exist
    claim             lock the partial

So nothing becomes needed between survey and deletion, and no process waits longer than it takes to unlink some files:
pulls continue meanwhile, and `gc` never waits for a pull. A blob is deleted if no manifest and no hold names it and it
was not just fetched. Holds and claims of dead processes do not count: the system has released their locks.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from localllm.registry.disk.blobs import Blobs
from localllm.registry.disk.layout import ID, Layout, blob_digest
from localllm.registry.disk.locks import Locks
from localllm.registry.disk.manifests import DamagedManifest, Manifests
from localllm.registry.disk.views import num_links, remove_view, shards_of, view_id
from localllm.registry.names.digest import Digest
from localllm.system import files
from localllm.system.files import TEMPORARY

KEEP_PARTIALS_S = 7 * 24 * 3600.0
"""An unfinished pull can be resumed for this long. Ollama deletes them at startup (ollama#2463)."""

Kind = Literal["blob", "view", "partial", "damaged"]
"""`damaged`: a blob set aside by `verify`."""


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item in the store that no model needs."""

    kind: Kind
    id: str
    """A digest, or the name of the files."""
    size_bytes: int
    """Disk space used by it alone."""
    reason: str | None = None
    """Why it was kept; None if it was deleted."""


class GcReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was (or would be) deleted, and what was kept although no model needs it."""

    dry_run: bool
    removed: tuple[Item, ...] = ()
    kept: tuple[Item, ...] = ()
    damaged: tuple[DamagedManifest, ...] = ()
    """Unusable manifests. The blobs they name are kept; if one is unreadable, all blobs are."""

    @property
    def freed_bytes(self) -> int:
        return sum(item.size_bytes for item in self.removed)

    @property
    def is_blocked(self) -> bool:
        """Whether every blob was kept because of an unreadable manifest."""
        return any(one.digests is None for one in self.damaged)


@dataclass
class Survey:
    """The content of the store."""

    needed: set[str] = field(default_factory=set)
    """Digests of blobs and ids of views needed by manifests."""
    held: dict[str, str] = field(default_factory=dict)
    """Digests and ids needed by running processes -> what those processes do."""
    damaged: tuple[DamagedManifest, ...] = ()
    blobs: dict[Digest, os.stat_result] = field(default_factory=dict)
    fetched_at: dict[Digest, float] = field(default_factory=dict)
    partials: dict[str, list[Path]] = field(default_factory=dict)
    partial_at: dict[str, float] = field(default_factory=dict)
    partial_bytes: dict[str, int] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    """Ids of partials in use."""
    set_aside: dict[Path, os.stat_result] = field(default_factory=dict)
    """Damaged blobs."""
    leaving: set[Digest] = field(default_factory=set)
    """Blobs to delete when they are unloaded."""
    views: dict[str, dict[tuple[int, int], int]] = field(default_factory=dict)
    """Id -> link counts of the files in that view."""


def decide(survey: Survey, *, now: float, keep_partials_s: float) -> list[Item]:
    """Every item that no manifest needs; those to keep have a reason. Views come before the blobs in them."""
    broken = next((one for one in survey.damaged if one.digests is None), None)
    unknown = None if broken is None else f"{broken.path} cannot be read and might need it"
    items, links = [], Counter[tuple[int, int]]()
    for id, names in survey.views.items():
        if id not in survey.needed:
            reason = unknown or survey.held.get(view_line(id))
            items.append(Item(kind="view", id=id, size_bytes=0, reason=reason))
            links.update({} if reason else names)
    for digest, found in survey.blobs.items():
        if str(digest) not in survey.needed:
            is_ours = found.st_nlink - links[found.st_dev, found.st_ino] <= 1
            is_fresh = now - survey.fetched_at.get(digest, float("-inf")) < keep_partials_s
            fresh = "it was fetched for a model that is still incomplete" if is_fresh else None
            reason = unknown or survey.held.get(str(digest)) or fresh
            size_bytes = found.st_size if is_ours else 0
            items.append(Item(kind="blob", id=str(digest), size_bytes=size_bytes, reason=reason))
    for path, found in survey.set_aside.items():
        items.append(Item(kind="damaged", id=path.name, size_bytes=found.st_size if found.st_nlink <= 1 else 0))
    for id in survey.partials:
        is_young = now - survey.partial_at[id] < keep_partials_s and any(
            not path.name.endswith(".tmp") for path in survey.partials[id]
        )
        young = "it is recent, so its pull can be resumed" if is_young else None
        reason = "it is being downloaded" if id in survey.busy else young
        items.append(Item(kind="partial", id=id, size_bytes=survey.partial_bytes[id], reason=reason))
    return items


def view_line(id: str) -> str:
    """A view's name in a hold."""
    return f"view:{id}"


class Collector:
    """`gc` of one store."""

    def __init__(self, layout: Layout, locks: Locks, blobs: Blobs, manifests: Manifests) -> None:
        self._layout = layout
        self._locks = locks
        self._blobs = blobs
        self._manifests = manifests

    def collect(self, *, dry_run: bool, keep_partials_s: float) -> GcReport:
        """Files that cannot be deleted (on Windows: because they are open) are reported as kept."""
        if not self._layout.root.is_dir():
            return GcReport(dry_run=dry_run)
        with self._locks.gate(exclusive=True):
            survey = self._survey()
            items = decide(survey, now=time.time(), keep_partials_s=keep_partials_s)
            removed = [item for item in items if item.reason is None]
            kept = [item for item in items if item.reason is not None]
            if not dry_run:
                failed = {item: error for item in removed if (error := self._remove(item, survey)) is not None}
                kept += [msgspec.structs.replace(item, reason=reason) for item, reason in failed.items()]
                removed = [item for item in removed if item not in failed]
                for item in kept:
                    if item.kind == "blob" and item.id in survey.held:
                        self._blobs.note_leaving(Digest.parse(item.id))
                self._tidy(survey)
        return GcReport(dry_run=dry_run, removed=tuple(removed), kept=tuple(kept), damaged=survey.damaged)

    def collect_leaving(self, ids: frozenset[str]) -> None:
        """Deletes those of the given blobs and views that an earlier `collect` kept because they were loaded.

        Files that cannot be deleted are left to the next `collect`.
        """
        with self._locks.gate(exclusive=True):
            survey = self._survey()
            leaving = {str(digest) for digest in survey.leaving} | set(survey.views)
            for item in decide(survey, now=time.time(), keep_partials_s=KEEP_PARTIALS_S):
                if item.id in ids & leaving and item.reason is None:
                    self._remove(item, survey)

    def _survey(self) -> Survey:
        manifests, damaged = self._manifests.scan()
        survey = Survey(damaged=damaged, held=self._locks.survey())
        for manifest in manifests:
            survey.needed.update(str(file.digest) for file in manifest.files if file.path is None)
            survey.needed.update(filter(None, [view_id(shards_of(manifest))]))
        survey.needed.update(digest for each in damaged for digest in each.digests or ())
        for path, found in _scan(self._layout.blobs):
            if (digest := blob_digest(path.name)) is not None and not stat.S_ISDIR(found.st_mode):
                survey.blobs[digest] = found
            elif path.name.endswith(".damaged") and not stat.S_ISDIR(found.st_mode):
                survey.set_aside[path] = found
        for path, found in _scan(self._layout.partials):
            stem, _, ending = path.name.partition(".")
            if (digest := blob_digest(stem)) is not None and ending == "fetched":
                survey.fetched_at[digest] = found.st_mtime
            elif digest is not None and ending == "leaving":
                survey.leaving.add(digest)
            elif ID.fullmatch(stem) and ending and not stat.S_ISDIR(found.st_mode):
                survey.partials.setdefault(stem, []).append(path)
                survey.partial_at[stem] = max(found.st_mtime, survey.partial_at.get(stem, 0.0))
                survey.partial_bytes[stem] = _disk_bytes(found) + survey.partial_bytes.get(stem, 0)
        survey.busy = {id for id in {*survey.partials, *self._locks.claim_ids()} if self._locks.busy(id)}
        for path, _ in _scan(self._layout.views):
            if ID.fullmatch(path.name):
                survey.views[path.name] = {} if path.is_symlink() or not path.is_dir() else num_links(path)
        return survey

    def _remove(self, item: Item, survey: Survey) -> str | None:
        try:
            if item.kind == "view":
                remove_view(self._layout.views / item.id)
            elif item.kind == "blob":
                self._blobs.remove(Digest.parse(item.id))
            elif item.kind == "damaged":
                files.remove_file(self._layout.blobs / item.id)
            else:
                for path in survey.partials[item.id]:
                    files.remove_file(path)
        except OSError as error:
            return f"it cannot be deleted: {error.strerror}"
        return None

    def _tidy(self, survey: Survey) -> None:
        """Deletes small leftovers of crashes. All are written under the gate, so none is in use now."""
        for folder in (self._layout.manifests, self._layout.blobs):
            for path, _ in _scan(folder):
                if path.name.startswith(TEMPORARY):
                    files.remove_file(path)
        for digest in {*survey.fetched_at, *survey.leaving}:
            if str(digest) in survey.needed or digest not in survey.blobs:
                self._blobs.forget_fetched(digest)
        for path, _ in _scan(self._layout.blobs):
            noted = blob_digest(path.name.removesuffix(".shared"))
            if path.name.endswith(".shared") and noted is not None and noted not in survey.blobs:
                files.remove_file(path)


def _scan(folder: Path) -> list[tuple[Path, os.stat_result]]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        try:
            found.append((folder / name, os.lstat(folder / name)))
        except FileNotFoundError:
            continue  # a note that a download was replacing
    return found


def _disk_bytes(found: os.stat_result) -> int:
    """Allocated size: a partial has holes where bytes are missing."""
    blocks: int | None = getattr(found, "st_blocks", None)
    return found.st_size if blocks is None else min(found.st_size, blocks * 512)
