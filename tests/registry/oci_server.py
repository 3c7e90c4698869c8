"""A fake registry on loopback, like Ollama's: manifests, blobs, and optional token login."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tests.registry.loopback import Answer, Asked, LoopbackServer, ranged

KIND = "application/vnd.ollama.image."
CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
USER, PASSWORD = "somebody", "secret"


class OciServer(LoopbackServer):
    """Serves the models added with `add`."""

    def __init__(self, *, login: str | None = None) -> None:
        """`login`: None; `anonymous` (anybody gets a token); `private` (only one user does); `basic`."""
        super().__init__()
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.realm: str | None = None
        """The token server that it names, if not itself."""
        self.generation = 0
        """Tokens of earlier generations are rejected."""
        self._login = login

    def blob(self, content: bytes) -> str:
        """Stores a blob; returns its digest."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        return digest

    def layer(self, kind: str, content: bytes) -> dict[str, Any]:
        """A layer of one of Ollama's kinds, or of a media type (with a slash)."""
        media_type = kind if "/" in kind else KIND + kind
        return {"mediaType": media_type, "digest": self.blob(content), "size": len(content)}

    def add(
        self, model: str, layers: Sequence[tuple[str, bytes]], config: dict[str, Any] | None = None, tag: str = "latest"
    ) -> dict[str, Any]:
        """Adds a model `NAMESPACE/MODEL` with these layers; returns its manifest, for tests to modify and `put`."""
        content = json.dumps({"model_format": "gguf", "model_family": "llama", "file_type": "Q4_K_M", **(config or {})})
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {**self.layer("config", content.encode()), "mediaType": CONFIG_TYPE},
            "layers": [self.layer(kind, content) for kind, content in layers],
        }
        self.put(model, manifest, tag)
        return manifest

    def put(self, model: str, manifest: dict[str, Any] | bytes, tag: str = "latest") -> None:
        raw = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        self.manifests[f"/v2/{model}/manifests/{tag}"] = raw

    def answer(self, asked: Asked) -> Answer:
        if asked.path == "/token":
            return self._token(asked)
        if not self._allowed(asked):
            return Answer(401, b'{"errors":[{"code":"UNAUTHORIZED"}]}', (("WWW-Authenticate", self._challenge(asked)),))
        if asked.path in self.manifests:
            raw = self.manifests[asked.path]
            digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
            return Answer(200, raw, (("Content-Type", MANIFEST_TYPE), ("Docker-Content-Digest", digest)))
        content = self.blobs.get(asked.path.rpartition("/blobs/")[2])
        return Answer(404, b'{"errors":[{"code":"BLOB_UNKNOWN"}]}') if content is None else ranged(content, asked)

    def _allowed(self, asked: Asked) -> bool:
        given = asked.headers.get("authorization")
        if self._login is None:
            return True
        if self._login == "basic":
            return given == _basic()
        token = "for-all" if self._login == "anonymous" else "for-somebody"
        return given == f"Bearer {self._of_now(token)}"

    def _of_now(self, token: str) -> str:
        return token if not self.generation else f"{token}-{self.generation}"

    def _challenge(self, asked: Asked) -> str:
        if self._login == "basic":
            return 'Basic realm="registry"'
        realm = f"{self.url}/token" if self.realm is None else self.realm
        scope = asked.path.removeprefix("/v2/").partition("/manifests/")[0].partition("/blobs/")[0]
        return f'Bearer realm="{realm}",service="{self.host}",scope="repository:{scope}:pull"'

    def _token(self, asked: Asked) -> Answer:
        known = asked.headers.get("authorization") == _basic()
        token = "for-somebody" if known else "for-all"
        return Answer(200, json.dumps({"token": self._of_now(token), "expires_in": 300}).encode())


def _basic() -> str:
    return "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode("ascii")
