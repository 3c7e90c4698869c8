"""Ollama's store: the manifests `manifests/HOST/NAMESPACE/MODEL/TAG` list layers, stored as `blobs/sha256-HEX`.

A layer is a model's file, a projector, or a small text (parameters, system message, licence). Nothing in the store is
trusted: names, digests, sizes and texts are checked, and a digest becomes a path only through `Digest`. Source:
manifest/ and types/model/ of Ollama.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from localllm.errors import InvalidParameter, PullFailed
from localllm.registry.foreign.file_groups import describe
from localllm.registry.foreign.foreign_model import ForeignFile, ForeignModel, Skipped
from localllm.registry.foreign.walk import files_in, read_small, size_of, subfolders
from localllm.registry.manifest import MAX_FILES, MAX_MANIFEST_BYTES, Role
from localllm.registry.names.digest import Digest
from localllm.registry.names.suggested import canonical, short_name
from localllm.registry.sources.oci_layers import read_texts
from localllm.registry.sources.source import clean

MAX_TEXT_BYTES = 4 * 1024 * 1024
MAX_MODELS = 10_000
MAX_TEXTS = 100
"""Limit on the small layers of one model."""
_KIND = "application/vnd.ollama.image."
_ROLES: dict[str, Role] = {"model": "model", "projector": "projector"}
_TEXTS = ("template", "prompt", "system", "params", "messages", "license")
_UNUSABLE = {
    "adapter": "has a LoRA adapter; import its base model, and add the adapter with localllm lora add",
    "tensor": "consists of safetensors for Ollama's own engine, not a GGUF file",
}
_HUB_HOSTS = ("hf.co", "huggingface.co")


class _Layer(msgspec.Struct):
    mediaType: str
    digest: str
    size: int

    @property
    def kind(self) -> str:
        return self.mediaType.removeprefix(_KIND)


class _Manifest(msgspec.Struct):
    layers: list[_Layer]
    config: _Layer | None = None


class _Broken(Exception):
    """The model cannot be adopted; the message is a phrase that follows its name."""


def is_store(folder: Path) -> bool:
    return (folder / "manifests").is_dir() and (folder / "blobs").is_dir()


def scan(store: Path, skipped: Skipped) -> Iterator[ForeignModel]:
    """Every model of the store that has a manifest, including broken ones."""
    for number, manifest in enumerate(_manifests(store, skipped)):
        if number >= MAX_MODELS:
            skipped(f"{store} has more than {MAX_MODELS:,} models; the rest was skipped")
            return
        yield _model(store, manifest)


def _manifests(store: Path, skipped: Skipped) -> Iterator[Path]:
    for host in subfolders(store / "manifests", skipped):
        for namespace in subfolders(host, skipped):
            for model in subfolders(namespace, skipped):
                for manifest in files_in(model, skipped):
                    if not manifest.name.startswith("."):  # .DS_Store
                        yield manifest


def _model(store: Path, path: Path) -> ForeignModel:
    host, namespace, name, tag = path.parts[-4:]
    shown = _shown(host, namespace, name, tag)
    best = _name(host, namespace, name, tag)
    short = short_name(f"{name}-{tag}")
    model = ForeignModel(
        tool="ollama",
        name=clean(shown),
        suggested_name=best or short,
        other_names=(short,) if best else (),
        source=best or str(path),
        files=(),
    )
    try:
        if best is None:
            raise _Broken("has a name that Ollama itself would not accept")
        manifest = _read_manifest(path)
        files = tuple(_files(store, manifest, f"{name}-{tag}"))
        found = describe(dataclasses.replace(model, files=files))
        found = _with_texts(found, _read_texts(store, manifest), shown)
    except _Broken as broken:
        return dataclasses.replace(model, problem=str(broken))
    if (
        found.suggested_name.startswith("hf.co/") and tag == "latest" and found.quant
    ):  # the quantization behind `latest` is known now
        better = canonical(f"hf.co/{namespace}/{name}:{found.quant}") or found.suggested_name
        return dataclasses.replace(found, suggested_name=better, other_names=(found.suggested_name, short))
    return found


def _name(host: str, namespace: str, name: str, tag: str) -> str | None:
    if host.lower() in _HUB_HOSTS:
        return canonical(f"hf.co/{namespace}/{name}" + ("" if tag == "latest" else f":{tag}"))
    return canonical(f"ollama:{host}/{namespace}/{name}:{tag}")


def _shown(host: str, namespace: str, name: str, tag: str) -> str:
    """Formatted as in `ollama list`."""
    if host == "registry.ollama.ai":
        return f"{name}:{tag}" if namespace == "library" else f"{namespace}/{name}:{tag}"
    return f"{host}/{namespace}/{name}:{tag}"


def _read_manifest(path: Path) -> _Manifest:
    raw = read_small(path, MAX_MANIFEST_BYTES)
    if raw is None:
        raise _Broken(f"has a manifest that cannot be read or exceeds {MAX_MANIFEST_BYTES:,} bytes")
    try:
        manifest = msgspec.json.decode(raw, type=_Manifest)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise _Broken(f"has a damaged manifest: {clean(str(error))}") from error
    if len(manifest.layers) > MAX_FILES:
        raise _Broken(f"has {len(manifest.layers):,} layers; at most {MAX_FILES:,} are supported")
    return manifest


def _files(store: Path, manifest: _Manifest, stem: str) -> Iterator[ForeignFile]:
    for layer in manifest.layers:
        if layer.kind in _UNUSABLE:
            raise _Broken(_UNUSABLE[layer.kind])
    large = sorted((layer for layer in manifest.layers if layer.kind in _ROLES), key=lambda layer: layer.kind)
    num_models = sum(layer.kind == "model" for layer in large)
    if num_models != 1:
        raise _Broken(_without_model(store, manifest) if num_models == 0 else f"has {num_models} model files")
    for number, layer in enumerate(large):
        path, digest = _blob(store, layer)
        size_bytes = size_of(path)
        if size_bytes is None:
            begun = path.with_name(f"{path.name}-partial")
            raise _Broken(
                "is not fully downloaded; pull it again with Ollama or localllm"
                if size_of(begun) is not None
                else f"lacks its file {path.name}; pull it again with Ollama or localllm"
            )
        if size_bytes != layer.size:
            raise _Broken(f"has a file of {size_bytes:,} bytes instead of {layer.size:,}: {path.name}")
        role = _ROLES[layer.kind]
        prefix = "" if role == "model" else "mmproj-" if number == 1 else f"mmproj-{number}-"
        yield ForeignFile(
            role=role, path=path.resolve(), file_name=f"{prefix}{stem}.gguf", size_bytes=size_bytes, digest=digest
        )


def _without_model(store: Path, manifest: _Manifest) -> str:
    """A model that runs on Ollama's servers consists of a config only."""
    config: object = None
    if manifest.config is not None:
        try:
            config = json.loads(read_small(_blob(store, manifest.config)[0], MAX_TEXT_BYTES) or b"{}")
        except (_Broken, ValueError, RecursionError):
            config = None
    if isinstance(config, dict) and config.get("remote_host"):
        return "runs on Ollama's servers and has no local file"
    return "has no model file"


