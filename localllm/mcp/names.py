"""What tools of MCP servers are called when a model is told of them: `server__tool`, one name for each. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

MAX_NAME_CHARS = 64
"""As OpenAI's API has it."""
JOINT = "__"
_DIGEST_CHARS = 6
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def offered_names(tools: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Of pairs of a server and its tool: name -> pair, in their order. The same pairs have the same names.

    A name that would be too long, or that another pair has already, ends with a digest of what it stands for.
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
    """Whether a name is one of those that were allowed: a name, `SERVER__*`, or `*`."""
    return any(
        name == each or each == "*" or (each.endswith(f"{JOINT}*") and name.startswith(each.removesuffix("*")))
        for each in allowed
    )


def _digested(plain: str, pair: tuple[str, str]) -> str:
    digest = hashlib.sha256("\0".join(pair).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{plain[: MAX_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"
