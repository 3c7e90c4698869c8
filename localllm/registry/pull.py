"""From a name to a model in the store: asks the source, fetches missing files, verifies them, and only then lists the
model.

Two pulls of one model, in whatever processes, share one download. Knows nothing of HTTP, of files' formats beyond their
header, or of how progress is shown.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from localllm import osdep
from localllm.errors import InvalidModelFile, InvalidParameter, LoadFailed, PullFailed
from localllm.registry import catalog
from localllm.registry.credentials import hub_token, registry_login
from localllm.registry.digest import Digest
from localllm.registry.disk.locks import Hold
from localllm.registry.disk.store import now_text
from localllm.registry.fetch.download import download_all
from localllm.registry.fetch.job import Wanted
from localllm.registry.fetch.net import Net, NetOptions, SmallResponse, origin_of
from localllm.registry.fetch.partial import discard
from localllm.registry.fetch.width import Width
from localllm.registry.listing import described, store_of
from localllm.registry.manifest import Manifest, StoredFile
from localllm.registry.names import (
    CatalogName,
    Demo,
    HubFile,
    HubRepo,
    ModelName,
    PathName,
    RegistryName,
    UrlName,
    parse,
)  # fmt: skip
from localllm.registry.remote import PullPlan, RemoteFile
from localllm.registry.resolve import canonical, not_here
from localllm.registry.sources import hub, oci, web
from localllm.registry.sources.headers import Measure, Offer, plan_offer
from localllm.registry.sources.ollama_only import refused_header
from localllm.registry.sources.source import CancellableFetch, Fetch
from localllm.settings.config import Settings
from localllm.types import ModelInfo
from localllm.types.states import AvailableModel, PullState

OnState = Callable[[PullState], None]

GGUF_MAGIC = b"GGUF"
STATE_EVERY_S = 0.2
SPEED_OVER_S = 5.0
MEMORY_SHARE = 0.7
"""The share of memory for a model whose quantization was not named and whose need is estimated from its size."""
MEASURED_SHARE = 0.9
"""Likewise, where its header says what it needs: `supervisor.room.USABLE_SHARE`."""


class Puller:
    """A way out to the sources, with this user's settings; a context manager. For one thread at a time."""

    def __init__(self, settings: Settings, *, named_by_user: bool = True, measure: Measure | None = None) -> None:
        """Not `named_by_user`: names come from the network, and must lead to no private address.

        `measure`: memory that a model needs, by its header (`supervisor.fit.measure`); None: guessed by its size.
        """
        self._settings = settings
        self._measure = measure
        self._named_by_user = named_by_user
        self._store = store_of(settings.data_dir)
        self._endpoint = settings.hub_endpoint
        self._insecure = [host.strip() for host in settings.insecure_registries.split(",") if host.strip()]
        self._net = Net(
            NetOptions(
                proxy=settings.proxy,
                ca_file=settings.ca_file,
                max_bytes_per_s=settings.max_download_kb_per_s * 1024 or None,
                allow_private_hosts=settings.allow_private_downloads,
                patience_s=settings.download_patience_s,
            )
        )

    def __enter__(self) -> Puller:
        return self

    def __exit__(self, *_: object) -> None:
        self._net.close()

    def plan(self, text: str, cancel: threading.Event) -> PullPlan:
        """What a pull of this name would download now.

        Raises `InvalidParameter` for a name that is not a remote model's, `ModelNotFound`, `PullFailed`s.
        """
        return self._guarded_plan(canonical(parse(text)), self._way_out(cancel))

    def _way_out(self, cancel: threading.Event) -> Fetch:
        fetch = CancellableFetch(self._net, cancel)
        return fetch if self._named_by_user else _Guarded(fetch, {origin_of(self._endpoint)})

    def _guarded_plan(self, name: ModelName, fetch: Fetch) -> PullPlan:
        plan = self._plan(name, fetch)
        if not isinstance(fetch, _Guarded):
            return plan
        return dataclasses.replace(plan, files=tuple(fetch.restricted(file) for file in plan.files))

    def pull(
        self,
        text: str,
        *,
        on_plan: Callable[[PullPlan], None] = lambda _: None,
        on_state: OnState = lambda _: None,
        cancel: threading.Event,
    ) -> AvailableModel:
        """Fetches the model into the store, in its source's current version.

        Raises what `plan` raises, `DiskFull`, `InvalidModelFile` for what is not a model, `Cancelled`. What has arrived
        stays.
        """
        on_state(PullState(phase="looking", id=text))
        plan = self.plan(text, cancel)
        on_plan(plan)
        return self.fetch(plan, on_state=on_state, cancel=cancel)

    def offers(self, text: str, cancel: threading.Event) -> list[Offer]:
        """Every model that the name may mean, with its header, before anything is downloaded. Raises as `plan`."""
        name = canonical(parse(text))
        fetch = self._way_out(cancel)
        preferred: str | None = None
        if isinstance(name, CatalogName):
            entry = catalog.load().find(name.name, name.tag)
            if entry is None:
                raise not_here(name)
            name, preferred = HubRepo(entry.repo, None), entry.quant
        if isinstance(name, UrlName):
            name = web.hub_file(name) or name
        if isinstance(name, HubRepo | HubFile):
            self._check_online()
            return hub.offers(
                name,
                fetch,
                endpoint=self._endpoint,
                token=hub_token(),
                preferred=preferred,
                budget_bytes=self._budget_bytes(),
                measure=self._measure,
            )
        return [plan_offer(self._guarded_plan(name, fetch), fetch)]

    def search(self, words: str, limit: int, cancel: threading.Event | None = None) -> list[hub.HubHit]:
        """Repositories with GGUF files on Hugging Face. Raises `PullFailed`, `Cancelled`."""
        self._check_online()
        fetch = self._way_out(cancel or threading.Event())
        return hub.search(words, fetch, endpoint=self._endpoint, token=hub_token(), limit=limit)

    def fetch(self, plan: PullPlan, *, on_state: OnState, cancel: threading.Event) -> AvailableModel:
        """Downloads the files of a plan that are not in the store."""
        meter = _Meter(plan, on_state)
        with self._store.hold(f"pull of {plan.name}") as hold:
            stored, fetched = self._fetch_files(plan, hold, meter, cancel)
            manifest = _manifest(plan, stored)
            meter.tell("checking", force=True)
            try:
                info = self._check(manifest)
            except InvalidModelFile:
                for digest in fetched:
                    self._store.discard(digest)
                raise
            if manifest.template is None and not info.chat_templates:
                manifest = msgspec.structs.replace(manifest, template=plan.fallback_template)
            self._store.put(manifest)
        meter.tell("done", force=True)
        return described(manifest)

    def missing(self, plan: PullPlan) -> list[RemoteFile]:
        """Its files that are not in the store, each content once."""
        return [file for file in {_key(file): file for file in plan.files}.values() if not self._is_here(file)]

    def _plan(self, name: ModelName, fetch: Fetch) -> PullPlan:
        if isinstance(name, Demo):
            raise InvalidParameter("demo is a part of localllm and needs no download: localllm run demo", param="model")
        if isinstance(name, PathName):
            raise InvalidParameter(f"{name} is a file on this machine already: localllm run {name}", param="model")
        if isinstance(name, CatalogName):
            entry = catalog.load().find(name.name, name.tag)
            if entry is None:
                raise not_here(name)
            plan = self._plan(HubRepo(entry.repo, entry.quant), fetch)
            return dataclasses.replace(plan, name=str(name), license=plan.license or entry.license)
        if isinstance(name, RegistryName):
            login = registry_login(name.host)
            logins = {} if login is None else {name.host: login}
            return oci.plan(name, fetch, logins=logins, insecure_hosts=self._insecure)
        if isinstance(name, UrlName):
            file = web.hub_file(name)
            if file is None:
                return web.plan(name, fetch)
            return dataclasses.replace(self._plan(file, fetch), name=str(name))
        return self._hub_plan(name, fetch)

    def _check_online(self) -> None:
        """Raises `PullFailed` where the environment says, as for Hugging Face's own tools, that it is not asked."""
        if os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in ("1", "ON", "YES", "TRUE"):
            raise PullFailed(
                "HF_HUB_OFFLINE is set, so that Hugging Face is not asked; unset it to download from there"
            )

    def _hub_plan(self, name: HubRepo | HubFile, fetch: Fetch) -> PullPlan:
        self._check_online()
        return hub.plan(
            name,
            fetch,
            endpoint=self._endpoint,
            token=hub_token(),
            budget_bytes=self._budget_bytes(),
            measure=self._measure,
        )

    def _budget_bytes(self) -> int | None:
        total = osdep.total_memory()
        share = MEMORY_SHARE if self._measure is None else MEASURED_SHARE
        return None if total is None else int(total * share)

    def _fetch_files(
        self, plan: PullPlan, hold: Hold, meter: _Meter, cancel: threading.Event
    ) -> tuple[list[StoredFile], list[Digest]]:
        """The files of the plan, and the contents that were not here before."""
        for file in plan.files:
            if file.digest is not None:
                hold.add(file.digest)
        with contextlib.ExitStack() as claims:
            missing: dict[str, Wanted] = {}
            for key, file in sorted({_key(file): file for file in plan.files}.items()):
                if self._is_here(file):
                    meter.add(file.size_bytes or 0)
                    continue
                # In the order of their keys: two pulls with files in common never wait for each other.
                partial = claims.enter_context(self._store.claim(key, cancel=cancel, waiting=meter.others))
                if self._is_here(file):  # another process has fetched it meanwhile
                    meter.add(file.size_bytes or 0)
                    continue
                missing[key] = Wanted(file, partial, meter.add, GGUF_MAGIC)
            digests = download_all(
                list(missing.values()),
                net=self._net,
                width=Width(self._settings.download_connections),
                cancel=cancel,
                require_room=self._store.require_room,
                on_wait=meter.waiting,
            )
            fetched: dict[str, Digest] = {}
            for (key, wanted), digest in zip(missing.items(), digests, strict=True):
                self._store.publish(wanted.partial, digest, hold=hold)
                discard(wanted.partial)  # its note is left
                fetched[key] = digest
        stored = [self._stored(file, fetched.get(_key(file)) or file.digest) for file in plan.files]
        return stored, list(fetched.values())

    def _is_here(self, file: RemoteFile) -> bool:
        return file.digest is not None and self._store.has_blob(file.digest, file.size_bytes)

    def _stored(self, file: RemoteFile, digest: Digest | None) -> StoredFile:
        assert digest is not None, "it was here by its digest, or fetched, which tells it"
        size_bytes = self._store.blob_path(digest).stat().st_size
        return StoredFile(role=file.role, file_name=file.file_name, size_bytes=size_bytes, digest=digest)

    def _check(self, manifest: Manifest) -> ModelInfo:
        """What the file's header says.

        Raises `InvalidModelFile` for a file that is not a GGUF model, `LoadFailed` for one that only Ollama can read.
        """
        from localllm.gguf import read_header, read_model_info

        with self._store.open_model(manifest) as opened:
            try:
                info = read_model_info(opened.path)
                header = read_header(opened.path)
            except InvalidModelFile as error:
                raise InvalidModelFile(f"what {manifest.source} gave is not a usable model: {error.message}") from error
            architecture = header.metadata["general.architecture"].value
            reason = refused_header(str(architecture), (tensor.name for tensor in header.tensors))
            if reason is not None:
                raise LoadFailed(f"{manifest.name}: {reason}", param="model")
        return info


