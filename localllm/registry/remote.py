"""What a model consists of according to its source, known before any large download. Plain data.

A source (`hugging_face`, `oci`, `web`) resolves a name to a `PullPlan`, `download` fetches its files, `pull` stores it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from localllm.errors import Cancelled as Cancelled
from localllm.errors import InvalidModelFile
from localllm.registry.manifest import Role
from localllm.registry.names.digest import Digest
from localllm.types import Message, ModelInfo, ProjectorInfo, SamplingParams


@dataclass(frozen=True)
class Credential:
    """An HTTP header for one origin. It must never be sent to another, not even after a redirect."""

    origin: str
    """`scheme://host[:port]`, as `net.origin_of` writes it."""
    authorization: str
    """The header's value."""

    def __repr__(self) -> str:
        return f"Credential({self.origin})"


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """One file of a plan."""

    role: Role = "model"
    file_name: str
    url: str
    named_by_user: bool = False
    """Whether the user typed or configured the host, which may then be a private address. Redirects never may."""
    size_bytes: int | None
    """None: unknown until the first response."""
    digest: Digest | None
    """None: unknown (plain URLs), so the digest of the received bytes is accepted."""
    credential: Credential | None = None
    renew: Callable[[], Credential | None] | None = field(default=None, compare=False, repr=False)
    """Renews the credential, for sources whose credentials expire. From any thread; raises `PullFailed`."""


@dataclass(frozen=True, kw_only=True)
class PullPlan:
    """A model as its source currently describes it."""

    name: str
    """Canonical; the name under which it will be stored."""
    source: str
    """With a pinned revision, if the source has revisions."""
    files: tuple[RemoteFile, ...]
    """The model's files in order (shards), then the projector."""
    quant: str | None = None
    need_bytes: int | None = None
    """Memory need, from the header; None: unknown before the download."""
    info: ModelInfo | None = None
    """From the header, if it was read to compute the memory need."""
    projector: ProjectorInfo | None = None
    """From the header of the projector that is pulled with it."""
    problem: InvalidModelFile | None = None
    """What the header shows to be wrong with the file."""
    why: str | None = None
    """Why this quantization was chosen, if none was requested: a phrase for messages."""
    license: str | None = None
    license_text: tuple[str, ...] = ()
    system: str | None = None
    template: str | None = None
    """Jinja only."""
    fallback_template: str | None = None
    """Jinja, for a file without its own template."""
    messages: tuple[Message, ...] = ()
    """The first messages of every chat."""
    params: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    ctx: int | None = None
    notices: tuple[str, ...] = ()
    """What the user should know, such as an ignored Go template or an unusual file."""

    @property
    def size_bytes(self) -> int | None:
        """Total size of the files; None if any is unknown."""
        sizes = [file.size_bytes for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


OnBytes = Callable[[int], None]
"""Called from any thread with the number of new bytes on disk; negative if bytes were discarded."""
