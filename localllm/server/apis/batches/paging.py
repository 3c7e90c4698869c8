"""Pages of lists: how many entries, and behind which. Knows nothing of the entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from localllm.errors import InvalidParameter, clipped


class Page(NamedTuple):
    """What was asked for."""

    limit: int
    after: str | None


def page_of(query: Mapping[str, str], default: int, most: int, after: str = "after") -> Page:
    """Raises `InvalidParameter`."""
    given = query.get("limit", str(default))
    limit = int(given) if given.isascii() and given.isdigit() and len(given) < 6 else 0
    if not 1 <= limit <= most:
        raise InvalidParameter(f"limit must be a number from 1 to {most}, got {clipped(given)!r}", param="limit")
    return Page(limit, query.get(after) or None)


def index_of(ids: Sequence[str], id: str, param: str) -> int:
    """Raises `InvalidParameter`."""
    try:
        return ids.index(id)
    except ValueError:
        raise InvalidParameter(f"{param}: nothing in this list has the id {clipped(id)!r}", param=param) from None
