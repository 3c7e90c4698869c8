"""The model store: contents by digest, models by name, both on disk and safe against crashes and other processes.

What it promises: a model that is listed has had all its files, whole and flushed, before it appeared; a blob is never
seen half written; `gc` leaves what any manifest, running pull or loaded model needs (how: `gc.py`). What is in a blob
is believed until `verify`. A store is made when something is put into it, not before. `layout.py` draws it.

Knows nothing of the net, of GGUF, or of which model a short name means. All methods may be called from any thread.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import functools
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from localllm.errors import DiskFull, LoadFailed, LocalLLMError, ModelNotFound
from localllm.registry.again import again
from localllm.registry.digest import Digest
from localllm.registry.disk.blobs import MISSING, Blobs, make_writable_partial
from localllm.registry.disk.files import free_bytes, hash_file, open_ordinary
from localllm.registry.disk.gc import KEEP_PARTIALS_S, Collector, GcReport, view_line
from localllm.registry.disk.intake import GONE, How, Intake, Request, fault_of_reference
from localllm.registry.disk.layout import Layout, id_of
from localllm.registry.disk.locks import Hold, Locks
from localllm.registry.disk.manifests import DamagedManifest, Manifests
from localllm.registry.disk.uploads import Upload
from localllm.registry.disk.views import Shard, open_view, shards_of, view_id
from localllm.registry.manifest import Manifest, Role, StoredFile
from localllm.registry.names import ModelName
from localllm.registry.remote import OnBytes

logger = logging.getLogger("localllm")
_READ_ONLY_DISK = (errno.EROFS, errno.EACCES, errno.EPERM)


class DamagedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a model that is not what the manifest says."""

    file: StoredFile
    path: str
    reason: str
    """A phrase for people, following the path."""
    is_set_aside: bool = False
    """It has left its place, so that the next pull fetches it."""


