"""A model under an adapter that a client uploaded: the adapter is kept under the model's name.

Never opens a path given by a client. Knows nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from localllm.errors import InvalidModelFile, InvalidParameter, clipped
from localllm.registry.adapters.shelf import Shelf
from localllm.registry.listing import store_of
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import DEFAULT_TAG
from localllm.types.states import AvailableModel, MakeState, NewModel

_OF_ITS_BASE = ("files", "modelfile", "template", "system", "parameters", "messages", "quantize")


def add_uploaded(wanted: NewModel, data_dir: Path, report: Callable[[MakeState], None]) -> AvailableModel:
    """Keeps the adapter, of an uploaded file, as `wanted.name`. Raises `InvalidParameter`, `ModelNotFound`,
    `DiskFull`."""
    for field in _OF_ITS_BASE:
        if getattr(wanted, field):
            raise InvalidParameter(
                f"a model under an adapter has its base's {field}; leave out {field}, or create a base with it first",
                param=field,
            )
    if not wanted.base:
        raise InvalidParameter("adapters: name the model that they are for (from)", param="from")
    if len(wanted.adapters) > 1:
        raise InvalidParameter(f"adapters has {len(wanted.adapters)} files; one GGUF file is taken", param="adapters")
    ((file_name, text),) = wanted.adapters.items()
    digest, store = Digest.parse(text), store_of(data_dir)
    name = wanted.name.removesuffix(f":{DEFAULT_TAG}")
    with store.hold(f"create of {name}") as hold:
        hold.add(digest)
        if not store.has_blob(digest, None):
            raise InvalidParameter(
                f"adapters: {digest} ({clipped(file_name)}) has not been uploaded; send it to /api/blobs first",
                param="adapters",
            )
        report(MakeState(phase="reading"))
        try:
            added = Shelf(data_dir).add(wanted.base, name, store.blob_path(digest), source=Path(file_name).name)
        except InvalidModelFile as error:
            raise InvalidParameter(
                f"adapters: {clipped(file_name)}: {error.details.get('reason') or error.public}", param="adapters"
            ) from error
    report(MakeState(phase="using", digest=str(digest), is_new=True))
    report(MakeState(phase="writing"))
    return AvailableModel(
        id=added.name,
        size_bytes=added.size_bytes,
        created_unix_s=added.created_unix_s,
        source=added.source,
        base=added.base,
    )
