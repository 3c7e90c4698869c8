"""Where everything of the model store lies: the one place that makes a path of a digest, a name or a key.

    models/
      blobs/sha256-HEX             a file's content, read-only, never changed
      blobs/sha256-HEX.shared      says that this blob is a hard link to somebody else's file, and its state then
      blobs/sha256-HEX.damaged     what was this blob until `verify` found other bytes in it
      partials/ID.part             what a download has so far, with the downloader's own notes as ID.part.*
      partials/ID.tmp              a copy in the making
      partials/sha256-HEX.fetched  this blob has come and waits for the rest of its model
      partials/sha256-HEX.leaving  nobody needs this blob but those who have it loaded, the last of whom deletes it
      manifests/SLUG-HEX12.json    one model; HEX12 tells apart what the slug does not
      locks/                       `locks.py`
      views/ID/                    `views.py`

Knows nothing of what is in these files, and creates nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

from localllm.errors import InvalidParameter
from localllm.registry.digest import Digest
from localllm.registry.names import Demo, HubFile, HubRepo, ModelName, PathName, RegistryName

MAX_SLUG_CHARS = 64
_UNFIT = re.compile(r"[^a-z0-9._-]+", re.ASCII)
_BLOB = re.compile(r"sha256-[0-9a-f]{64}", re.ASCII)
ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
"""What `id_of` makes."""


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
        """No other function makes a path of a digest (CVE-2024-37032)."""
        return self.blobs / digest.file_name

    def shared_note(self, digest: Digest) -> Path:
        """Of a blob that is a hard link to a file which another program may change."""
        return self.blobs / f"{digest.file_name}.shared"

    def damaged(self, digest: Digest) -> Path:
        """Where a blob goes that is not what its digest says."""
        return self.blobs / f"{digest.file_name}.damaged"

    def leaving_note(self, digest: Digest) -> Path:
        """Of a blob that goes as soon as it is unloaded."""
        return self.partials / f"{digest.file_name}.leaving"

    def fetched_note(self, digest: Digest) -> Path:
        """Of a blob that no manifest needs yet."""
        return self.partials / f"{digest.file_name}.fetched"

    def partial(self, key: str) -> Path:
        """Where the download of `key` collects its bytes, and resumes after an interruption."""
        return self.partials / f"{id_of(key)}.part"

    def temporary(self, key: str) -> Path:
        """For work that cannot be resumed."""
        return self.partials / f"{id_of(key)}.tmp"

    @property
    def gate(self) -> Path:
        """The lock between `gc` and whoever makes content needed."""
        return self.locks / "gate"

    def claim(self, id: str) -> Path:
        """The lock of the process that works on the partial with this id."""
        return self.locks / f"claim-{id}"

    def manifest(self, name: ModelName) -> Path:
        """Equal for two spellings of one name, different for two names, also where the file system folds case."""
        folded = fold(name)
        slug = _UNFIT.sub("-", folded.lower())[:MAX_SLUG_CHARS].strip(".-")
        return self.manifests / f"{slug}-{hashlib.sha256(folded.encode()).hexdigest()[:12]}.json"


def id_of(key: str) -> str:
    """32 hexadecimal digits that stand for any text in a file's name."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def blob_digest(file_name: str) -> Digest | None:
    """The inverse of `Layout.blob` for a name found in the folder; None: it is no blob's."""
    return Digest.parse(file_name) if _BLOB.fullmatch(file_name) else None


def fold(name: ModelName) -> str:
    """One spelling for all that mean the same model. Raises `InvalidParameter` for what no model is stored under.

    URLs, the paths of a repository's files, and revisions are told apart by case; nothing else is.
    """
    if isinstance(name, Demo | PathName):
        raise InvalidParameter(f"no model can be stored as {str(name)!r}; choose a name like my-model", param="name")
    if isinstance(name, HubRepo):
        quant = None if name.quant is None else name.quant.lower()
        return str(replace(name, repo=name.repo.lower(), quant=quant))
    if isinstance(name, HubFile):
        return str(replace(name, repo=name.repo.lower()))
    return str(name).lower() if isinstance(name, RegistryName) else str(name)
