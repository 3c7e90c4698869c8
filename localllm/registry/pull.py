"""Pulls a model into the store: asks the source, fetches and verifies missing files, and only then lists the model.

Concurrent pulls of one model share one download, even across processes. Knows nothing of HTTP, of file formats beyond
the header, or of how progress is shown.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from localllm.errors import InvalidModelFile, InvalidParameter, LoadFailed, ModelNotFound, PullFailed
from localllm.registry import catalog, signed_catalog
from localllm.registry.disk.locks import Hold
from localllm.registry.disk.store import now_text
from localllm.registry.fetch.configured import check_online, net_of
from localllm.registry.fetch.download import download_all
from localllm.registry.fetch.job import FileToFetch
from localllm.registry.fetch.net import SmallResponse, origin_of
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
    VersionName,
    parse,
)  # fmt: skip
from localllm.registry.pull_meter import Meter, OnState, tell_waiting
from localllm.registry.remote import PullPlan, RemoteFile
from localllm.registry.resolve import canonical, not_here
from localllm.registry.sources import hub_names, hugging_face, oci, web
from localllm.registry.sources.headers import Measure, Offer, plan_offer, with_header
from localllm.registry.sources.hub_names import Resolved
from localllm.registry.sources.hugging_face_api import Hub
from localllm.registry.sources.remote_header import HeaderReader
from localllm.registry.sources.source import CancellableFetch, Fetch
from localllm.settings.config import Settings
from localllm.settings.values import comma_list
from localllm.system import memory
from localllm.system.shell_words import shell_word
from localllm.types import ModelInfo
from localllm.types.states import AvailableModel, PullState

GGUF_MAGIC = b"GGUF"
MEMORY_SHARE = 0.7
"""Share of memory that an automatically chosen quantization may need, if the need is estimated from file size."""
MEASURED_SHARE = 0.9
"""Likewise if the need is computed from the header; equals `supervisor.eviction.USABLE_SHARE`."""


class Puller:
    """Pulls models with this user's settings. A context manager, for one thread at a time."""

    def __init__(self, settings: Settings, *, named_by_user: bool = True, measure: Measure | None = None) -> None:
        """With `named_by_user` false, names come from the network and must not resolve to private addresses.

        `measure` computes a model's memory need from its header (`planning.memory_fit.measure`); without it, no header
        is read before the download, and the need is estimated from the file size. A model's projector is pulled with
        it, unless the setting `projector` is off for the model.
        """
        self._settings = settings
        self._measure = measure
        self._named_by_user = named_by_user
        self._store = store_of(settings.data_dir)
        signed_catalog.use(settings)
        self._endpoint = settings.hub_endpoint
        self._insecure = [host.strip() for host in settings.insecure_registries.split(",") if host.strip()]
        self._net = net_of(settings)

    def __enter__(self) -> Puller:
        return self

    def __exit__(self, *_: object) -> None:
        self._net.close()

    def plan(
        self, text: str, cancel: threading.Event, on_wait: OnWait = lambda *_: None, *, force: bool = False
    ) -> PullPlan:
        """What pulling this name would download now. `force`: even if llama.cpp does not know the architecture.

        Raises `InvalidParameter` for a name that is not of a remote model, `ModelNotFound`, `PullFailed`, and
        `InvalidModelFile` if the header shows that the file cannot be used.
        """
        fetch = self._way_out(cancel, on_wait, is_patient=True)
        name = parse(text)
        notice = ""
        if isinstance(name, CatalogName):
            notice = signed_catalog.refresh(self._settings, CancellableFetch(self._net, cancel, on_wait))
        try:
            plan = self._guarded_plan(canonical(name), fetch)
        except ModelNotFound as error:
            if notice:
                raise ModelNotFound(f"{error.message}; {notice}", param="model") from error
            raise
        if notice:
            plan = dataclasses.replace(plan, notices=(notice, *plan.notices))
        if self._measure is None or not self.missing(plan):
            return plan
        if plan.info is None and plan.problem is None:
            plan = with_header(plan, self._reader(fetch), self._measure)
        if plan.problem is not None and not (force and "architecture" in plan.problem.details):
            problem = plan.problem
            refused = InvalidModelFile(
                f"{plan.source} is not a usable model: {problem.message}; nothing was downloaded"
            )
            refused.details |= problem.details
            raise refused from problem
        return plan

    def _reader(self, fetch: Fetch) -> HeaderReader:
        return HeaderReader(fetch, self._stored_path)

    def _way_out(
        self, cancel: threading.Event, on_wait: OnWait = lambda *_: None, *, is_patient: bool = False
    ) -> Fetch:
        fetch = CancellableFetch(self._net, cancel, on_wait, is_patient)
        return fetch if self._named_by_user else _Guarded(fetch, {origin_of(self._endpoint)})

    def _guarded_plan(self, name: ModelName, fetch: Fetch) -> PullPlan:
        plan = self._plan(name, fetch, with_projector=self._takes_projector(name))
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
        force: bool = False,
    ) -> AvailableModel:
        """Fetches the source's current version of the model into the store. `force`: as for `plan`.

        Raises what `plan` raises, `DiskFull`, `InvalidModelFile` if it is not a model, `Cancelled`. Bytes that have
        arrived are kept.
        """
        looking = PullState(phase="looking", id=text)
        on_state(looking)
        plan = self.plan(text, cancel, lambda *waited: tell_waiting(on_state, looking, *waited), force=force)
        on_plan(plan)
        return self.fetch(plan, on_state=on_state, cancel=cancel)

    def offers(self, text: str, cancel: threading.Event) -> list[Offer]:
        """Every model that the name may mean, with its header, without downloading. Raises as `plan`."""
        name = canonical(parse(text))
        fetch = self._way_out(cancel)
        with_projector = self._takes_projector(name)
        preferred: str | None = None
        if isinstance(name, CatalogName):
            entry = catalog.load().find(name.name, name.tag)
            name, preferred = (
                (self._resolved(name, fetch).repo, None) if entry is None else (HubRepo(entry.repo, None), entry.quant)
            )
        if isinstance(name, UrlName):
            name = web.hub_file(name) or name
        if isinstance(name, HubRepo | HubFile):
            check_online()
            return hugging_face.offers(
                name,
                fetch,
                endpoint=self._endpoint,
                token=hub_token(),
                preferred=preferred,
                budget_bytes=self._budget_bytes(),
                with_projector=with_projector,
                measure=self._measure,
                reader=self._reader(fetch),
            )
        return [plan_offer(self._guarded_plan(name, fetch), self._reader(fetch))]

    def search(self, words: str, limit: int, cancel: threading.Event | None = None) -> list[hugging_face.HubHit]:
        """Repositories with GGUF files on Hugging Face. Raises `PullFailed`, `Cancelled`."""
        check_online()
        fetch = self._way_out(cancel or threading.Event())
        return hugging_face.search(words, fetch, endpoint=self._endpoint, token=hub_token(), limit=limit)

    def fetch(self, plan: PullPlan, *, on_state: OnState, cancel: threading.Event) -> AvailableModel:
        """Downloads those files of a plan that the store lacks."""
        meter = Meter(plan, on_state)
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

    def _plan(self, name: ModelName, fetch: Fetch, *, with_projector: bool) -> PullPlan:
        if isinstance(name, Demo):
            raise InvalidParameter("demo is part of localllm and needs no download: localllm run demo", param="model")
        if isinstance(name, PathName):
            raise InvalidParameter(
                f"{name} is a file on this machine and needs no download: localllm run {shell_word(name)}",
                param="model",
            )
        if isinstance(name, VersionName):
            raise InvalidParameter(
                f"{name} is a version of a model on this machine, which no registry has: localllm pull {name.of}, or "
                "hf.co/USER/REPO@REVISION",
                param="model",
            )
        if isinstance(name, CatalogName):
            entry = catalog.load().find(name.name, name.tag)
            if entry is None:
                resolved = self._resolved(name, fetch)
                plan = self._plan(resolved.repo, fetch, with_projector=with_projector)
                return dataclasses.replace(plan, name=str(name), notices=(resolved.notice, *plan.notices))
            plan = self._plan(HubRepo(entry.repo, entry.quant), fetch, with_projector=with_projector)
            return dataclasses.replace(plan, name=str(name), license=plan.license or entry.license)
        if isinstance(name, RegistryName):
            login = registry_login(name.host)
            logins = {} if login is None else {name.host: login}
            return oci.plan(name, fetch, logins=logins, insecure_hosts=self._insecure, with_projector=with_projector)
        if isinstance(name, UrlName):
            file = web.hub_file(name)
            if file is None:
                return web.plan(name, fetch)
            return dataclasses.replace(self._plan(file, fetch, with_projector=with_projector), name=str(name))
        check_online()
        return hugging_face.plan(
            name,
            fetch,
            endpoint=self._endpoint,
            token=hub_token(),
            budget_bytes=self._budget_bytes(),
            with_projector=with_projector,
            measure=self._measure,
            reader=self._reader(fetch),
        )

    def _resolved(self, name: CatalogName, fetch: Fetch) -> Resolved:
        """What a short name that the catalog lacks stands for on the hub. Raises `ModelNotFound`."""
        unknown = not_here(name, self._store)
        publishers = comma_list(self._settings.hub_publishers)
        if not publishers:
            raise unknown
        try:
            check_online()
            found = hub_names.resolve(name, Hub(fetch, self._endpoint, hub_token()), publishers)
        except PullFailed as error:
            raise ModelNotFound(
                f"{unknown.message}; whether Hugging Face has it is not known: {error.message}", param="model"
            ) from error
        if isinstance(found, Resolved):
            return found
        if found:
            raise ModelNotFound(f"no model is called {str(name)!r}; Hugging Face has {', '.join(found)}", param="model")
        raise unknown

    def _takes_projector(self, name: ModelName) -> bool:
        return self._settings.for_model(str(name)).projector != "off"

    def _budget_bytes(self) -> int | None:
        total = memory.total_memory()
        share = MEMORY_SHARE if self._measure is None else MEASURED_SHARE
        return None if total is None else int(total * share)

    def _fetch_files(
        self, plan: PullPlan, hold: Hold, meter: Meter, cancel: threading.Event
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

    def _stored_path(self, file: RemoteFile) -> Path | None:
        return self._store.blob_path(file.digest) if file.digest is not None and self._is_here(file) else None

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
