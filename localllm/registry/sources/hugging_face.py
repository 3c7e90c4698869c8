"""Models from Hugging Face: resolves a repository's name to files at one commit, with their sha256.

Knows nothing of sockets and disks; `hub_api` makes the requests, `choose` the choice.
"""

from __future__ import annotations

from dataclasses import replace

from localllm.errors import InvalidModelFile, InvalidParameter, LocalLLMError, ModelNotFound, PullFailed
from localllm.planning.projector_plan import need_of
from localllm.registry.manifest import Role
from localllm.registry.names.model_names import HubFile, HubRepo
from localllm.registry.remote import Cancelled, PullPlan, RemoteFile
from localllm.registry.sources import choose
from localllm.registry.sources.choose import Candidate, Choice, ListedFile
from localllm.registry.sources.headers import Headers, Measure, Offer
from localllm.registry.sources.hugging_face_api import DEFAULT_ENDPOINT, MAX_HITS, Hub, HubHit, Listing
from localllm.registry.sources.remote_header import HeaderReader
from localllm.registry.sources.source import Fetch, checked_file_name, clean, left_out, taken_in
from localllm.types import ModelInfo, ProjectorInfo

__all__ = ["DEFAULT_ENDPOINT", "HubHit", "offers", "plan", "search"]


def plan(
    name: HubRepo | HubFile,
    fetch: Fetch,
    *,
    endpoint: str = DEFAULT_ENDPOINT,
    token: str | None = None,
    budget_bytes: int | None = None,
    with_projector: bool = True,
    measure: Measure | None = None,
    reader: HeaderReader | None = None,
) -> PullPlan:
    """What to download for `name`, now.

    `budget_bytes`: the memory that a model may use on this machine, which determines the quantization if none is named;
    None: any. `with_projector`: whether to include the model's projector; a notice says so.
    `measure` computes the memory need from a header, which is then read; without it, or if no header can be read, the
    need is estimated from the file size. `reader` reads the headers; None: by requests.

    `token` is sent only to the endpoint's origin. Raises `ModelNotFound`, `AccessDenied`, `PullFailed`, or
    `InvalidParameter` if several models match.
    """
    hub = Hub(fetch, endpoint, token)
    listing = hub.listing(name.repo, name.revision)
    if not listing.files:
        raise _no_gguf(listing)
    headers = _headers(hub, listing, reader or HeaderReader(fetch))
    needs = None if measure is None else _Measured(headers, measure)
    choice, beside = _choose(name, listing, budget_bytes, with_projector, needs)
    chosen = choice.candidate
    notices = [choice.notice] if choice.notice else []
    files = [_remote(hub, listing, file, "model") for file in chosen.files]
    projector: ProjectorInfo | None = None
    if beside is not None and with_projector:
        files.append(_remote(hub, listing, beside, "projector"))
        notices.append(taken_in(beside.name, beside.size_bytes))
        projector = None if needs is None else headers.projector(files[-1])
    elif beside is not None:
        notices.append(left_out(beside.name, beside.size_bytes))
    if any(file.digest is None for file in files):
        notices.append(f"{hub.host} does not give the sha256 of every file, so the download cannot be verified")
    need_bytes = None if needs is None else needs.known(chosen)
    if need_bytes is not None and projector is not None:
        need_bytes += need_of(projector)
    return PullPlan(
        name=str(name),
        source=f"hf.co/{listing.repo}@{listing.commit}",
        files=tuple(files),
        quant=chosen.quant,
        need_bytes=need_bytes,
        projector=projector,
        info=None if needs is None else needs.info(chosen),
        problem=None if needs is None else needs.problem(chosen),
        why=choice.why,
        license=listing.license,
        notices=tuple(notices),
    )


def search(
    words: str, fetch: Fetch, *, endpoint: str = DEFAULT_ENDPOINT, token: str | None = None, limit: int = 20
) -> list[HubHit]:
    """At most `limit` repositories with GGUF files whose names contain the words, most downloaded first.

    Raises `PullFailed`.
    """
    return Hub(fetch, endpoint, token).search(words, max(1, min(limit, MAX_HITS)))


