"""Resolves a name, typed or received over HTTP, to a local model: the bundled one, one of the store, or a file.

Knows nothing of networks: for a missing model, the error gives the command that downloads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from localllm.errors import InvalidParameter, ModelNotFound, clipped
from localllm.registry.again import again
from localllm.registry.names.model_names import DEFAULT_TAG, CatalogName, Demo, ModelName, PathName, VersionName, parse
from localllm.registry.sources.quants import split_shard
from localllm.settings.model_names import MAX_NAMED, listed, similar
from localllm.system.shell_words import shell_word
from localllm.types import ModelDefaults

if TYPE_CHECKING:
    from localllm.registry.disk.store import Store
    from localllm.registry.manifest import Manifest


LEAST_DIGITS = 8
"""Of a digest, in the name of a version."""
SHOWN_DIGITS = 12


class ModelFile(NamedTuple):
    """A model on this machine."""

    id: str
    """Its canonical name; for a bare file, the file name without `.gguf` and without the shard number."""
    path: Path
    defaults: ModelDefaults = ModelDefaults()
    template: str | None = None
    """A chat template that replaces the file's own."""
    ctx: int | None = None
    """Context length set by its manifest."""
    release: Callable[[], None] = lambda: None
    """To be called once the file is no longer needed; until then the store keeps it."""
    projector: Path | None = None
    """The projector that came with it."""
    is_bare: bool = False
    """Whether it is a file named by its path, which no store knows."""
    remedy: str | None = None
    """What to do if the file of a stored model turns out to be damaged: a phrase."""


def resolve(name: str | Path, data_dir: Path, *, allow_paths: bool = True) -> ModelFile:
    """The model of that name. Without `allow_paths` (names from clients), errors reveal nothing about local files.

    Raises `InvalidParameter` for an invalid name, `ModelNotFound` for a model that is not on this machine, `LoadFailed`
    for a stored model with a missing file.
    """
    wanted = PathName(str(name)) if isinstance(name, Path) else _parse(name, allow_paths=allow_paths)
    if isinstance(wanted, Demo):
        model, projector = demo_files()
        return ModelFile(str(wanted), model, projector=projector)
    if not isinstance(wanted, PathName):
        from localllm.registry.disk.store import Store

        store = Store(data_dir / "models")
        manifest = find(wanted, store)
        if manifest is None:
            raise not_here(wanted, store)
        return _opened(store, manifest)
    if not allow_paths:
        raise ModelNotFound(f"no model is called {clipped(wanted.path)!r}; paths are not accepted here", param="model")
    path = Path(wanted.path).expanduser()
    if not path.exists():
        raise ModelNotFound(
            f"there is no model file {clipped(wanted.path)!r}; give the path of a GGUF file, or demo",
            param="model",
            public=f"the file of {model_id(path)} no longer exists",
        )
    path = _in_folder(path) if path.is_dir() else path
    # Its own name stays: in Hugging Face's cache, names are links to files called by their digests.
    return ModelFile(model_id(path), path.parent.resolve() / path.name, is_bare=True)


def _in_folder(folder: Path) -> Path:
    """The only model in a folder: its GGUF file, or the first of its shards."""
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".gguf" and _is_model(path.name))
    if len(found) == 1:
        return found[0]
    if not found:
        raise ModelNotFound(f"there is no GGUF file in the folder {clipped(str(folder))!r}", param="model")
    names = ", ".join(path.name for path in found[:5]) + (" ..." if len(found) > 5 else "")
    raise InvalidParameter(f"the folder {clipped(str(folder))!r} has several models: {names}; name one", param="model")


def _is_model(name: str) -> bool:
    _, number, count = split_shard(name)
    return (count == 1 or number == 1) and "mmproj" not in name.lower()


def canonical(name: ModelName) -> ModelName:
    """Adds the default tag to a short name of the catalog, which `latest` stands for; returns other names unchanged."""
    if isinstance(name, CatalogName) and name.tag in (None, DEFAULT_TAG):
        from localllm.registry import catalog

        entry = catalog.load().find(name.name)
        if entry is not None:
            return CatalogName(entry.name, entry.tag)
    return name


def find(name: ModelName, store: Store) -> Manifest | None:
    """The stored model of this name; a short name without a tag means a local model first, then the catalog's.

    `x:latest` means `x`, as for Ollama, unless a model has that very name. `x@VERSION` means the model of that very
    name, or `x` or a version of it whose digest begins with these digits.
    """
    if isinstance(name, VersionName):
        return store.find(name) or _by_digest(name, store)
    meant: list[ModelName] = [name]
    if isinstance(name, CatalogName) and name.tag == DEFAULT_TAG:
        meant.append(CatalogName(name.name))
    if canonical(name) != name:
        meant.append(canonical(name))
    return next((found for each in meant if (found := store.find(each)) is not None), None)


def _by_digest(name: VersionName, store: Store) -> Manifest | None:
    if len(name.version) < LEAST_DIGITS or not set(name.version) <= set("0123456789abcdef"):
        return None
    now = find(name.of, store)
    versions = [*([] if now is None else [now]), *versions_of(name.of, store)]
    return next((each for each in versions if each.digest.startswith(name.version)), None)


