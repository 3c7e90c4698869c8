"""Logging in to a registry: from its 401 to the headers worth trying.

The 401 names a token server, and a rogue registry would name its own (CVE-2025-51471). So a configured login is sent
only to the registry's own origin. A token server elsewhere (as Docker Hub and GitLab have) is asked anonymously, unless
its address is private, and its token is sent only to the registry. Ollama's signatures with a key pair are not
implemented: public models need none.
Protocol: https://distribution.github.io/distribution/spec/auth/token/
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

import msgspec

from localllm.errors import AccessDenied, InvalidParameter, PullFailed
from localllm.registry.fetch.net import origin_of
from localllm.registry.remote import Credential
from localllm.registry.sources.source import Fetch, clean, decode, host_of

MAX_TOKEN_BYTES = 64 * 1024
MAX_CHALLENGE_CHARS = 4096
NO_LOGIN = "configure a login for it (docker login, or LOCALLLM_REGISTRY_LOGINS)"

_PARAMETER = re.compile(r'([a-zA-Z]{1,20})="([^"]{0,2000})"')
_SAFE = re.compile(r"[\x21-\x7e]{1,32768}", re.ASCII)


@dataclass(frozen=True)
class Login:
    """The login configured for one host: user and password, or only a token."""

    secret: str = field(repr=False)
    user: str | None = None

    @property
    def authorization(self) -> str:
        """The header's value. Raises `InvalidParameter` if a header cannot carry it."""
        if self.user is None:
            value = f"Bearer {self.secret}"
        else:
            pair = base64.b64encode(f"{self.user}:{self.secret}".encode())
            value = f"Basic {pair.decode('ascii')}"
        if not _SAFE.fullmatch(value.partition(" ")[2]):
            raise InvalidParameter("the registry's token contains characters that no token has", param="token")
        return value


class _Token(msgspec.Struct):
    token: str | None = None
    access_token: str | None = None


def credentials(
    challenge: str, origin: str, fetch: Fetch, login: Login | None, *, named_by_user: bool
) -> Iterator[Credential]:
    """Credentials to try, in order, in response to `WWW-Authenticate: challenge` from that origin.

    Raises `AccessDenied` if the token server's URL is unusable, or if a login would have to be sent elsewhere.
    """
    configured = None if login is None else Credential(origin, login.authorization)
    scheme, _, rest = challenge[:MAX_CHALLENGE_CHARS].strip().partition(" ")
    if scheme.lower() != "bearer":
        if configured is not None:
            yield configured
        return
    realm = _Realm(dict(_PARAMETER.findall(rest)), origin)
    url = realm.url
    anonymous = _token(fetch, url, origin, None, named_by_user=named_by_user and not realm.is_foreign)
    if anonymous is not None:
        yield anonymous
    if configured is not None and login is not None:
        if login.user is None:
            yield configured
        elif realm.is_foreign:
            host = host_of(origin)
            raise AccessDenied(
                f"{host} wants its login at {host_of(url)}, but logins are sent only to the registry itself; "
                f"create a token there, and set LOCALLLM_REGISTRY_LOGINS={host}=TOKEN"
            )
        else:
            theirs = _token(fetch, url, origin, configured, named_by_user=named_by_user)
            if theirs is not None:
                yield theirs


class _Realm:
    """The URL of the token server. Raises `AccessDenied` for an invalid one."""

    def __init__(self, parameters: dict[str, str], origin: str) -> None:
        realm = parameters.get("realm", "")
        where = origin_of(realm)
        try:
            parts = urlsplit(realm)
        except ValueError as error:
            raise PullFailed(f"{host_of(origin)} wants a login at {clean(realm)!r}, which is not a URL") from error
        self.is_foreign = where != origin
        weaker = origin.startswith("https:") and parts.scheme != "https"
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or weaker:
            raise AccessDenied(
                f"{host_of(origin)} wants a login at {clean(realm)!r}, which is not contacted; nothing was sent"
            )
        asked = [("service", parameters[name]) for name in ("service",) if name in parameters]
        asked += [("scope", scope) for scope in parameters.get("scope", "").split()]
        query = "&".join(one for one in (parts.query, urlencode(asked)) if one)
        self.url = f"{where}{parts.path or '/'}?{query}"


def _token(
    fetch: Fetch, url: str, origin: str, credential: Credential | None, *, named_by_user: bool
) -> Credential | None:
    """The token; None if the server issues none."""
    response = fetch.get_small(url, credential=credential, named_by_user=named_by_user, max_bytes=MAX_TOKEN_BYTES)
    if response.status != 200:
        return None
    answer = decode(response.body, _Token, f"{host_of(origin)} (its token)")
    token = answer.token or answer.access_token
    return Credential(origin, f"Bearer {token}") if token and _SAFE.fullmatch(token) else None
