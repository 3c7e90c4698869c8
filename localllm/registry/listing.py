"""Lists, copies and removes the models on this machine. Knows nothing of what is loaded."""

from __future__ import annotations

import datetime
import logging
from pathlib import Path
from typing import NamedTuple

import msgspec

from localllm.errors import InvalidParameter, LoadFailed, LocalLLMError, ModelNotFound
from localllm.planning.tuned import TuningFile, Tunings
from localllm.planning.tuned import forget as forget_tunings
from localllm.registry.disk.layout import Layout
from localllm.registry.disk.manifests import DamagedManifest
from localllm.registry.disk.store import Store
from localllm.registry.manifest import Manifest
from localllm.registry.names.model_names import DEMO, Demo, PathName, parse
from localllm.registry.names.suggested import storable
from localllm.registry.resolve import canonical, demo_files, find, not_here
from localllm.types.states import AvailableModel

logger = logging.getLogger("localllm")


def store_of(data_dir: Path) -> Store:
    """The model store of a data directory. Opening it creates nothing."""
    return Store(data_dir / "models")


def available(data_dir: Path) -> list[AvailableModel]:
    """The bundled model, then all usable models of the store."""
    return [model for model in listed(data_dir) if model.problem is None]


def listed(data_dir: Path) -> list[AvailableModel]:
    """As `available`, and models with a `problem`: those that lack a file or have one of the wrong size, then those
    with a damaged manifest, which are logged."""
    demo = [file.stat() for file in demo_files()]
    size, created = sum(file.st_size for file in demo), int(demo[0].st_mtime)
    models = [AvailableModel(id=DEMO, size_bytes=size, created_unix_s=created, quant="Q8_0")]
    store = store_of(data_dir)
    manifests, damaged = store.scan()
    for each in damaged:
        logger.warning("manifest_damaged", extra={"fields": {"path": str(each.path), "reason": each.reason}})
    return [
        *models,
        *(msgspec.structs.replace(described(each), problem=_problem(each, store)) for each in manifests),
        *(
            AvailableModel(
                id=each.name,
                size_bytes=0,
                created_unix_s=each.modified_unix_s,
                problem=f"its manifest is damaged: {each.remedy}",
            )
            for each in damaged
        ),
    ]


def described(manifest: Manifest) -> AvailableModel:
    """The entry of a list that describes this manifest."""
    return AvailableModel(
        id=manifest.name,
        size_bytes=manifest.size_bytes,
        created_unix_s=int(datetime.datetime.fromisoformat(manifest.created_at).timestamp()),
        quant=manifest.quant,
        license=manifest.license,
        source=manifest.source,
    )


def _problem(manifest: Manifest, store: Store) -> str | None:
    """What is wrong with the files, with the remedy. Does not read them."""
    try:
        for file in manifest.files:
            store.locate(manifest, file)
    except LocalLLMError as error:
        return error.public
    except OSError as error:
        return f"its files cannot be looked at: {error.strerror or error}"
    return None


def stored(name: str, data_dir: Path) -> Manifest:
    """A model of the store. Raises `ModelNotFound`, `InvalidModelFile` for a damaged manifest."""
    wanted = parse(name)
    if isinstance(wanted, Demo):
        raise InvalidParameter("demo is part of localllm; if it is damaged, reinstall localllm", param="model")
    store = store_of(data_dir)
    manifest = find(wanted, store)
    if manifest is None:
        raise not_here(wanted, store)
    return manifest


def id_of(name: str, data_dir: Path) -> str:
    """The id under which the model of that name is loaded, whether it is on this machine or not.

    Raises `InvalidParameter` for an invalid name.
    """
    wanted = parse(name)
    if isinstance(wanted, Demo | PathName):
        return str(wanted)
    try:
        manifest = find(wanted, store_of(data_dir))
    except LoadFailed:  # loading or removing it reports the damage
        manifest = None
    return str(canonical(wanted)) if manifest is None else manifest.name


class RemovedModel(NamedTuple):
    """A removed model."""

    name: str
    digests: frozenset[str] = frozenset()
    """Of its files, as far as they are known."""


def remove(name: str, data_dir: Path) -> RemovedModel:
    """Removes a model from the store, even if its manifest is damaged. Raises `ModelNotFound`.

    The next `gc` deletes its files unless something else needs them. Removing its last name also deletes the results
    of `localllm tune`.
    """
    store = store_of(data_dir)
    damaged = _damaged(name, store)
    if damaged is not None:
        store.remove_damaged(damaged)
        return RemovedModel(damaged.name, frozenset(damaged.digests or ()))
    wanted = parse(name)
    if isinstance(wanted, Demo):
        raise ModelNotFound("demo is part of localllm and cannot be removed", param="model")
    manifest = find(wanted, store)
    if manifest is None:
        raise not_here(wanted, store)
    tunings = _tunings_of(manifest, store, data_dir)
    store.remove(parse(manifest.name))
    if tunings is not None and not _has_other_name(manifest, store):
        forget_tunings(tunings)
    return RemovedModel(manifest.name, frozenset(str(file.digest) for file in manifest.files if file.path is None))


def _tunings_of(manifest: Manifest, store: Store, data_dir: Path) -> TuningFile | None:
    """The file of the model's tuning results; None if the model's file, which determines its name, is gone."""
    try:
        return Tunings(data_dir).kept(store.locate(manifest, manifest.files[0]))
    except (LocalLLMError, OSError):
        return None


def _has_other_name(removed: Manifest, store: Store) -> bool:
    """Whether another name has the same file; a manifest that cannot be read counts as one."""
    digest = removed.files[0].digest
    manifests, damaged = store.scan()
    if any(digest in {file.digest for file in each.files} for each in manifests):
        return True
    return any(each.digests is None or str(digest) in map(str, each.digests) for each in damaged)


def remove_whole(name: str, data_dir: Path) -> RemovedModel:
    """As `remove`, and also deletes files that nothing else needs: immediately, or when the model is unloaded."""
    removed = remove(name, data_dir)
    store_of(data_dir).gc()
    return removed


def own_bytes(name: str, data_dir: Path) -> int | None:
    """Bytes that removing this model would free; None if its manifest is damaged. Raises as `remove`."""
    if _damaged(name, store_of(data_dir)) is not None:
        return None
    wanted = parse(name)
    if isinstance(wanted, Demo):
        raise ModelNotFound("demo is part of localllm and cannot be removed", param="model")
    store = store_of(data_dir)
    manifest = find(wanted, store)
    if manifest is None:
        raise not_here(wanted, store)
    others = {file.digest for each in store.scan()[0] if each.name != manifest.name for file in each.files}
    own = {file.digest: file.size_bytes for file in manifest.files if file.path is None and file.digest not in others}
    return sum(own.values())


def _damaged(name: str, store: Store) -> DamagedManifest | None:
    """The damaged manifest of this model, or with this file name."""
    try:
        wanted = canonical(parse(name))
        names = {name, str(wanted), Layout(store.root).manifest(wanted).stem}
    except InvalidParameter:
        names = {name}
    return next((each for each in store.scan()[1] if {each.name, Path(each.path).stem} & names), None)


def copy(source: str, target: str, data_dir: Path) -> Manifest:
    """Gives a model of the store a second name. Raises `ModelNotFound`, `InvalidParameter` for an invalid name."""
    if isinstance(parse(source), Demo):
        raise InvalidParameter(
            "demo is part of localllm; to build on it, use localllm create with FROM demo", param="source"
        )
    return store_of(data_dir).copy(parse(stored(source, data_dir).name), parse(storable(target)))
