"""Models from Hugging Face: a repository's name to the files to have, at one commit, with their sha256.

Knows nothing of sockets and disks; `hub_api` has the requests, `choose` the choice.
"""

from __future__ import annotations

from localllm.errors import ModelNotFound
from localllm.registry.manifest import Role
from localllm.registry.names import HubFile, HubRepo
from localllm.registry.remote import PullPlan, RemoteFile
from localllm.registry.sources import choose
from localllm.registry.sources.choose import Choice, ListedFile
from localllm.registry.sources.hub_api import DEFAULT_ENDPOINT, MAX_HITS, Hub, HubHit, Listing
from localllm.registry.sources.source import Fetch, checked_file_name, clean

__all__ = ["DEFAULT_ENDPOINT", "HubHit", "plan", "search"]


def plan(
    name: HubRepo | HubFile,
    fetch: Fetch,
    *,
    endpoint: str = DEFAULT_ENDPOINT,
    token: str | None = None,
    budget_bytes: int | None = None,
    with_projector: bool | None = None,
) -> PullPlan:
    """What to download for `name`, now.

    `budget_bytes`: the memory that a model may use on this machine, from which the quantization follows if none is
    named; None: any. `with_projector`: whether to take the file that turns pictures into embeddings, where there is
    one; None: with a repository, not with a single file. `token` goes to the endpoint's origin only. Raises
    `ModelNotFound`, `AccessDenied`, `PullFailed`, or `InvalidParameter` where several models are meant.
    """
    hub = Hub(fetch, endpoint, token)
    listing = hub.listing(name.repo, name.revision)
    if not listing.files:
        raise _no_gguf(listing)
    choice, beside = _choose(name, listing, budget_bytes, with_projector)
    chosen = choice.candidate
    notices = [choice.notice] if choice.notice else []
    files = [_remote(hub, listing, file, "model") for file in chosen.files]
    if beside is not None:
        files.append(_remote(hub, listing, beside, "projector"))
    if any(file.digest is None for file in files):
        notices.append(f"{hub.host} does not say the sha256 of every file; what arrives cannot be checked")
    return PullPlan(
        name=str(name),
        source=f"hf.co/{listing.repo}@{listing.commit}",
        files=tuple(files),
        quant=chosen.quant,
        why=choice.why,
        license=listing.license,
        notices=tuple(notices),
    )


def search(
    words: str, fetch: Fetch, *, endpoint: str = DEFAULT_ENDPOINT, token: str | None = None, limit: int = 20
) -> list[HubHit]:
    """Repositories with GGUF files in whose names the words occur, the most downloaded first, `limit` at most.

    Raises `PullFailed`.
    """
    return Hub(fetch, endpoint, token).search(words, max(1, min(limit, MAX_HITS)))


def _choose(
    name: HubRepo | HubFile, listing: Listing, budget_bytes: int | None, with_projector: bool | None
) -> tuple[Choice, ListedFile | None]:
    if isinstance(name, HubFile):
        choice = Choice(choose.choose_file(listing.files, name.path, name.repo))
        wanted = with_projector is True
    else:
        wanted = with_projector is not False
        extra = min((file.size_bytes for file in listing.files if "mmproj" in file.name.lower()), default=0)
        choice = choose.choose(listing.files, name.quant, budget_bytes, name.repo, extra if wanted else 0)
    return choice, choose.projector(listing.files, choice.candidate) if wanted else None


def _remote(hub: Hub, listing: Listing, file: ListedFile, role: Role) -> RemoteFile:
    return RemoteFile(
        role=role,
        file_name=checked_file_name(file.name, hub.host),
        url=hub.file_url(listing, file.path),
        typed=hub.typed,
        size_bytes=file.size_bytes,
        digest=file.digest,
        credential=hub.credential,
    )


def _no_gguf(listing: Listing) -> ModelNotFound:
    model = clean(listing.repo.rpartition("/")[2])
    return ModelNotFound(
        f"{listing.repo} has {listing.num_files:,} files, and none is a GGUF file; others may have converted it: "
        f"localllm search {model}",
        param="model",
    )
