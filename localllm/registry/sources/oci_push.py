"""Uploads to an OCI registry: blobs by digest, then the manifest that lists them.

    HEAD /v2/NAMESPACE/MODEL/blobs/sha256:HEX          200: it exists already
    POST /v2/NAMESPACE/MODEL/blobs/uploads/            202 with a Location
    PUT  LOCATION?digest=sha256:HEX                    201
    PUT  /v2/NAMESPACE/MODEL/manifests/TAG             201

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#push. Knows nothing of models.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import NoReturn, TypeVar
from urllib.parse import urljoin

from localllm.errors import AccessDenied, PullFailed, UnsupportedParameter
from localllm.registry.fetch.net import Net, SmallResponse, origin_of
from localllm.registry.fetch.pacing import OnWait, Retries, Retryable, is_retryable, retry_after_s, telling
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import DEFAULT_HOST, RegistryName
from localllm.registry.remote import Credential
from localllm.registry.sources.oci import is_plain
from localllm.registry.sources.oci_auth import NO_LOGIN, Login, credentials
from localllm.registry.sources.source import clean, header

COMMIT_TIMEOUT_S = 600.0
"""Timeout for a registry to verify an upload."""

Open = Callable[[], Iterable[bytes]]
"""Opens the content from the beginning."""
T = TypeVar("T")


class Uploads:
    """Uploads to one name in a registry."""

    def __init__(
        self,
        name: RegistryName,
        net: Net,
        *,
        login: Login | None = None,
        insecure_hosts: Collection[str] = (),
        named_by_user: bool = True,
        cancel: threading.Event,
        on_wait: OnWait,
    ) -> None:
        """`named_by_user`: the user named the host, which may then be private. Raises `UnsupportedParameter`."""
        if name.host == DEFAULT_HOST:
            raise UnsupportedParameter(
                f"{name.host} accepts only uploads signed with an Ollama key; push to another registry: "
                "ollama:HOST/NAMESPACE/MODEL:TAG",
                param="model",
            )
        self.name = name
        self._net = net
        self._login = login
        self._named_by_user = named_by_user
        self._cancel = cancel
        self._on_wait = on_wait
        self._origin = origin_of(f"{'http' if is_plain(name.host, insecure_hosts) else 'https'}://{name.host}")
        self._base = f"{self._origin}/v2/{name.namespace}/{name.model}"
        self._credential: Credential | None = None

    def blob(self, digest: Digest, size_bytes: int, content: Open) -> bool:
        """Uploads a blob unless it exists; returns whether it was uploaded. Waits out an outage as downloads do.

        Raises `AccessDenied`, `PullFailed`, `Cancelled`.
        """
        return self._patiently(lambda: self._blob(digest, size_bytes, content))

    def manifest(self, raw: bytes, media_type: str) -> None:
        """Publishes the manifest under the name. Waits and raises as `blob`."""
        url = f"{self._base}/manifests/{self.name.tag}"
        response = self._patiently(lambda: self._ask("PUT", url, {"Content-Type": media_type}, raw))
        if response.status not in (200, 201):
            self._refuse(response, "the manifest")

    def _patiently(self, work: Callable[[], T]) -> T:
        options = self._net.options
        retries = Retries(options.backoff, options.small_timeout_s, options.patience_s)
        began: float | None = None  # of the outage: an upload before it may have taken hours
        while True:
            try:
                return work()
            except Retryable as error:
                began = time.monotonic() if began is None else began
                pause_s = retries.pause_s(error, time.monotonic() - began, self._net.chance())
                if pause_s is None:
                    raise PullFailed(f"{error.message} (given up after {retries.num_failures} attempts)") from error
                is_over = telling(self._on_wait, self._origin, began, error.message, self._cancel.is_set)
                self._net.pause(pause_s, is_over)

    def _blob(self, digest: Digest, size_bytes: int, content: Open) -> bool:
        if self._ask("HEAD", f"{self._base}/blobs/{digest}").status == 200:
            return False
        begun = self._ask("POST", f"{self._base}/blobs/uploads/")
        if begun.status not in (200, 202):
            self._refuse(begun, "an upload")
        url = urljoin(begun.url, begun.headers.get("location") or "")
        if url == begun.url or (self._origin.startswith("https:") and not url.startswith("https:")):
            raise PullFailed(f"{self.name.host} gives no URL to upload to, or one without https")
        url += f"{'&' if '?' in url else '?'}digest={digest}"
        sent = self._net.send(
            "PUT",
            url,
            credential=self._credential,
            named_by_user=self._named_by_user and origin_of(url) == self._origin,
            headers={"Content-Type": "application/octet-stream", "Content-Length": str(size_bytes)},
            content=content(),
            timeout_s=COMMIT_TIMEOUT_S,
            cancel=self._cancel,
        )
        self._check_available(sent)
        if sent.status == 401:  # the token expired during the upload
            self._credential = None
            raise Retryable(f"{self.name.host} answered 401 to an upload", is_outage=True)
        if sent.status != 201:
            self._refuse(sent, f"{digest.short}")
        return True

    def _ask(self, method: str, url: str, headers: dict[str, str] | None = None, content: bytes = b"") -> SmallResponse:
        def ask(credential: Credential | None) -> SmallResponse:
            return self._net.send(
                method,
                url,
                credential=credential,
                named_by_user=self._named_by_user,
                headers=headers,
                content=content,
                cancel=self._cancel,
            )

        response = ask(self._credential)
        if response.status == 401:
            challenge = response.headers.get("www-authenticate") or ""
            for credential in credentials(
                challenge, self._origin, self._net, self._login, named_by_user=self._named_by_user
            ):
                response = ask(credential)
                if response.status not in (401, 403):
                    self._credential = credential
                    break
        self._check_available(response)
        return response

    def _check_available(self, response: SmallResponse) -> None:
        """Raises `Retryable` for a transient status."""
        if is_retryable(response.status):
            after_s = retry_after_s(response.headers.get("retry-after"))
            raise Retryable(f"{self.name.host} answered {response.status}", retry_after_s=after_s, is_outage=True)

    def _refuse(self, response: SmallResponse, what: str) -> NoReturn:
        host, status = self.name.host, response.status
        if status in (401, 403):
            have = "the login configured for it lacks permission" if self._login else NO_LOGIN
            raise AccessDenied(f"{host} denies uploads to {self.name}; {have}", status=status)
        said = clean(response.body[:400].decode("utf-8", "replace")) or header(response, "x-error-message")
        raise PullFailed(
            f"{host} answered {status} to {what} of {self.name}{f': {said}' if said else ''}", status=status
        )
