"""Well-known models under short names: `data/catalog.toml`, read, looked up and searched.

Knows nothing of networks, downloads, or which models are on this machine. Nor does it know what a repository holds
today: sizes are approximate, and hashes come from the source at pull time.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import tomllib
from typing import Literal

import msgspec

Kind = Literal["chat", "code", "vision", "embedding", "reranker"]

MAX_SUGGESTIONS = 3


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model in one size."""

    name: str
    """As in `qwen3:0.6b`, without the tag; several entries share it."""
    tag: str
    default: bool = False
    """The default tag of its name; true for exactly one tag of each name."""
    kind: Kind
    """What it is for; a model that sees pictures is `vision`, though it chats as well."""
    repo: str
    """USER/REPO on Hugging Face, with GGUF files in it."""
    quant: str
    """The quantization to pull unless another is asked for, as in the names of the files (there in any case)."""
    size_bytes: int
    """About, of the model's file in `quant`; a vision model's projector is a file of its own."""
    num_parameters: int
    context_length: int
    """In tokens, as its maker states it."""
    license: str
    """SPDX identifier where there is one, else the licence's name."""
    description: str
    draft: str | None = None
    """The id of a smaller entry with the same vocabulary, which may guess what this one writes."""

    @property
    def id(self) -> str:
        """What a user types to mean exactly this entry."""
        return f"{self.name}:{self.tag}"


class Catalog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entries in the order of the file: by kind, and small models first."""

    entries: tuple[CatalogEntry, ...] = msgspec.field(name="model")

    @property
    def names(self) -> tuple[str, ...]:
        """Every name once."""
        return tuple(dict.fromkeys(entry.name for entry in self.entries))

    def find(self, name: str, tag: str | None = None) -> CatalogEntry | None:
        """The entry of that name and tag; without a tag, the name's default one."""
        for entry in self.entries:
            if entry.name == name and (entry.default if tag is None else entry.tag == tag):
                return entry
        return None

    def search(self, words: str) -> list[CatalogEntry]:
        """The entries in which every word of `words` occurs, small ones first; all of them if there is no word.

        A word may stand anywhere in the name, tag, kind, repository or description, in upper or lower case.
        """
        wanted = words.lower().split()
        found = [entry for entry in self.entries if all(word in _searched(entry) for word in wanted)]
        return sorted(found, key=lambda entry: entry.size_bytes)

    def suggest(self, name: str) -> list[str]:
        """Up to three names (or names with tags) similar to `name`, the likeliest first."""
        typed = name.lower()
        known = [*self.names, *(entry.id for entry in self.entries)]
        close = difflib.get_close_matches(typed, known, n=MAX_SUGGESTIONS)
        longer = [one for one in self.names if typed in one]  # `nomic` is not close to nomic-embed-text
        return list(dict.fromkeys([*close, *longer]))[:MAX_SUGGESTIONS]


@functools.cache
def load() -> Catalog:
    """The catalog that localllm carries, read once."""
    text = importlib.resources.files("localllm").joinpath("data", "catalog.toml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> Catalog:
    """A catalog from its TOML. Raises `TOMLDecodeError` or `msgspec.ValidationError` (both are `ValueError`)."""
    return msgspec.convert(tomllib.loads(text), Catalog)


def _searched(entry: CatalogEntry) -> str:
    return f"{entry.id} {entry.kind} {entry.repo} {entry.description}".lower()
