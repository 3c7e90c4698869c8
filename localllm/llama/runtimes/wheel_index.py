"""llama-cpp-python's own wheels, from an index like the project's: one page of links for each kind of device, without
hashes.

Their llama.cpp is that of the bindings. Since nothing pins their content, an index is used only if the user names it,
the connection has to be authenticated, and the hash of what came first is remembered: under that name, other content is
refused from then on. Does not know whether the libraries work.
"""

from __future__ import annotations

import hashlib
import ipaddress
import string
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from localllm.errors import InvalidParameter, LoadFailed
from localllm.llama.runtimes.found import folder_of
from localllm.llama.runtimes.wheel_files import pip_download
from localllm.system import files, libraries
from localllm.types import upstream
from localllm.types.libraries import builds

KINDS = {
    "cpu": "cpu",
    "vulkan": "vulkan",
    "cuda": "cuda", "cuda12": "cuda",
    "hip": "hip", "rocm": "hip",
    "metal": "metal",
}  # fmt: skip
"""What a user asks for -> what it computes on."""
REQUIREMENT = f"{upstream.PACKAGE}=={upstream.PACKAGE_VERSION}"
FIRST_SEEN = "first-seen.json"
"""Among the runtimes: index and name of each file -> its SHA-256."""


class WheelIndex(NamedTuple):
    """Where to look for a wheel."""

    url: str
    target: str
    """One of `KINDS`."""
    sha256: str
    """The only content to accept; empty: whatever comes first."""

    @property
    def kind(self) -> str:
        return KINDS[self.target]

    @property
    def runtime_name(self) -> str:
        """`vulkan-0.5`, like the names of pinned wheels."""
        return f"{self.target}-{builds.named(upstream.LLAMA_VERSION).label.partition(' ')[0]}"


def index_of(target: str, url: str, sha256: str) -> WheelIndex:
    """From a user's words. Raises `InvalidParameter`."""
    if target not in KINDS:
        raise InvalidParameter(f"from an index, {', '.join(KINDS)} can be installed, and no {target!r}", param="target")
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        raise InvalidParameter(
            "an index has to begin with https://, since only the connection says whose its files are", param="index"
        )
    if parts.username or parts.password:
        raise InvalidParameter("an index contains no user name or password; pip reads them in ~/.netrc", param="index")
    if sha256 and (len(sha256) != 64 or not set(sha256) <= set(string.hexdigits)):
        raise InvalidParameter("a SHA-256 is 64 hexadecimal digits", param="sha256")
    return WheelIndex(url.rstrip("/"), target, sha256.lower())


def download(index: WheelIndex, folder: Path, pip: Sequence[str] | None = None) -> Path:
    """The downloaded file. Raises `LoadFailed`."""
    return pip_download(REQUIREMENT, folder, sha256=index.sha256, index=index.url, pip=pip)


def check_first(file: Path, index: WheelIndex, data_dir: Path) -> str:
    """Its SHA-256. Raises `LoadFailed` if a file of this name came from this index before, with other content, and the
    user did not ask for this one."""
    digest = _sha256(file)
    before = _first_seen(data_dir).get(_key(file, index), digest)
    if before != digest and not index.sha256:
        raise LoadFailed(
            f"{file.name} of {index.url} has the SHA-256 {digest}, but had {before} when it was installed here: it was "
            f"published again, or is somebody else's; `--sha256 {digest}` accepts it",
            param="sha256",
        )
    return digest


def remember(file: Path, digest: str, index: WheelIndex, data_dir: Path) -> None:
    """What `check_first` compares with. Raises `LoadFailed`."""
    try:
        seen = _first_seen(data_dir) | {_key(file, index): digest}
        files.write_whole(folder_of(data_dir) / FIRST_SEEN, msgspec.json.encode(seen))
    except OSError as error:
        raise LoadFailed(f"{FIRST_SEEN} cannot be written: {error.strerror}; choose another --home") from error


def check_backend(folder: Path, index: WheelIndex) -> None:
    """Raises `LoadFailed` if these libraries lack the backend that was asked for."""
    stems = {libraries.stem_of(path) for path in folder.iterdir()}
    if index.kind != "cpu" and f"ggml-{index.kind}" not in stems:
        others = ", ".join(sorted(stem for stem in stems if stem.startswith("ggml-"))) or "one library alone"
        raise LoadFailed(
            f"what {index.url} has for this machine contains no backend for {index.target}, but {others}; is it the "
            "index of another kind of device?",
            param="index",
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _sha256(file: Path) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _key(file: Path, index: WheelIndex) -> str:
    return f"{index.url}/{file.name}"


def _first_seen(data_dir: Path) -> dict[str, str]:
    path = folder_of(data_dir) / FIRST_SEEN
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise LoadFailed(f"{path} cannot be read: {error}; remove it, and hashes are remembered anew") from error
