"""What tests of the model store share: small models put the way a pull does it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from localllm.registry.disk.locks import Hold
from localllm.registry.disk.store import Store
from localllm.registry.manifest import Manifest, StoredFile
from localllm.registry.names.digest import Digest

CREATED_AT = "2026-01-02T03:04:05Z"


def digest_of(content: bytes) -> Digest:
    return Digest(hashlib.sha256(content).hexdigest())


def fetch(store: Store, content: bytes, *, hold: Hold | None = None, file_name: str = "model.gguf") -> StoredFile:
    """As a pull does it, with the content for the network."""
    digest = digest_of(content)
    with store.claim(str(digest)) as partial:
        if hold is not None:
            hold.add(digest)
        if not store.has_blob(digest, len(content)):
            partial.write_bytes(content)
            store.publish(partial, digest, hold=hold)
    return StoredFile(file_name=file_name, size_bytes=len(content), digest=digest)


def shard_names(count: int) -> list[str]:
    return [f"big-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]


def manifest_of(name: str, *files: StoredFile) -> Manifest:
    return Manifest(name=name, created_at=CREATED_AT, files=files)


def put(store: Store, name: str, *contents: bytes) -> Manifest:
    """A model of one file, or a split one."""
    names = ["model.gguf"] if len(contents) == 1 else shard_names(len(contents))
    with store.hold(f"pull of {name}") as hold:
        files = [
            fetch(store, content, hold=hold, file_name=file) for content, file in zip(contents, names, strict=True)
        ]
        manifest = manifest_of(name, *files)
        store.put(manifest)
    return manifest


def files_below(folder: Path) -> set[str]:
    return {
        os.path.relpath(os.path.join(parent, name), folder) for parent, _, names in os.walk(folder) for name in names
    }


def contents_of(path: Path, count: int) -> list[bytes]:
    """As llama.cpp finds them: the other shards' names from the first one's."""
    if count == 1:
        return [path.read_bytes()]
    assert path.name == shard_names(count)[0]
    return [path.with_name(name).read_bytes() for name in shard_names(count)]
