"""A GGUF header read where it lies, by range requests: as much as it takes, and no more than a bound.

The way out is a `Fetch`, with its guard, its retries and its limits. Knows nothing of what a header says.
"""

from __future__ import annotations

from pathlib import Path

from localllm.errors import AccessDenied, PullFailed
from localllm.gguf import Header, read_header
from localllm.registry.fetch.ranges import parse_content_range
from localllm.registry.remote import RemoteFile
from localllm.registry.sources.source import Fetch, host_of

FIRST_BYTES, PIECE_BYTES = 512 << 10, 4 << 20
"""Of the first request and of the others: most headers are in two or three."""
MAX_HEADER_BYTES = 96 << 20
"""Of one file. The largest header seen, of 260 k tokens with merges, has 20 MB."""


def remote_header(file: RemoteFile, fetch: Fetch) -> Header:
    """Raises `InvalidModelFile`, `AccessDenied`, `PullFailed`."""
    return read_header(Path(file.file_name), RangedFile(file, fetch))


class RangedFile:
    """A remote file as a `gguf.Source`."""

    def __init__(self, file: RemoteFile, fetch: Fetch) -> None:
        """Asks for its beginning. Raises as `remote_header` does."""
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
                raise PullFailed(f"{self._host} does not say how large {file.file_name} is")
            self._size_bytes = total

    @property
    def size_bytes(self) -> int:
        return self._size_bytes or 0

    def seek(self, offset: int, /) -> int:
        self._at = offset
        return offset

    def read(self, count: int, /) -> bytes:
        """Buffered bytes; requests the next piece when there are none."""
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
        """A piece from there, and how large the whole is said to be."""
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
            raise AccessDenied(f"{self._host} answers {response.status} when asked for {name}", status=response.status)
        if response.status == 200 and start == 0:  # it ignores ranges, and the file is small
            return response.body, len(response.body)
        span = parse_content_range(response.headers.get("content-range"))
        if response.status != 206 or span is None or span.start != start or span.end - start != len(response.body):
            raise PullFailed(
                f"{self._host} gives no part of {name} (it answers {response.status}); the whole has to be pulled",
                status=response.status,
            )
        return response.body, span.total
