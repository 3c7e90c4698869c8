"""Chooses a model's files and quantization: pure functions of a repository's list of files.

A split model is one model. Companion files (projectors, imatrix, drafts, adapters) are not models. Knows nothing of
networks or of the content of files; all it needs of this machine, a number of bytes, is passed in.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import hub_file
from localllm.registry.sources.quants import (
    FOUR_BITS,
    LARGER,
    REMOVED,
    SMALLER,
    bits,
    normal,
    plain,
    quant_of,
    split_shard,
    without_quant,
)
from localllm.registry.sources.source import shown_size
from localllm.system.shell_words import shell_word

SMALL_BYTES = (("Q8_0", 2_000_000_000), ("Q6_K", 1_500_000_000), ("Q5_K_M", 1_300_000_000))
"""A model of at most this size in that quantization (about 2 billion weights) is taken in it: small models lose the
most quality at four bits and save the least."""
HEADROOM_BYTES = 512 * 1024 * 1024
"""Allowance for the KV cache and compute buffers, besides a tenth of the weights. A guess without the header."""
MAX_LISTED = 40
"""Limit on the quantizations listed in an error message."""

_BESIDES = {"mmproj": "a projector (mmproj)", "imatrix": "an importance matrix (imatrix)"}
"""Word in a file's name -> what kind of file it is; never a model."""
_BESIDE = re.compile(
    r"(?:^|[-._/ ])(?:draft|mtp|eagle[0-9]*|dflash|dspark|assistant|lora|adapters?|vocab)(?=$|[-._/ ])", re.IGNORECASE
)
"""Names of files that assist or modify a model; taken as models only if there is no other candidate."""
_PROJECTOR_ORDER = ("F16", "BF16", "Q8_0")
"""Types of projectors, best first: F32 is as good as the first two, and twice as large."""


@dataclass(frozen=True)
class ListedFile:
    """A GGUF file as listed by a repository."""

    path: str
    size_bytes: int
    digest: Digest | None = None
    git_id: str | None = None
    """Without a digest: git's hash of the content, in hexadecimal digits."""

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Candidate:
    """A model to choose from: one file, or its shards in order."""

    files: tuple[ListedFile, ...]
    num_shards: int = 1

    @property
    def stem(self) -> str:
        return split_shard(self.files[0].path)[0]

    @property
    def quant(self) -> str | None:
        return quant_of(self.files[0].path)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def whole(self) -> bool:
        """Whether all its shards are listed."""
        return len(self.files) == self.num_shards

    def __str__(self) -> str:
        shards = "" if self.num_shards == 1 else f" in {self.num_shards} files"
        return f"{self.quant or self.files[0].name} ({shown_size(self.size_bytes)}{shards})"


@dataclass(frozen=True)
class Choice:
    """The chosen model."""

    candidate: Candidate
    why: str | None = None
    """Why it was chosen, as a phrase, unless it was requested."""
    notice: str | None = None


Needs = Callable[[Candidate, int], int]
"""(candidate, bytes loaded besides) -> bytes of memory needed."""


def needed_bytes(size_bytes: int) -> int:
    """Estimated memory for files of this size, including the KV cache of a conversation."""
    return size_bytes + size_bytes // 10 + HEADROOM_BYTES


def candidates(files: Iterable[ListedFile]) -> list[Candidate]:
    """Every model among the files, largest first. A single file is preferred to its split copy."""
    shards: dict[tuple[str, int], list[ListedFile]] = {}
    for file in files:
        if not any(word in file.name.lower() for word in _BESIDES):
            stem, _, count = split_shard(file.path)
            shards.setdefault((stem, count), []).append(file)
    found = [
        Candidate(tuple(sorted(parts, key=lambda file: split_shard(file.path)[1])), count)
        for (_, count), parts in shards.items()
    ]
    models = [one for one in found if not _BESIDE.search(one.stem)] or found
    single = {(without_quant(one.stem), one.quant) for one in models if one.num_shards == 1 and one.quant}
    kept = [one for one in models if one.num_shards == 1 or (without_quant(one.stem), one.quant) not in single]
    return sorted(kept, key=lambda one: (-one.size_bytes, one.stem))


