"""Pulls a model into the store: asks the source, fetches and verifies missing files, and only then lists the model.

Concurrent pulls of one model share one download, even across processes. Knows nothing of HTTP, of file formats beyond
the header, or of how progress is shown.
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

from localllm.errors import InvalidModelFile, InvalidParameter, LoadFailed, PullFailed
from localllm.registry import catalog
from localllm.registry.disk.locks import Hold
from localllm.registry.disk.store import now_text
from localllm.registry.fetch.download import download_all
from localllm.registry.fetch.job import FileToFetch
from localllm.registry.fetch.net import Net, NetOptions, SmallResponse, origin_of
from localllm.registry.fetch.pacing import OnWait
from localllm.registry.fetch.partial import discard
from localllm.registry.fetch.width import Width
from localllm.registry.foreign.header_facts import check_is_model
from localllm.registry.listing import described, store_of
from localllm.registry.logins.credentials import hub_token, registry_login
from localllm.registry.manifest import Manifest, StoredFile
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import (
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
from localllm.registry.sources import hugging_face, oci, web
from localllm.registry.sources.headers import Measure, Offer, plan_offer
from localllm.registry.sources.source import CancellableFetch, Fetch
from localllm.settings.config import Settings
from localllm.system import memory
from localllm.types import ModelInfo
from localllm.types.states import AvailableModel, PullState

OnState = Callable[[PullState], None]

GGUF_MAGIC = b"GGUF"
STATE_EVERY_S = 0.2
SPEED_OVER_S = 5.0
MEMORY_SHARE = 0.7
"""Share of memory that an automatically chosen quantization may need, if the need is estimated from file size."""
MEASURED_SHARE = 0.9
"""Likewise if the need is computed from the header; equals `supervisor.eviction.USABLE_SHARE`."""


class Puller:
    """Pulls models with this user's settings. A context manager, for one thread at a time."""

    def __init__(self, settings: Settings, *, named_by_user: bool = True, measure: Measure | None = None) -> None:
        """With `named_by_user` false, names come from the network and must not resolve to private addresses.

        `measure` computes a model's memory need from its header (`supervisor.memory_fit.measure`); without it, the need
        is estimated from the file size.
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
                max_bytes_per_s=settings.max_download_kb_per_s * 1000 or None,
                allow_private_hosts=settings.allow_private_downloads,
                patience_s=settings.download_patience_s,
            )
        )

    def __enter__(self) -> Puller:
        return self

    def __exit__(self, *_: object) -> None:
        self._net.close()

    def plan(self, text: str, cancel: threading.Event, on_wait: OnWait = lambda *_: None) -> PullPlan:
        """What pulling this name would download now.

        Raises `InvalidParameter` for a name that is not of a remote model, `ModelNotFound`, `PullFailed`.
        """
        return self._guarded_plan(canonical(parse(text)), self._way_out(cancel, on_wait, is_patient=True))

    def _way_out(
        self, cancel: threading.Event, on_wait: OnWait = lambda *_: None, *, is_patient: bool = False
    ) -> Fetch:
        fetch = CancellableFetch(self._net, cancel, on_wait, is_patient)
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
        """Fetches the source's current version of the model into the store.

        Raises what `plan` raises, `DiskFull`, `InvalidModelFile` if it is not a model, `Cancelled`. Bytes that have
        arrived are kept.
        """
        looking = PullState(phase="looking", id=text)
        on_state(looking)
        plan = self.plan(text, cancel, lambda *waited: _tell_waiting(on_state, looking, *waited))
        on_plan(plan)
        return self.fetch(plan, on_state=on_state, cancel=cancel)

    def offers(self, text: str, cancel: threading.Event) -> list[Offer]:
        """Every model that the name may mean, with its header, without downloading. Raises as `plan`."""
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
            return hugging_face.offers(
                name,
                fetch,
                endpoint=self._endpoint,
                token=hub_token(),
                preferred=preferred,
                budget_bytes=self._budget_bytes(),
                measure=self._measure,
            )
        return [plan_offer(self._guarded_plan(name, fetch), fetch)]

    def search(self, words: str, limit: int, cancel: threading.Event | None = None) -> list[hugging_face.HubHit]:
        """Repositories with GGUF files on Hugging Face. Raises `PullFailed`, `Cancelled`."""
        self._check_online()
        fetch = self._way_out(cancel or threading.Event())
        return hugging_face.search(words, fetch, endpoint=self._endpoint, token=hub_token(), limit=limit)

    def fetch(self, plan: PullPlan, *, on_state: OnState, cancel: threading.Event) -> AvailableModel:
        """Downloads those files of a plan that the store lacks."""
        meter = _Meter(plan, on_state)
        with self._store.hold(f"pull of {plan.name}") as hold:
            stored, fetched = self._fetch_files(plan, hold, meter, cancel)
            manifest = _manifest(plan, stored)
            meter.report("checking", force=True)
            try:
                info = self._check(manifest)
            except (InvalidModelFile, LoadFailed):
                for digest in fetched:
                    self._store.discard(digest)
                raise
            if manifest.template is None and not info.chat_templates:
                manifest = msgspec.structs.replace(manifest, template=plan.fallback_template)
            self._store.put(manifest)
        meter.report("done", force=True)
        return described(manifest)

    def missing(self, plan: PullPlan) -> list[RemoteFile]:
        """The plan's files that are not in the store, without duplicates."""
        return [file for file in {_key(file): file for file in plan.files}.values() if not self._is_here(file)]

    def _plan(self, name: ModelName, fetch: Fetch) -> PullPlan:
        if isinstance(name, Demo):
            raise InvalidParameter("demo is part of localllm and needs no download: localllm run demo", param="model")
        if isinstance(name, PathName):
            raise InvalidParameter(
                f"{name} is a file on this machine and needs no download: localllm run {name}", param="model"
            )
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
        """Raises `PullFailed` if HF_HUB_OFFLINE, which Hugging Face's own tools obey too, forbids requests."""
        if os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in ("1", "ON", "YES", "TRUE"):
            raise PullFailed("HF_HUB_OFFLINE is set, so Hugging Face is not contacted; unset it to download from there")

    def _hub_plan(self, name: HubRepo | HubFile, fetch: Fetch) -> PullPlan:
        self._check_online()
        return hugging_face.plan(
            name,
            fetch,
            endpoint=self._endpoint,
            token=hub_token(),
            budget_bytes=self._budget_bytes(),
            measure=self._measure,
        )

    def _budget_bytes(self) -> int | None:
        total = memory.total_memory()
        share = MEMORY_SHARE if self._measure is None else MEASURED_SHARE
        return None if total is None else int(total * share)

    def _fetch_files(
        self, plan: PullPlan, hold: Hold, meter: _Meter, cancel: threading.Event
    ) -> tuple[list[StoredFile], list[Digest]]:
        """The plan's files as stored, and the digests that are new in the store."""
        for file in plan.files:
            if file.digest is not None:
                hold.add(file.digest)
        with contextlib.ExitStack() as claims:
            missing: dict[str, FileToFetch] = {}
            for key, file in sorted({_key(file): file for file in plan.files}.items()):
                if self._is_here(file):
                    meter.add(file.size_bytes or 0)
                    continue
                # Claimed in key order, so that two pulls with common files cannot deadlock.
                partial = claims.enter_context(self._store.claim(key, cancel=cancel, waiting=meter.others))
                if self._is_here(file):  # another process has fetched it meanwhile
                    meter.add(file.size_bytes or 0)
                    continue
                missing[key] = FileToFetch(file, partial, meter.add, GGUF_MAGIC)
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
                discard(wanted.partial)  # only its note remains
                fetched[key] = digest
        stored = [self._stored(file, fetched.get(_key(file)) or file.digest) for file in plan.files]
        return stored, list(fetched.values())

    def _is_here(self, file: RemoteFile) -> bool:
        return file.digest is not None and self._store.has_blob(file.digest, file.size_bytes)

    def _stored(self, file: RemoteFile, digest: Digest | None) -> StoredFile:
        assert digest is not None, "the digest was known before, or the download has computed it"
        size_bytes = self._store.blob_path(digest).stat().st_size
        return StoredFile(role=file.role, file_name=file.file_name, size_bytes=size_bytes, digest=digest)

    def _check(self, manifest: Manifest) -> ModelInfo:
        """Facts from the file's header. Raises `InvalidModelFile` for a file that is no model, or only Ollama's."""
        from localllm.gguf import read_header, read_model_info

        with self._store.open_model(manifest) as opened:
            try:
                info = read_model_info(opened.path)
                header = read_header(opened.path)
            except InvalidModelFile as error:
                raise InvalidModelFile(
                    f"the download from {manifest.source} is not a usable model: {error.message}"
                ) from error
            check_is_model(header)
        return info


