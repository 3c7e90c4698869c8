"""The manifests on disk: one small JSON file per model, checked when read and written atomically.

Knows nothing of blobs.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import msgspec

from localllm.errors import InvalidModelFile, InvalidParameter, LocalLLMError
from localllm.registry.disk.files import disk_errors_are_clear
from localllm.registry.disk.layout import Layout
from localllm.registry.manifest import MAX_MANIFEST_BYTES, Manifest, decode_manifest, encode_manifest
from localllm.registry.names.model_names import ModelName, VersionName, parse
from localllm.system import files
from localllm.system.files import TEMPORARY, open_ordinary, write_whole
from localllm.system.shell_words import shell_word

_NAME = re.compile(rb'"name"\s*:\s*"([^"\\\x00-\x1f]{1,1000})"')
_DIGEST = re.compile(rb'"digest"\s*:\s*"(sha256:[0-9a-f]{64})"')


class DamagedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the manifests folder that is not a valid manifest, or not the one its file name stands for."""

    name: str
    """The model's name if it is legible, else the file name without `.json`; `localllm rm` accepts both."""
    path: str
    reason: str
    digests: tuple[str, ...] | None = None
    """Every digest that it names; None if they cannot be read."""
    modified_unix_s: int = 0

    @property
    def remedy(self) -> str:
        """The commands that help, as a phrase."""
        return f"remove it with localllm rm {shell_word(self.name)}, then get the model again with localllm pull"


class Manifests:
    """The manifests of one store."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def find(self, name: ModelName) -> Manifest | None:
        """The manifest of that name. Raises `InvalidModelFile`, with the remedy, if it is damaged."""
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
        """All manifests in order of their names, and all damaged ones."""
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
        with contextlib.suppress(OSError, InvalidModelFile):  # then it contains nothing legible
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
            raise InvalidModelFile(f"{path} is the manifest of {manifest.name}, which belongs in {expected.name}")
        return manifest

    def check(self, manifest: Manifest) -> None:
        """Raises `InvalidParameter` or `InvalidModelFile` for a manifest that could not be read back, or would replace
        a version of a model."""
        name = parse(manifest.name)
        if str(name) != manifest.name:
            raise InvalidParameter(
                f"{manifest.name!r} is not canonical; its canonical form is {str(name)!r}", param="name"
            )
        path = self._layout.manifest(name)
        try:
            raw = encode_manifest(manifest)
        except UnicodeEncodeError as error:
            raise InvalidParameter(
                f"the manifest of {manifest.name} contains text that is not valid Unicode ({error.object!r}): "
                "if it is the path of a file, rename the file or add it as a copy",
                param="path",
            ) from error
        if decode_manifest(raw, str(path)) != manifest:
            raise InvalidModelFile(f"the manifest of {manifest.name} would not be read back unchanged")
        names = [file.file_name.lower() for file in manifest.files]
        if len(set(names)) < len(names):
            raise InvalidModelFile(f"{manifest.name} has two files with the same name: {', '.join(names[:10])}")
        there = self.find(name) if isinstance(name, VersionName) else None
        if there is not None and there.digest != manifest.digest:
            raise InvalidParameter(
                f"{name} is another version already, and stays; choose another label, or localllm rm {name} first",
                param="name",
            )

    def write(self, manifest: Manifest) -> None:
        """Writes a checked manifest, replacing any earlier one of that name."""
        with disk_errors_are_clear(self._layout.root):
            write_whole(self._layout.manifest(parse(manifest.name)), encode_manifest(manifest))

    def remove(self, name: ModelName) -> None:
        """Deletes a manifest, not its blobs."""
        self._layout.manifest(name).unlink(missing_ok=True)
        files.sync_folder(self._layout.manifests)

    def remove_damaged(self, damaged: DamagedManifest) -> None:
        """Deletes a damaged manifest that `scan` found."""
        files.remove_file(self._layout.manifests / Path(damaged.path).name)
        files.sync_folder(self._layout.manifests)


def _is_manifest(name: str) -> bool:
    """Whether it is a manifest; other files there belong to editors or file managers, or are being written."""
    return name.endswith(".json") and not name.startswith((TEMPORARY, "."))


def _digests_in(raw: bytes) -> tuple[str, ...] | None:
    """The digests in a damaged manifest; None unless it is complete JSON and every digest is legible."""
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
