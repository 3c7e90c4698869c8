"""What the sources of models (`hub`, `oci`, `web`) share: how they send requests and read responses.

Server data is untrusted: it must be bounded, of the expected type and printable, or the plan fails with `PullFailed`.
Knows nothing of sockets; `net` does.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from localllm.errors import PullFailed
from localllm.registry.digest import decode_digest
from localllm.registry.fetch.net import Net, SmallResponse
from localllm.registry.manifest import MAX_MANIFEST_BYTES
from localllm.registry.remote import Credential

MAX_FILE_BYTES = 16 * 1024**4
"""No model's file is larger; a server that says so is wrong."""
MAX_SHOWN_CHARS = 200
"""Of what a server says, in our messages."""
SizeBytes = Annotated[int, msgspec.Meta(ge=0, le=MAX_FILE_BYTES)]

_FORBIDDEN_IN_NAMES = frozenset('/\\:*?"<>|')
_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6))
_T = TypeVar("_T")


class Fetch(Protocol):
    """The way out; a `Net` is one."""

    def get_small(
        self,
        url: str,
        *,
        credential: Credential | None = None,
        named_by_user: bool = False,
        max_bytes: int = MAX_MANIFEST_BYTES,
        headers: Mapping[str, str] | None = None,
    ) -> SmallResponse:
        """Any status is an answer. Raises `PullFailed` when there is none, or it is larger than `max_bytes`."""
        ...


@dataclass(frozen=True)
class CancellableFetch:
    """A `Net` whose requests end when the flag is set, with `Cancelled`."""

    net: Net
    cancel: threading.Event

    def get_small(
        self,
        url: str,
        *,
        credential: Credential | None = None,
        named_by_user: bool = False,
        max_bytes: int = MAX_MANIFEST_BYTES,
        headers: Mapping[str, str] | None = None,
    ) -> SmallResponse:
        """As `Net.get_small`."""
        return self.net.get_small(
            url,
            credential=credential,
            named_by_user=named_by_user,
            max_bytes=max_bytes,
            headers=headers,
            cancel=self.cancel,
        )


def decode(body: bytes, kind: type[_T], origin: str) -> _T:
    """JSON of that type, digests included. Raises `PullFailed` that names the field and `origin`."""
    try:
        return msgspec.json.decode(body, type=kind, dec_hook=decode_digest)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise PullFailed(f"{origin} sends what localllm cannot use: {clean(str(error))}") from error


def clean(text: str) -> str:
    """Untrusted text as one printable line of bounded length, without terminal escape sequences."""
    shown = "".join(char if char.isprintable() else " " for char in text[: 4 * MAX_SHOWN_CHARS])
    line = " ".join(shown.split())
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[: MAX_SHOWN_CHARS - 3]}..."


def checked_file_name(name: str, origin: str) -> str:
    """The name itself, which any system can keep. Raises `PullFailed`."""
    bad = name in ("", ".", "..") or len(name) > 255 or any(c in _FORBIDDEN_IN_NAMES or ord(c) < 32 for c in name)
    if bad or not name.isprintable():
        raise PullFailed(f"{origin} calls a file {clean(name)!r}, a name that not every file system supports")
    return name


def shown_size(size_bytes: int) -> str:
    """For people: `4.92 GB`, `145 MB`, `610 kB`."""
    unit, factor = next((one for one in _UNITS if size_bytes >= one[1]), ("kB", 1000))
    return f"{size_bytes / factor:.3g} {unit}" if size_bytes < 1000 * factor else f"{size_bytes // factor:,} {unit}"


def left_out(file_name: str, size_bytes: int) -> str:
    """A notice about a projector."""
    what = f"its projector for images ({clean(file_name)}, {shown_size(size_bytes)})"
    return f"{what} is not downloaded: images are not served yet"


def header(response: SmallResponse, name: str) -> str:
    """Cleaned; empty when there is none."""
    return clean(response.headers.get(name) or "")


def host_of(url: str) -> str:
    """For messages: host and port as they stand in the URL."""
    return urlsplit(url).netloc.rpartition("@")[2]
