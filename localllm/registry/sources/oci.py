"""Models of OCI registries like Ollama's: turns a manifest's layers into files, texts and parameters.

    GET https://HOST/v2/NAMESPACE/MODEL/manifests/TAG    config and layers, each by media type, size and sha256
    GET https://HOST/v2/NAMESPACE/MODEL/blobs/sha256:HEX their content

Small layers are read here and checked against their digests; the model's file is not read, so its content (its
architecture, its chat template) is known only after the download, when `ollama_only.refused_header` checks it.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Collection, Mapping

import msgspec

from localllm.errors import AccessDenied, ModelNotFound, PullFailed, UnsupportedParameter
from localllm.registry.fetch.net import SmallResponse, origin_of
from localllm.registry.manifest import MAX_FILES
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import DEFAULT_HOST, RegistryName
from localllm.registry.remote import Credential, PullPlan, RemoteFile
from localllm.registry.sources.oci_auth import NO_LOGIN, Login, credentials
from localllm.registry.sources.oci_layers import GO, JINJA, Texts, read_texts
from localllm.registry.sources.ollama_only import OFTEN_ITS_OWN, refused_family
from localllm.registry.sources.source import (
    Fetch,
    SizeBytes,
    checked_file_name,
    clean,
    decode,
    header,
    left_out,
    taken_in,
)

ACCEPT = "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"
KIND = "application/vnd.ollama.image."
"""Prefix of the media types of Ollama's layers."""
MAX_TEXT_BYTES = 1024 * 1024
"""Limit on one small layer."""
MAX_TEXT_LAYERS = 32

_INDEXES = ("application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.oci.image.index.v1+json")
_TEXTS = ("system", "params", "messages", "license", JINJA, *GO)
_REFUSED = {
    "adapter": "it includes a LoRA adapter; pull its base model, and add the adapter's file with localllm lora add",
    "draft": "it includes a draft model, which only Ollama's patched loader reads; pull a tag without one",
    "tensor": "its weights are safetensors, not a GGUF file, which only Ollama reads",
}
_QUANT = re.compile(r"[A-Z0-9_]{1,20}", re.ASCII)
_NO_QUANTS = ("", "unknown")


class _Layer(msgspec.Struct):
    mediaType: str
    digest: Digest
    size: SizeBytes


class _Manifest(msgspec.Struct):
    layers: list[_Layer]
    config: _Layer
    schemaVersion: int = 2
    mediaType: str = ""


class _Kind(msgspec.Struct):
    """The media type that identifies an index; a manifest has its own, or none."""

    mediaType: str = ""


class _Config(msgspec.Struct):
    model_format: str = ""
    model_family: str = ""
    file_type: str = ""
    renderer: str = ""
    parser: str = ""
    requires: str = ""
    remote_host: str = ""
    remote_model: str = ""


def plan(
    name: RegistryName,
    fetch: Fetch,
    *,
    logins: Mapping[str, Login] | None = None,
    insecure_hosts: Collection[str] = (),
    with_projector: bool = True,
) -> PullPlan:
    """What to download for `name`, now.

    `logins`: HOST or HOST:PORT -> its login. `insecure_hosts`: contacted without TLS, as this machine itself always is.
    `with_projector`: as in `hub.plan`.

    Raises `ModelNotFound`, `AccessDenied`, `PullFailed`, and `UnsupportedParameter` for anything but a GGUF model that
    llama.cpp can read.
    """
    registry = _Registry(name, fetch, (logins or {}).get(name.host), insecure_hosts)
    manifest, digest = registry.manifest()
    kinds = [layer.mediaType.removeprefix(KIND).partition(";")[0].strip() for layer in manifest.layers]
    _check_kinds(name, manifest, kinds)
    config = decode(registry.text(manifest.config, "config"), _Config, f"{name.host} (the config of {name})")
    _check_config(name, config)
    by_kind = list(zip(kinds, manifest.layers, strict=True))
    texts = _texts(registry, by_kind)
    quant = config.file_type.upper()
    return PullPlan(
        name=str(name),
        source=f"{name}@{digest}",
        files=_files(registry, by_kind, with_projector=with_projector),
        quant=quant if _QUANT.fullmatch(quant) and quant.lower() not in _NO_QUANTS else None,
        license=texts.license,
        license_text=texts.license_text,
        system=texts.system,
        template=texts.template,
        fallback_template=texts.fallback,
        messages=texts.messages,
        params=texts.parameters.params,
        stop=texts.parameters.stop,
        ctx=texts.parameters.ctx,
        notices=(*_notices(config, by_kind, with_projector=with_projector), *texts.notices),
    )


