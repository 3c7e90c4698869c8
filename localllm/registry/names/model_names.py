"""Model names, as users type them and as they are printed: one type per kind of source.

    demo                              the bundled model
    qwen3   qwen3:0.6b                a short name of the catalog; without a tag, or with `latest`: its default
    mine@v2   qwen3:0.6b@3f2a9c1d     a version of a model of this machine, by its label or content; `latest`: the model
    hf.co/USER/REPO[:QUANT][@REV]     a repository on Hugging Face, in one quantization
    hf:USER/REPO/PATH.gguf[@REV]      one file of such a repository, in any letters, with spaces, # and the like
    ollama:[[HOST/]NAMESPACE/]MODEL[:TAG]    an OCI registry, such as Ollama's
    https://HOST/PATH.gguf            a file anywhere (also http)
    ./model.gguf   ~/m/   C:\\m.gguf    a local file or folder: whatever looks like a path or ends with .gguf

`parse(str(name)) == name`. No part of a name can escape a directory that it is joined to. Knows nothing of disks and
networks.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from localllm.errors import InvalidParameter, clipped
from localllm.system.windows_names import is_device

MAX_NAME_CHARS = 1024
MAX_PART_CHARS = 96
"""Hugging Face's limit on the name of a repository."""
MAX_HOST_CHARS = 350
MAX_FILE_BYTES = 255
"""Of one file's or folder's name, as most file systems limit it."""
DEMO = "demo"
DEFAULT_HOST = "registry.ollama.ai"
DEFAULT_NAMESPACE = "library"
DEFAULT_TAG = "latest"

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(:[0-9]{1,5})?", re.ASCII)
_SHORT = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)
_REVISION_OF_FILE = re.compile(r"(?<=\.gguf)@", re.IGNORECASE)
_NOT_IN_FILES = frozenset('/\\:*?"<>|')
_DRIVE = re.compile(r"[A-Za-z]:[\\/]", re.ASCII)
_HUB = ("hf.co/", "huggingface.co/")


@dataclass(frozen=True)
class Demo:
    """The bundled model."""

    def __str__(self) -> str:
        return DEMO


@dataclass(frozen=True)
class CatalogName:
    """A name in `catalog.toml`; no tag means the default one."""

    name: str
    tag: str | None = None

    def __str__(self) -> str:
        return self.name if self.tag is None else f"{self.name}:{self.tag}"


@dataclass(frozen=True)
class VersionName:
    """A version of a model of this machine: a label that it was given, or the first digits of its content's digest."""

    of: CatalogName
    version: str

    def __str__(self) -> str:
        return f"{self.of}@{self.version}"


@dataclass(frozen=True)
class HubRepo:
    """A repository on Hugging Face; by default the quantization that fits in memory and the newest revision."""

    repo: str
    quant: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        quant = "" if self.quant is None else f":{self.quant}"
        return f"hf.co/{self.repo}{quant}{_at(self.revision)}"


@dataclass(frozen=True)
class HubFile:
    """One file of a repository on Hugging Face."""

    repo: str
    path: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"hf:{self.repo}/{self.path}{_at(self.revision)}"


@dataclass(frozen=True)
class RegistryName:
    """A model of an OCI registry."""

    host: str
    namespace: str
    model: str
    tag: str = DEFAULT_TAG

    def __str__(self) -> str:
        host = "" if self.host == DEFAULT_HOST else f"{self.host}/"
        namespace = "" if not host and self.namespace == DEFAULT_NAMESPACE else f"{self.namespace}/"
        return f"ollama:{host}{namespace}{self.model}:{self.tag}"


@dataclass(frozen=True)
class UrlName:
    """A file at a URL."""

    url: str

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class PathName:
    """A local file or folder, as typed."""

    path: str

    def __str__(self) -> str:
        return self.path


ModelName = Demo | CatalogName | VersionName | HubRepo | HubFile | RegistryName | UrlName | PathName


def parse(text: str) -> ModelName:
    """Parses a name. Raises `InvalidParameter` with the reason."""
    if not 1 <= len(text) <= MAX_NAME_CHARS:
        raise _wrong(text, f"it has {len(text)} characters; a name has 1 to {MAX_NAME_CHARS}")
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise _wrong(text, "it contains a control character")
    if text in (DEMO, f"{DEMO}:{DEFAULT_TAG}"):
        return Demo()
    lower = text.lower()
    if lower.startswith(("https://", "http://")):
        return _url(text)
    for prefix in _HUB:
        if lower.startswith(prefix):
            return _hub_repo(text[len(prefix) :], text)
    for prefix in ("hf://", "hf:"):
        if lower.startswith(prefix):
            return _hub_file(text[len(prefix) :], text)
    if lower.startswith("ollama:"):
        return _registry(text[7:], text)
    if looks_like_path(text):
        return PathName(text)
    return _catalog(text)


def hub_file(repo: str, path: str, revision: str | None = None) -> HubFile | None:
    """The name of a file on Hugging Face; None if it cannot be typed, since not every system allows such a file."""
    name = HubFile(repo, path, revision)
    try:
        return name if parse(str(name)) == name else None
    except InvalidParameter:
        return None


def looks_like_path(text: str) -> bool:
    """Whether a name is that of a local file or folder."""
    begins = text.startswith((".", "/", "~", "\\")) or _DRIVE.match(text) is not None
    return begins or "\\" in text or text.lower().endswith(".gguf")


