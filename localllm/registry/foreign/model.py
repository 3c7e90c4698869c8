"""A model that another program keeps: plain data, with its problems in words.

Nothing here has been verified: digests are what the other program says, until `adopt` has hashed the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from localllm.registry.digest import Digest
from localllm.registry.manifest import Role
from localllm.types import Message, SamplingParams

Tool = Literal["ollama", "huggingface", "lmstudio", "llama.cpp", "folder"]
TOOLS: tuple[Tool, ...] = ("ollama", "huggingface", "lmstudio", "llama.cpp", "folder")
Skipped = Callable[[str], None]
"""Called with a sentence on what was left out of a search, and why."""

_NOT_PLAIN = re.compile(r'[\x00-\x1f/\\:*?"<>|]')


class Root(NamedTuple):
    """Where to look, and whose it is."""

    tool: Tool
    path: Path


@dataclass(frozen=True, kw_only=True)
class ForeignFile:
    """One file of such a model."""

    role: Role
    path: Path
    """Links followed."""
    file_name: str
    """Its own name, not its name in the store: it identifies shards."""
    size_bytes: int
    digest: Digest | None
    """What the other program says that it is."""


@dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """One model, complete or not."""

    tool: Tool
    name: str
    """As the program calls it."""
    suggested_name: str
    """Canonical; under which it may be adopted."""
    other_names: tuple[str, ...] = ()
    """In case that one is taken."""
    source: str
    """Where it came from at first, as far as is known, else its path."""
    files: tuple[ForeignFile, ...]
    """The model's, in order, then the projector's; those that are there."""
    architecture: str | None = None
    quant: str | None = None
    num_parameters: int | None = None
    license: str | None = None
    license_text: tuple[str, ...] = ()
    system: str | None = None
    template: str | None = None
    """Jinja only."""
    fallback_template: str | None = None
    """Jinja, for a file without a template of its own."""
    messages: tuple[Message, ...] = ()
    params: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    ctx: int | None = None
    notices: tuple[str, ...] = ()
    """What will be different from how the other program runs it."""
    problem: str | None = None
    """Why it cannot be adopted: a phrase that follows its name."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def file_name_of(name: str) -> str:
    """A name that a manifest takes, as like this one as can be."""
    plain = _NOT_PLAIN.sub("_", name)[-255:]
    return "model.gguf" if plain in ("", ".", "..") else plain