class _Registry:
    """One model of one registry: makes requests, logs in if required, and checks responses."""

    def __init__(self, name: RegistryName, fetch: Fetch, login: Login | None, insecure_hosts: Collection[str]) -> None:
        plain = is_plain(name.host, insecure_hosts)
        self.name = name
        self.named_by_user = name.host != DEFAULT_HOST
        self.credential: Credential | None = None
        self._origin = origin_of(f"{'http' if plain else 'https'}://{name.host}")
        self._base = f"{self._origin}/v2/{name.namespace}/{name.model}"
        self._fetch = fetch
        self._login = login

    def blob_url(self, digest: Digest) -> str:
        return f"{self._base}/blobs/{digest}"

    def manifest(self) -> tuple[_Manifest, Digest]:
        """The manifest and its own digest."""
        response = self._get(f"{self._base}/manifests/{self.name.tag}", headers={"Accept": ACCEPT})
        self._check(response, str(self.name))
        origin = f"{self.name.host} (the manifest of {self.name})"
        if decode(response.body, _Kind, origin).mediaType in _INDEXES:
            raise UnsupportedParameter(f"{self.name} is an image for several platforms, not a model", param="model")
        digest = Digest(hashlib.sha256(response.body).hexdigest())
        said = header(response, "docker-content-digest")
        if said.startswith("sha256:") and said != str(digest):
            raise PullFailed(f"the manifest of {self.name} was damaged on the way from {self.name.host}; try again")
        manifest = decode(response.body, _Manifest, origin)
        if manifest.schemaVersion != 2 or len(manifest.layers) > MAX_FILES:
            raise PullFailed(
                f"{origin} has version {manifest.schemaVersion} and {len(manifest.layers):,} layers; "
                f"only version 2 with at most {MAX_FILES:,} is supported"
            )
        return manifest, digest

    def text(self, layer: _Layer, kind: str) -> bytes:
        """The content of a small layer, checked against its digest."""
        what = f"the {kind} of {self.name}"
        if layer.size > MAX_TEXT_BYTES:
            raise PullFailed(f"{what} has {layer.size:,} bytes; the limit is {MAX_TEXT_BYTES:,}")
        response = self._get(self.blob_url(layer.digest), max_bytes=MAX_TEXT_BYTES)
        self._check(response, what)
        if hashlib.sha256(response.body).hexdigest() != layer.digest.hex:
            raise PullFailed(f"{what} does not match its digest {layer.digest.short} and was not used")
        return response.body

    def renewed(self) -> Credential | None:
        """Replaces a credential that is no longer accepted; None if that is impossible."""
        self.credential = None
        response = self._get(f"{self._base}/manifests/{self.name.tag}", headers={"Accept": ACCEPT})
        return self.credential if response.status == 200 else None

    def _get(
        self, url: str, *, headers: Mapping[str, str] | None = None, max_bytes: int = 4 * MAX_TEXT_BYTES
    ) -> SmallResponse:
        def get(credential: Credential | None) -> SmallResponse:
            return self._fetch.get_small(
                url, credential=credential, named_by_user=self.named_by_user, max_bytes=max_bytes, headers=headers
            )

        response = get(self.credential)
        if response.status == 401 and origin_of(response.url) == self._origin:
            challenge = response.headers.get("www-authenticate") or ""
            for credential in credentials(
                challenge, self._origin, self._fetch, self._login, named_by_user=self.named_by_user
            ):
                response = get(credential)
                if response.status not in (401, 403):
                    self.credential = credential
                    break
        return response

    def _check(self, response: SmallResponse, what: str) -> None:
        host, status = self.name.host, response.status
        if status == 200:
            return
        if status in (401, 403):
            have = "the login configured for it lacks permission" if self._login else NO_LOGIN
            raise AccessDenied(f"{host} denies access to {what}; {have}", status=status)
        if status == 404:
            raise ModelNotFound(f"{host} has no {what}; check the name and the tag", param="model")
        if status == 429:
            wait = header(response, "retry-after")
            raise PullFailed(f"{host} has received too many requests; try again {f'in {wait} s' if wait else 'later'}")
        raise PullFailed(f"{host} answered {status} for {what}", status=status)


