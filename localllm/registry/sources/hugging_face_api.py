"""The parts of Hugging Face's HTTP API that models need: a repository's content, and search. Errors name the remedy.

    GET /api/models/USER/REPO/revision/REV?blobs=true    commit, licence, each file's size, and its sha256
                                                         (LFS) or git's hash of it
    GET /api/models/USER/REPO/tree/COMMIT?recursive=true the files, if a mirror omits them above; in pages
    GET /api/models/USER/REPO/auth-check                 whether a token grants access to a gated repository
    GET /api/models?search=WORDS&filter=gguf             repositories

Formats: `ModelInfo`, `RepoSibling`, `RepoFile` and `hf_raise_for_status` of the library huggingface_hub. Knows nothing
of quantizations, nor which file is wanted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import quote, urlencode, urljoin, urlsplit

import msgspec

from localllm.errors import AccessDenied, InvalidParameter, ModelNotFound, PullFailed
from localllm.registry.fetch.net import SmallResponse, origin_of
from localllm.registry.fetch.pacing import rate_limit_reset_s, retry_after_s
from localllm.registry.manifest import MAX_FILES
from localllm.registry.names.digest import Digest
from localllm.registry.remote import Cancelled, Credential
from localllm.registry.sources.choose import ListedFile
from localllm.registry.sources.source import Fetch, SizeBytes, clean, decode, header, host_of

DEFAULT_ENDPOINT = "https://huggingface.co"
MAX_HITS = 100
MAX_PAGES = 50
"""Limit on the pages of a repository's file list, with 1,000 files each."""
MAX_PATH_CHARS = 1024

PEFT_CONFIG, PEFT_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", re.ASCII)
_TOKEN = re.compile(r"[\x21-\x7e]{1,1000}", re.ASCII)
_NEXT = re.compile(r'<([^<>]{1,2000})>\s*;\s*rel="?next"?')
_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}/[A-Za-z0-9_][A-Za-z0-9._-]{0,95}", re.ASCII)


class _Lfs(msgspec.Struct):
    sha256: str | None = None
    oid: str | None = None
    size: SizeBytes | None = None


class _Sibling(msgspec.Struct):
    """A file; its name is `rfilename` in a model's siblings, `path` in a tree."""

    rfilename: str = ""
    path: str = ""
    size: SizeBytes | None = None
    lfs: _Lfs | None = None
    blobId: str | None = None
    oid: str | None = None
    """The same in a tree: git's hash of the file, or of the pointer to an LFS file."""


class _Info(msgspec.Struct):
    sha: str
    siblings: list[_Sibling] = []
    cardData: Any = None
    gated: bool | str | None = False
    tags: list[str] | None = None


class _Found(msgspec.Struct):
    id: str
    downloads: int | None = None
    likes: int | None = None
    lastModified: str | None = None
    gated: bool | str | None = False
    tags: list[str] | None = None


class HubHit(msgspec.Struct, frozen=True, kw_only=True):
    """A repository with GGUF files."""

    id: str
    """USER/REPO; prefixed with `hf.co/` it is a name that can be pulled."""
    downloads: int
    """In the last 30 days."""
    likes: int
    license: str | None
    updated: str | None
    """RFC 3339."""
    gated: bool
    """Whether it requires an account that has accepted its terms."""


@dataclass(frozen=True)
class Listing:
    """A repository at one commit."""

    repo: str
    commit: str
    files: tuple[ListedFile, ...]
    """GGUF files only."""
    peft: tuple[ListedFile, ...]
    """Of an adapter that `peft` saved: its configuration and its weights."""
    num_files: int
    license: str | None


