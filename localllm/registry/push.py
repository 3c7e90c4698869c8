"""Pushes a stored model to a registry, for localllm and, as far as Ollama supports the model, for Ollama to pull.

A chat template is sent as a layer with our own media type, since Ollama's templates are Go templates. Knows nothing of
HTTP.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from localllm.errors import InvalidParameter, LoadFailed, UnsupportedParameter
from localllm.gguf import read_header
from localllm.registry.disk.store import Store
from localllm.registry.fetch.net import Net, NetOptions
from localllm.registry.listing import store_of, stored
from localllm.registry.logins.credentials import registry_login
from localllm.registry.making.parameters import Parameters, lines_of
from localllm.registry.manifest import Manifest, StoredFile
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import Demo, ModelName, RegistryName, parse
from localllm.registry.remote import Cancelled
from localllm.registry.sources.oci import KIND
from localllm.registry.sources.oci_layers import JINJA
from localllm.registry.sources.oci_push import Uploads
from localllm.settings.config import Settings
from localllm.types.states import PushState

CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
PIECE_BYTES = 1024 * 1024
_MANY = ("stop", "dry_sequence_breakers", "stop_token_ids", "logit_bias")
OnState = Callable[[PushState], None]


def push(
    name: str,
    target: str | None,
    settings: Settings,
    *,
    on_state: OnState = lambda _: None,
    cancel: threading.Event,
    named_by_user: bool = True,
) -> str:
    """Upload a model of the store to `target` (default: its own name); returns the name that pulls it.

    With `named_by_user` false, names come from the network and must not resolve to private addresses. Raises
    `ModelNotFound`, `InvalidParameter`, `UnsupportedParameter` for a split model, `AccessDenied`, `PullFailed`,
    `Cancelled`.
    """
    if isinstance(parse(name), Demo):
        raise InvalidParameter(
            "demo is part of localllm and not in the store; push a model created FROM demo (localllm create)",
            param="model",
        )
    manifest = stored(name, settings.data_dir)
    to = target_of(target or manifest.name)
    models = [file for file in manifest.files if file.role == "model"]
    if len(models) != 1:
        raise UnsupportedParameter(
            f"{manifest.name} is split into {len(models)} files, which a registry cannot hold as one model; merge them "
            "with llama-gguf-split, and add the result with localllm import",
            param="model",
        )
    insecure = [host.strip() for host in settings.insecure_registries.split(",") if host.strip()]
    options = NetOptions(
        proxy=settings.proxy,
        ca_file=settings.ca_file,
        allow_private_hosts=settings.allow_private_downloads,
        patience_s=settings.download_patience_s,
    )
    store = store_of(settings.data_dir)
    with Net(options) as net, store.open_model(manifest) as opened:
        uploads = Uploads(
            to,
            net,
            login=registry_login(to.host),
            insecure_hosts=insecure,
            named_by_user=named_by_user or to.host in insecure,  # the user configured this host
            cancel=cancel,
            on_wait=lambda *waited: sent.waiting(*waited),
        )
        sent = _Sent(uploads, on_state, cancel)
        layers = [sent.file(store, manifest, file) for file in manifest.files]
        layers += [sent.text(kind, content) for kind, content in _texts(manifest)]
        config = sent.content(CONFIG_TYPE, _config(manifest, opened.path, layers))
        raw = msgspec.json.encode({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": layers})
        sent.report(PushState(phase="manifest", id=manifest.name))
        uploads.manifest(raw, MANIFEST_TYPE)
    on_state(PushState(phase="done", id=manifest.name))
    return str(to)


def target_of(text: str) -> RegistryName:
    """Parses `[ollama:]HOST/NAMESPACE/MODEL:TAG`. Raises `InvalidParameter`."""
    name = _parsed(text) or _parsed(f"ollama:{text}")
    if not isinstance(name, RegistryName):
        raise InvalidParameter(f"{text!r} is not a registry name; use ollama:HOST/NAMESPACE/MODEL:TAG", param="target")
    return name


def _parsed(text: str) -> ModelName | None:
    try:
        return parse(text)
    except InvalidParameter:
        return None


class _Sent:
    """The upload's files and progress."""

    def __init__(self, uploads: Uploads, on_state: OnState, cancel: threading.Event) -> None:
        self._uploads = uploads
        self._on_state = on_state
        self._cancel = cancel
        self._state = PushState(phase="uploading", id=str(uploads.name))

    def file(self, store: Store, manifest: Manifest, file: StoredFile) -> dict[str, Any]:
        path = store.locate(manifest, file)
        self._send(file.digest, file.size_bytes, lambda: self._pieces(path, file))
        return {"mediaType": KIND + file.role, "digest": str(file.digest), "size": file.size_bytes}

    def text(self, kind: str, content: bytes) -> dict[str, Any]:
        return self.content(kind if "/" in kind else KIND + kind, content)

    def content(self, media_type: str, content: bytes) -> dict[str, Any]:
        digest = Digest(hashlib.sha256(content).hexdigest())
        self._send(digest, len(content), lambda: [content])
        return {"mediaType": media_type, "digest": str(digest), "size": len(content)}

    def _send(self, digest: Digest, size_bytes: int, content: Callable[[], Any]) -> None:
        self._report(digest, 0, size_bytes)
        self._uploads.blob(digest, size_bytes, content)
        self._report(digest, size_bytes, size_bytes)

    def _pieces(self, path: Path, file: StoredFile) -> Iterator[bytes]:
        done = 0
        with open(path, "rb") as opened:
            while piece := opened.read(min(PIECE_BYTES, file.size_bytes - done)):
                if self._cancel.is_set():
                    raise Cancelled("cancelled during an upload")
                yield piece
                done += len(piece)
                self._report(file.digest, done, file.size_bytes)
        if done != file.size_bytes:
            raise LoadFailed(f"{path} is shorter than it was; localllm verify finds what is damaged", path=str(path))

    def waiting(self, host: str, seconds: float, why: str) -> None:
        """Reports how long the host has accepted nothing, and why."""
        if seconds >= 1:
            self._on_state(
                msgspec.structs.replace(self._state, waiting_for=host, waiting_s=round(seconds, 1), waiting_why=why)
            )

    def report(self, state: PushState) -> None:
        self._state = state
        self._on_state(state)

    def _report(self, digest: Digest, done: int, total: int) -> None:
        id = str(self._uploads.name)
        self.report(PushState(phase="uploading", id=id, digest=str(digest), done_bytes=done, total_bytes=total))