class OpenModel:
    """A model whose files stay as long as this is open, or as its process lives."""

    def __init__(
        self,
        manifest: Manifest,
        path: Path,
        projector: Path | None,
        hold: Hold | None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.manifest = manifest
        self.path = path
        """For llama.cpp; of a split model the first shard, with the others beside it."""
        self.projector = projector
        self._hold = hold
        self._on_close = on_close

    def close(self) -> None:
        """From now on `gc` may take what no manifest needs, and what it would have taken before goes. Twice is fine."""
        if self._hold is not None:
            self._hold.close()
            self._hold = None
            self._on_close()

    def __enter__(self) -> OpenModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Store:
    """The store in one folder, usually `models` in the data directory."""

    def __init__(self, root: Path) -> None:
        self._layout = Layout(root)
        self._locks = Locks(self._layout)
        self._blobs = Blobs(self._layout, self._locks)
        self._manifests = Manifests(self._layout)
        self._intake = Intake(self._layout, self._locks, self._blobs)

    @property
    def root(self) -> Path:
        return self._layout.root

    # --- Contents -----------------------------------------------------------------------------------------------------

    def blob_path(self, digest: Digest) -> Path:
        """Where a content lies, or would."""
        return self._layout.blob(digest)

    def has_blob(self, digest: Digest, size_bytes: int | None) -> bool:
        """Whether it is there, as far as that shows without reading it. It stays if it was added to a `hold` before."""
        return self._blobs.fault(digest, size_bytes) is None

    def partial(self, key: str) -> Path:
        """Where a download with this key (a digest's text, or a URL) collects its bytes; the same in every process.

        Only under the `claim` of the key. Notes of the downloader may lie beside it, as the path and `.something`.
        """
        path = self._layout.partial(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        make_writable_partial(path)
        return path

    @contextlib.contextmanager
    def claim(
        self, key: str, *, cancel: threading.Event | None = None, waiting: Callable[[int], None] | None = None
    ) -> Iterator[Path]:
        """The partial of this key is ours alone, among all processes; it ends when this process does.

        While somebody else has it, `waiting` hears now and then how many bytes that one has. Afterwards ask `has_blob`
        again. Raises `Cancelled`.
        """
        path = self._layout.partial(key)
        tell = None if waiting is None else lambda: waiting(_bytes_on_disk(path))
        with self._locks.claim(id_of(key), cancel=cancel, waiting=tell):
            yield self.partial(key)

    def hold(self, what: str, *digests: Digest) -> Hold:
        """Keeps contents from `gc` that no manifest names yet; a context manager. `what` is for people: `pull of x`.

        A pull adds every digest as soon as it knows it, before it asks `has_blob`, and closes the hold after `put`.
        """
        return self._locks.hold(what, tuple(map(str, digests)))

    def publish(self, partial: Path, digest: Digest, *, hold: Hold | None = None) -> Path:
        """Turns a complete partial, whose digest the caller has computed, into a blob.

        Without a hold, `gc` may take the blob once it is older than `gc`'s limit for partials.
        """
        return self._blobs.publish(partial, digest, hold)

    def add_bytes(
        self, data: bytes, *, file_name: str = "data.bin", role: Role = "model", hold: Hold | None = None
    ) -> StoredFile:
        """A small content."""
        return self._intake.add_bytes(data, file_name=file_name, role=role, hold=hold)

    def add_file(
        self,
        path: Path,
        *,
        digest: Digest | None = None,
        hashed: bool = False,
        how: How = "auto",
        role: Role = "model",
        file_name: str | None = None,
        hold: Hold | None = None,
        on_bytes: OnBytes | None = None,
        cancel: threading.Event | None = None,
    ) -> StoredFile:
        """Takes in a file of this machine. It is read once, and checked against `digest` if there is one.

        `hashed`: the caller has just computed `digest` from this file, and it is not read. The answer has a `path` if
        the file stays where it is. Raises `ModelNotFound`, `InvalidParameter` if it cannot be taken in so,
        `LoadFailed` if it is damaged or being written, `DiskFull`, `Cancelled`.
        """
        request = Request(how, hold, on_bytes, cancel)
        return self._intake.add_file(
            path, digest=digest, hashed=hashed, role=role, file_name=file_name, request=request
        )

    @contextlib.contextmanager
    def upload(self) -> Iterator[Upload]:
        """A content that arrives in pieces; of one that is not finished nothing stays."""
        with self.scratch(f"upload:{secrets.token_hex(16)}") as path:
            upload = Upload(path, self.root, self.publish)
            try:
                yield upload
            finally:
                upload.close()

    def scratch(self, key: str) -> contextlib.AbstractContextManager[Path]:
        """A private path for a file under construction; whatever is there at the end is deleted."""
        return self._intake.temporary(key)

    def discard(self, digest: Digest) -> None:
        """Deletes a blob that is damaged or not a model, even if a manifest needs it; it can be fetched again."""
        with self._locks.gate(exclusive=True):
            self._blobs.remove(digest)

    # --- Models -------------------------------------------------------------------------------------------------------

    def find(self, name: ModelName) -> Manifest | None:
        """Raises `InvalidModelFile` if its manifest cannot be read."""
        return self._manifests.find(name)

    def scan(self) -> tuple[tuple[Manifest, ...], tuple[DamagedManifest, ...]]:
        """All models in the order of their names, and the manifests that cannot be read."""
        return self._manifests.scan()

    def list(self) -> tuple[Manifest, ...]:
        """All readable models; lists should also show what `scan` reports about the others."""
        return self.scan()[0]

    def put(self, manifest: Manifest) -> None:
        """The model is there from now on, in the place of an earlier one of that name.

        Raises `ModelNotFound` or `LoadFailed` if one of its files is not there, `InvalidParameter`, `InvalidModelFile`.
        """
        self._manifests.check(manifest)
        with self._locks.gate(exclusive=False):
            for file in manifest.files:
                self.locate(manifest, file)
            self._manifests.write(manifest)
            for file in manifest.files:
                self._blobs.forget_fetched(file.digest)

    def remove_damaged(self, damaged: DamagedManifest) -> None:
        """Forgets one that `scan` found."""
        with self._locks.gate(exclusive=False):
            self._manifests.remove_damaged(damaged)

    def remove(self, name: ModelName) -> Manifest:
        """Forgets a model; its contents go with the next `gc`, unless they are needed. It may be loaded.

        Raises `ModelNotFound`, and `InvalidModelFile` for a manifest that cannot be read.
        """
        with self._locks.gate(exclusive=False) if self.root.is_dir() else contextlib.nullcontext():
            manifest = self._existing(name)
            self._manifests.remove(name)
        return manifest

    def copy(self, source: ModelName, destination: ModelName) -> Manifest:
        """A second name for a model, which costs nothing. Raises what `find` and `put` do."""
        manifest = msgspec.structs.replace(self._existing(source), name=str(destination), created_at=now_text())
        self.put(manifest)
        return manifest

    def _existing(self, name: ModelName) -> Manifest:
        manifest = self.find(name)
        if manifest is None:
            raise ModelNotFound(f"{name} is not on this machine; localllm list shows what is", param="model")
        return manifest

    def locate(self, manifest: Manifest, file: StoredFile) -> Path:
        """Where a file of a model lies now. Raises `ModelNotFound` or `LoadFailed` with the remedy."""
        name, blob = manifest.name, self.blob_path(file.digest)
        if file.path is not None:
            path = Path(file.path)
            reason = fault_of_reference(path, file.size_bytes, file.modified_ns)
            if reason is None:
                return path
            if self._blobs.fault(file.digest, file.size_bytes) is None:  # its content has come in some other way
                return blob
            kind = ModelNotFound if reason == GONE else LoadFailed
            raise kind(
                f"{name} is kept outside of the store, and {path} {reason}; put the file back, take it in again with "
                f"localllm import, or forget the model: localllm rm {name}",
                path=str(path),
            )
        fault = self._blobs.fault(file.digest, file.size_bytes)
        if fault is None:
            return blob
        kind = ModelNotFound if fault == MISSING else LoadFailed
        if fault == MISSING and self._layout.damaged(file.digest).exists():
            fault = "was damaged and is set aside"
        raise kind(f"{name} lacks {file.file_name}: {blob} {fault}; {again(manifest)}", path=str(blob))

    def open_model(self, manifest: Manifest) -> OpenModel:
        """Its files, checked by size (and time, where another program may change them) and protected until it is
        closed.

        Raises `ModelNotFound`, `LoadFailed`.
        """
        shards = shards_of(manifest)
        id = view_id(shards)
        views = () if id is None else (view_line(id),)
        needed = (*(str(file.digest) for file in manifest.files), *views)
        hold = self._hold_if_writable(f"{manifest.name} is loaded", needed)
        try:
            path = open_view(self._layout, [Shard(file, self.locate(manifest, file)) for file in shards])
            projectors = [self.locate(manifest, file) for file in manifest.files if file.role == "projector"]
        except BaseException:
            if hold is not None:
                hold.close()
            raise
        closed = functools.partial(self._closed, frozenset(needed), tuple(file.digest for file in manifest.files))
        return OpenModel(manifest, path, projectors[0] if projectors else None, hold, closed)

    def _closed(self, needed: frozenset[str], digests: tuple[Digest, ...]) -> None:
        """Deletes what was removed while it was loaded, on a thread: deleting large files can take time."""
        if any(map(self._blobs.leaves, digests)):
            ids = frozenset(line.removeprefix(view_line("")) for line in needed)
            threading.Thread(target=self._collect_left, args=(ids,), name="leaving").start()

    def _collect_left(self, ids: frozenset[str]) -> None:
        collector = Collector(self._layout, self._locks, self._blobs, self._manifests)
        try:
            collector.collect_left(ids)
        except (LocalLLMError, OSError) as error:  # the next `gc` deletes them
            logger.warning("not_deleted", extra={"fields": {"reason": str(error)}})

    def _hold_if_writable(self, what: str, lines: tuple[str, ...]) -> Hold | None:
        """None on a read-only disk, as in a container: nothing can be deleted there."""
        try:
            return self._locks.hold(what, lines)
        except OSError as error:
            if error.errno not in _READ_ONLY_DISK:
                raise
            return None

    def verify(
        self, manifest: Manifest, on_bytes: OnBytes | None = None, cancel: threading.Event | None = None
    ) -> tuple[DamagedFile, ...]:
        """Reads every file of a model and says which are not what they should be. Raises `Cancelled`."""
        found = (self.verify_file(manifest, file, on_bytes, cancel) for file in manifest.files)
        return tuple(one for one in found if one is not None)

    def verify_file(
        self,
        manifest: Manifest,
        file: StoredFile,
        on_bytes: OnBytes | None = None,
        cancel: threading.Event | None = None,
        *,
        set_aside: bool = False,
    ) -> DamagedFile | None:
        """Reads one file of a model; None: it is what it should be. With `set_aside` a damaged blob leaves its place.

        Raises `Cancelled`.
        """
        blob = self.blob_path(file.digest)
        examined = self._blobs.state(file.digest)
        try:
            path = self.locate(manifest, file)
            reason = _wrong_content(path, file, on_bytes, cancel)
        except (ModelNotFound, LoadFailed) as error:
            path, reason = Path(file.path or blob), error.message
        if reason is None:
            return None
        moves = set_aside and path == blob and examined is not None and self._blobs.set_aside(file.digest, examined)
        return DamagedFile(file=file, path=str(path), reason=reason, is_set_aside=moves)

    # --- Room ---------------------------------------------------------------------------------------------------------

    def gc(self, *, dry_run: bool = False, keep_partials_s: float = KEEP_PARTIALS_S) -> GcReport:
        """Deletes what is not needed, and unfinished downloads not touched for `keep_partials_s`."""
        collector = Collector(self._layout, self._locks, self._blobs, self._manifests)
        return collector.collect(dry_run=dry_run, keep_partials_s=keep_partials_s)

    def free_bytes(self) -> int:
        """On the disk of the store, for this user."""
        return free_bytes(self.root)

    def require_room(self, needed_bytes: int) -> None:
        """Raises `DiskFull` with both numbers if so much more does not fit."""
        free = self.free_bytes()
        if needed_bytes > free:
            raise DiskFull(
                f"{needed_bytes:,} bytes are needed on the disk of {self.root}, and {free:,} are free; delete "
                "something, for example with localllm rm and localllm gc, or set LOCALLLM_HOME to a larger disk",
                public=f"{needed_bytes:,} bytes are needed on the server's disk, and {free:,} are free",
                needed_bytes=needed_bytes,
                free_bytes=free,
            )


def now_text() -> str:
    """For `Manifest.created_at`."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _bytes_on_disk(path: Path) -> int:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return 0
    return min(found.st_size, getattr(found, "st_blocks", found.st_size) * 512)


def _wrong_content(
    path: Path, file: StoredFile, on_bytes: OnBytes | None, cancel: threading.Event | None
) -> str | None:
    fd = open_ordinary(Path(os.path.realpath(path)))
    if fd is None:
        return "is not a regular file"
    try:
        found = hash_file(fd, on_bytes, cancel)
    finally:
        os.close(fd)
    return None if found == file.digest else f"is damaged: its sha256 is {found.hex}, and should be {file.digest.hex}"