def _catalog(text: str) -> CatalogName | VersionName:
    plain, at, version = text.partition("@")
    name, colon, tag = plain.partition(":")
    if "/" in text:
        raise _wrong(text, f"type ./{text} for a folder, or hf.co/{text} for a repository on Hugging Face")
    for part in (name, *[tag] * bool(colon), *[version] * bool(at)):
        if not _SHORT.fullmatch(part) or len(part) > MAX_PART_CHARS:
            raise _wrong(text, "a short name is lower case, like qwen3 or qwen3:0.6b; a file's path begins with ./")
    found = CatalogName(name, tag if colon else None)
    if not at or version == DEFAULT_TAG:
        return found
    if name == DEMO:
        raise _wrong(text, "demo is part of localllm and has no versions")
    return VersionName(found if found.tag != DEFAULT_TAG else CatalogName(name), version)


def _hub_repo(rest: str, text: str) -> HubRepo:
    rest, revision = _split_revision(rest, text)
    repo, colon, quant = rest.partition(":")
    _check_repo(repo.split("/"), text)
    return HubRepo(repo, _part(quant, "quantization", text) if colon else None, revision)


def _hub_file(rest: str, text: str) -> ModelName:
    if rest.partition("@")[0].count("/") < 2:
        return _hub_repo(rest, text)
    rest, *revisions = _REVISION_OF_FILE.split(rest, 1)  # other names of files may contain @
    user, repo, path = rest.split("/", 2)
    _check_repo([user, repo], text)
    for part in path.split("/"):
        _check_file_part(part, text)
    if not path.lower().endswith(".gguf"):
        raise _wrong(text, "the name of a file in a repository ends with .gguf")
    return HubFile(f"{user}/{repo}", path, _checked_revision(revisions[0], text) if revisions else None)


def _check_file_part(part: str, text: str) -> None:
    """A file or folder of a repository: what every system could call one of its own."""
    is_odd = part.startswith((".", "~", " ")) or part.endswith((".", " ")) or not part.isprintable()
    if is_odd or not part or len(part.encode("utf-8", "replace")) > MAX_FILE_BYTES:
        raise _wrong(text, f"{clipped(part)!r} is not a valid folder or file")
    if _NOT_IN_FILES & set(unicodedata.normalize("NFKC", part)):
        raise _wrong(text, f"{clipped(part)!r} is not a valid folder or file: not every system allows these characters")
    _check_no_device(part, text)


def _split_revision(rest: str, text: str) -> tuple[str, str | None]:
    rest, at, revision = rest.partition("@")
    return rest, _checked_revision(revision, text) if at else None


def _checked_revision(revision: str, text: str) -> str:
    for part in revision.split("/"):  # a branch name may contain slashes
        _part(part, "revision", text)
    return revision


def _check_repo(parts: list[str], text: str) -> None:
    if len(parts) != 2:
        raise _wrong(text, "a repository on Hugging Face is USER/REPO")
    for part in parts:
        _part(part, "part of the repository's name", text)


def _registry(rest: str, text: str) -> RegistryName:
    *front, last = rest.split("/")
    model, colon, tag = last.partition(":")
    if len(front) > 2:
        raise _wrong(text, "a model in a registry is ollama:HOST/NAMESPACE/MODEL:TAG")
    host = front[0] if len(front) == 2 else DEFAULT_HOST
    namespace = front[-1] if front else DEFAULT_NAMESPACE
    if not _HOST.fullmatch(host) or ".." in host or len(host) > MAX_HOST_CHARS:
        raise _wrong(text, f"{clipped(host)!r} is not a valid host")
    return RegistryName(
        host.lower(),
        _part(namespace, "namespace", text),
        _part(model, "model", text),
        _part(tag, "tag", text) if colon else DEFAULT_TAG,
    )


def _url(text: str) -> ModelName:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong(text, str(error)) from error
    path = parts.path.strip("/")
    if host in ("hf.co", "huggingface.co") and (page := _hub_page(path, parts.query)) is not None:
        return _hub_file(page, text)
    if not host or parts.username is not None or parts.fragment or " " in text:
        raise _wrong(text, "a URL needs a host and must not have a user, a fragment or a space")
    if not path.lower().endswith(".gguf"):
        raise _wrong(text, "the path of a URL must end with .gguf")
    return UrlName(text)


def _hub_page(path: str, query: str) -> str | None:
    """What a page of the hub shows, as copied from a browser's address bar: a repository, or a file of it."""
    user, _, rest = path.partition("/")
    repo, _, view = rest.partition("/")
    kind, _, revision = view.partition("/")
    if not repo or kind not in ("", "tree"):
        return None
    shown = parse_qs(query).get("show_file_info", [""])[0]
    at = "" if revision in ("", "main") else f"@{revision}"
    return f"{user}/{repo}/{shown}{at}" if shown else f"{user}/{repo}{at}"


def _part(part: str, what: str, text: str) -> str:
    """Checks one part, which must be valid as the name of a file or folder on any system."""
    if not _PART.fullmatch(part) or part.endswith(".") or ".." in part or len(part) > MAX_PART_CHARS:
        raise _wrong(
            text,
            f"{clipped(part)!r} is not a valid {what}: use up to {MAX_PART_CHARS} letters, digits, _ - and single dots "
            "inside",
        )
    _check_no_device(part, text)
    return part


def _check_no_device(part: str, text: str) -> None:
    if is_device(part):
        raise _wrong(text, f"{clipped(part)!r} is a reserved device name on Windows")


def _at(revision: str | None) -> str:
    return "" if revision is None else f"@{revision}"


def _wrong(text: str, reason: str) -> InvalidParameter:
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return InvalidParameter(f"{shown!r} is not a model name: {reason}", param="model")
