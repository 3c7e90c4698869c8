"""Short names that the catalog lacks, resolved on Hugging Face among the repositories of trusted publishers.

    qwen3.8:27b            Qwen/Qwen3.8-27B-GGUF, unsloth/Qwen3.8-27B-GGUF, bartowski/Qwen_Qwen3.8-27B-GGUF
    gemma4:12b-q8_0        ggml-org/gemma-4-12b-it-GGUF in Q8_0

A repository is the model if its name says what the short name says, and nothing more than that it follows
instructions, which organisation made the model, how many parameters are active, and that its files are GGUF.
Anybody may upload a repository of any name, so others than those of the publishers are never taken, only named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from localllm.registry.names.model_names import CatalogName, HubRepo
from localllm.registry.sources.hugging_face_api import MAX_HITS, Hub, HubHit
from localllm.registry.sources.quants import normal, quant_of

MAX_NAMED = 5
"""Limit on the other repositories or sizes that a message names."""

_SEPARATORS = re.compile(r"[-_:\s]+")
_LETTER_THEN_DIGIT = re.compile(r"(?<=[a-z])(?=[0-9])")
_SAYS_NOTHING = re.compile(r"gguf|it|instruct|chat|a[0-9]+(?:\.[0-9]+)?b")
"""Parts of a repository's name that its short name leaves out; `a3b` is the number of active parameters."""
_SIZE = re.compile(r"e?[0-9]+(?:\.[0-9]+)?(?:x[0-9]+)?[bm]")
_MAKERS = ("nvidia", "meta", "google", "ibm", "mistralai")
"""Organisations that put their name before the model's."""


@dataclass(frozen=True)
class Resolved:
    """What a short name stands for on the hub."""

    repo: HubRepo
    notice: str
    """For the user, before anything is downloaded."""


def resolve(name: CatalogName, hub: Hub, publishers: Sequence[str]) -> Resolved | list[str]:
    """The repository of that name of the first of these publishers that has one; if none has, names that could be
    meant: the sizes of this model, or repositories of others, which have to be named in full.

    Makes one or two requests. Raises `PullFailed`.
    """
    name, quant = _split(name)
    hits = _search(name, hub)
    same = [hit for hit in hits if _is(name, hit.id)]
    trusted = _of(same, publishers)
    if not trusted:
        sizes = [] if name.tag is not None else _sizes(name, _of(hits, publishers))
        return (sizes or [f"hf.co/{hit.id}" for hit in same])[:MAX_NAMED]
    chosen = next((hit for hit in trusted if not hit.gated), trusted[0])
    others = [f"hf.co/{hit.id}" for hit in trusted if hit is not chosen][:MAX_NAMED]
    also = f"; also published as {', '.join(others)}" if others else ""
    return Resolved(
        HubRepo(chosen.id, quant),
        f"the catalog has no {name}: this is what {chosen.id.partition('/')[0]} publishes under that name on "
        f"{hub.host}{also}",
    )


def _search(name: CatalogName, hub: Hub) -> list[HubHit]:
    """Hits for the name without its tag as it is written; if none is that model, then also as in `gemma-4-12b`."""
    hits = hub.search(name.name, MAX_HITS)
    apart = _LETTER_THEN_DIGIT.sub("-", name.name)
    if apart == name.name or any(_is(name, hit.id) for hit in hits):
        return hits
    return hits + hub.search(apart, MAX_HITS)


def _of(hits: Iterable[HubHit], publishers: Sequence[str]) -> list[HubHit]:
    """Those of these publishers, in the publishers' order; the most downloaded first of one publisher's."""
    order = {publisher.lower(): place for place, publisher in enumerate(publishers)}
    owned = [(order.get(hit.id.partition("/")[0].lower()), hit) for hit in hits]
    return [hit for _, hit in sorted(((p, h) for p, h in owned if p is not None), key=lambda each: each[0])]


def _split(name: CatalogName) -> tuple[CatalogName, str | None]:
    """The name without the quantization that its tag ends with: `27b-q8_0` is `27b` in Q8_0."""
    if name.tag is None or name.tag == "latest":
        return CatalogName(name.name), None
    size, _, last = name.tag.rpartition("-")
    if quant_of(last) != normal(last):
        return name, None
    return CatalogName(name.name, size or None), normal(last)


def _is(name: CatalogName, repo: str) -> bool:
    return "".join(_parts(str(name))) in {"".join(parts) for parts in _readings(repo)}


def _sizes(name: CatalogName, hits: Iterable[HubHit]) -> list[str]:
    """The short names of these repositories that are this model in some size."""
    plain = "".join(_parts(name.name))
    found = [
        f"{name.name}:{parts[-1]}"
        for hit in hits
        for parts in _readings(hit.id)
        if _SIZE.fullmatch(parts[-1]) and "".join(parts[:-1]) == plain
    ]
    return list(dict.fromkeys(found))


def _readings(repo: str) -> list[list[str]]:
    """The parts of a repository's name that say which model it is: with and without its maker's name before it."""
    own = repo.partition("/")[2]
    maker, underscore, rest = own.partition("_")
    written = [own, rest] if underscore and maker else [own]  # bartowski's `Qwen_Qwen3.8-27B-GGUF`
    readings = [[part for part in _parts(each) if not _SAYS_NOTHING.fullmatch(part)] for each in written]
    readings += [parts[1:] for parts in readings if parts and parts[0] in _MAKERS]
    return [parts for parts in readings if parts]


def _parts(text: str) -> list[str]:
    return [part for part in _SEPARATORS.split(text.lower()) if part]
