"""Creates a model at a client's request, from a local model or uploaded files, quantized on demand.

Settings go through the same checks as a Modelfile's. Never opens a path given by a client, and never pulls.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from localllm.errors import Cancelled, InvalidParameter, LocalLLMError, clipped
from localllm.gguf import read_header, read_model_info
from localllm.registry.adapters.uploaded import add_uploaded
from localllm.registry.disk.files import hash_file
from localllm.registry.disk.locks import Hold
from localllm.registry.disk.store import Store
from localllm.registry.foreign.foreign_model import file_name_of
from localllm.registry.foreign.header_facts import facts_of
from localllm.registry.listing import described, store_of
from localllm.registry.making.create import base_of, check_no_adapter, put, resolver
from localllm.registry.making.modelfile import Modelfile, checked_template, parse_modelfile
from localllm.registry.making.parameters import RawParameter, collect
from localllm.registry.making.quantizing import job_of, quantize
from localllm.registry.manifest import Manifest, StoredFile
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import looks_like_path
from localllm.registry.names.suggested import storable
from localllm.registry.sources.quants import quant_of
from localllm.system.files import open_ordinary
from localllm.types.quantization import Step, type_of
from localllm.types.states import AvailableModel, MakeState, NewModel

Report = Callable[[MakeState], None]

MAX_UPLOADED = 1000
"""Limit on the files of one model."""
PRECISE = frozenset({"F32", "F16", "BF16"})
UPLOADED = "@"
"""Prefix of an uploaded file's digest in a Modelfile's FROM."""
_INTEGERS = frozenset({"I8", "I16", "I32", "I64", "F64"})


def assemble(wanted: NewModel, data_dir: Path, report: Report, cancel: threading.Event) -> AvailableModel:
    """Stores the new model. Raises `InvalidParameter`, `ModelNotFound`, and what quantizing and the store raise."""
    if wanted.adapters:
        return add_uploaded(wanted, data_dir, report)
    name, (files, base_name, modelfile) = storable(wanted.name), _parts_of(wanted)
    wanted_type = type_of(wanted.quantize) if wanted.quantize else None
    store = store_of(data_dir)
    with store.hold(f"create of {name}") as hold:
        if files:
            # Reads headers only, so that problems are reported before any other work.
            base = _uploaded(files, store, hold)
            report(MakeState(phase="reading"))
        else:
            base = base_of(base_name, store, hold, resolver(store))
            if not base.name:  # the bundled model: its path stays private
                base = msgspec.structs.replace(base, source=base_name)
        made: frozenset[Digest] = frozenset()
        if wanted_type is not None:
            base = _quantized(base, wanted_type, store, hold, data_dir, report, cancel)
            made = frozenset(file.digest for file in base.files if file.role == "model")
        for file in base.files:
            report(MakeState(phase="using", digest=str(file.digest), is_new=file.digest in made))
        if cancel.is_set():
            raise Cancelled(f"stopped before {name} was written")
        report(MakeState(phase="writing"))
        return described(put(base, modelfile, name, store))


def base_in(modelfile: str) -> str | None:
    """The name in the first FROM of a Modelfile, as written; None for uploaded files and for paths. Raises
    `InvalidParameter`."""
    name = _parts_of(NewModel(name="", modelfile=modelfile))[1]
    return None if not name or looks_like_path(name) else name


def template_of(wanted: NewModel) -> str | None:
    """The chat template that the request sets. Raises `InvalidParameter` if it is invalid."""
    return _parts_of(wanted)[2].template


def _parts_of(wanted: NewModel) -> tuple[dict[str, str], str, Modelfile]:
    """The uploaded files or the name of the base model, and the settings."""
    if wanted.modelfile is None:
        if bool(wanted.files) == bool(wanted.base):
            raise InvalidParameter("give either from (the name of a model) or files", param="from")
        found = collect(RawParameter(name, value, "parameters") for name, value in wanted.parameters.items())
        modelfile = Modelfile(
            bases=(),
            params=found.params,
            stop=found.stop,
            ctx=found.ctx,
            system=wanted.system,
            template=None if wanted.template is None else checked_template(wanted.template, "this template"),
            messages=wanted.messages,
            license_text=wanted.license_text,
        )
        return wanted.files, wanted.base or "", modelfile
    modelfile = parse_modelfile(wanted.modelfile)
    check_no_adapter(modelfile)
    first, *others = modelfile.bases
    if not first.startswith(UPLOADED):
        if others:
            raise InvalidParameter("a second FROM is only allowed if both name uploaded files", param="modelfile")
        return {}, wanted.base or first, modelfile
    texts = [text.removeprefix(UPLOADED) for text in modelfile.bases]
    return {f"file-{number}.gguf": text for number, text in enumerate(texts)}, "", modelfile


def _uploaded(files: Mapping[str, str], store: Store, hold: Hold) -> Manifest:
    """A manifest of the uploaded files, which get the same checks as any model's."""
    if len(files) > MAX_UPLOADED:
        raise InvalidParameter(f"files has {len(files)} entries; at most {MAX_UPLOADED} are allowed", param="files")
    models, projectors = list[StoredFile](), list[StoredFile]()
    quant = license = None
    for name, text in sorted(files.items()):
        shown, digest = clipped(name), Digest.parse(text)
        hold.add(digest)
        if not store.has_blob(digest, None):
            raise InvalidParameter(
                f"files: {digest} ({shown}) has not been uploaded; send it to /api/blobs first", param="files"
            )
        if not name.lower().endswith(".gguf") and _magic(store.blob_path(digest)) != b"GGUF":
            raise InvalidParameter(f"files: {shown} is not a GGUF file; no other format is supported", param="files")
        try:
            header = read_header(store.blob_path(digest))
        except LocalLLMError as error:
            reason = error.details.get("reason") or error.public
            raise InvalidParameter(f"files: {shown} cannot be read as GGUF: {reason}", param="files") from error
        is_projector = facts_of(header, "projector").problem is None
        facts = facts_of(header, "projector" if is_projector else "model")
        if facts.problem is not None:
            raise InvalidParameter(f"files: {shown} {facts.problem}", param="files")
        size_bytes = os.stat(store.blob_path(digest)).st_size
        file = StoredFile(
            role="projector" if is_projector else "model",
            file_name=file_name_of(name),
            size_bytes=size_bytes,
            digest=digest,
        )
        (projectors if is_projector else models).append(file)
        if not is_projector:
            quant, license = quant or facts.quant or quant_of(file.file_name), license or facts.license
    if not models or len(projectors) > 1:
        raise InvalidParameter("files must belong to one model, with at most one projector", param="files")
    manifest = Manifest(name="", created_at="", files=(*models, *projectors), quant=quant, license=license)
    _check_whole(manifest, store)
    return manifest