class Hub:
    """One endpoint and its token."""

    def __init__(self, fetch: Fetch, endpoint: str = DEFAULT_ENDPOINT, token: str | None = None) -> None:
        """`endpoint` is HF_ENDPOINT, `token` is HF_TOKEN. Raises `InvalidParameter` for invalid ones."""
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in parts.netloc:
            raise InvalidParameter(
                f"{clean(endpoint)!r} is not a valid endpoint; set HF_ENDPOINT to a URL like {DEFAULT_ENDPOINT}",
                param="endpoint",
            )
        token = (token or "").strip()
        if token and not _TOKEN.fullmatch(token):
            raise InvalidParameter("HF_TOKEN contains characters that no token has", param="token")
        self._fetch = fetch
        self.endpoint = endpoint.rstrip("/")
        self.named_by_user = self.endpoint != DEFAULT_ENDPOINT
        self.host = host_of(endpoint)
        self._origin = origin_of(endpoint)
        self.credential = Credential(self._origin, f"Bearer {token}") if token else None

    def listing(self, repo: str, revision: str | None) -> Listing:
        """The content of `repo`. Raises `ModelNotFound`, `AccessDenied` or `PullFailed`."""
        url = f"{self.endpoint}/api/models/{repo}/revision/{quote(revision or 'main', safe='')}?blobs=true"
        response = self._get(url)
        if response.status != 200:
            self._explain(response, repo, revision)
        info = decode(response.body, _Info, f"{self.host} (of {repo})")
        if not _COMMIT.fullmatch(info.sha):
            raise PullFailed(
                f"{self.host} gives {clean(info.sha)!r} as the commit of {repo}, which is not a valid commit"
            )
        self._check_gate(info, repo)
        ggufs = [one for one in info.siblings if _is_wanted(one.rfilename)]
        if any(one.size is None or (one.lfs is None and not _is_hashed_config(one)) for one in ggufs):
            ggufs = self._tree(repo, info.sha) or ggufs
        if len(ggufs) > MAX_FILES:
            raise PullFailed(f"{repo} lists {len(ggufs):,} GGUF files; at most {MAX_FILES:,} are supported")
        files = tuple(self._listed(one, repo) for one in ggufs)
        if len({file.path for file in files}) != len(files):
            raise PullFailed(f"{self.host} lists a file of {repo} twice")
        peft = tuple(file for file in files if file.path in (PEFT_CONFIG, PEFT_WEIGHTS))
        files = tuple(file for file in files if file not in peft)
        return Listing(repo, info.sha, files, peft, len(info.siblings), _license(info.cardData, info.tags))

    def file_url(self, listing: Listing, path: str) -> str:
        """The download URL of a file at exactly that commit."""
        return f"{self.endpoint}/{listing.repo}/resolve/{listing.commit}/{quote(path, safe='/')}"

    def search(self, words: str, limit: int) -> list[HubHit]:
        """Repositories that match, most downloaded first. Raises `PullFailed`."""
        asked = [("search", words), ("filter", "gguf"), ("sort", "downloads"), ("direction", "-1"), ("limit", limit)]
        asked += [("expand", name) for name in ("downloads", "likes", "lastModified", "tags", "gated")]
        response = self._get(f"{self.endpoint}/api/models?{urlencode(asked)}")
        if response.status != 200:
            self._refuse(response, "the search")
        found = decode(response.body, list[_Found], f"{self.host} (the search)")
        return [_hit(one) for one in found if _REPO.fullmatch(one.id)][:limit]  # other ids are not valid names here

    def _get(self, url: str) -> SmallResponse:
        return self._fetch.get_small(url, credential=self.credential, named_by_user=self.named_by_user)

    def _tree(self, repo: str, commit: str) -> list[_Sibling]:
        """The GGUF and PEFT files of the repository's tree; empty if the endpoint does not support trees."""
        url: str | None = f"{self.endpoint}/api/models/{repo}/tree/{commit}?recursive=true"
        found: list[_Sibling] = []
        for _ in range(MAX_PAGES):
            assert url is not None
            response = self._get(url)
            if 400 <= response.status < 500 and response.status != 429:
                return []
            if response.status != 200:
                self._refuse(response, f"the files of {repo}")
            page = decode(response.body, list[_Sibling], f"{self.host} (the files of {repo})")
            found += [one for one in page if _is_wanted(one.path)]
            url = self._next_page(response, url)
            if url is None:
                return found
        raise PullFailed(f"{repo} lists more than {MAX_PAGES} pages of files")

    def _next_page(self, response: SmallResponse, url: str) -> str | None:
        match = _NEXT.search(response.headers.get("link") or "")
        if match is None:
            return None
        following: str = urljoin(url, match[1])
        if origin_of(following) != self._origin:
            raise PullFailed(f"{self.host} continues its list of files on {clean(host_of(following))!r}")
        return following

    def _listed(self, one: _Sibling, repo: str) -> ListedFile:
        path = one.rfilename or one.path
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\\" in path or not path.isprintable():
            raise PullFailed(f"{self.host} lists {clean(path)!r} in {repo}, which is not a valid path in a repository")
        if len(path) > MAX_PATH_CHARS:
            raise PullFailed(f"{self.host} lists a path of {len(path):,} characters in {repo}")
        lfs = one.lfs or _Lfs()
        size = one.size if lfs.size is None else lfs.size  # without LFS data, the size may be that of the pointer
        if size is None:
            raise PullFailed(f"{self.host} does not give the size of {clean(path)} of {repo}")
        sha256 = lfs.sha256 or lfs.oid
        try:
            digest = None if sha256 is None else Digest(sha256.removeprefix("sha256:"))
        except InvalidParameter as error:
            raise PullFailed(f"{self.host} gives an invalid digest for {clean(path)} of {repo}: {error}") from error
        git_id = None if one.lfs is not None else one.blobId or one.oid
        if git_id is not None and not _COMMIT.fullmatch(git_id):
            raise PullFailed(f"{self.host} gives an invalid hash for {clean(path)} of {repo}")
        return ListedFile(path, size, digest, git_id)

    def _check_gate(self, info: _Info, repo: str) -> None:
        """A gated repository lists its files publicly, but serves them only to accounts that accepted its terms."""
        if not info.gated:
            return
        if self.credential is None:
            raise self._gated(repo)
        if self._get(f"{self.endpoint}/api/models/{repo}/auth-check").status in (401, 403):
            raise self._gated(repo)  # for any other response the download will report the error

    def _gated(self, repo: str) -> AccessDenied:
        token = (
            "with the account that HF_TOKEN belongs to"
            if self.credential
            else "and set HF_TOKEN to a token of your account"
        )
        return AccessDenied(
            f"{repo} is gated: accept its terms on {DEFAULT_ENDPOINT}/{repo} {token}", param="model", status=403
        )

    def _explain(self, response: SmallResponse, repo: str, revision: str | None) -> NoReturn:
        """The error for a status: https://huggingface.co/docs/hub/api and `hf_raise_for_status`."""
        code = header(response, "x-error-code")
        if code == "GatedRepo":
            raise self._gated(repo)
        if code == "RevisionNotFound":
            raise ModelNotFound(f"{repo} has no revision {revision}", param="model")
        if response.status == 401 and self.credential is not None and code != "RepoNotFound":
            raise AccessDenied(f"{self.host} does not accept the token in HF_TOKEN; create a new one there", status=401)
        if response.status in (401, 404):
            private = "" if self.credential else ", or it is private (then set HF_TOKEN)"
            raise ModelNotFound(f"{self.host} has no repository {repo}{private}{self._suggestion(repo)}", param="model")
        self._refuse(response, repo)

    def _refuse(self, response: SmallResponse, what: str) -> NoReturn:
        status, said = response.status, header(response, "x-error-message")
        because = f" ({said})" if said else ""
        if status in (401, 403):
            remedy = "use a token with read access to it" if self.credential else "set HF_TOKEN"
            raise AccessDenied(f"{self.host} denies access to {what}{because}; {remedy}", status=status)
        if status == 429:
            wait_s = rate_limit_reset_s(header(response, "ratelimit")) or retry_after_s(header(response, "retry-after"))
            when = f"in {wait_s:.0f} s" if wait_s else "in a few minutes"
            more = "" if self.credential else "; set HF_TOKEN to be allowed more requests"
            raise PullFailed(f"{self.host} has received too many requests; try again {when}{more}", status=status)
        if status >= 500:
            raise PullFailed(f"{self.host} answered {status}{because}; try again later", status=status)
        raise PullFailed(f"{self.host} answered {status} for {what}{because}", status=status)

    def _suggestion(self, repo: str) -> str:
        """`; did you mean ...?` if a search finds something. Best effort, since the error is reported either way."""
        try:
            hits = self.search(repo.rpartition("/")[2].removesuffix("-GGUF").removesuffix("-gguf"), 3)
        except Cancelled:
            raise
        except PullFailed:
            hits = []
        hits = [hit for hit in hits if hit.id.lower() != repo.lower()]
        return f"; did you mean {' or '.join(f'hf.co/{hit.id}' for hit in hits)}?" if hits else ""


