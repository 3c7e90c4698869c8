"""Adapters that were added to models of this machine: one small JSON file each, and their content by digest.

    adapters/NAME.json           what `StoredAdapter` says
    adapters/sha256-HEX.gguf     a file that one or several of them name

A name belongs to one base and is the name of a model, too. Knows nothing of what is loaded.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import msgspec

from localllm.errors import InvalidModelFile, InvalidParameter, ModelNotFound, clipped
from localllm.gguf.adapters import read_adapter
from localllm.registry.adapters.names import MAX_NAME_CHARS, checked_name
from localllm.registry.disk.files import copy_file, disk_errors_are_clear, hash_file
from localllm.registry.disk.layout import adapter_content
from localllm.registry.disk.store import Store
from localllm.registry.names.digest import Digest, decode_digest, encode_digest
from localllm.registry.names.model_names import DEFAULT_TAG, Demo, parse
from localllm.registry.resolve import find, is_downloadable, resolve
from localllm.system.files import open_plain, remove_file, replace_file, write_whole
from localllm.types import Layers

MAX_RECORD_BYTES = 64 * 1024


class StoredAdapter(msgspec.Struct, frozen=True, kw_only=True):
    """One adapter under one name."""

    name: str
    base: str
    """The id of its model."""
    digest: Digest
    size_bytes: int
    scale: float = 1.0
    """Its strength where none is asked for."""
    layers: Layers | None = None
    """The only ones that it changes where no others are asked for."""
    invocation: tuple[int, ...] = ()
    """Of an activated adapter (aLoRA): the tokens from which on it works."""
    rank: int = 0
    source: str = ""
    """The file that it was added from."""
    created_at: str = ""
    """RFC 3339 in UTC."""

    @property
    def created_unix_s(self) -> int:
        """0: unknown."""
        try:
            return int(datetime.datetime.fromisoformat(self.created_at).timestamp())
        except ValueError:
            return 0


class Shelf:
    """The folder of one data directory, which need not exist. Any thread."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.folder = data_dir / "adapters"

    def stamp(self) -> int:
        """Another number after adapters were added or removed."""
        try:
            return os.stat(self.folder).st_mtime_ns
        except OSError:
            return 0

    def all(self) -> list[StoredAdapter]:
        """By name; files that are no records are left out."""
        try:
            names = sorted(path.stem for path in self.folder.glob("*.json"))
        except OSError:
            return []
        return [found for name in names if (found := self.find(name)) is not None]

    def find(self, name: str) -> StoredAdapter | None:
        """The adapter of that name, if it was added."""
        try:
            path = self.folder / f"{checked_name(name)}.json"
            with open(path, "rb") as file:
                raw = file.read(MAX_RECORD_BYTES)
            found = msgspec.json.decode(raw, type=StoredAdapter, dec_hook=decode_digest)
        except (OSError, InvalidParameter, msgspec.DecodeError):
            return None
        return found if found.name == name else None

    def path(self, adapter: StoredAdapter) -> Path:
        """Its content."""
        return adapter_content(self.folder, adapter.digest)

    def check(self, base: str, name: str) -> None:
        """Raises what `add` would raise for this name and this model, before anything is fetched."""
        self._check_free(checked_name(name))
        resolve(base, self._data_dir).release()

    def add(
        self,
        base: str,
        name: str,
        file: Path,
        scale: float = 1.0,
        *,
        layers: Layers | None = None,
        source: str = "",
    ) -> StoredAdapter:
        """Checks the file against the model, and keeps a copy; converts a PEFT folder first. `source`: where it is
        from, if not that file.

        Raises `UnsupportedParameter` for a folder whose adapter cannot be expressed, `InvalidParameter` for a name that
        is taken or not valid, `ModelNotFound`, `InvalidModelFile`, `LoadFailed`, `DiskFull`.
        """
        self._check_free(checked_name(name))
        model = resolve(base, self._data_dir)
        converted = self.folder / f".tmp-{os.getpid()}-{checked_name(name)}.gguf"
        try:
            if model.is_bare:
                raise InvalidParameter(
                    f"{clipped(base)} is a file; an adapter is added to the name of a model (localllm list), or given "
                    "with --lora",
                    param="model",
                )
            if file.is_dir():
                from localllm.registry.peft.converting import convert  # NumPy

                with disk_errors_are_clear(self._data_dir):
                    self.folder.mkdir(parents=True, exist_ok=True)
                    convert(file, model.path, converted, name=name)
                info, digest = read_adapter(converted, model.path, layers), self._keep(converted)
            else:
                info, digest = read_adapter(file, model.path, layers), self._keep(file)
        finally:
            model.release()
            remove_file(converted)
        found = StoredAdapter(
            name=name,
            base=model.id,
            digest=digest,
            size_bytes=info.size_bytes,
            scale=scale,
            layers=layers,
            invocation=info.invocation,
            rank=info.rank,
            source=source or str(file),
            created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )
        with disk_errors_are_clear(self._data_dir):
            raw = msgspec.json.format(msgspec.json.encode(found, enc_hook=encode_digest), indent=2)
            write_whole(self.folder / f"{name}.json", raw + b"\n")
        return found

    def remove(self, name: str) -> StoredAdapter:
        """Forgets it, and deletes its content unless another has the same. Raises `ModelNotFound`."""
        found = self.find(name)
        if found is None:
            raise ModelNotFound(
                f"no adapter is called {clipped(name, MAX_NAME_CHARS)!r}; localllm lora list shows them", param="name"
            )
        remove_file(self.folder / f"{name}.json")
        if all(other.digest != found.digest for other in self.all()):
            remove_file(self.path(found))
        return found

    def _check_free(self, name: str) -> None:
        if self.find(name) is not None:
            raise InvalidParameter(
                f"an adapter is already called {name}; localllm lora remove {name} removes it", param="name"
            )
        wanted = parse(name)
        is_model = isinstance(wanted, Demo) or is_downloadable(name) or name == DEFAULT_TAG
        if is_model or find(wanted, Store(self._data_dir / "models")) is not None:
            raise InvalidParameter(f"{name} is the name of a model; choose another for the adapter", param="name")

    def _keep(self, file: Path) -> Digest:
        with disk_errors_are_clear(self._data_dir):
            self.folder.mkdir(parents=True, exist_ok=True)
            fd = open_plain(file, os.O_RDONLY)
            try:
                temporary = self.folder / f".tmp-{os.getpid()}-{file.stat().st_ino}"
                digest = copy_file(fd, temporary, None, None)
            finally:
                os.close(fd)
            replace_file(temporary, adapter_content(self.folder, digest))
        return digest


def digest_of(file: Path) -> Digest:
    """Of a file's content. Raises `InvalidModelFile` if it cannot be read."""
    try:
        fd = open_plain(file, os.O_RDONLY)
    except OSError as error:
        raise InvalidModelFile(f"{file.name} cannot be read: {error.strerror or error}", path=str(file)) from None
    try:
        return hash_file(fd, None, None)
    finally:
        os.close(fd)
