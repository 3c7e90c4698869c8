"""Which pages of a document are wanted: `1-3,7`. Knows no documents."""

from __future__ import annotations

import re

from localllm.documents.contents import Unreadable

_RANGES = re.compile(r"\d{1,9}(-\d{0,9})?(,\d{1,9}(-\d{0,9})?)*")


def is_valid(wanted: str) -> bool:
    """Whether it is empty, or such a list."""
    return not wanted or _RANGES.fullmatch(wanted) is not None


def chosen(wanted: str, num_pages: int, max_pages: int, unit: str = "page") -> list[int]:
    """The pages, from 1, ascending, each once; all without a wish. Raises `Unreadable` for none and for too many."""
    if not is_valid(wanted):
        raise Unreadable(f"has no pages {wanted!r}; they are given as in 1-3,7")
    found: set[int] = set()
    for part in wanted.split(",") if wanted else ["1-"]:
        first, dash, last = part.partition("-")
        end = min(int(last) if last else num_pages if dash else int(first), num_pages)
        found.update(range(max(1, int(first)), end + 1))
    if not found and (wanted or not num_pages):
        none = f"has no {unit}s" if not wanted else f"has {num_pages} {unit}s, and none of {wanted}"
        raise Unreadable(none)
    if len(found) > max_pages:
        raise Unreadable(
            f"has {len(found)} {unit}s{' of those wanted' if wanted else ''}; at most {max_pages} are read (setting "
            "max_document_pages); name some of them, as 1-20"
        )
    return sorted(found)
