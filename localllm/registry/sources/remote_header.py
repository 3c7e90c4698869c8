"""Reads a remote GGUF header by range requests, up to a size limit, or that of the copy that is here.

Requests go through a `Fetch`, with its guard, retries and limits. Knows nothing of the content of headers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path

from localllm.errors import AccessDenied, LocalLLMError, PullFailed
from localllm.gguf import Header, read_header
from localllm.registry.fetch.ranges import parse_content_range
from localllm.registry.remote import RemoteFile
from localllm.registry.sources.source import Fetch, host_of

FIRST_BYTES, PIECE_BYTES = 512 << 10, 4 << 20
"""Bytes per request, the first and the others: most headers take two or three."""
MAX_HEADER_BYTES = 96 << 20
"""Limit on one header. The largest one seen, with 260 k tokens and merges, has 20 MB."""


def remote_header(file: RemoteFile, fetch: Fetch) -> Header:
    """Raises `InvalidModelFile`, `AccessDenied`, `PullFailed`."""
    return read_header(Path(file.file_name), RangedFile(file, fetch))


class HeaderReader:
    """Reads the headers of one source's files: from the store if they are here, else by requests."""

    def __init__(self, fetch: Fetch, stored: Callable[[RemoteFile], Path | None] = lambda _: None) -> None:
        self._fetch = fetch
        self._stored = stored

    def are_here(self, shards: Sequence[RemoteFile]) -> bool:
        return None not in map(self._stored, shards)

    def read(self, shards: Sequence[RemoteFile]) -> tuple[Header, ...]:
        """Of all shards of a model if they are here, else of the first one. Raises as `remote_header` does."""
        stored = [(file, path) for file in shards if (path := self._stored(file)) is not None]
        if len(stored) == len(shards):
            try:
                return tuple(read_header(Path(file.file_name), _StoredFile(path)) for file, path in stored)
            except (OSError, LocalLLMError):  # deleted or damaged meanwhile
                pass
        return (remote_header(shards[0], self._fetch),)


class _StoredFile(FileIO):
    """A file of the store as a `gguf.Source`, so that errors name what it is called at its source."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.size_bytes = path.stat().st_size


class RangedFile:
    """A remote file as a `gguf.Source`."""

    def __init__(self, file: RemoteFile, fetch: Fetch) -> None:
        """Requests the beginning of the file. Raises as `remote_header` does."""
        self._file = file
        self._fetch = fetch
        self._at = 0
        self._base = 0
        self._piece = b""
        self._read_bytes = 0
        self._size_bytes = file.size_bytes
        self._piece, total = self._ask(0)
        if self._size_bytes is None:
            if total is None:
                raise PullFailed(f"{self._host} does not give the size of {file.file_name}")
            self._size_bytes = total

    @property
    def size_bytes(self) -> int:
        return self._size_bytes or 0

    def seek(self, offset: int, /) -> int:
        self._at = offset
        return offset

    def read(self, count: int, /) -> bytes:
        """Returns buffered bytes; requests the next piece if there are none."""
        begin = self._at - self._base
        if not 0 <= begin < len(self._piece):
            if self._at >= self.size_bytes:
                return b""
            self._piece, _ = self._ask(self._at)
            self._base, begin = self._at, 0
        found = self._piece[begin : begin + count]
        self._at += len(found)
        return found

    def close(self) -> None:
        self._piece = b""

    @property
    def _host(self) -> str:
        return host_of(self._file.url)

    def _ask(self, start: int) -> tuple[bytes, int | None]:
        """The piece at an offset, and the size of the whole file according to the server."""
        if self._read_bytes >= MAX_HEADER_BYTES:
            raise PullFailed(f"the header of {self._file.file_name} has more than {MAX_HEADER_BYTES:,} bytes")
        most_bytes = PIECE_BYTES if start else min(FIRST_BYTES, PIECE_BYTES)
        end = min(start + most_bytes, self._size_bytes or start + most_bytes)
        response = self._fetch.get_small(
            self._file.url,
            credential=self._file.credential,
            named_by_user=self._file.named_by_user,
            max_bytes=end - start,
            headers={"range": f"bytes={start}-{end - 1}", "accept-encoding": "identity"},
        )
        self._read_bytes += len(response.body)
        name = self._file.file_name
        if response.status in (401, 403):
            raise AccessDenied(f"{self._host} answered {response.status} for {name}", status=response.status)
        if response.status == 200 and start == 0:  # the server ignores ranges, and the file is small
            return response.body, len(response.body)
        if response.status in (404, 410):
            raise PullFailed(f"{self._host} has no {name} (it answered {response.status})", status=response.status)
        if response.status not in (200, 206, 416):
            raise PullFailed(f"{self._host} answered {response.status} for {name}", status=response.status)
        span = parse_content_range(response.headers.get("content-range"))
        if response.status != 206 or span is None or span.start != start or span.end - start != len(response.body):
            raise PullFailed(
                f"{self._host} does not serve ranges of {name} (it answered {response.status}); pull the whole file",
                status=response.status,
            )
        return response.body, span.total
