"""Fetches an adapter from a repository on Hugging Face: a PEFT folder, or a GGUF file. Verified as models are.

Knows nothing of bases, and of how progress is shown.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from localllm.errors import InvalidParameter, ModelNotFound, PullFailed
from localllm.registry.disk.store import Store
from localllm.registry.fetch.configured import check_online, net_of
from localllm.registry.fetch.download import download
from localllm.registry.fetch.net import Net
from localllm.registry.fetch.partial import discard
from localllm.registry.listing import store_of
from localllm.registry.logins.credentials import hub_token
from localllm.registry.names.model_names import HubFile, HubRepo
from localllm.registry.peft.config import FILE as CONFIG
from localllm.registry.peft.config import MAX_BYTES as MAX_CONFIG_BYTES
from localllm.registry.remote import RemoteFile
from localllm.registry.sources.choose import ListedFile
from localllm.registry.sources.hugging_face_api import PEFT_WEIGHTS, Hub, Listing
from localllm.registry.sources.source import CancellableFetch, checked_file_name, clean
from localllm.settings.config import Settings
from localllm.system.files import replace_file

MAX_SHOWN = 5
CHUNK_BYTES = 1024 * 1024
SHA256_DIGITS = 64


class PulledAdapter(NamedTuple):
    """An adapter's files, while they are there."""

    path: Path
    """A GGUF file, or a PEFT folder."""
    source: str
    """With the commit."""


class _Repository(NamedTuple):
    """What fetching from it takes."""

    net: Net
    fetch: CancellableFetch
    hub: Hub
    listing: Listing
    store: Store


@contextmanager
def pulled_adapter(
    settings: Settings,
    name: HubRepo | HubFile,
    *,
    on_bytes: Callable[[int], None],
    cancel: threading.Event,
) -> Iterator[PulledAdapter]:
    """Downloads it into a folder that is removed afterwards. What an interrupted download has fetched is kept.

    `on_bytes` is called with the number of new bytes. Raises `ModelNotFound`, `AccessDenied`, `PullFailed`,
    `InvalidParameter`, `DiskFull`, `Cancelled`.
    """
    check_online()
    store, net = store_of(settings.data_dir), net_of(settings)
    folder: Path | None = None
    try:
        fetch = CancellableFetch(net, cancel, is_patient=True)
        hub = Hub(fetch, settings.hub_endpoint, hub_token())
        listing = hub.listing(name.repo, name.revision)
        repository = _Repository(net, fetch, hub, listing, store)
        store.root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".adapter-", dir=store.root))
        path = _fetched(repository, name, folder, on_bytes)
        yield PulledAdapter(path, f"hf.co/{listing.repo}@{listing.commit}")
    finally:
        net.close()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _fetched(repository: _Repository, name: HubRepo | HubFile, folder: Path, on_bytes: Callable[[int], None]) -> Path:
    listing = repository.listing
    by_name = {file.path: file for file in (*listing.peft, *listing.files)}
    if isinstance(name, HubRepo) and name.quant is None and CONFIG in by_name:
        if PEFT_WEIGHTS not in by_name:
            raise ModelNotFound(
                f"{listing.repo} has {CONFIG}, but no {PEFT_WEIGHTS}; pickled files may run code and are not read",
                param="file",
            )
        _fetch_config(repository, by_name[CONFIG], folder / CONFIG)
        _fetch(repository, by_name[PEFT_WEIGHTS], folder / PEFT_WEIGHTS, on_bytes)
        return folder
    file = _gguf(name, listing)
    target = folder / checked_file_name(file.name, repository.hub.host)
    _fetch(repository, file, target, on_bytes)
    return target


def _gguf(name: HubRepo | HubFile, listing: Listing) -> ListedFile:
    if isinstance(name, HubFile):
        found = [file for file in listing.files if file.path == name.path]
    else:
        quant = (name.quant or "").lower()
        found = [file for file in listing.files if quant in file.name.lower()]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ModelNotFound(
            f"{name} is no adapter: the repository has neither {CONFIG} nor such a GGUF file", param="file"
        )
    names = ", ".join(clean(file.path) for file in found[:MAX_SHOWN])
    raise InvalidParameter(
        f"{listing.repo} has {len(found)} GGUF files; name one as hf:{listing.repo}/FILE: {names}", param="file"
    )


def _fetch_config(repository: _Repository, file: ListedFile, target: Path) -> None:
    hub = repository.hub
    url = hub.file_url(repository.listing, CONFIG)
    response = repository.fetch.get_small(
        url, credential=hub.credential, named_by_user=hub.named_by_user, max_bytes=MAX_CONFIG_BYTES
    )
    if response.status != 200:
        raise PullFailed(f"{hub.host} answers {response.status} for {CONFIG} of {repository.listing.repo}")
    target.write_bytes(response.body)
    _verify(file, target, hub.host)


def _fetch(repository: _Repository, file: ListedFile, target: Path, on_bytes: Callable[[int], None]) -> None:
    """Through the store's partial file, so that a later try resumes, and two at a time share a download."""
    hub, store = repository.hub, repository.store
    remote = RemoteFile(
        file_name=checked_file_name(file.name, hub.host),
        url=hub.file_url(repository.listing, file.path),
        named_by_user=hub.named_by_user,
        size_bytes=file.size_bytes,
        digest=file.digest,
        credential=hub.credential,
    )
    key, cancel = str(file.digest) if file.digest is not None else remote.url, repository.fetch.cancel
    with store.claim(key, cancel=cancel) as partial:
        download(remote, partial, net=repository.net, on_bytes=on_bytes, cancel=cancel, require_room=store.require_room)
        replace_file(partial, target)
        discard(partial)
    if file.digest is None:
        _verify(file, target, hub.host)


def _verify(file: ListedFile, path: Path, host: str) -> None:
    """Raises `PullFailed` if the content is not what the hub lists: its sha256, or git's hash where there is none."""
    listed = file.git_id if file.digest is None else file.digest.hex
    if listed is None:
        return
    made = hashlib.sha256() if len(listed) == SHA256_DIGITS else hashlib.sha1(usedforsecurity=False)
    if file.digest is None:
        made.update(b"blob %d\0" % path.stat().st_size)
    with open(path, "rb") as opened:
        while chunk := opened.read(CHUNK_BYTES):
            made.update(chunk)
    if made.hexdigest() != listed:
        raise PullFailed(
            f"{clean(file.path)} arrived from {host} with other content than it lists; try again later",
            expected=listed,
            received=made.hexdigest(),
        )
