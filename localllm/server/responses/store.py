"""Responses that can be asked for again, in memory only. Where there are too many, the least recently used go first,
and those of the owner who has most: nobody loses his by what others keep.

Knows neither what is in a response nor HTTP. What is kept is JSON, so that its size is what it takes.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

OVERHEAD_BYTES = 512
"""What an entry takes besides its JSON, about: keeps many tiny ones from taking more memory than they count."""
ITEM_BYTES = 256
"""For finding one by its id, about."""


class Kept(NamedTuple):
    """A response, the whole conversation that it answers, and the name of the key that may have them.

    The conversation is not shared with earlier responses: whether it can go on must not depend on what else is still
    here, and what was deleted is gone.
    """

    response: bytes
    conversation: bytes
    owner: str = ""
    item_ids: tuple[str, ...] = ()
    """Of what the response is made of, which may be referred to."""

    @property
    def size_bytes(self) -> int:
        return len(self.response) + len(self.conversation) + OVERHEAD_BYTES + ITEM_BYTES * len(self.item_ids)


@dataclass
class _Held:
    """What one owner has here."""

    count: int = 0
    size_bytes: int = 0


class ResponseStore:
    """Bounded in number and in bytes; a limit of 0 switches it off. Of one event loop, like everything that uses it."""

    def __init__(self, max_responses: int, max_bytes: int) -> None:
        self.max_responses = max_responses
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._holders: dict[str, str] = {}
        """Item -> response."""
        self._held: defaultdict[str, _Held] = defaultdict(_Held)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def is_on(self) -> bool:
        return self.max_responses > 0 and self.max_bytes > 0

    def get(self, id: str, owner: str = "") -> Kept | None:
        """What is kept under that id for that owner, which is thereby the most recently used."""
        kept = self._kept.get(id)
        if kept is None or kept.owner != owner:
            return None
        self._kept.move_to_end(id)
        return kept

    def holder(self, item_id: str, owner: str = "") -> Kept | None:
        """The response that an item is of, as `get` gives it."""
        id = self._holders.get(item_id)
        return None if id is None else self.get(id, owner)

    def fits(self, size_bytes: int) -> bool:
        """Whether so much can be kept at all."""
        return size_bytes <= self.max_bytes

    def put(self, id: str, kept: Kept) -> bool:
        """Keep it, at the expense of what goes first; False: it is larger than everything may be together."""
        if not self.is_on or not self.fits(kept.size_bytes):
            return False
        self.delete(id)
        self._kept[id] = kept
        self._holders |= dict.fromkeys(kept.item_ids, id)
        self._count(kept, 1)
        while len(self._kept) > self.max_responses or self.size_bytes > self.max_bytes:
            owner = max(self._held, key=self._share)
            self.delete(next(id for id, kept in self._kept.items() if kept.owner == owner))
        return True

    def delete(self, id: str) -> bool:
        """Whether there was one."""
        kept = self._kept.pop(id, None)
        if kept is not None:
            self._count(kept, -1)
            for item_id in kept.item_ids:
                self._holders.pop(item_id, None)
        return kept is not None

    def _count(self, kept: Kept, times: int) -> None:
        held = self._held[kept.owner]
        held.count += times
        held.size_bytes += times * kept.size_bytes
        self.size_bytes += times * kept.size_bytes
        if not held.count:
            del self._held[kept.owner]

    def _share(self, owner: str) -> float:
        """Of what there may be, by the limit that is nearer."""
        held = self._held[owner]
        return max(held.count / self.max_responses, held.size_bytes / self.max_bytes)
