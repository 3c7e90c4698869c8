"""The syntax of API keys in settings and files: `KEY`, `NAME=KEY`, or `NAME(PROPERTIES)=KEY`. Does not know requests.

Properties are separated by blanks, so that the same text works in a comma-separated list and as a line of a file:

    ann(admin)=sk-1
    batch(min_priority=100 max_concurrent=2 requests_per_minute=60)=sk-2
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from localllm.errors import InvalidParameter

Role = Literal["user", "admin"]
"""What a key may do besides using models: an admin also manages them."""

LOWEST_PRIORITY, HIGHEST_PRIORITY = -1000, 1000
SHORTEST_PADDED_KEY = 16

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_.-]{1,64})\s*(?:\((?P<properties>[^()]*)\)\s*)?=\s*(?P<secret>[^=].*)")
_BEGINS_LIKE_PROPERTIES = re.compile(r"[A-Za-z0-9_.-]{1,64}\s*\(.*=")
_NUMBERS = {
    "min_priority": (LOWEST_PRIORITY, HIGHEST_PRIORITY),
    "max_concurrent": (0, 2**31 - 1),
    "requests_per_minute": (0, 2**31 - 1),
}
"""Property -> its minimum and maximum."""
_DERIVATION_ROUNDS = 5_000
"""Costs a millisecond per key at startup, and per guess of an attacker who has the derived value."""


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key, its name in the log and the metrics, and what it may do; name and secret never appear together."""

    name: str
    secret: str
    is_named: bool = True
    """Whether the user named it; other keys are numbered."""
    role: Role = "user"
    min_priority: int | None = None
    """The most urgent `priority` for its requests; None here and below: as in the settings."""
    max_concurrent: int | None = None
    requests_per_minute: int | None = None

    def __repr__(self) -> str:
        return f"ApiKey({self.name!r})"

    def properties(self) -> tuple[Role, int | None, int | None, int | None]:
        """What keys with the same name must have in common."""
        return self.role, self.min_priority, self.max_concurrent, self.requests_per_minute

    def owner(self) -> str:
        """The owner of anything created with this key: its name if it has one, else a value derived from the key.

        Not its number, which passes to another key as soon as a line is removed from the file.
        """
        if self.is_named:
            return self.name
        derived = hashlib.pbkdf2_hmac("sha256", self.secret.encode(), b"localllm key owner", _DERIVATION_ROUNDS)
        return f"key:{derived[:16].hex()}"


def parse_keys(texts: Sequence[str]) -> tuple[ApiKey, ...]:
    """Parses keys, numbering those without a name from 1. Raises `InvalidParameter`, which never quotes a key."""
    keys = tuple(_parse(text, number) for number, text in enumerate(texts, 1))
    _check_unambiguous(keys)
    return keys


def _parse(text: str, number: int) -> ApiKey:
    named = _NAMED.fullmatch(text)
    if named is not None:
        properties = _properties(named["properties"] or "", number)
        return msgspec.structs.replace(properties, name=named["name"], secret=named["secret"])
    # A text that ends with = is either a key in padded base64, or a name whose key was forgotten: easy to guess.
    if text.endswith("=") and len(text) < SHORTEST_PADDED_KEY:
        raise InvalidParameter(f"API key number {number} is a name without a key", param="api_keys")
    if _BEGINS_LIKE_PROPERTIES.match(text):
        raise InvalidParameter(
            f"API key number {number} begins like a name with properties but does not continue like one; write "
            "NAME(PROPERTIES)=KEY, or NAME=KEY if that is the key itself",
            param="api_keys",
        )
    return ApiKey(name=f"key-{number}", secret=text, is_named=False)


def _properties(text: str, number: int) -> ApiKey:
    """A key with those properties and without a secret."""
    numbers: dict[str, int] = {}
    words = text.split()
    for word in words:
        name, _, value = word.partition("=")
        low, high = _NUMBERS.get(name, (0, -1))
        if low <= high and re.fullmatch(r"-?[0-9]{1,10}", value) and low <= int(value) <= high:
            numbers[name] = int(value)
        elif word not in get_args(Role):
            known = ", ".join(f"{name}=N (from {low} to {high})" for name, (low, high) in _NUMBERS.items())
            raise InvalidParameter(
                f"API key number {number} has an unknown property or value; known are "
                f"{', '.join(get_args(Role))}, {known}, with blanks between them",
                param="api_keys",
            )
    names = ["role" if word in get_args(Role) else word.partition("=")[0] for word in words]
    if len(set(names)) < len(names):
        raise InvalidParameter(f"API key number {number} has a property twice", param="api_keys")
    return ApiKey(
        name="",
        secret="",
        role="admin" if "admin" in words else "user",
        min_priority=numbers.get("min_priority"),
        max_concurrent=numbers.get("max_concurrent"),
        requests_per_minute=numbers.get("requests_per_minute"),
    )


def _check_unambiguous(keys: Iterable[ApiKey]) -> None:
    by_name: dict[str, ApiKey] = {}
    by_secret: dict[str, ApiKey] = {}
    for key in keys:
        same_name, same_secret = by_name.setdefault(key.name, key), by_secret.setdefault(key.secret, key)
        if same_name.properties() != key.properties() or same_name.is_named != key.is_named:
            raise InvalidParameter(
                f"the keys called {key.name} have different properties; give all of them the same, or other names",
                param="api_keys",
            )
        if same_secret.name != key.name:
            raise InvalidParameter(
                f"{same_secret.name} and {key.name} are the same API key under two names; take one out",
                param="api_keys",
            )
