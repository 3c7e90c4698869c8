"""The model store: blobs by digest and models by name, on disk, safe against crashes and concurrent processes.

Guarantees: a model is listed only once all its files are complete and flushed; a blob is never seen half written;
`gc` keeps what a manifest, a running pull or a loaded model needs; content is trusted until `verify`. Begin: `layout`.

Knows nothing of networks, of GGUF, or of which model a short name means. All methods may be called from any thread.
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
from localllm.registry.disk.blobs import MISSING, Blobs, make_writable_partial
from localllm.registry.disk.files import hash_file
from localllm.registry.disk.gc import KEEP_PARTIALS_S, Collector, GcReport, view_line
from localllm.registry.disk.intake import GONE, How, Intake, Request, fault_of_reference
from localllm.registry.disk.layout import Layout, id_of
from localllm.registry.disk.locks import Hold, Locks
from localllm.registry.disk.manifests import DamagedManifest, Manifests
from localllm.registry.disk.uploads import Upload
from localllm.registry.disk.views import Shard, open_view, shards_of, view_id
from localllm.registry.manifest import Manifest, Role, StoredFile
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import ModelName
from localllm.registry.remote import OnBytes
from localllm.system.files import free_bytes, open_ordinary

logger = logging.getLogger("localllm")
_READ_ONLY_DISK = (errno.EROFS, errno.EACCES, errno.EPERM)


class DamagedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a model that differs from its manifest."""

    file: StoredFile
    path: str
    reason: str
    """A phrase for messages that follows the path."""
    is_set_aside: bool = False
    """Whether it was moved away, so that the next pull fetches it again."""


