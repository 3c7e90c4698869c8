"""Lists and removes what is saved, for people: conversations, slots saved by clients; encoded media are removed, too.

Reads heads only. Knows nothing of models but their names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from localllm.kvdisk import named
from localllm.kvdisk.file import DamagedFile, Foreign, read_head
from localllm.kvdisk.folder import (
    FOLDER,
    Item,
    all_items,
    folders,
    gate,
    items_in,
    open_file,
    read_about,
    remove_items,
    remove_leftover,
)
from localllm.kvdisk.media_files import clear_media
from localllm.kvdisk.named import SUFFIX, named_items, named_items_in


class StoredStates(msgspec.Struct, frozen=True, kw_only=True):
    """All that is saved for one fingerprint."""

    model: str | None
    """The name it was first loaded by; None where `about.json` is missing."""
    fingerprint: str
    """Its first digits, which name its folder."""
    parts: Any
    """All that the states depend on, as in `about.json`."""
    conversations: int
    slots: tuple[str, ...]
    """Names under which clients saved slots."""
    unreadable: int
    """How many of these are damaged or of another version."""
    tokens: int
    size_bytes: int
    created_unix_s: int | None
    last_used_unix_s: int


class ClearReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed."""

    conversations: int
    slots: int
    size_bytes: int
    """Encoded pictures and sounds included."""


def survey(data_dir: Path) -> list[StoredStates]:
    """Sorted by model, then by last use, latest first; fingerprints without anything saved are left out.

    Raises `OSError`.
    """
    root, slots = data_dir / FOLDER, data_dir / named.FOLDER
    found = []
    for name in sorted({folder.name for folder in (*folders(root), *folders(slots))}):
        saved = [item for item in named_items_in(slots / name) if not item.is_temporary]
        items = [item for item in (*items_in(root / name), *saved) if not item.is_temporary]
        if not items:
            continue
        about = read_about(root / name) or read_about(slots / name)
        tokens = [_num_tokens(item) for item in items]
        found.append(
            StoredStates(
                model=None if about is None else about.model,
                fingerprint=name,
                parts=None if about is None else about.parts,
                conversations=len(items) - len(saved),
                slots=tuple(sorted(item.path.name.removesuffix(SUFFIX) for item in saved)),
                unreadable=tokens.count(None),
                tokens=sum(count or 0 for count in tokens),
                size_bytes=sum(item.size_bytes for item in items),
                created_unix_s=None if about is None else about.created_unix_s,
                last_used_unix_s=max(item.used_ns for item in items) // 10**9,
            )
        )
    return sorted(found, key=lambda kept: (kept.model or "", -kept.last_used_unix_s))


def clear(data_dir: Path, model: str | None = None) -> ClearReport:
    """Remove what is saved of all models, or of one: by its name in `about.json`, or by the name of its folder.

    Processes that have it loaded continue and may save more. Raises `OSError`, `Busy`.
    """
    root, slots = data_dir / FOLDER, data_dir / named.FOLDER
    media_bytes = clear_media(data_dir, model)
    if not (root.exists() or slots.exists()):
        return ClearReport(conversations=0, slots=0, size_bytes=media_bytes)
    with gate(root):
        items = [
            item for item in (*all_items(root), *named_items(slots)) if not item.is_temporary or remove_leftover(item)
        ]
        if model is not None:
            every = {*folders(root), *folders(slots)}
            wanted = {folder for folder in every if model in (folder.name, _model_of(folder))}
            items = [item for item in items if item.path.parent in wanted]
        remove_items(items)
    gone = [item for item in items if not item.is_temporary and not item.path.exists()]
    num_slots = sum(item.path.parent.parent == slots for item in gone)
    return ClearReport(
        conversations=len(gone) - num_slots,
        slots=num_slots,
        size_bytes=media_bytes + sum(item.size_bytes for item in gone),
    )


def _model_of(folder: Path) -> str | None:
    about = read_about(folder)
    return None if about is None else about.model


def _num_tokens(item: Item) -> int | None:
    try:
        with open_file(item.path) as file:
            return read_head(file).num_tokens
    except (DamagedFile, Foreign, OSError):
        return None
