"""What is saved, for people, and forgetting it. Reads heads only. Knows nothing of models but their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from localllm.kvdisk.file import Damaged, Foreign, read_head
from localllm.kvdisk.folder import (
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


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """All conversations of one fingerprint."""

    model: str | None
    """The name it was loaded by first; None where `about.json` is missing."""
    fingerprint: str
    """Its first digits, the name of its folder."""
    parts: Any
    """All that the states depend on, as `about.json` says it."""
    conversations: int
    unreadable: int
    """Of these, how many are damaged, or of another version."""
    tokens: int
    size_bytes: int
    created_unix_s: int | None
    last_used_unix_s: int


class Cleared(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed."""

    conversations: int
    size_bytes: int


def survey(root: Path) -> list[Kept]:
    """By model, then by last use, the latest first; what has no conversations is left out. Raises `OSError`."""
    found = []
    for folder in folders(root):
        items = [item for item in items_in(folder) if not item.is_temporary]
        if not items:
            continue
        about = read_about(folder)
        tokens = [_num_tokens(item) for item in items]
        found.append(
            Kept(
                model=None if about is None else about.model,
                fingerprint=folder.name,
                parts=None if about is None else about.parts,
                conversations=len(items),
                unreadable=tokens.count(None),
                tokens=sum(count or 0 for count in tokens),
                size_bytes=sum(item.size_bytes for item in items),
                created_unix_s=None if about is None else about.created_unix_s,
                last_used_unix_s=max(item.used_ns for item in items) // 10**9,
            )
        )
    return sorted(found, key=lambda kept: (kept.model or "", -kept.last_used_unix_s))


def clear(root: Path, model: str | None = None) -> Cleared:
    """Remove the conversations of all models, or of one: what `about.json` calls so, and folders of that name.

    Who has them loaded goes on, and may save more. Raises `OSError`, `Busy`.
    """
    if not root.exists():
        return Cleared(conversations=0, size_bytes=0)
    with gate(root):
        items = [item for item in all_items(root) if not item.is_temporary or remove_leftover(item)]
        if model is not None:
            wanted = {folder for folder in folders(root) if model in (folder.name, _model_of(folder))}
            items = [item for item in items if item.path.parent in wanted]
        remove_items(items)
    gone = [item for item in items if not item.is_temporary and not item.path.exists()]
    return Cleared(conversations=len(gone), size_bytes=sum(item.size_bytes for item in gone))


def _model_of(folder: Path) -> str | None:
    about = read_about(folder)
    return None if about is None else about.model


def _num_tokens(item: Item) -> int | None:
    try:
        with open_file(item.path) as file:
            return read_head(file).num_tokens
    except (Damaged, Foreign, OSError):
        return None