def offers(
    name: HubRepo | HubFile,
    fetch: Fetch,
    *,
    endpoint: str = DEFAULT_ENDPOINT,
    token: str | None = None,
    preferred: str | None = None,
    budget_bytes: int | None = None,
    with_projector: bool = True,
    measure: Measure | None = None,
    reader: HeaderReader | None = None,
) -> list[Offer]:
    """Every model of a repository, or the one with the named file or quantization, with facts from its header.

    `preferred`: the quantization that a pull would choose; None: as `plan` chooses with `budget_bytes` and `measure`.
    Raises `ModelNotFound`, `AccessDenied`, `PullFailed`, `InvalidParameter`.
    """
    hub = Hub(fetch, endpoint, token)
    listing = hub.listing(name.repo, name.revision)
    if not listing.files:
        raise _no_gguf(listing)
    headers = _headers(hub, listing, reader or HeaderReader(fetch))
    chosen: Choice | None
    if isinstance(name, HubFile) or name.quant is not None:
        chosen, _ = _choose(name, listing, None, with_projector, None)
        found = [chosen.candidate]
    else:
        found = [one for one in choose.candidates(listing.files) if one.whole]
        needs = None if measure is None else _Measured(headers, measure)
        wanted = HubRepo(name.repo, preferred, name.revision)
        try:
            chosen, _ = _choose(wanted, listing, budget_bytes, with_projector, needs)
        except (InvalidParameter, ModelNotFound):  # it has several models, or lacks this quantization
            chosen = None
    alone = [quant for quant in (one.quant for one in found) if [each.quant for each in found].count(quant) == 1]

    def with_its_projector(offer: Offer, one: Candidate) -> Offer:
        beside = choose.projector(listing.files, one, budget_bytes) if with_projector and offer.info else None
        if beside is None:
            return offer
        projector = headers.projector(_remote(hub, listing, beside, "projector"))
        return replace(offer, size_bytes=offer.size_bytes + beside.size_bytes, projector=projector)

    made = [(_offer(name, one, headers, listing, chosen, by_quant=one.quant in alone), one) for one in found]
    return [with_its_projector(offer, one) for offer, one in made]


def _offer(
    name: HubRepo | HubFile,
    one: Candidate,
    headers: Headers,
    listing: Listing,
    chosen: Choice | None,
    *,
    by_quant: bool,
) -> Offer:
    is_chosen = chosen is not None and chosen.candidate == one
    info, why_not = None, None
    try:
        info = headers.info(one)
    except (PullFailed, InvalidModelFile) as error:
        why_not = error.message
    return Offer(
        name=str(
            HubRepo(name.repo, one.quant, name.revision)
            if one.quant and by_quant
            else HubFile(name.repo, one.files[0].path, name.revision)
        ),
        quant=one.quant,
        size_bytes=one.size_bytes,
        num_files=len(one.files),
        info=info,
        why_not=why_not,
        license=listing.license,
        is_chosen=is_chosen,
        why=chosen.why if chosen is not None and is_chosen else None,
    )


class _Measured:
    """Memory needs from the headers, estimated if they cannot be read."""

    def __init__(self, headers: Headers, measure: Measure) -> None:
        self._headers = headers
        self._measure = measure

    def __call__(self, one: Candidate, extra_bytes: int) -> int:
        known = self.known(one)
        return choose.needed_bytes(one.size_bytes + extra_bytes) if known is None else known + extra_bytes

    def known(self, one: Candidate) -> int | None:
        """None if it cannot be determined: the download will then report what is wrong with the file."""
        info = self.info(one)
        try:
            return None if info is None else self._measure(info)
        except LocalLLMError:
            return None

    def info(self, one: Candidate) -> ModelInfo | None:
        """Facts from its header; None if no header can be read."""
        try:
            return self._headers.info(one)
        except Cancelled:
            raise
        except LocalLLMError:
            return None

    def problem(self, one: Candidate) -> InvalidModelFile | None:
        """What its header shows to be wrong with it."""
        try:
            self._headers.info(one)
        except InvalidModelFile as error:
            return error
        except LocalLLMError:
            pass
        return None


def _headers(hub: Hub, listing: Listing, reader: HeaderReader) -> Headers:
    found = [one for one in choose.candidates(listing.files) if one.whole]
    return Headers(found, lambda one: [_remote(hub, listing, file, "model") for file in one.files], reader)


def _choose(
    name: HubRepo | HubFile,
    listing: Listing,
    budget_bytes: int | None,
    with_projector: bool,
    needs: choose.Needs | None,
) -> tuple[Choice, ListedFile | None]:
    if isinstance(name, HubFile):
        choice = Choice(choose.choose_file(listing.files, name.path, name.repo))
    else:
        extra = min((file.size_bytes for file in listing.files if "mmproj" in file.name.lower()), default=0)
        extra = extra if with_projector else 0
        choice = choose.choose(listing.files, name.quant, budget_bytes, name.repo, extra, needs)
    return choice, choose.projector(listing.files, choice.candidate, budget_bytes)


def _remote(hub: Hub, listing: Listing, file: ListedFile, role: Role) -> RemoteFile:
    return RemoteFile(
        role=role,
        file_name=checked_file_name(file.name, hub.host),
        url=hub.file_url(listing, file.path),
        named_by_user=hub.named_by_user,
        size_bytes=file.size_bytes,
        digest=file.digest,
        credential=hub.credential,
    )


def _no_gguf(listing: Listing) -> ModelNotFound:
    model = clean(listing.repo.rpartition("/")[2])
    return ModelNotFound(
        f"{listing.repo} has {listing.num_files:,} files, but no GGUF file; look for a converted copy: "
        f"localllm search {model}",
        param="model",
    )