def _check_kinds(name: RegistryName, manifest: _Manifest, kinds: list[str]) -> None:
    """Checks that it consists of one GGUF file and known layers. Raises `UnsupportedParameter`."""
    for kind, reason in _REFUSED.items():
        if kind in kinds:
            raise UnsupportedParameter(f"{name} cannot be used: {reason}", param="model")
    if kinds.count("model") != 1:
        there = ", ".join(sorted({clean(layer.mediaType)[:60] for layer in manifest.layers})[:8]) or "nothing"
        many = f"{kinds.count('model')} model files" if "model" in kinds else "no model file"
        raise UnsupportedParameter(f"{name} has {many} instead of one; it consists of {there}", param="model")


def _check_config(name: RegistryName, config: _Config) -> None:
    if config.remote_host or config.remote_model:
        where = clean(config.remote_host) or "another machine"
        raise UnsupportedParameter(f"{name} only runs on {where}; there is nothing to download", param="model")
    if config.model_format.lower() not in ("gguf", ""):
        raise UnsupportedParameter(
            f"{name} has the format {clean(config.model_format)}, not GGUF, and only Ollama reads it", param="model"
        )
    refused = refused_family(config.model_family)
    if refused is not None:
        raise UnsupportedParameter(f"{name} cannot be used: {refused}", param="model")


def _files(registry: _Registry, by_kind: list[tuple[str, _Layer]], *, with_projector: bool) -> tuple[RemoteFile, ...]:
    name = registry.name
    stem = f"{name.model}-{name.tag}"
    projectors = [layer for kind, layer in by_kind if kind == "projector" and with_projector][:1]

    def remote(layer: _Layer, file_name: str) -> RemoteFile:
        return RemoteFile(
            role="projector" if layer in projectors else "model",
            file_name=checked_file_name(file_name, name.host),
            url=registry.blob_url(layer.digest),
            named_by_user=registry.named_by_user,
            size_bytes=layer.size,
            digest=layer.digest,
            credential=registry.credential,
            renew=registry.renewed if registry.credential is not None else None,
        )

    model = next(layer for kind, layer in by_kind if kind == "model")
    return (remote(model, f"{stem}.gguf"), *(remote(layer, f"mmproj-{stem}.gguf") for layer in projectors))


def _texts(registry: _Registry, by_kind: list[tuple[str, _Layer]]) -> Texts:
    wanted = [(kind, layer) for kind, layer in by_kind if kind in _TEXTS]
    if len(wanted) > MAX_TEXT_LAYERS:
        raise PullFailed(f"{registry.name} has {len(wanted):,} text layers; at most {MAX_TEXT_LAYERS} are supported")
    return read_texts([(kind, registry.text(layer, kind)) for kind, layer in wanted], str(registry.name))


def _notices(config: _Config, by_kind: list[tuple[str, _Layer]], *, with_projector: bool) -> list[str]:
    kinds = [kind for kind, _ in by_kind]
    notices = []
    if config.renderer or config.parser:
        named = clean(config.renderer or config.parser)
        notices.append(f"Ollama formats its chats with built-in code ({named}); localllm uses the file's own template")
    family = config.model_family.lower()
    if config.requires or (family in OFTEN_ITS_OWN and "projector" not in kinds):
        version = f" {clean(config.requires)}" if config.requires else ""
        notices.append(
            f"it was made for Ollama{version} and may need Ollama's patched loader; this shows after the download"
        )
    projectors = [layer for kind, layer in by_kind if kind == "projector"]
    if projectors and not with_projector:
        notices.append(left_out(projectors[0].digest.short, projectors[0].size))
    elif projectors:
        notices.append(taken_in(projectors[0].digest.short, projectors[0].size))
    if len(projectors) > 1:
        notices.append(f"it has {kinds.count('projector')} projectors; the first is used")
    unknown = sorted({clean(kind)[:60] for kind in kinds} - {"model", "projector", *_TEXTS})
    if unknown:
        notices.append(f"layers of unknown kinds are ignored: {', '.join(unknown[:8])}")
    return notices


def is_plain(host: str, insecure_hosts: Collection[str]) -> bool:
    """Whether a registry is contacted without TLS."""
    bare = host.partition(":")[0]
    return _is_loopback(bare) or bool({host, bare} & {each.lower() for each in insecure_hosts})


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