class _Guarded:
    """A `Puller` for names from the network: only hosts that this user configured may be private addresses."""

    def __init__(self, fetch: Fetch, configured: set[str]) -> None:
        self._fetch = fetch
        self._configured = configured

    def get_small(self, url: str, *, named_by_user: bool = False, **rest: Any) -> SmallResponse:
        return self._fetch.get_small(url, named_by_user=named_by_user and self._may(url), **rest)

    def restricted(self, file: RemoteFile) -> RemoteFile:
        return dataclasses.replace(file, named_by_user=file.named_by_user and self._may(file.url))

    def _may(self, url: str) -> bool:
        return origin_of(url) in self._configured


def _tell_waiting(on_state: OnState, state: PullState, host: str, seconds: float, why: str) -> None:
    if seconds >= 1:
        on_state(msgspec.structs.replace(state, waiting_for=host, waiting_s=round(seconds, 1), waiting_why=why))


class _Meter:
    """Sums bytes reported by several threads, and publishes a state now and then."""

    def __init__(self, plan: PullPlan, on_state: OnState) -> None:
        self._plan = plan
        self._on_state = on_state
        self._lock = threading.Lock()
        self._done = 0
        self._others = 0
        self._waiting = "", 0.0
        self._reported_at = 0.0
        self._history: list[tuple[float, int]] = []

    def add(self, num_bytes: int) -> None:
        with self._lock:
            self._done += num_bytes
            self._others = 0
            self._waiting = "", 0.0
        self.report("downloading")

    def others(self, num_bytes: int) -> None:
        """Reports how much of the file another pull has fetched while we wait for it."""
        with self._lock:
            self._others = num_bytes
        self.report("downloading")

    def waiting(self, host: str, seconds: float, _: str) -> None:
        """Reports how long the host has sent nothing."""
        self._waiting = host, seconds
        self.report("downloading", force=True)

    def report(self, phase: Any, *, force: bool = False) -> None:
        now = time.monotonic()
        with self._lock:
            if not force and now - self._reported_at < STATE_EVERY_S:
                return
            self._reported_at = now
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
