"""Reads a remote GGUF header by range requests, up to a size limit.

Requests go through a `Fetch`, with its guard, retries and limits. Knows nothing of the content of headers.
"""

from __future__ import annotations

from pathlib import Path

from localllm.errors import AccessDenied, PullFailed
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
