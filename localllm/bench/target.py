"""Finds the server and the model to measure, from a URL as people write it. Sends one small request; knows no load."""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from localllm.bench.answer import clean, message_of
from localllm.bench.request import Api
from localllm.client.api import ServerGone
from localllm.errors import InvalidParameter

DISCOVERY_TIMEOUT_S = 30.0
MAX_NAMES_SHOWN = 5
MAX_ENTRY_BYTES = 8192
"""Limit for the server's description of the model, which is stored with the figures."""
_VERSION = re.compile(r"v[0-9]+[a-z0-9]*")
_NO_SCHEME = re.compile(r"(localhost|[0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9a-f:]+\]):[0-9]+(/.*)?", re.IGNORECASE)
_ENDPOINTS = ("/chat/completions", "/completions", "/models")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A model of a server. Contains no secrets, since it is printed."""

    base_url: str
    """With `/v1`, without a trailing slash."""
    model: str
    api: Api
    server: str | None = None
    """Its `Server` header."""
    entry: dict[str, Any] | None = None
    """What /v1/models says of the model."""


def is_url(text: str) -> bool:
    """Whether this names a server rather than a model. Raises `InvalidParameter` for an address without http://."""
    if _NO_SCHEME.fullmatch(text):
        raise InvalidParameter(f"{text!r} looks like a server's address; write http://{text}", param="target")
    return text.lower().startswith(("http://", "https://"))


def base_url(text: str) -> str:
    """`http://HOST` -> `http://HOST/v1`; a URL with a version in its path stays. Raises `InvalidParameter`."""
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError as error:
        raise InvalidParameter(f"{text!r} is not a URL: {error}", param="target") from error
    if not parts.hostname or port == 0:
        raise InvalidParameter(f"{text!r} names no host", param="target")
    if "@" in parts.netloc:
        raise InvalidParameter("leave the password out of the URL; --api-key-env names a key", param="target")
    if parts.query or parts.fragment:
        raise InvalidParameter(f"{text!r}: a server's URL ends before ? and #", param="target")
    path = parts.path.rstrip("/")
    for endpoint in _ENDPOINTS:
        path = path.removesuffix(endpoint)
    if not any(_VERSION.fullmatch(part) for part in path.split("/")):
        path += "/v1"
    return f"{parts.scheme.lower()}://{parts.netloc}{path}"


def http_settings(url: str, api_key: str | None) -> dict[str, Any]:
    """Arguments for an httpx client that talks to the server at `url`."""
    headers = {"accept-encoding": "identity", "accept": "text/event-stream, application/json"}
    if api_key is not None:
        headers["authorization"] = f"Bearer {api_key}"
    return {
        "base_url": url,
        "headers": headers,
        # Loading certificates takes 30 ms, and a proxy must not be used for a server on this machine.
        "verify": url.startswith("https:"),
        "trust_env": not _is_here(urlsplit(url).hostname or ""),
    }


def discover(url: str, *, api_key: str | None, model: str | None, api: Api | None) -> Target:
    """The model to measure; a named one need not be listed. Raises `InvalidParameter`, `ServerGone`.

    Chat is measured unless `api` says otherwise or the server says that the model has no chat template.
    """
    try:
        with httpx.Client(**http_settings(url, api_key), timeout=DISCOVERY_TIMEOUT_S) as client:
            response = client.get("/models")
    except httpx.HTTPError as error:
        raise ServerGone(f"no server answers at {url}: {clean(str(error)) or type(error).__name__}") from error
    if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise InvalidParameter(
            f"{url} requires an API key (status {response.status_code}); --api-key-env names its environment variable",
            param="api_key_env",
        )
    entries = _entries(response)
    entry = _choose(entries, model, url, response)
    chosen: Api = api or ("completions" if entry and entry.get("chat_template") is False else "chat")
    if entry is not None and len(msgspec.json.encode(entry)) > MAX_ENTRY_BYTES:
        entry = None
    name = model if model is not None else str((entry or entries[0])["id"])
    return Target(base_url=url, model=name, api=chosen, server=response.headers.get("server"), entry=entry)


def _entries(response: httpx.Response) -> list[dict[str, Any]]:
    """The models that the server lists; empty if it has no valid list."""
    try:
        data = response.json()["data"] if response.status_code == httpx.codes.OK else []
        return [entry for entry in data if isinstance(entry["id"], str)]
    except (ValueError, KeyError, TypeError):
        return []


def _choose(
    entries: list[dict[str, Any]], model: str | None, url: str, response: httpx.Response
) -> dict[str, Any] | None:
    if model is not None:
        return next((entry for entry in entries if entry["id"] == model), None)
    loaded = [entry for entry in entries if entry.get("loaded") is True]  # as localllm says which one is in memory
    for candidates in (entries, loaded):
        if len(candidates) == 1:
            return candidates[0]
    if not entries:
        said = f"status {response.status_code}" + (
            f": {_error_message(response)}" if response.status_code != 200 else ""
        )
        raise InvalidParameter(
            f"{url}/models lists no model ({said}); name one with --model, or correct the URL", param="model"
        )
    names = ", ".join(clean(entry["id"]) for entry in entries[:MAX_NAMES_SHOWN])
    more = ", ..." if len(entries) > MAX_NAMES_SHOWN else ""
    raise InvalidParameter(
        f"the server has {len(entries)} models; choose one with --model: {names}{more}", param="model"
    )


def _error_message(response: httpx.Response) -> str:
    try:
        return clean(message_of(response.json()))
    except ValueError:
        return clean(response.text)


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