def _is_wanted(path: str) -> bool:
    return path.lower().endswith(".gguf") or path in (PEFT_CONFIG, PEFT_WEIGHTS)


def _is_hashed_config(one: _Sibling) -> bool:
    """Whether it is a small file of which git's hash is given."""
    return one.rfilename == PEFT_CONFIG and one.blobId is not None


def _hit(one: _Found) -> HubHit:
    return HubHit(
        id=one.id,
        downloads=max(0, one.downloads or 0),
        likes=max(0, one.likes or 0),
        license=_license(None, one.tags),
        updated=clean(one.lastModified) if one.lastModified else None,
        gated=bool(one.gated),
    )


def _license(card: Any, tags: list[str] | None) -> str | None:
    """The licence from the model card; `other` is replaced by the name and link in the card."""
    card = card if isinstance(card, dict) else {}
    said = card.get("license")
    names = [str(one) for one in said[:8]] if isinstance(said, list) else [said] if isinstance(said, str) else []
    names = names or [tag.removeprefix("license:") for tag in tags or () if tag.startswith("license:")]
    text = ", ".join(names)
    if text.lower() in ("", "other", "unknown") and isinstance(card.get("license_name"), str):
        text = card["license_name"]
    link = card.get("license_link")
    if text and isinstance(link, str) and link.startswith("https://"):
        text = f"{text} ({link})"
    return clean(text) or None
