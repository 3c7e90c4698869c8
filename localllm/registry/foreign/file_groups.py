"""Groups files into models: shards together, a projector with its model, described by their headers.

Knows nothing of which program the files belong to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from localllm.registry.foreign.foreign_model import ForeignFile, ForeignModel, Tool, file_name_of
from localllm.registry.foreign.header_facts import Facts, examine
from localllm.registry.foreign.walk import size_of
from localllm.registry.names.digest import Digest
from localllm.registry.names.suggested import canonical, short_name
from localllm.registry.sources import choose
from localllm.registry.sources.choose import Candidate, ListedFile
from localllm.registry.sources.quants import quant_of, shard_name, split_shard, without_quant


@dataclass(frozen=True)
class ScannedFile:
    """One GGUF file, by its path in a repository or folder."""

    path: Path
    relative: str
    """With slashes."""
    size_bytes: int = 0
    digest: Digest | None = None
    problem: str | None = None


@dataclass(frozen=True)
class GroupLocation:
    """The location of a group of files."""

    tool: Tool
    folder: Path
    repo: str | None = None
    """USER/REPO on Hugging Face, if known."""
    revision: str | None = None
    latest: bool = True
    """Whether a name without a revision means this revision."""


def found_at(path: Path, relative: str) -> ScannedFile:
    """The file at that path, with links followed."""
    size = size_of(path)
    if size is None:
        problem = "is a link to a missing file" if path.is_symlink() else "is not a regular file"
        return ScannedFile(path, relative, problem=problem)
    return ScannedFile(path.resolve(), relative, size)


def models(files: Sequence[ScannedFile], place: GroupLocation) -> Iterator[ForeignModel]:
    """Groups the files. In a repository a projector belongs to every model, elsewhere only to one of its name."""
    groups: dict[tuple[str, int], list[ScannedFile]] = {}
    projectors = [file for file in files if "mmproj" in file.relative.rpartition("/")[2].lower()]
    for file in files:
        if file not in projectors:
            stem, _, count = split_shard(file.relative)
            groups.setdefault((stem, count), []).append(file)
    bases = {without_quant(parts[0].relative) for parts in groups.values()}
    for (stem, count), parts in groups.items():
        ordered = sorted(parts, key=lambda file: split_shard(file.relative)[1])
        allowed = [
            file
            for file in projectors
            if place.repo is not None or len(bases) == 1 or without_quant(ordered[0].relative) in file.relative.lower()
        ]
        yield _model(ordered, stem, count, _projector(allowed, ordered), place)
    if not groups:
        for file in projectors:
            yield _model([file], split_shard(file.relative)[0], 1, None, place)


def describe(model: ForeignModel) -> ForeignModel:
    """Adds facts from the files' headers, and the first problem found in them."""
    problem = model.problem
    first: Facts | None = None
    num_parameters = 0
    for file in model.files:
        facts = examine(file.path, file.role)
        if facts.problem is not None and problem is None:
            of_file = "" if file is model.files[0] else f"includes the file {file.file_name}, which "
            problem = of_file + facts.problem
        if file.role == "model":
            num_parameters += facts.num_parameters
            first = first or facts
    if first is None:
        return model
    return dataclasses.replace(
        model,
        architecture=first.architecture,
        quant=model.quant or first.quant,
        num_parameters=num_parameters or None,
        license=model.license or first.license,
        problem=problem,
    )


def projector_beside(model: Path) -> Path | None:
    """The projector for a bare file (of a split model, its first) among the files of its folder, as `models` groups
    them; of several types of the same, the one that a pull would take. None also if the folder cannot be read."""
    try:
        found = [path for path in model.parent.iterdir() if path.suffix.lower() == ".gguf" and path.is_file()]
    except OSError:
        return None
    projectors = [ScannedFile(path, path.name, size_of(path) or 0) for path in found if "mmproj" in path.name.lower()]
    bases = {without_quant(split_shard(path.name)[0]) for path in found if "mmproj" not in path.name.lower()}
    own = without_quant(split_shard(model.name)[0])
    allowed = [each for each in projectors if len(bases) <= 1 or own in each.relative.lower()]
    chosen = _projector(allowed, [ScannedFile(model, model.name)])
    return None if chosen is None else chosen.path


def _projector(projectors: Iterable[ScannedFile], model: Sequence[ScannedFile]) -> ScannedFile | None:
    by_path = {file.relative: file for file in projectors}
    listed = [ListedFile(file.relative, file.size_bytes) for file in by_path.values()]
    chosen = choose.projector(listed, Candidate((ListedFile(model[0].relative, model[0].size_bytes),)))
    return None if chosen is None else by_path[chosen.path]


def _model(
    parts: list[ScannedFile], stem: str, count: int, projector: ScannedFile | None, place: GroupLocation
) -> ForeignModel:
    problem = next((f"includes the file {file.relative}, which {file.problem}" for file in parts if file.problem), None)
    missing = {shard_name(stem, number, count) for number in range(1, min(count, 1000) + 1)}
    missing -= {shard_name(*split_shard(file.relative)) for file in parts}
    if missing and count > 1:
        problem = f"is incomplete: {len(parts)} of its {count} files exist"
    files = [_file(file, "model") for file in parts if file.problem is None]
    if projector is not None and projector.problem is None:
        files.append(_file(projector, "projector"))
    relative = parts[0].relative
    source = str(parts[0].path)
    if place.repo is not None and place.revision is not None:
        source = f"hf.co/{place.repo}@{place.revision}"
    model = describe(
        ForeignModel(
            tool=place.tool,
            name=f"{place.repo}/{relative}" if place.repo else stem.rpartition("/")[2],
            suggested_name="",
            source=source,
            files=tuple(files),
            quant=quant_of(relative),
            problem=problem,
        )
    )
    best, *others = _names(place, relative, model.quant)
    return dataclasses.replace(model, suggested_name=best, other_names=tuple(others))


def _file(file: ScannedFile, role: str) -> ForeignFile:
    return ForeignFile(
        role="projector" if role == "projector" else "model",
        path=file.path,
        file_name=file_name_of(file.relative.rpartition("/")[2]),
        size_bytes=file.size_bytes,
        digest=file.digest,
    )


def _names(place: GroupLocation, relative: str, quant: str | None) -> list[str]:
    """Possible names, best first; never empty."""
    wanted: list[str] = []
    if place.repo is not None:
        at = "" if place.latest or place.revision is None else f"@{place.revision}"
        if quant is not None:
            wanted.append(f"hf.co/{place.repo}:{quant}{at}")
        wanted.append(f"hf:{place.repo}/{relative}{at}")
    names = [name for text in wanted if (name := canonical(text)) is not None]
    short = short_name(relative)
    return [*names, short, *(f"{short}-{number}" for number in range(2, 10))]
