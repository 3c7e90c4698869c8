"""The documents of a server or program: each is read once, in a child, and kept by content.

Reading the same bytes again gives the same text, so a document that a client sends with every turn keeps its place in
the KV cache. Texts are kept in memory only: after a restart, 300 pages are read again in less than two seconds, and no
text of a client's file lies on the disk. Blocking work has threads of its own. Knows no conversations.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from localllm.documents import kinds
from localllm.documents.contents import Contents, Section, Unreadable, too_long
from localllm.documents.plain import text_of
from localllm.documents.reading_child import ReadingChild, ReadRequest
from localllm.settings.config import Settings
from localllm.system.worker_threads import Threads
from localllm.types.documents import DocumentOptions

NUM_CHILDREN = 2
"""A slow document delays no other, unless two are slow."""
IDLE_S = 60.0
"""A child without work ends after so long."""
_PER_ENTRY_BYTES = 500


class DocumentLimits(NamedTuple):
    """How much of documents is read."""

    max_bytes: int
    """Of one; so are pages, characters and seconds."""
    max_pages: int
    max_characters: int
    max_cpu_s: float
    max_count: int
    """Documents of a request."""
    max_request_characters: int
    """Characters of all documents of a request."""
    cache_bytes: int
    max_waiting: int

    @classmethod
    def of(cls, settings: Settings) -> DocumentLimits:
        return cls(
            settings.max_document_bytes,
            settings.max_document_pages,
            settings.max_document_chars,
            settings.max_document_s,
            settings.max_documents,
            settings.max_request_document_chars,
            settings.document_ram_mb * 10**6,
            settings.max_waiting,
        )


class _Key(NamedTuple):
    """What a document's contents depend on."""

    digest: str
    is_text: bool
    language: str
    pages: str


class DocumentReader:
    """Belongs to one event loop; `close` may be called from any."""

    def __init__(self, limits: DocumentLimits) -> None:
        """Starts nothing."""
        self.limits = limits
        full = ": too many requests bring documents; try again later"
        self._threads = Threads("documents", NUM_CHILDREN, max_waiting=limits.max_waiting, full=full)
        self._lock = threading.Lock()
        self._idle: list[tuple[float, ReadingChild]] = []
        self._is_closed = False
        self._cache: OrderedDict[_Key, Contents] = OrderedDict()
        self._cache_bytes = 0
        self._reading: dict[_Key, asyncio.Future[Contents]] = {}
        self.num_read = 0
        """Documents that were parsed, for tests and metrics."""

    async def read(self, digest: str, data: bytes, options: DocumentOptions) -> Contents:
        """The document's contents; `problem` says why it has none. Raises `QueueFull`, `InternalError`."""
        language = "text" if options.is_text else kinds.language_of(options.name)
        key = _Key(digest, options.is_text, language, options.pages)
        if (known := self._cache.get(key)) is not None:
            self._cache.move_to_end(key)
            return known
        if (running := self._reading.get(key)) is None:
            running = self._reading[key] = asyncio.ensure_future(self._threads.run(self._read, key, data))
            running.add_done_callback(lambda done: self._put(key, done))
        return await asyncio.shield(running)

    def close(self) -> None:
        """Ends the children."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for _, child in idle:
            child.close()

    def _put(self, key: _Key, done: asyncio.Future[Contents]) -> None:
        del self._reading[key]
        if done.cancelled() or done.exception() is not None:
            return
        contents = done.result()
        self._cache[key] = contents
        self._cache_bytes += _size_of(contents)
        while self._cache_bytes > self.limits.cache_bytes and self._cache:
            _, dropped = self._cache.popitem(last=False)
            self._cache_bytes -= _size_of(dropped)
        asyncio.get_running_loop().call_later(IDLE_S + 1, self._end_idle)

    def _read(self, key: _Key, data: bytes) -> Contents:
        """On a thread of its own."""
        self.num_read += 1
        kind = "text" if key.is_text else kinds.kind_of(data)
        if kind == "text":
            return _plain(data, key.language, self.limits.max_characters)
        request = ReadRequest(kind, data, key.pages, self.limits.max_pages, self.limits.max_characters)
        child = self._take()
        try:
            contents = child.read(request)
        except BaseException:
            child.close()
            raise
        self._give_back(child)
        return contents

    def _take(self) -> ReadingChild:
        with self._lock:
            if self._idle:
                return self._idle.pop()[1]
        return ReadingChild(self.limits.max_cpu_s)

    def _give_back(self, child: ReadingChild) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append((time.monotonic(), child))
                return
        child.close()

    def _end_idle(self) -> None:
        with self._lock:
            now = time.monotonic()
            old = [child for since, child in self._idle if now - since >= IDLE_S]
            self._idle = [(since, child) for since, child in self._idle if now - since < IDLE_S]
        for child in old:
            child.close()


def _plain(data: bytes, language: str, max_characters: int) -> Contents:
    try:
        text = text_of(data)
        if len(text) > max_characters:
            raise too_long(max_characters)
    except Unreadable as error:
        return Contents(problem=str(error))
    return Contents((Section(text, language=language),), "text")


def _size_of(contents: Contents) -> int:
    return _PER_ENTRY_BYTES + sum(_PER_ENTRY_BYTES + 4 * len(section.text) for section in contents.sections)
