"""A model stored by another program: plain data, with problems as phrases.

Nothing here has been verified: digests are the other program's claims until `adopt` has hashed the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from localllm.registry.manifest import Role
from localllm.registry.names.digest import Digest
from localllm.types import Message, SamplingParams

Tool = Literal["ollama", "huggingface", "lmstudio", "llama.cpp", "folder"]
TOOLS: tuple[Tool, ...] = ("ollama", "huggingface", "lmstudio", "llama.cpp", "folder")
Skipped = Callable[[str], None]
"""Called with a sentence about what a search skipped, and why."""

_NOT_PLAIN = re.compile(r'[\x00-\x1f/\\:*?"<>|]')


class Root(NamedTuple):
    """A folder to search, and the program it belongs to."""

    tool: Tool
    path: Path


@dataclass(frozen=True, kw_only=True)
class ForeignFile:
    """One file of such a model."""

    role: Role
    path: Path
    """Links followed."""
    file_name: str
    """The file's own name, not its name in the store; it identifies shards."""
    size_bytes: int
    digest: Digest | None
    """According to the other program."""


@dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """One model, complete or not."""

    tool: Tool
    name: str
    """The program's name for it."""
    suggested_name: str
    """A canonical name under which it can be adopted."""
    other_names: tuple[str, ...] = ()
    """Alternatives in case that name is taken."""
    source: str
    """Its original source if known, else its path."""
    files: tuple[ForeignFile, ...]
    """The model's files in order, then the projector; only those that exist."""
    architecture: str | None = None
    quant: str | None = None
    num_parameters: int | None = None
    license: str | None = None
    license_text: tuple[str, ...] = ()
    system: str | None = None
    template: str | None = None
    """Jinja only."""
    fallback_template: str | None = None
    """Jinja, for a file without its own template."""
    messages: tuple[Message, ...] = ()
    params: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    ctx: int | None = None
    notices: tuple[str, ...] = ()
    """Differences from how the other program runs it."""
    problem: str | None = None
    """Why it cannot be adopted: a phrase that follows the name."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def file_name_of(name: str) -> str:
    """The closest name that a manifest accepts."""
    plain = _NOT_PLAIN.sub("_", name)[-255:]
    return "model.gguf" if plain in ("", ".", "..") else plain
