"""What the store records of a model: its files by digest, where they came from, and its settings. Plain data.

A manifest is a small, readable JSON file. Knows nothing of disks and networks.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from localllm.errors import InvalidModelFile
from localllm.registry.names.digest import Digest, decode_digest, encode_digest
from localllm.types import Message, SamplingParams

VERSION = 1
MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""For our own manifests and those of registries."""
MAX_FILES = 4096

Role = Literal["model", "projector"]
"""`projector`: turns images into embeddings (mmproj)."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file of a model."""

    role: Role = "model"
    file_name: str
    """As its source calls it, without directories; identifies the shards of a split model."""
    size_bytes: int
    digest: Digest
    path: str | None = None
    """The location of a file that was adopted by reference and is not a blob of the store."""
    modified_ns: int | None = None
    """Modification time of such a file when its digest was computed."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model under one name."""

    version: int = VERSION
    name: str
    """Canonical: `str()` of what `names.parse` returns for it. The model's id on the server."""
    source: str | None = None
    """What it was pulled, adopted or created from, with the revision: `hf.co/USER/REPO@COMMIT`, a URL, a path."""
    created_at: str
    """When it was stored under this name, RFC 3339 in UTC."""
    files: tuple[StoredFile, ...]
    """The model's files in order (shards), then its projector."""
    quant: str | None = None
    license: str | None = None
    license_text: tuple[str, ...] = ()
    system: str | None = None
    """System message for chats without one."""
    template: str | None = None
    """Jinja chat template that replaces the one in the file."""
    messages: tuple[Message, ...] = ()
    """The first messages of every chat."""
    params: SamplingParams = SamplingParams()
    """These override the file's own defaults."""
    stop: tuple[str, ...] = ()
    """Stop strings for requests without any."""
    ctx: int | None = None

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def digest(self) -> str:
        """SHA-256 of what it contains, in hexadecimal digits: the same under every name, whenever it was stored."""
        content = [(file.role, str(file.digest)) for file in self.files]
        settings = (self.system, self.template, self.messages, self.params, self.stop, self.ctx)
        return hashlib.sha256(msgspec.json.encode((content, settings))).hexdigest()


def encode_manifest(manifest: Manifest) -> bytes:
    """Indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(manifest, enc_hook=encode_digest), indent=2) + b"\n"


def decode_manifest(raw: bytes, origin: str) -> Manifest:
    """Raises `InvalidModelFile`, naming `origin`, for anything but a manifest of a known version."""
    try:
        if len(raw) > MAX_MANIFEST_BYTES:
            raise ValueError(f"it has {len(raw):,} bytes; the limit is {MAX_MANIFEST_BYTES:,}")
        manifest = msgspec.json.decode(raw, type=Manifest, dec_hook=decode_digest)
        if manifest.version != VERSION:
            raise ValueError(f"its version {manifest.version} is not supported (only {VERSION} is); update localllm")
        if not any(file.role == "model" for file in manifest.files) or len(manifest.files) > MAX_FILES:
            raise ValueError(f"it names {len(manifest.files)} files")
        for file in manifest.files:
            if file.size_bytes < 0 or not _is_plain(file.file_name):
                raise ValueError(f"{file.file_name!r} of {file.size_bytes} bytes cannot be a file of a model")
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise InvalidModelFile(f"{origin} is not a manifest: {error}") from error
    return manifest


def _is_plain(name: str) -> bool:
    return 1 <= len(name) <= 255 and not any(c in '/\\:*?"<>|' or ord(c) < 32 for c in name) and name not in (".", "..")
