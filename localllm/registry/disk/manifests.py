"""The manifests on disk: one small JSON file for each model, read with suspicion and written whole.

Knows nothing of blobs.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import msgspec

from localllm import osdep
from localllm.errors import InvalidModelFile, InvalidParameter, LocalLLMError
from localllm.registry.disk.files import TEMPORARY, disk_errors_are_clear, open_ordinary, write_whole
from localllm.registry.disk.layout import Layout
from localllm.registry.manifest import MAX_MANIFEST_BYTES, Manifest, decode_manifest, encode_manifest
from localllm.registry.names import ModelName, parse

_NAME = re.compile(rb'"name"\s*:\s*"([^"\\\x00-\x1f]{1,1000})"')
_DIGEST = re.compile(rb'"digest"\s*:\s*"(sha256:[0-9a-f]{64})"')


class DamagedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the manifests folder that is not a manifest, or not the one its name says."""

    name: str
    """The model's name if it is legible, else the file's without `.json`: either can be removed."""
    path: str
    reason: str
    digests: tuple[str, ...] | None = None
    """Every digest that it names; None: it is too broken to read."""
    modified_unix_s: int = 0

    @property
    def remedy(self) -> str:
        """What to type, as a phrase."""
        return f"localllm rm {self.name} forgets it, then localllm pull gets the model again"


class Manifests:
    """The manifests of one store."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def find(self, name: ModelName) -> Manifest | None:
        """Raises `InvalidModelFile`, with the remedy, if there is one and it cannot be used."""
        path = self._layout.manifest(name)
        try:
            return self._read(path)
        except FileNotFoundError:
            return None
        except InvalidModelFile as error:
            raise InvalidModelFile(
                f"{error.message}; {self._damaged(path, error.message).remedy}",
                public=f"the manifest of {name} is damaged; remove the model and pull it again",
            ) from error

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
                damaged.append(self._damaged(path, reason))
        return tuple(sorted(found, key=lambda one: (one.name.lower(), one.name))), tuple(damaged)

    def _damaged(self, path: Path, reason: str) -> DamagedManifest:
        raw, modified_unix_s = b"", 0
        with contextlib.suppress(OSError, InvalidModelFile):  # then there is nothing that it tells
            raw, modified_unix_s = _bounded(path), int(path.stat().st_mtime)
        return DamagedManifest(
            name=self._name_in(raw, path) or path.stem,
            path=str(path),
            reason=reason,
            digests=_digests_in(raw),
            modified_unix_s=modified_unix_s,
        )

    def _name_in(self, raw: bytes, path: Path) -> str | None:
        match = _NAME.search(raw)
        try:
            name = None if match is None else parse(match[1].decode())
            return None if name is None or self._layout.manifest(name) != path else str(name)
        except (UnicodeDecodeError, InvalidParameter):
            return None

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
            raise InvalidModelFile(f"{path} is not a manifest: {error.message}") from error
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
                f"the manifest of {manifest.name} contains text that is not valid Unicode ({error.object!r}): "
                "if it is the path of a file, rename that, or take it in as a copy",
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

    def remove_damaged(self, damaged: DamagedManifest) -> None:
        """Likewise, of one that `scan` found."""
        osdep.remove_file(self._layout.manifests / Path(damaged.path).name)
        osdep.sync_folder(self._layout.manifests)


def _is_manifest(name: str) -> bool:
    """Everything else in the folder is some editor's or file manager's, or one in the making."""
    return name.endswith(".json") and not name.startswith((TEMPORARY, "."))


def _digests_in(raw: bytes) -> tuple[str, ...] | None:
    """None unless the whole document is there and each digest in it is legible."""
    try:
        msgspec.json.decode(raw)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None
    found = _DIGEST.findall(raw)
    return tuple(digest.decode() for digest in found) if 0 < len(found) == raw.count(b'"digest"') else None


def _bounded(path: Path) -> bytes:
    fd = open_ordinary(path)
    if fd is None:
        raise InvalidModelFile(f"{path} is not a manifest: it is not a regular file")
    with open(fd, "rb") as file:
        return file.read(MAX_MANIFEST_BYTES + 1)