def choose(
    files: Sequence[ListedFile],
    quant: str | None,
    budget_bytes: int | None,
    repo: str,
    extra_bytes: int = 0,
    needs: Needs | None = None,
) -> Choice:
    """The model of `repo` in the requested quantization, or else in the best one that fits in memory.

    `budget_bytes`: the memory that a model may use (None: any). `extra_bytes`: what is loaded besides. `needs`: the
    memory that each candidate needs; None: estimated from its size.

    Raises `ModelNotFound`, listing what the repository has, or `InvalidParameter` if several models match.
    """
    found = candidates(files)
    if not found:
        raise ModelNotFound(f"{repo} has no model among its GGUF files", param="model")
    if quant is not None and quant.lower() != "latest":
        return _asked(found, quant, repo)
    whole = [one for one in found if one.whole]
    if not whole:
        raise _incomplete(found[0], repo)
    return _default(whole, budget_bytes, repo, extra_bytes, needs or _guessed)


def choose_file(files: Sequence[ListedFile], path: str, repo: str) -> Candidate:
    """The model that this file is part of, with its other shards. Raises `ModelNotFound` or `InvalidParameter`."""
    same = [file for file in files if _composed(file.path) == _composed(path)]
    wanted = next((file for file in same if file.path == path), same[0] if same else None)
    if wanted is None:
        near = [file.path for file in files if file.name.lower() == path.rpartition("/")[2].lower()]
        there = (
            f"did you mean {shell_word(f'hf:{repo}/{near[0]}')}?"
            if near
            else f"it has {_some(sorted(file.path for file in files))}"
        )
        raise ModelNotFound(f"{repo} has no file {path}; {there}", param="model")
    for word in _BESIDES:
        if word in wanted.name.lower():
            raise InvalidParameter(f"{path} is {_BESIDES[word]}, not a model by itself", param="model")
    stem, _, count = split_shard(wanted.path)
    parts = [file for file in files if split_shard(file.path)[::2] == (stem, count)]
    candidate = Candidate(tuple(sorted(parts, key=lambda file: split_shard(file.path)[1])), count)
    if not candidate.whole:
        raise _incomplete(candidate, repo)
    return candidate


def _composed(path: str) -> str:
    """One form for the ways to write an accented letter."""
    return unicodedata.normalize("NFC", path)


def projector(files: Iterable[ListedFile], model: Candidate, budget_bytes: int | None = None) -> ListedFile | None:
    """The model's projector (mmproj): by nearest parent folder, then by name, then the best type with which both files
    fit into `budget_bytes`, else the smallest."""
    base = without_quant(model.files[0].path)
    room = None if budget_bytes is None else budget_bytes - sum(file.size_bytes for file in model.files)

    def rank(file: ListedFile) -> tuple[int, bool, int, int, str]:
        quant = quant_of(file.path)
        kind = len(_PROJECTOR_ORDER) + (quant == "F32")
        order = _PROJECTOR_ORDER.index(quant) if quant in _PROJECTOR_ORDER else kind
        if room is not None and file.size_bytes > room:
            order = len(_PROJECTOR_ORDER) + 2
        by_size = file.size_bytes if order > len(_PROJECTOR_ORDER) + 1 else 0
        return -len(file.folder), base not in file.name.lower(), order, by_size, file.path

    model_folder = f"{model.files[0].folder}/"
    near = [
        file
        for file in files
        if "mmproj" in file.name.lower() and (not file.folder or model_folder.startswith(f"{file.folder}/"))
    ]
    return min(near, key=rank, default=None)


def _asked(found: list[Candidate], quant: str, repo: str) -> Choice:
    wanted = normal(quant)
    matches = [one for one in found if one.quant == wanted]
    matches = matches or [one for one in found if one.quant is not None and plain(one.quant) == plain(wanted)]
    matches = matches or [one for one in found if one.files[0].name.lower() == quant.lower()]
    if not matches:
        raise ModelNotFound(f"{repo} has no {quant}; it has {_listed(found)}", param="model")
    whole = [one for one in matches if one.whole]
    if not whole:
        raise _incomplete(matches[0], repo)
    if len(whole) > 1:
        raise _several(whole, f"in {quant}", repo)
    notice = None
    if whole[0].quant in REMOVED:
        notice = f"llama.cpp no longer reads {whole[0].quant}; use Q4_0, which it repacks when loading"
    return Choice(whole[0], notice=notice)


