"""Well-known models under short names: `data/catalog.toml`, read, looked up and searched.

A list that the user has chosen may replace names of it (`signed_catalog`). Knows nothing of networks, downloads, or
which models are on this machine, nor what a repository holds today: sizes are approximate, and hashes come from the
source at pull time.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import tomllib
from typing import Annotated, Literal

import msgspec

Kind = Literal["chat", "code", "vision", "audio", "embedding", "reranker"]

MAX_SUGGESTIONS = 3
Count = Annotated[int, msgspec.Meta(gt=0)]


class Score(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a published test says about a model."""

    measure: str
    """The test: `MMLU-Pro`."""
    score: Annotated[float, msgspec.Meta(ge=0, le=100)]
    """In percent; more is better."""
    source: str
    """The address of the page that states it."""


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model in one size."""

    name: str
    """As in `qwen3:0.6b`, without the tag; several entries share it."""
    tag: str
    default: bool = False
    """Whether this is the default tag of its name; true for exactly one tag of each name."""
    kind: Kind
    """What the model is for; `vision` takes pictures, `audio` sound alone, and both chat as well."""
    repo: str
    """USER/REPO on Hugging Face, with GGUF files in it."""
    quant: str
    """The quantization pulled by default, as it appears in the file names (where case does not matter)."""
    size_bytes: int
    """Approximate size of the model's file in `quant`, without its projector."""
    num_parameters: int
    active_parameters: Count | None = None
    """Those that compute each token, of a model with experts; None: all."""
    context_length: int
    """Context length in tokens, as published by the model's maker."""
    kv_bytes_per_token: Count | None = None
    """Size of the keys and values of one token in f16, in the layers that attend to all earlier ones; None: unknown."""
    license: str
    """SPDX identifier where there is one, else the licence's name."""
    description: str
    draft: str | None = None
    """The id of a smaller entry with the same vocabulary that can serve as its draft model."""
    quality: tuple[Score, ...] = ()
    """By which `localllm recommend` ranks it; at most one of each measure."""

    @property
    def id(self) -> str:
        """The full name of this entry, as a user types it."""
        return f"{self.name}:{self.tag}"

    def scored(self, measure: str) -> Score | None:
        """Its score in that test, if one was found."""
        return next((each for each in self.quality if each.measure == measure), None)


class Catalog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entries in file order: by kind, small models first."""

    entries: tuple[CatalogEntry, ...] = msgspec.field(name="model")

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, without duplicates."""
        return tuple(dict.fromkeys(entry.name for entry in self.entries))

    def find(self, name: str, tag: str | None = None) -> CatalogEntry | None:
        """The entry with that name and tag (by default the name's default tag)."""
        for entry in self.entries:
            if entry.name == name and (entry.default if tag is None else entry.tag == tag):
                return entry
        return None

    def search(self, words: str) -> list[CatalogEntry]:
        """The entries that contain every word of `words`, small ones first; all entries if `words` is empty.

        A word may occur anywhere in the name, tag, kind, repository or description, in any case.
        """
        wanted = words.lower().split()
        found = [entry for entry in self.entries if all(word in _searched(entry) for word in wanted)]
        return sorted(found, key=lambda entry: entry.size_bytes)

    def suggest(self, name: str) -> list[str]:
        """Up to three names (or names with tags) similar to `name`, most similar first."""
        typed = name.lower()
        known = [*self.names, *(entry.id for entry in self.entries)]
        close = difflib.get_close_matches(typed, known, n=MAX_SUGGESTIONS)
        longer = [one for one in self.names if typed in one]  # `nomic` is not close to nomic-embed-text
        return list(dict.fromkeys([*close, *longer]))[:MAX_SUGGESTIONS]

    def replaced_by(self, newer: Catalog) -> Catalog:
        """This catalog with all sizes of each name that `newer` has replaced by those of `newer`."""
        renewed = set(newer.names)
        return Catalog((*(entry for entry in self.entries if entry.name not in renewed), *newer.entries))


_in_use: Catalog | None = None
"""What names mean in this process; None: the bundled catalog."""


def load() -> Catalog:
    """The catalog of this process."""
    return bundled() if _in_use is None else _in_use


def use(catalog: Catalog | None) -> None:
    """Makes `load` return this catalog; None: the bundled one."""
    global _in_use
    _in_use = catalog


@functools.cache
def bundled() -> Catalog:
    """The catalog of this version, read once."""
    text = importlib.resources.files("localllm").joinpath("data", "catalog.toml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> Catalog:
    """Parses a catalog. Raises `TOMLDecodeError` or `msgspec.ValidationError` (both are `ValueError`)."""
    return msgspec.convert(tomllib.loads(text), Catalog)


def _searched(entry: CatalogEntry) -> str:
    return f"{entry.id} {entry.kind} {entry.repo} {entry.description}".lower()