def _blob(store: Path, layer: _Layer) -> tuple[Path, Digest]:
    try:
        digest = Digest.parse(layer.digest)
    except InvalidParameter as error:
        raise _Broken(f"has a layer with an invalid digest: {clean(layer.digest)[:80]!r}") from error
    return store / "blobs" / digest.file_name, digest


def _read_texts(store: Path, manifest: _Manifest) -> list[tuple[str, bytes]]:
    """Kind and content of each small layer. Raises `_Broken` for content that does not match its digest."""
    layers = [layer for layer in manifest.layers if layer.kind in _TEXTS]
    if len(layers) > MAX_TEXTS:
        raise _Broken(f"has {len(layers):,} text layers; at most {MAX_TEXTS} are supported")
    texts = []
    for layer in layers:
        path, digest = _blob(store, layer)
        content = read_small(path, MAX_TEXT_BYTES)
        if content is None:
            raise _Broken(f"has a {layer.kind} ({path.name}) that is missing or larger than {MAX_TEXT_BYTES:,} bytes")
        if hashlib.sha256(content).hexdigest() != digest.hex:
            raise _Broken(f"has a damaged {layer.kind}: the content of {path.name} does not match its name")
        texts.append((layer.kind, content))
    return texts


def _with_texts(model: ForeignModel, texts: list[tuple[str, bytes]], shown: str) -> ForeignModel:
    try:
        found = read_texts(texts, clean(shown))
    except PullFailed as error:
        raise _Broken(f"has a text layer that cannot be used: {error.message}") from error
    return dataclasses.replace(
        model,
        license=model.license or found.license,
        license_text=found.license_text,
        system=found.system,
        template=found.template,
        fallback_template=found.fallback,
        messages=found.messages,
        notices=found.notices,
        params=found.parameters.params,
        stop=found.parameters.stop,
        ctx=found.parameters.ctx,
    )
