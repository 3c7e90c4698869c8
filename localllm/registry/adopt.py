"""Finds models that other programs have downloaded, and adds them to the store without copying.

Finding reads names, small text files and GGUF headers. Adopting hashes every file once and compares the result with
what the other program recorded. The files stay in place; nothing that belongs to the other program is changed.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from localllm.errors import InvalidModelFile, InvalidParameter
from localllm.gguf import read_model_info
from localllm.registry.disk.intake import How
from localllm.registry.disk.locks import Hold
from localllm.registry.disk.store import Store, now_text
from localllm.registry.foreign import folders, hf_cache, ollama
from localllm.registry.foreign.file_groups import describe
from localllm.registry.foreign.foreign_model import ForeignFile, ForeignModel, Root, Skipped
from localllm.registry.foreign.roots import default_roots
from localllm.registry.manifest import Manifest, StoredFile
from localllm.registry.names import model_names
from localllm.registry.names.suggested import storable
from localllm.registry.remote import OnBytes

_SCANS = {
    "ollama": ollama.scan,
    "huggingface": hf_cache.scan,
    "lmstudio": folders.scan_lmstudio,
    "llama.cpp": folders.scan_llama_cpp,
    "folder": folders.scan_path,
}


def find_foreign(roots: Sequence[Root] | None = None, *, skipped: Skipped) -> Iterator[ForeignModel]:
    """Yields every model under the roots (by default: those of all known programs) as it is found.

    Broken models have a `problem`; `skipped` is called for whatever could not be read. A file found twice yields one
    model, and every `suggested_name` is unique.
    """
    seen: dict[tuple[Path, ...], str] = {}
    taken: set[str] = set()
    for root in default_roots() if roots is None else roots:
        for model in _SCANS[root.tool](root.path, skipped):
            paths = tuple(file.path for file in model.files)
            if paths and paths in seen:
                skipped(f"{model.name} ({model.tool}) is the same file as {seen[paths]}")
                continue
            seen[paths] = f"{model.name} ({model.tool})"
            model = _named_once(model, taken)
            taken.add(model.suggested_name.lower())
            yield model


def adopt(
    foreign: ForeignModel,
    store: Store,
    *,
    name: str | None = None,
    how: How = "auto",
    on_bytes: OnBytes | None = None,
    cancel: threading.Event | None = None,
) -> Manifest:
    """Verify the model's files, add them to the store, and publish the model as `name` (default: its suggested name).

    Raises `InvalidModelFile` for a model that is broken or differs from what its program recorded, `InvalidParameter`
    for the name, and what the store raises. Hashes computed before an error stay in the store's cache.
    """
    canonical = storable(name or foreign.suggested_name)
    current = describe(foreign)  # it may have changed since the scan
    if current.problem is not None:
        raise InvalidModelFile(f"{foreign.name} ({foreign.tool}) {current.problem}", path=foreign.source)
    with store.hold(f"import of {canonical}") as hold:
        files = tuple(_take(file, store, how, hold, on_bytes, cancel) for file in foreign.files)
        manifest = Manifest(
            name=canonical,
            source=foreign.source,
            created_at=now_text(),
            files=files,
            quant=current.quant,
            license=current.license,
            license_text=foreign.license_text,
            system=foreign.system,
            template=foreign.template,
            messages=foreign.messages,
            params=foreign.params,
            stop=foreign.stop,
            ctx=foreign.ctx,
        )
        if manifest.template is None and foreign.fallback_template is not None:
            with store.open_model(manifest) as opened:
                has_own = bool(read_model_info(opened.path).chat_templates)
            if not has_own:
                manifest = msgspec.structs.replace(manifest, template=foreign.fallback_template)
        _check_not_taken(manifest, store, asked=name is not None)
        store.put(manifest)
    return manifest


def is_adopted(foreign: ForeignModel, store: Store, name: str | None = None) -> bool:
    """Whether the store already has these files under that name, judged without reading them."""
    manifest = store.find(model_names.parse(storable(name or foreign.suggested_name)))
    if manifest is None or len(manifest.files) != len(foreign.files):
        return False
    return all(_is_same(file, kept, store) for file, kept in zip(foreign.files, manifest.files, strict=True))


def _take(
    file: ForeignFile, store: Store, how: How, hold: Hold, on_bytes: OnBytes | None, cancel: threading.Event | None
) -> StoredFile:
    """Adds one file, verified; a file whose blob the store already has is not read again."""
    if file.digest is not None:
        hold.add(file.digest)
        if store.has_blob(file.digest, file.size_bytes):
            if on_bytes is not None:
                on_bytes(file.size_bytes)
            return StoredFile(role=file.role, file_name=file.file_name, size_bytes=file.size_bytes, digest=file.digest)
    return store.add_file(
        file.path,
        digest=file.digest,
        how=how,
        role=file.role,
        file_name=file.file_name,
        hold=hold,
        on_bytes=on_bytes,
        cancel=cancel,
    )


def _check_not_taken(manifest: Manifest, store: Store, *, asked: bool) -> None:
    """A suggested name must not replace another model; one that the user typed may."""
    there = None if asked else store.find(model_names.parse(manifest.name))
    if there is not None and [file.digest for file in there.files] != [file.digest for file in manifest.files]:
        raise InvalidParameter(
            f"another model is already called {manifest.name}; choose a name for this one with --name",
            param="name",
        )


def _is_same(file: ForeignFile, kept: StoredFile, store: Store) -> bool:
    if kept.size_bytes != file.size_bytes or kept.role != file.role:
        return False
    try:
        path = Path(kept.path) if kept.path is not None else store.blob_path(kept.digest)
        if kept.path is not None and kept.modified_ns != path.stat().st_mtime_ns:
            return False
        return path.samefile(file.path) or (file.digest == kept.digest and kept.path is None and path.is_file())
    except OSError:
        return False


def total_bytes(models: Sequence[ForeignModel]) -> int:
    """Bytes to hash: the sizes of all models that can be adopted."""
    return sum(model.size_bytes for model in models if model.problem is None)


def _named_once(model: ForeignModel, taken: set[str]) -> ForeignModel:
    for name in (model.suggested_name, *model.other_names):
        if name.lower() not in taken:
            return dataclasses.replace(model, suggested_name=name)
    return model
