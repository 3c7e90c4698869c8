"""Stored responses, in memory only. At the limit, the owner with the largest share loses the least recently used
ones, so that one owner cannot evict another's responses.

Knows neither a response's content nor HTTP. Responses are stored as JSON, so that their size is known.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from localllm.types import MediaFile

OVERHEAD_BYTES = 512
"""Approximate overhead of an entry, so that many tiny ones do not exceed the limit."""
ITEM_BYTES = 256
"""Approximate overhead of the index of one item."""


class StoredResponse(NamedTuple):
    """A response, the whole conversation that it answers, and the owner who may read them.

    The conversation is not shared with earlier responses: continuing it must not depend on others still being stored,
    and a deleted response must be gone.
    """

    response: bytes
    conversation: bytes
    owner: str = ""
    item_ids: tuple[str, ...] = ()
    """Ids of the response's items, which may be referenced."""
    files: tuple[MediaFile, ...] = ()
    """The pictures and sounds of the conversation, each once. They are stored as long as it is."""

    @property
    def json_bytes(self) -> int:
        """Size without files."""
        return len(self.response) + len(self.conversation) + OVERHEAD_BYTES + ITEM_BYTES * len(self.item_ids)

    @property
    def size_bytes(self) -> int:
        return self.json_bytes + sum(file.num_bytes for file in self.files)


@dataclass
class _Held:
    """Usage of one owner."""

    count: int = 0
    size_bytes: int = 0
    files: Counter[str] = field(default_factory=Counter)
    """By digest: how many of its responses have a file, which counts once."""

    def add(self, kept: StoredResponse) -> None:
        self.count += 1
        self.size_bytes += kept.json_bytes
        for file in kept.files:
            self.size_bytes += 0 if self.files[file.digest] else file.num_bytes
            self.files[file.digest] += 1

    def drop(self, kept: StoredResponse) -> None:
        self.count -= 1
        self.size_bytes -= kept.json_bytes
        for file in kept.files:
            self.files[file.digest] -= 1
            if not self.files[file.digest]:
                del self.files[file.digest]
                self.size_bytes -= file.num_bytes


class ResponseStore:
    """Limited in number and bytes; a limit of 0 turns it off. Belongs to one event loop."""

    def __init__(self, max_responses: int, max_bytes: int) -> None:
        self.max_responses = max_responses
        self.max_bytes = max_bytes
        self._kept: OrderedDict[str, StoredResponse] = OrderedDict()
        self._holders: dict[str, str] = {}
        """Item -> response."""
        self._held: defaultdict[str, _Held] = defaultdict(_Held)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        return sum(held.size_bytes for held in self._held.values())

    @property
    def is_on(self) -> bool:
        return self.max_responses > 0 and self.max_bytes > 0

    def get(self, id: str, owner: str = "") -> StoredResponse | None:
        """The owner's entry with that id, which becomes the most recently used."""
        kept = self._kept.get(id)
        if kept is None or kept.owner != owner:
            return None
        self._kept.move_to_end(id)
        return kept

    def holder(self, item_id: str, owner: str = "") -> StoredResponse | None:
        """The response that contains an item, as `get` returns it."""
        id = self._holders.get(item_id)
        return None if id is None else self.get(id, owner)

    def fits(self, size_bytes: int) -> bool:
        """Whether that many bytes can be stored at all."""
        return size_bytes <= self.max_bytes

    def put(self, id: str, kept: StoredResponse) -> bool:
        """Store it, evicting others if necessary; False if it exceeds the whole limit."""
        if not self.is_on or not self.fits(kept.size_bytes):
            return False
        self.delete(id)
        for file in kept.files:
            file.hold()
        self._kept[id] = kept
        self._holders |= dict.fromkeys(kept.item_ids, id)
        self._held[kept.owner].add(kept)
        while len(self._kept) > self.max_responses or self.size_bytes > self.max_bytes:
            owner = max(self._held, key=self._share)
            self.delete(next(id for id, kept in self._kept.items() if kept.owner == owner))
        return True

    def delete(self, id: str) -> bool:
        """Delete a response; returns whether it existed."""
        kept = self._kept.pop(id, None)
        if kept is not None:
            held = self._held[kept.owner]
            held.drop(kept)
            if not held.count:
                del self._held[kept.owner]
            for item_id in kept.item_ids:
                self._holders.pop(item_id, None)
        return kept is not None

    def _share(self, owner: str) -> float:
        """The owner's share of the limit that is closer."""
        held = self._held[owner]
        return max(held.count / self.max_responses, held.size_bytes / self.max_bytes)