def _texts(manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    for text in manifest.license_text or ([manifest.license] if manifest.license else []):
        yield "license", text.encode()
    if manifest.system:
        yield "system", manifest.system.encode()
    if manifest.template:
        yield JINJA, manifest.template.encode()
    if manifest.messages:
        said = [{"role": message.role, "content": message.content} for message in manifest.messages]
        yield "messages", msgspec.json.encode(said)
    parameters = parameters_of(Parameters(params=manifest.params, stop=manifest.stop, ctx=manifest.ctx))
    if parameters:
        yield "params", msgspec.json.encode(parameters)


def parameters_of(parameters: Parameters) -> dict[str, Any]:
    """The content of Ollama's `params` layer; `parameters.collect` reads it back unchanged."""
    found: dict[str, Any] = {}
    for name, text in lines_of(parameters):
        if name in _MANY:
            found.setdefault(name, []).append(text)
        else:
            found[name] = msgspec.json.decode(text)
    return found


def _config(manifest: Manifest, path: Path, layers: list[dict[str, Any]]) -> bytes:
    architecture = str(read_header(path).metadata["general.architecture"].value)
    return msgspec.json.encode(
        {
            "model_format": "gguf",
            "model_family": architecture,
            "model_families": [architecture],
            "file_type": manifest.quant or "unknown",
            "architecture": "amd64",
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
    )