def _guessed(one: Candidate, extra_bytes: int) -> int:
    return needed_bytes(one.size_bytes + extra_bytes)


def _default(whole: list[Candidate], budget_bytes: int | None, repo: str, extra_bytes: int, needs: Needs) -> Choice:
    def fits(one: Candidate) -> bool:
        return budget_bytes is None or needs(one, extra_bytes) <= budget_bytes

    room = "" if budget_bytes is None else f" for {shown_size(budget_bytes)} of memory"
    usual = [one for one in whole if one.quant not in REMOVED] or whole
    if len(usual) == 1:
        notice = None if fits(usual[0]) else _too_large(usual[0], needs(usual[0], extra_bytes), budget_bytes)
        return Choice(usual[0], "it is the only one", notice)
    for quant, most_bytes in SMALL_BYTES:
        small = _in(usual, quant)
        if small and small[0].size_bytes <= most_bytes and fits(small[0]):
            return Choice(_one(small, repo), "the model is small, and this quantization is nearly lossless")
    ranked = _ranked(usual)
    fitting = next((same for same in ranked if fits(same[0])), None)
    if fitting is None:
        smallest = min(usual, key=lambda one: one.size_bytes)
        return Choice(
            smallest, "it is the smallest one", _too_large(smallest, needs(smallest, extra_bytes), budget_bytes)
        )
    chosen = _one(fitting, repo)
    if fitting is ranked[0]:
        return Choice(chosen, "it is the usual compromise between size and quality")
    return Choice(chosen, f"{ranked[0][0]} is too large{room}")


def _ranked(usual: list[Candidate]) -> list[list[Candidate]]:
    """Candidates by preference. Those in one list differ only in the model; without four bits, the next larger."""
    four = [one for one in usual if one.quant is not None and bits(one.quant) == 4]
    less = [one for one in usual if one.quant is not None and 0 < bits(one.quant) < 4]
    more = [one for one in usual if one not in four and one not in less]
    ordered: list[list[Candidate]] = []
    for group, names in ((four, FOUR_BITS), ([] if four else more, LARGER), (less, SMALLER)):
        known = [same for name in names if (same := _in(group, name))]
        rest = [one for one in group if not any(one in same for same in known)]
        ordered += known
        ordered += [[one for one in rest if one.quant == quant] for quant in dict.fromkeys(one.quant for one in rest)]
    return ordered


def _in(group: list[Candidate], quant: str) -> list[Candidate]:
    return [one for one in group if one.quant == quant] or [
        one for one in group if one.quant is not None and plain(one.quant) == quant
    ]


def _one(same: list[Candidate], repo: str) -> Candidate:
    if len(same) > 1:
        raise _several(same, f"in {same[0].quant}" if same[0].quant else "without a quantization in its name", repo)
    return same[0]


def _several(same: list[Candidate], what: str, repo: str) -> InvalidParameter:
    named = [(name, one) for one in same if (name := hub_file(repo, one.files[0].path)) is not None]
    names = _some([f"{shell_word(name)} ({shown_size(one.size_bytes)})" for name, one in named])
    return InvalidParameter(f"{repo} has more than one model {what}; give the name of a file: {names}", param="model")


def _incomplete(one: Candidate, repo: str) -> ModelNotFound:
    return ModelNotFound(
        f"{repo} has only {len(one.files):,} of the {one.num_shards:,} files of {one.stem}",
        param="model",
    )


def _too_large(one: Candidate, need_bytes: int, budget_bytes: int | None) -> str:
    needed, there = shown_size(need_bytes), shown_size(budget_bytes or 0)
    return f"{one} will probably not fit in memory: it needs about {needed}, and {there} are available"


def _listed(found: list[Candidate]) -> str:
    """Quantizations with their sizes, small ones first; file names for models without a quantization."""
    return _some([str(one) for one in sorted(found, key=lambda one: one.size_bytes) if one.whole])


def _some(names: list[str]) -> str:
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "") if names else "nothing else"
