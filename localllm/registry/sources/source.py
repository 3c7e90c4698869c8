"""Shared by the sources of models (`hugging_face`, `oci`, `web`): sending requests and reading responses.

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
from localllm.registry.fetch.net import Net, SmallResponse
from localllm.registry.fetch.pacing import OnWait
from localllm.registry.manifest import MAX_MANIFEST_BYTES
from localllm.registry.names.digest import decode_digest
from localllm.registry.remote import Credential

MAX_FILE_BYTES = 16 * 1024**4
"""No model file is larger; a server that claims so is wrong."""
MAX_SHOWN_CHARS = 200
"""Limit on text from a server in our messages."""
SizeBytes = Annotated[int, msgspec.Meta(ge=0, le=MAX_FILE_BYTES)]

_FORBIDDEN_IN_NAMES = frozenset('/\\:*?"<>|')
_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6))
_T = TypeVar("_T")


class Fetch(Protocol):
    """Makes requests; implemented by `Net`."""

    def get_small(
        self,
        url: str,
        *,
        credential: Credential | None = None,
        named_by_user: bool = False,
        max_bytes: int = MAX_MANIFEST_BYTES,
        headers: Mapping[str, str] | None = None,
    ) -> SmallResponse:
        """Returns a response of any status. Raises `PullFailed` if there is none, or it is larger than `max_bytes`."""
        ...


@dataclass(frozen=True)
class CancellableFetch:
    """A `Net` whose requests raise `Cancelled` once the flag is set, and wait out an outage if `is_patient`."""

    net: Net
    cancel: threading.Event
    on_wait: OnWait = lambda *_: None
    is_patient: bool = False

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
            on_wait=self.on_wait,
            is_patient=self.is_patient,
        )


def decode(body: bytes, kind: type[_T], origin: str) -> _T:
    """Decodes JSON to that type, including digests. Raises `PullFailed` that names the field and `origin`."""
    try:
        return msgspec.json.decode(body, type=kind, dec_hook=decode_digest)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise PullFailed(f"{origin} sent an unusable response: {clean(str(error))}") from error


def clean(text: str) -> str:
    """Untrusted text as one printable line of bounded length, without terminal escape sequences."""
    shown = "".join(char if char.isprintable() else " " for char in text[: 4 * MAX_SHOWN_CHARS])
    line = " ".join(shown.split())
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[: MAX_SHOWN_CHARS - 3]}..."


def checked_file_name(name: str, origin: str) -> str:
    """Returns the name if every file system supports it. Raises `PullFailed`."""
    bad = name in ("", ".", "..") or len(name) > 255 or any(c in _FORBIDDEN_IN_NAMES or ord(c) < 32 for c in name)
    if bad or not name.isprintable():
        raise PullFailed(f"{origin} names a file {clean(name)!r}, which not every file system supports")
    return name


def shown_size(size_bytes: int) -> str:
    """Human-readable: `4.92 GB`, `145 MB`, `610 kB`."""
    unit, factor = next((one for one in _UNITS if size_bytes >= one[1]), ("kB", 1000))
    return f"{size_bytes / factor:.3g} {unit}" if size_bytes < 1000 * factor else f"{size_bytes // factor:,} {unit}"


def left_out(file_name: str, size_bytes: int) -> str:
    """The notice that a model's projector is not downloaded."""
    what = f"its projector for pictures and sound ({clean(file_name)}, {shown_size(size_bytes)})"
    return f"{what} is left out, as requested; a pull without --no-projector and projector=off adds it"


def taken_in(file_name: str, size_bytes: int) -> str:
    """The notice that it is."""
    what = f"{clean(file_name)}, {shown_size(size_bytes)}"
    return f"with its projector for pictures and sound ({what}); --no-projector leaves it out"


def header(response: SmallResponse, name: str) -> str:
    """A header's cleaned value; empty if it is missing."""
    return clean(response.headers.get(name) or "")


def host_of(url: str) -> str:
    """The host and port of a URL, for messages."""
    return urlsplit(url).netloc.rpartition("@")[2]