class _Guarded:
    """A way out for names from the network: only what this user configured may be a private address."""

    def __init__(self, fetch: Fetch, configured: set[str]) -> None:
        self._fetch = fetch
        self._configured = configured

    def get_small(self, url: str, *, named_by_user: bool = False, **rest: Any) -> SmallResponse:
        return self._fetch.get_small(url, named_by_user=named_by_user and self._may(url), **rest)

    def restricted(self, file: RemoteFile) -> RemoteFile:
        return dataclasses.replace(file, named_by_user=file.named_by_user and self._may(file.url))

    def _may(self, url: str) -> bool:
        return origin_of(url) in self._configured


class _Meter:
    """Bytes from several threads to a state now and then."""

    def __init__(self, plan: PullPlan, on_state: OnState) -> None:
        self._plan = plan
        self._on_state = on_state
        self._lock = threading.Lock()
        self._done = 0
        self._others = 0
        self._waiting = "", 0.0
        self._told_s = 0.0
        self._history: list[tuple[float, int]] = []

    def add(self, num_bytes: int) -> None:
        with self._lock:
            self._done += num_bytes
            self._others = 0
            self._waiting = "", 0.0
        self.tell("downloading")

    def others(self, num_bytes: int) -> None:
        """Another pull has so much of the file that we wait for."""
        with self._lock:
            self._others = num_bytes
        self.tell("downloading")

    def waiting(self, host: str, seconds: float) -> None:
        """Nothing has come from the host for so long."""
        self._waiting = host, seconds
        self.tell("downloading", force=True)

    def tell(self, phase: Any, *, force: bool = False) -> None:
        now = time.monotonic()
        with self._lock:
            if not force and now - self._told_s < STATE_EVERY_S:
                return
            self._told_s = now
            done = self._done + self._others
            self._history = [(then, had) for then, had in self._history if now - then <= SPEED_OVER_S] + [(now, done)]
            then, had = self._history[0]
            speed = (done - had) / (now - then) if now - then >= STATE_EVERY_S and phase == "downloading" else None
        plan = self._plan
        self._on_state(
            PullState(
                phase=phase,
                id=plan.name,
                done_bytes=done,
                total_bytes=plan.size_bytes,
                bytes_per_s=None if speed is None else max(0.0, round(speed, 1)),
                quant=plan.quant,
                license=plan.license,
                why=plan.why,
                notices=plan.notices,
                waiting_for=self._waiting[0] or None,
                waiting_s=round(self._waiting[1], 1),
            )
        )


def _key(file: RemoteFile) -> str:
    return str(file.digest) if file.digest is not None else file.url


def _manifest(plan: PullPlan, stored: Sequence[StoredFile]) -> Manifest:
    return Manifest(
        name=plan.name,
        source=plan.source,
        created_at=now_text(),
        files=tuple(stored),
        quant=plan.quant,
        license=plan.license,
        license_text=plan.license_text,
        system=plan.system,
        template=plan.template,
        messages=plan.messages,
        params=plan.params,
        stop=plan.stop,
        ctx=plan.ctx,
    )
