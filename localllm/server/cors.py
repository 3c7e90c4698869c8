"""Which web pages may ask, and the headers that tell browsers so. Knows nothing of keys or APIs.

Keys travel in headers that a page sets itself, never in cookies: so credentials are not allowed, and `*` means all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

ALLOWED_METHODS = "GET, HEAD, POST, DELETE"
ALLOWED_HEADERS = (
    "authorization", "content-type", "x-api-key", "x-request-id", "user-agent", "idempotency-key", "openai-beta",
    "openai-organization", "openai-project", "anthropic-beta", "anthropic-version",
    "anthropic-dangerous-direct-browser-access",
)  # fmt: skip
EXPOSED_HEADERS = "x-request-id, x-localllm-ignored, x-localllm-placement, x-localllm-truncated, retry-after"
MAX_AGE_S = 7200
"""The longest that browsers remember a preflight."""

ANY, LOCALHOST = "*", "localhost"
"""What stands for every origin, and for those of pages that a server on this machine has sent, whatever its port."""
_LOCAL = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")
_STAINLESS = re.compile(r"x-stainless-[a-z0-9-]{1,40}")
"""What the OpenAI and Anthropic clients for JavaScript send along: a list that grows."""

_NETWORK = {
    "access-control-request-private-network": "access-control-allow-private-network",
    "access-control-request-local-network": "access-control-allow-local-network",
}
"""What browsers ask before a page from the net reaches a machine at home: the draft's first name and its second."""


class Cors:
    """The origins of one server; without any, no page of another origin may ask."""

    def __init__(self, origins: Iterable[str] = ()) -> None:
        self._origins = frozenset(origins)

    def allows(self, origin: str) -> bool:
        """Whether pages of that origin may ask."""
        if ANY in self._origins or origin in self._origins:
            return origin != ""
        return LOCALHOST in self._origins and _LOCAL.fullmatch(origin) is not None

    def response_headers(self, origin: str | None) -> dict[str, str]:
        """What every response carries, errors too: a page may read it."""
        if not self._origins:
            return {}
        allowed = ANY if ANY in self._origins else origin
        if allowed is None or not self.allows(allowed):
            return {"vary": "Origin"}  # a cache must not give this answer to a page that may ask
        return {
            "vary": "Origin",
            "access-control-allow-origin": allowed,
            "access-control-expose-headers": EXPOSED_HEADERS,
        }

    def preflight_headers(self, asked: Mapping[str, str]) -> dict[str, str]:
        """The answer to an allowed page that asks what it may send. `asked` has lower-case names."""
        wanted = (name.strip().lower() for name in asked.get("access-control-request-headers", "").split(","))
        return {
            "access-control-allow-methods": ALLOWED_METHODS,
            "access-control-allow-headers": ", ".join([*ALLOWED_HEADERS, *filter(_STAINLESS.fullmatch, wanted)]),
            "access-control-max-age": str(MAX_AGE_S),
            **{answer: "true" for question, answer in _NETWORK.items() if asked.get(question) == "true"},
        }
