"""What is on this machine, for lists; and forgetting it. Knows nothing of what is loaded."""

from __future__ import annotations

import datetime
import logging
from pathlib import Path

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.registry.disk.store import Store
from localllm.registry.manifest import Manifest
from localllm.registry.names import DEMO, Demo, parse
from localllm.registry.resolve import carried, find, not_here
from localllm.states import AvailableModel

logger = logging.getLogger("localllm")


def store_of(data_dir: Path) -> Store:
    """The model store of a data directory. Looking at it creates nothing."""
    return Store(data_dir / "models")


def available(data_dir: Path) -> list[AvailableModel]:
    """The carried model and those of the store; a manifest that cannot be read is named in the log."""
    demo = carried("demo.gguf").stat()
    models = [AvailableModel(id=DEMO, size_bytes=demo.st_size, created_unix_s=int(demo.st_mtime), quant="Q8_0")]
    manifests, damaged = store_of(data_dir).scan()
    for each in damaged:
        logger.warning("manifest_damaged", extra={"fields": {"path": str(each.path), "reason": each.reason}})
    return models + [described(manifest) for manifest in manifests]


def described(manifest: Manifest) -> AvailableModel:
    """A manifest's facts."""
    return AvailableModel(
        id=manifest.name,
        size_bytes=manifest.size_bytes,
        created_unix_s=int(datetime.datetime.fromisoformat(manifest.created_at).timestamp()),
        quant=manifest.quant,
        license=manifest.license,
        source=manifest.source,
    )


def remove(name: str, data_dir: Path) -> Manifest:
    """Forgets a model of the store; its bytes go with the next `gc`. Raises `ModelNotFound`."""
    wanted = parse(name)
    if isinstance(wanted, Demo):
        raise ModelNotFound("demo is a part of localllm and cannot be removed", param="model")
    store = store_of(data_dir)
    manifest = find(wanted, store)
    if manifest is None:
        raise not_here(wanted)
    return store.remove(parse(manifest.name))


def copy(source: str, target: str, data_dir: Path) -> Manifest:
    """A second name for a model of the store. Raises `ModelNotFound`, `InvalidParameter` for a name that is no name."""
    store, wanted = store_of(data_dir), parse(source)
    if isinstance(wanted, Demo):
        raise InvalidParameter("demo is a part of localllm; localllm create makes a model FROM demo", param="source")
    manifest = find(wanted, store)
    if manifest is None:
        raise not_here(wanted)
    return store.copy(parse(manifest.name), parse(target))
