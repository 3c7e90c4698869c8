"""Media that clients uploaded: requests refer to them by digest instead of bringing them again.
In memory only.

At the limit, the owner with the largest share loses the least recently used ones, so that no owner can evict another's.
What was evicted is uploaded again. Knows neither HTTP nor messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from localllm.chat.media_files import blob_digest
from localllm.server.errors import BlobNotFound
from localllm.types import Media, MediaFile

OVERHEAD_BYTES = 512
"""Approximate overhead of an entry, so that many tiny files do not exceed the limit."""

_Files = OrderedDict[str, MediaFile]


class BlobStore:
    """Limited in number and bytes; a limit of 0 turns it off. Belongs to one event loop."""

    def __init__(self, max_blobs: int, max_bytes: int) -> None:
        self.max_blobs = max_blobs
        self.max_bytes = max_bytes
        self._files: dict[str, _Files] = {}
        """Owner -> digest -> file, the least recently used first."""

    @property
    def size_bytes(self) -> int:
        return sum(map(_size, self._files.values()))

    def __len__(self) -> int:
        return sum(map(len, self._files.values()))

    @property
    def is_on(self) -> bool:
        return self.max_blobs > 0 and self.max_bytes > 0

    def put(self, file: MediaFile, owner: str) -> bool:
        """Keep it for this owner, evicting others if necessary; False if it exceeds the whole limit."""
        if not self.is_on or file.num_bytes + OVERHEAD_BYTES > self.max_bytes:
            return False
        own = self._files.setdefault(owner, OrderedDict())
        own[file.digest] = file
        own.move_to_end(file.digest)
        while len(self) > self.max_blobs or self.size_bytes > self.max_bytes:
            largest = max(self._files, key=self._share)
            self._files[largest].popitem(last=False)
            if not self._files[largest]:
                del self._files[largest]
        return file.digest in own

    def get(self, digest: str, owner: str) -> MediaFile | None:
        """The owner's file, which becomes the most recently used."""
        own = self._files.get(owner)
        if own is None or digest not in own:
            return None
        own.move_to_end(digest)
        return own[digest]

    def found(self, named: Sequence[Media], owner: str) -> dict[str, MediaFile]:
        """The files that these media refer to, by reference. Raises `BlobNotFound` for the first that is not kept."""
        files: dict[str, MediaFile] = {}
        missing = []
        for medium in named:
            file = self.get(blob_digest(medium.url), owner)
            if file is None:
                missing.append(medium)
            else:
                files[medium.url] = file
        if missing:
            others = f" and {len(missing) - 1} more" if missing[1:] else ""
            raise BlobNotFound(
                f"{missing[0].param}: this server has no file {missing[0].url}{others}, or no longer; upload it to "
                "/localllm/blobs and send the request again",
                param=missing[0].param,
            )
        return files

    def _share(self, owner: str) -> float:
        """The owner's share of the limit that is closer."""
        own = self._files[owner]
        return max(len(own) / self.max_blobs, _size(own) / self.max_bytes)


def _size(files: _Files) -> int:
    return sum(file.num_bytes + OVERHEAD_BYTES for file in files.values())
