"""What a source says a model consists of, before anything big is downloaded. Plain data.

A source (`hub`, `oci`, `web`) makes a `PullPlan` of a name, `download` fetches its files, `pull` stores them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from localllm.errors import Cancelled as Cancelled
from localllm.registry.digest import Digest
from localllm.registry.manifest import Role
from localllm.types import Message, ModelInfo, SamplingParams


@dataclass(frozen=True)
class Credential:
    """A header for one origin. It must never be sent to another one, redirects included."""

    origin: str
    """`scheme://host[:port]`, as `net.origin_of` writes it."""
    authorization: str
    """The header's value."""

    def __repr__(self) -> str:
        return f"Credential({self.origin})"


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """One file to have."""

    role: Role = "model"
    file_name: str
    url: str
    named_by_user: bool = False
    """The user typed or configured the host, so that it may be a private address. That holds for no redirect."""
    size_bytes: int | None
    """None: the source did not say; the first answer does."""
    digest: Digest | None
    """None: unknown (plain URLs); the digest of the received bytes is accepted."""
    credential: Credential | None = None
    renew: Callable[[], Credential | None] | None = field(default=None, compare=False, repr=False)
    """Gets another credential where the source's are for some minutes. From any thread; raises `PullFailed`."""


@dataclass(frozen=True, kw_only=True)
class PullPlan:
    """A model as its source describes it now."""

    name: str
    """Canonical, as it will be stored."""
    source: str
    """With the revision pinned, where there is one."""
    files: tuple[RemoteFile, ...]
    """The model's files in order (shards), then the projector."""
    quant: str | None = None
    need_bytes: int | None = None
    """Of memory, by its header; None: not known before the download."""
    info: ModelInfo | None = None
    """From the header, if the model's memory need was asked for."""
    why: str | None = None
    """Why this quantization was chosen, if none was asked for: a phrase for people."""
    license: str | None = None
    license_text: tuple[str, ...] = ()
    system: str | None = None
    template: str | None = None
    """Jinja only."""
    fallback_template: str | None = None
    """Jinja, for a file without a template of its own."""
    messages: tuple[Message, ...] = ()
    """With which every chat begins."""
    params: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    ctx: int | None = None
    notices: tuple[str, ...] = ()
    """What the user should know: a Go template that is not used, an unusual file."""

    @property
    def size_bytes(self) -> int | None:
        """Of all files; None if one is unknown."""
        sizes = [file.size_bytes for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


OnBytes = Callable[[int], None]
"""Called with the number of new bytes on disk; negative if some were discarded. From any thread."""
