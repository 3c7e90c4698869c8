"""Logging in to a registry: from its 401 to the headers worth trying.

A token is fetched from the registry's own origin and from nowhere else: its answer names the place, and a rogue one
would name its own (CVE-2025-51471). First without saying who we are, then with what the caller configured for the host.
Ollama's own signature with a key pair is not spoken: public models need none.
Protocol: https://distribution.github.io/distribution/spec/auth/token/
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

import msgspec

from localllm.errors import AccessDenied, InvalidParameter
from localllm.registry.fetch.net import origin_of
from localllm.registry.remote import Credential
from localllm.registry.sources.source import Fetch, clean, decode, host_of

MAX_TOKEN_BYTES = 64 * 1024
MAX_CHALLENGE_CHARS = 4096

_PARAMETER = re.compile(r'([a-zA-Z]{1,20})="([^"]{0,2000})"')
_SAFE = re.compile(r"[\x21-\x7e]{1,32768}", re.ASCII)


@dataclass(frozen=True)
class Login:
    """What the user configured for one host: user and password, or a token alone."""

    secret: str = field(repr=False)
    user: str | None = None

    @property
    def authorization(self) -> str:
        """The header's value. Raises `InvalidParameter` for what no header can carry."""
        if self.user is None:
            value = f"Bearer {self.secret}"
        else:
            pair = base64.b64encode(f"{self.user}:{self.secret}".encode())
            value = f"Basic {pair.decode('ascii')}"
        if not _SAFE.fullmatch(value.partition(" ")[2]):
            raise InvalidParameter("the registry's token has characters that no token has", param="token")
        return value


class _Token(msgspec.Struct):
    token: str | None = None
    access_token: str | None = None


def credentials(challenge: str, origin: str, fetch: Fetch, login: Login | None, *, typed: bool) -> Iterator[Credential]:
    """What to answer to `WWW-Authenticate: challenge` of that origin, one after the other.

    Raises `AccessDenied` if tokens are to be fetched anywhere but there, before anything is sent.
    """
    configured = None if login is None else Credential(origin, login.authorization)
    scheme, _, rest = challenge[:MAX_CHALLENGE_CHARS].strip().partition(" ")
    if scheme.lower() != "bearer":
        if configured is not None:
            yield configured
        return
    url = _token_url(dict(_PARAMETER.findall(rest)), origin)
    anonymous = _token(fetch, url, origin, None, typed=typed)
    if anonymous is not None:
        yield anonymous
    if configured is not None and login is not None:
        if login.user is None:
            yield configured
        else:
            theirs = _token(fetch, url, origin, configured, typed=typed)
            if theirs is not None:
                yield theirs


def _token_url(parameters: dict[str, str], origin: str) -> str:
    realm = parameters.get("realm", "")
    if origin_of(realm) != origin:
        raise AccessDenied(
            f"{host_of(origin)} wants a login at {clean(realm)!r}; tokens are only fetched from the registry itself, "
            "so nothing was sent"
        )
    parts = urlsplit(realm)
    asked = [("service", parameters[name]) for name in ("service",) if name in parameters]
    asked += [("scope", scope) for scope in parameters.get("scope", "").split()]
    return f"{origin}{parts.path or '/'}?{'&'.join(one for one in (parts.query, urlencode(asked)) if one)}"


def _token(fetch: Fetch, url: str, origin: str, credential: Credential | None, *, typed: bool) -> Credential | None:
    """None: there is no token for us."""
    response = fetch.get_small(url, credential=credential, typed=typed, max_bytes=MAX_TOKEN_BYTES)
    if response.status != 200:
        return None
    answer = decode(response.body, _Token, f"{host_of(origin)} (its token)")
    token = answer.token or answer.access_token
    return Credential(origin, f"Bearer {token}") if token and _SAFE.fullmatch(token) else None