def _check_whole(manifest: Manifest, store: Store) -> None:
    """Check that the files are all the shards of one model."""
    with store.open_model(msgspec.structs.replace(manifest, name="an upload")) as opened:
        try:
            read_model_info(opened.path)
        except LocalLLMError as error:
            reason = error.details.get("reason") or error.public
            raise InvalidParameter(f"files: not a complete model: {reason}", param="files") from error


def _quantized(
    base: Manifest, type: str, store: Store, hold: Hold, data_dir: Path, report: Report, cancel: threading.Event
) -> Manifest:
    """The same manifest with the model's files replaced by one quantized to `type`."""
    with (
        store.open_model(msgspec.structs.replace(base, name=base.name or "an upload")) as opened,
        store.scratch(f"quantize:{os.urandom(16).hex()}") as target,
    ):
        there = [kind for kind in read_model_info(opened.path).quantization if kind not in _INTEGERS]
        if not PRECISE.issuperset(there):
            raise InvalidParameter(
                f"quantization is only supported for F32, F16 and BF16 models, and this one is {', '.join(there)}",
                param="quantize",
            )

        def step(at: Step) -> None:
            report(
                MakeState(
                    phase="quantizing",
                    source_type=there[0],
                    type=type,
                    done_bytes=at.done_bytes,
                    total_bytes=at.total_bytes,
                )
            )

        step(Step(0, sum(file.size_bytes for file in base.files if file.role == "model")))
        quantize(job_of(opened.path, target, type, data_dir), step, cancel=cancel)
        size_bytes, digest = target.stat().st_size, _digest_of(target, cancel)
        store.publish(target, digest, hold=hold)
    file = StoredFile(file_name=f"model-{type}.gguf", size_bytes=size_bytes, digest=digest)
    projectors = [file for file in base.files if file.role == "projector"]
    return msgspec.structs.replace(base, files=(file, *projectors), quant=type)


def _digest_of(path: Path, cancel: threading.Event) -> Digest:
    fd = open_ordinary(path)
    assert fd is not None, "it was written just now"
    try:
        return hash_file(fd, None, cancel)
    finally:
        os.close(fd)


def _magic(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(4)
