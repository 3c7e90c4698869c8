"""Names of MCP tools for models: `server__tool`, each unique. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

MAX_NAME_CHARS = 64
"""OpenAI's limit."""
JOINT = "__"
_DIGEST_CHARS = 6
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def offered_names(tools: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Name -> (server, tool), in order. The same pairs always get the same names.

    A name that would be too long or a duplicate ends with a digest of the pair.
    """
    names: dict[str, tuple[str, str]] = {}
    for pair in dict.fromkeys(tools):
        plain = _OTHER.sub("_", JOINT.join(pair))
        name = plain if len(plain) <= MAX_NAME_CHARS else _digested(plain, pair)
        if name in names:
            name = _digested(plain, pair)
        names[name] = pair
    return names


def is_allowed(name: str, allowed: Iterable[str]) -> bool:
    """Whether a name matches an allowed one: a name, `SERVER__*`, or `*`."""
    return any(
        name == each or each == "*" or (each.endswith(f"{JOINT}*") and name.startswith(each.removesuffix("*")))
        for each in allowed
    )


def _digested(plain: str, pair: tuple[str, str]) -> str:
    digest = hashlib.sha256("\0".join(pair).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{plain[: MAX_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"
