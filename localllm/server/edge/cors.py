"""CORS: which web pages may send requests, and the headers for browsers. Knows nothing of keys or APIs.

Keys are sent in headers that a page sets itself, never in cookies: credentials are not allowed, and `*` means all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

ALLOWED_METHODS = "GET, HEAD, POST, DELETE"
ALLOWED_HEADERS = (
    "authorization", "content-type", "x-api-key", "x-request-id", "x-session-id", "user-agent", "idempotency-key",
    "openai-beta", "openai-organization", "openai-project", "anthropic-beta", "anthropic-version",
    "anthropic-dangerous-direct-browser-access",
)  # fmt: skip
EXPOSED_HEADERS = (
    "x-request-id, x-localllm-ignored, x-localllm-model, x-localllm-placement, x-localllm-route, x-localllm-server, "
    "x-localllm-template, x-localllm-truncated, x-session-id, retry-after"
)
MAX_AGE_S = 7200
"""Seconds that browsers cache a preflight, their maximum."""

ANY, LOCALHOST, APPS = "*", "localhost", "apps"
"""Special values: every origin, pages served from this machine on any port, and pages of installed programs."""
_LOCAL = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")
_APP = re.compile(r"(?:app|tauri|vscode-webview|vscode-file)://[^/\s]+|https?://tauri\.localhost")
"""Pages that belong to an installed program, as Ollama lets them in: no web page can have such an origin. A file that
was saved from the web can have `file://` or `null`."""
_STAINLESS = re.compile(r"x-stainless-[a-z0-9-]{1,40}")
"""Headers that the JavaScript clients of OpenAI and Anthropic send; the list grows."""

_NETWORK = {
    "access-control-request-private-network": "access-control-allow-private-network",
    "access-control-request-local-network": "access-control-allow-local-network",
}
"""Preflight header for requests from public pages to private networks, under the draft's two names."""


class Cors:
    """The allowed origins; if empty, pages of other origins are refused."""

    def __init__(self, origins: Iterable[str] = ()) -> None:
        self._origins = frozenset(origins)

    def allows(self, origin: str) -> bool:
        """Whether pages of that origin are allowed."""
        if ANY in self._origins or origin in self._origins:
            return origin != ""
        if APPS in self._origins and is_app(origin):
            return True
        return LOCALHOST in self._origins and _LOCAL.fullmatch(origin) is not None

    def response_headers(self, origin: str | None) -> dict[str, str]:
        """Headers of every response, including errors, so that an allowed page can read it."""
        if not self._origins:
            return {}
        allowed = ANY if ANY in self._origins else origin
        if allowed is None or not self.allows(allowed):
            return {"vary": "Origin"}  # a cache must not serve this response to an allowed page
        return {
            "vary": "Origin",
            "access-control-allow-origin": allowed,
            "access-control-expose-headers": EXPOSED_HEADERS,
        }

    def preflight_headers(self, asked: Mapping[str, str]) -> dict[str, str]:
        """The preflight response for an allowed page. `asked` has lower-case names."""
        wanted = (name.strip().lower() for name in asked.get("access-control-request-headers", "").split(","))
        return {
            "access-control-allow-methods": ALLOWED_METHODS,
            "access-control-allow-headers": ", ".join([*ALLOWED_HEADERS, *filter(_STAINLESS.fullmatch, wanted)]),
            "access-control-max-age": str(MAX_AGE_S),
            **{answer: "true" for question, answer in _NETWORK.items() if asked.get(question) == "true"},
        }


def is_app(origin: str) -> bool:
    """Whether this is the origin of an installed program's own pages."""
    return _APP.fullmatch(origin) is not None