class OpenModel:
    """A model whose files are protected from `gc` while this is open and its process lives."""

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
        """The path for llama.cpp: for a split model the first shard, with the others beside it."""
        self.projector = projector
        self._hold = hold
        self._on_close = on_close

    def close(self) -> None:
        """Ends the protection, and deletes the files if the model was removed meanwhile. Idempotent."""
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

    # --- Blobs --------------------------------------------------------------------------------------------------------

    def blob_path(self, digest: Digest) -> Path:
        """The path of a blob, whether or not it exists."""
        return self._layout.blob(digest)

    def has_blob(self, digest: Digest, size_bytes: int | None) -> bool:
        """Whether the blob exists and looks intact, without reading it. It stays if it was added to a `hold` before."""
        return self._blobs.fault(digest, size_bytes) is None

    def partial(self, key: str) -> Path:
        """The partial file of the download with this key (a digest's text or a URL); the same in every process.

        Only for the holder of the key's `claim`, who may put notes beside it under the same path with a suffix.
        """
        path = self._layout.partial(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        make_writable_partial(path)
        return path

    @contextlib.contextmanager
    def claim(
        self, key: str, *, cancel: threading.Event | None = None, waiting: Callable[[int], None] | None = None
    ) -> Iterator[Path]:
        """Claims the partial of this key, exclusively among all processes, until the block or this process ends.

        While another process has the claim, `waiting` is called now and then with the bytes it has fetched. Check
        `has_blob` again afterwards. Raises `Cancelled`.
        """
        path = self._layout.partial(key)
        report = None if waiting is None else lambda: waiting(_bytes_on_disk(path))
        with self._locks.claim(id_of(key), cancel=cancel, waiting=report):
            yield self.partial(key)

    def hold(self, what: str, *digests: Digest) -> Hold:
        """Protects blobs from `gc` that no manifest names yet; a context manager. `what` is for users: `pull of x`.

        A pull adds every digest as soon as it is known, before it calls `has_blob`, and closes the hold after `put`.
        """
        return self._locks.hold(what, tuple(map(str, digests)))

    def publish(self, partial: Path, digest: Digest, *, hold: Hold | None = None) -> Path:
        """Turns a complete partial, whose digest the caller has computed, into a blob.

        Without a hold, `gc` may delete the blob once it is older than the limit for partials.
        """
        return self._blobs.publish(partial, digest, hold)

    def add_bytes(
        self, data: bytes, *, file_name: str = "data.bin", role: Role = "model", hold: Hold | None = None
    ) -> StoredFile:
        """Adds a small file from memory."""
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
        """Adds a local file. It is read once, and checked against `digest` if that is given.

        `hashed`: the caller has just computed `digest` from this file, so it is not read again. The result has a `path`
        if the file is only referenced. Raises `ModelNotFound`, `InvalidParameter` if it cannot be added in this way,
        `LoadFailed` if it is damaged or being written, `DiskFull`, `Cancelled`.
        """
        request = Request(how, hold, on_bytes, cancel)
        return self._intake.add_file(
            path, digest=digest, hashed=hashed, role=role, file_name=file_name, request=request
        )

    @contextlib.contextmanager
    def upload(self) -> Iterator[Upload]:
        """Receives a file in pieces; an unfinished upload leaves nothing behind."""
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
        """The manifest of that name. Raises `InvalidModelFile` if it cannot be read."""
        return self._manifests.find(name)

    def scan(self) -> tuple[tuple[Manifest, ...], tuple[DamagedManifest, ...]]:
        """All models in order of their names, and all damaged manifests."""
        return self._manifests.scan()

    def list(self) -> tuple[Manifest, ...]:
        """All models with a readable manifest; lists should also show the damaged ones that `scan` reports."""
        return self.scan()[0]

    def put(self, manifest: Manifest) -> None:
        """Publishes the model, replacing any earlier one of that name, unless it is a version of a model.

        Raises `ModelNotFound` or `LoadFailed` if one of its files is missing, `InvalidParameter`, `InvalidModelFile`.
        """
        self._manifests.check(manifest)
        with self._locks.gate(exclusive=False):
            for file in manifest.files:
                self.locate(manifest, file)
            self._manifests.write(manifest)
            for file in manifest.files:
                self._blobs.forget_fetched(file.digest)

    def remove_damaged(self, damaged: DamagedManifest) -> None:
        """Removes a damaged manifest that `scan` found."""
        with self._locks.gate(exclusive=False):
            self._manifests.remove_damaged(damaged)

    def remove(self, name: ModelName) -> Manifest:
        """Removes a model, even if it is loaded. The next `gc` deletes its files unless something else needs them.

        Raises `ModelNotFound`, and `InvalidModelFile` for a manifest that cannot be read.
        """
        with self._locks.gate(exclusive=False) if self.root.is_dir() else contextlib.nullcontext():
            manifest = self._existing(name)
            self._manifests.remove(name)
        return manifest

    def copy(self, source: ModelName, destination: ModelName) -> Manifest:
        """Gives a model a second name, at no cost in disk space. Raises what `find` and `put` raise."""
        manifest = msgspec.structs.replace(self._existing(source), name=str(destination), created_at=now_text())
        self.put(manifest)
        return manifest

    def _existing(self, name: ModelName) -> Manifest:
        manifest = self.find(name)
        if manifest is None:
            raise ModelNotFound(f"{name} is not on this machine; localllm list shows what is", param="model")
        return manifest

    def locate(self, manifest: Manifest, file: StoredFile) -> Path:
        """The current path of a model's file. Raises `ModelNotFound` or `LoadFailed` with the remedy."""
        path, kind, fault = self._found(file)
        if kind is None:
            return path
        before, remedy = f"{manifest.name} lacks {file.file_name}: ", again(manifest)
        if file.path is not None:
            before = f"{manifest.name} uses a file outside the store, and "
            remedy = "put the file back, add it again with localllm import, or remove the model: localllm rm "
            remedy += manifest.name
        public = f"{before}it {fault}; {remedy}"
        raise kind(f"{before}{path} {fault}; {remedy}", public=public, path=str(path))

    def _found(self, file: StoredFile) -> tuple[Path, type[ModelNotFound | LoadFailed] | None, str]:
        """The file's path; and if it cannot be used, the error and a phrase that follows the path."""
        blob = self.blob_path(file.digest)
        if file.path is not None:
            path = Path(file.path)
            reason = fault_of_reference(path, file.size_bytes, file.modified_ns)
            if reason is None:
                return path, None, ""
            if self._blobs.fault(file.digest, file.size_bytes) is None:  # the store got its content in another way
                return blob, None, ""
            return path, ModelNotFound if reason == GONE else LoadFailed, reason
        fault = self._blobs.fault(file.digest, file.size_bytes)
        if fault is None:
            return blob, None, ""
        if fault != MISSING:
            return blob, LoadFailed, fault
        is_aside = self._layout.damaged(file.digest).exists()
        return blob, ModelNotFound, "was damaged and has been set aside" if is_aside else fault

    def open_model(self, manifest: Manifest) -> OpenModel:
        """Opens a model: its files are checked by size (and modification time, if another program may change them)
        and protected until it is closed.

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
        """Deletes files removed while they were loaded, on a thread, since deleting large files can take time."""
        if any(map(self._blobs.leaves, digests)):
            ids = frozenset(line.removeprefix(view_line("")) for line in needed)
            threading.Thread(target=self._collect_leaving, args=(ids,), name="leaving").start()

    def _collect_leaving(self, ids: frozenset[str]) -> None:
        collector = Collector(self._layout, self._locks, self._blobs, self._manifests)
        try:
            collector.collect_leaving(ids)
        except (LocalLLMError, OSError) as error:  # the next `gc` deletes them
            logger.warning("not_deleted", extra={"fields": {"reason": str(error)}})

    def _hold_if_writable(self, what: str, lines: tuple[str, ...]) -> Hold | None:
        """None on a read-only disk, as in a container, where nothing can be deleted anyway."""
        try:
            return self._locks.hold(what, lines)
        except OSError as error:
            if error.errno not in _READ_ONLY_DISK:
                raise
            return None

    def verify(
        self, manifest: Manifest, on_bytes: OnBytes | None = None, cancel: threading.Event | None = None
    ) -> tuple[DamagedFile, ...]:
        """Reads every file of a model; returns those that differ from the manifest. Raises `Cancelled`."""
        found = (self.verify_file(file, on_bytes, cancel) for file in manifest.files)
        return tuple(one for one in found if one is not None)

    def verify_file(
        self,
        file: StoredFile,
        on_bytes: OnBytes | None = None,
        cancel: threading.Event | None = None,
        *,
        set_aside: bool = False,
    ) -> DamagedFile | None:
        """Reads one file of a model; None if it is intact. `set_aside` moves damaged blobs away. Raises `Cancelled`."""
        blob = self.blob_path(file.digest)
        examined = self._blobs.state(file.digest)
        path, kind, fault = self._found(file)
        reason = _wrong_content(path, file, on_bytes, cancel) if kind is None else fault
        if reason is None:
            return None
        moves = set_aside and path == blob and examined is not None and self._blobs.set_aside(file.digest, examined)
        return DamagedFile(file=file, path=str(path), reason=reason, is_set_aside=moves)

    # --- Disk space ---------------------------------------------------------------------------------------------------

    def gc(self, *, dry_run: bool = False, keep_partials_s: float = KEEP_PARTIALS_S) -> GcReport:
        """Deletes what nothing needs, and unfinished downloads untouched for `keep_partials_s`."""
        collector = Collector(self._layout, self._locks, self._blobs, self._manifests)
        return collector.collect(dry_run=dry_run, keep_partials_s=keep_partials_s)

    def free_bytes(self) -> int:
        """Free space on the store's disk, as available to this user."""
        return free_bytes(self.root)

    def require_room(self, needed_bytes: int) -> None:
        """Raises `DiskFull`, with both numbers, if fewer than `needed_bytes` are free."""
        free = self.free_bytes()
        if needed_bytes > free:
            raise DiskFull(
                f"{needed_bytes:,} bytes are needed on the disk of {self.root}, and {free:,} are free; free some "
                "space, for example with localllm rm and localllm gc, or set --home or LOCALLLM_HOME to a larger disk",
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
    return None if found == file.digest else f"is damaged: its sha256 is {found.hex} instead of {file.digest.hex}"
