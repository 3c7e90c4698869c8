"""Paths in the model store: the only module that turns a digest, name or key into a path (CVE-2024-37032).

    models/
      blobs/sha256-HEX             a file's content, read-only, never changed
      blobs/sha256-HEX.shared      marks a blob that is a hard link to another program's file; holds the file's state
      blobs/sha256-HEX.damaged     a blob whose content `verify` found to differ from its digest
      partials/ID.part             a download in progress, with the downloader's notes as ID.part.*
      partials/ID.tmp              a copy in progress
      partials/sha256-HEX.fetched  marks a blob that is complete while the rest of its model is not
      partials/sha256-HEX.leaving  marks a removed blob that is still loaded; the last process to unload it deletes it
      manifests/SLUG-HEX12.json    one model; HEX12 distinguishes names with the same slug
      locks/                       see `locks.py`
      views/ID/                    see `views.py`

Knows nothing of what is in these files, and creates nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

from localllm.errors import InvalidParameter
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import Demo, HubFile, HubRepo, ModelName, PathName, RegistryName

MAX_SLUG_CHARS = 64
_UNFIT = re.compile(r"[^a-z0-9._-]+", re.ASCII)
_BLOB = re.compile(r"sha256-[0-9a-f]{64}", re.ASCII)
ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
"""The form of an id from `id_of`."""


class Layout:
    """The paths of one store."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))
        self.blobs = self.root / "blobs"
        self.partials = self.root / "partials"
        self.manifests = self.root / "manifests"
        self.locks = self.root / "locks"
        self.views = self.root / "views"

    def blob(self, digest: Digest) -> Path:
        """The path of a blob."""
        return self.blobs / digest.file_name

    def shared_note(self, digest: Digest) -> Path:
        """The note of a blob that is a hard link to a file which another program may change."""
        return self.blobs / f"{digest.file_name}.shared"

    def damaged(self, digest: Digest) -> Path:
        """The path to which a blob is moved if its content does not match its digest."""
        return self.blobs / f"{digest.file_name}.damaged"

    def leaving_note(self, digest: Digest) -> Path:
        """The mark of a blob to be deleted once it is unloaded."""
        return self.partials / f"{digest.file_name}.leaving"

    def fetched_note(self, digest: Digest) -> Path:
        """The mark of a blob that no manifest needs yet."""
        return self.partials / f"{digest.file_name}.fetched"

    def partial(self, key: str) -> Path:
        """The partial file of the download of `key`, which survives interruptions."""
        return self.partials / f"{id_of(key)}.part"

    def temporary(self, key: str) -> Path:
        """A temporary file, for work that cannot be resumed."""
        return self.partials / f"{id_of(key)}.tmp"

    @property
    def gate(self) -> Path:
        """The lock between `gc` and everything that makes content needed."""
        return self.locks / "gate"

    def claim(self, id: str) -> Path:
        """The lock of the process that works on the partial with this id."""
        return self.locks / f"claim-{id}"

    def manifest(self, name: ModelName) -> Path:
        """The path of a model's manifest: one path per name in any spelling, even on case-insensitive file systems."""
        folded = fold(name)
        slug = _UNFIT.sub("-", folded.lower())[:MAX_SLUG_CHARS].strip(".-")
        return self.manifests / f"{slug}-{hashlib.sha256(folded.encode()).hexdigest()[:12]}.json"


def id_of(key: str) -> str:
    """32 hexadecimal digits that represent any text in a file name."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def blob_digest(file_name: str) -> Digest | None:
    """The inverse of `Layout.blob` for a file name; None if it is not that of a blob."""
    return Digest.parse(file_name) if _BLOB.fullmatch(file_name) else None


def adapter_content(folder: Path, digest: Digest) -> Path:
    """The content of an adapter in the folder of adapters."""
    return folder / f"{digest.file_name}.gguf"


def fold(name: ModelName) -> str:
    """One key for all spellings of a model's name. Raises `InvalidParameter` for a name that cannot be stored.

    Case matters in URLs, in paths within a repository, and in revisions, and nowhere else.
    """
    if isinstance(name, Demo | PathName):
        raise InvalidParameter(f"no model can be stored as {str(name)!r}; choose a name like my-model", param="name")
    if isinstance(name, HubRepo):
        quant = None if name.quant is None else name.quant.lower()
        return str(replace(name, repo=name.repo.lower(), quant=quant))
    if isinstance(name, HubFile):
        return str(replace(name, repo=name.repo.lower()))
    return str(name).lower() if isinstance(name, RegistryName) else str(name)