def versions_of(name: CatalogName, store: Store) -> list[Manifest]:
    """The labelled versions of a model."""
    names = {str(name), str(canonical(name))}
    return [each for each in store.list() if isinstance(of := parse(each.name), VersionName) and str(of.of) in names]


def among(ids: Collection[str], name: str) -> str | None:
    """Which of these models the name means, in the order of `find`; None: none of them."""
    bare = name.removesuffix(f":{DEFAULT_TAG}")
    if name in ids or bare in ids:
        return name if name in ids else bare
    try:
        full = str(canonical(parse(name)))
    except InvalidParameter:
        return None
    return full if full in ids else None


def is_downloadable(name: str) -> bool:
    """Whether this is the name of a model that can be pulled: one of the catalog, or one that says from where."""
    try:
        wanted = parse(name)
    except InvalidParameter:
        return False
    if isinstance(wanted, CatalogName):
        from localllm.registry import catalog

        return catalog.load().find(wanted.name, wanted.tag) is not None
    return not isinstance(wanted, PathName | Demo | VersionName)


def unknown(name: str, here: Collection[str]) -> ModelNotFound:
    """The error for a name from a client that is none of the models `here`: similar names, or how to get it."""
    shown = clipped(name)
    if is_downloadable(name):
        remedy = f"localllm pull {shell_word(shown)} downloads it, as does POST /localllm/pull"
    elif meant := similar(name, here):
        remedy = f"did you mean {' or '.join(meant)}?"
    else:
        remedy = f"there are: {listed(here)}" if here else "there are none yet"
    return ModelNotFound(f"no model is called {shown!r} here; {remedy}", param="model")


def not_here(name: ModelName, store: Store) -> ModelNotFound:
    """The error for a model that is not on this machine; it says how to get it, or what may have been meant."""
    name = canonical(name)
    if isinstance(name, VersionName):
        return ModelNotFound(
            f"no model here is {name}; localllm cp {name.of} {name} gives this label to what {name.of} is now, and "
            "localllm show prints its version",
            param="model",
        )
    if not isinstance(name, CatalogName):
        return ModelNotFound(
            f"{name} is not on this machine; localllm pull {shell_word(name)} downloads it", param="model"
        )
    from localllm.registry import catalog

    entry = catalog.load().find(name.name, name.tag)
    if entry is not None:
        return ModelNotFound(
            f"{entry.id} is not on this machine; localllm pull {entry.id} downloads it: hf.co/{entry.repo} "
            f"({entry.quant}, about {entry.size_bytes / 1e9:.1f} GB, {entry.license})",
            param="model",
        )
    here = similar(str(name), [*(manifest.name for manifest in store.list()), str(Demo())])
    close = list(dict.fromkeys([*here, *catalog.load().suggest(str(name))]))[:MAX_NAMED]
    meant = f"; did you mean {' or '.join(close)}?" if close else "; localllm search finds more"
    return ModelNotFound(
        f"no model is called {clipped(str(name))!r}{meant} (a file's path begins with ./)", param="model"
    )


def _parse(text: str, *, allow_paths: bool) -> ModelName:
    try:
        return parse(text)
    except InvalidParameter as error:
        if not allow_paths:
            raise ModelNotFound(error.message, param="model") from error
        if text and "\0" not in text and Path(text).exists():  # it cannot mean anything else
            return PathName(text)
        raise


def _opened(store: Store, manifest: Manifest) -> ModelFile:
    opened = store.open_model(manifest)
    defaults = ModelDefaults(
        params=msgspec.structs.replace(manifest.params, stop=manifest.stop),
        system=manifest.system,
        messages=manifest.messages,
    )
    check = f"localllm verify {shell_word(manifest.name)}"
    remedy = f"{check} checks its files and sets damaged ones aside; then {again(manifest)}"
    return ModelFile(
        manifest.name, opened.path, defaults, manifest.template, manifest.ctx, opened.close, opened.projector,
        remedy=remedy,
    )  # fmt: skip


def demo_files() -> tuple[Path, Path]:
    """The bundled model and its projector. Raises `ModelNotFound` as `carried`."""
    return carried("demo.gguf"), carried("demo-mmproj.gguf")


def carried(file_name: str) -> Path:
    """A file of the package's data folder. Raises `ModelNotFound` if the installation lacks it."""
    import importlib.resources

    path = Path(str(importlib.resources.files("localllm").joinpath("data", file_name)))
    if not path.is_file():
        raise ModelNotFound(
            f"this installation lacks {file_name}; give the path of a GGUF file, or build it: see models/demo/CARD.md",
            param="model",
        )
    return path


def model_id(path: Path) -> str:
    """`dir/tiny-Q8_0.gguf` is `tiny-Q8_0`; `big-00001-of-00003.gguf` is `big`."""
    stem = os.fsencode(path.name).decode("utf-8", "replace").removesuffix(".gguf")
    head, _, tail = stem.rpartition("-of-")
    base, _, number = head.rpartition("-")
    return base if base and tail.isdigit() and number.isdigit() and len(tail) == len(number) == 5 else stem
