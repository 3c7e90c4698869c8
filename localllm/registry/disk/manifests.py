"""The manifests on disk: one small JSON file for each model, read with suspicion and written whole.

Knows nothing of blobs.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from localllm import osdep
from localllm.errors import InvalidModelFile, InvalidParameter, LocalLLMError
from localllm.registry.disk.files import TEMPORARY, disk_errors_are_clear, open_ordinary, write_whole
from localllm.registry.disk.layout import Layout
from localllm.registry.manifest import MAX_MANIFEST_BYTES, Manifest, decode_manifest, encode_manifest
from localllm.registry.names import ModelName, parse


class DamagedManifest(msgspec.Struct, frozen=True):
    """A file among the manifests that is none, or not the one that its name says."""

    path: str
    reason: str


class Manifests:
    """The manifests of one store."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def find(self, name: ModelName) -> Manifest | None:
        """Raises `InvalidModelFile` if there is one and it cannot be used."""
        path = self._layout.manifest(name)
        try:
            return self._read(path)
        except FileNotFoundError:
            return None

    def scan(self) -> tuple[tuple[Manifest, ...], tuple[DamagedManifest, ...]]:
        """All of them in the order of their names, and all that cannot be used."""
        found, damaged = [], []
        for path in self._paths():
            try:
                found.append(self._read(path))
            except FileNotFoundError:
                continue  # removed since the folder was read
            except (InvalidModelFile, OSError) as error:
                reason = error.message if isinstance(error, LocalLLMError) else f"{path}: {error.strerror}"
                damaged.append(DamagedManifest(str(path), reason))
        return tuple(sorted(found, key=lambda one: (one.name.lower(), one.name))), tuple(damaged)

    def _paths(self) -> list[Path]:
        try:
            names = os.listdir(self._layout.manifests)
        except FileNotFoundError:
            return []
        return [self._layout.manifests / name for name in sorted(names) if _is_manifest(name)]

    def _read(self, path: Path) -> Manifest:
        manifest = decode_manifest(_bounded(path), str(path))
        try:
            expected = self._layout.manifest(parse(manifest.name))
        except InvalidParameter as error:
            raise InvalidModelFile(f"{path} is no manifest: {error.message}") from error
        if expected != path:
            raise InvalidModelFile(f"{path} is the manifest of {manifest.name}, whose place is {expected.name}")
        return manifest

    def check(self, manifest: Manifest) -> None:
        """Raises `InvalidParameter` or `InvalidModelFile` for what could not be read again."""
        name = parse(manifest.name)
        if str(name) != manifest.name:
            raise InvalidParameter(f"{manifest.name!r} is stored as {str(name)!r}", param="name")
        path = self._layout.manifest(name)
        try:
            raw = encode_manifest(manifest)
        except UnicodeEncodeError as error:
            raise InvalidParameter(
                f"the manifest of {manifest.name} has text that is no Unicode ({error.object!r}): if it is the path "
                "of a file, rename that, or take it in as a copy",
                param="path",
            ) from error
        if decode_manifest(raw, str(path)) != manifest:
            raise InvalidModelFile(f"the manifest of {manifest.name} would be read back as something else")
        names = [file.file_name.lower() for file in manifest.files]
        if len(set(names)) < len(names):
            raise InvalidModelFile(f"{manifest.name} has two files with the same name, among {', '.join(names[:10])}")

    def write(self, manifest: Manifest) -> None:
        """A checked one, in the place of an earlier one of that name."""
        with disk_errors_are_clear(self._layout.root):
            write_whole(self._layout.manifest(parse(manifest.name)), encode_manifest(manifest))

    def remove(self, name: ModelName) -> None:
        """The blobs stay."""
        self._layout.manifest(name).unlink(missing_ok=True)
        osdep.sync_folder(self._layout.manifests)


def _is_manifest(name: str) -> bool:
    """Everything else in the folder is some editor's or file manager's, or one in the making."""
    return name.endswith(".json") and not name.startswith((TEMPORARY, "."))


def _bounded(path: Path) -> bytes:
    fd = open_ordinary(path)
    if fd is None:
        raise InvalidModelFile(f"{path} is no manifest: it is no ordinary file")
    with open(fd, "rb") as file:
        return file.read(MAX_MANIFEST_BYTES + 1)
