"""Callers: the valid API keys and what each may do. Knows nothing of models.

One `Caller` per owner, so that keys of one name share limits. Without keys, everybody is `ANYBODY`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from localllm.errors import InvalidParameter
from localllm.server.errors import PermissionDenied
from localllm.settings.config import Settings
from localllm.settings.keys import HIGHEST_PRIORITY, LOWEST_PRIORITY, ApiKey
from localllm.types import GenerationRequest

logger = logging.getLogger("localllm")

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

PRIORITY_AMONG_KEYS = 0
"""The lowest `priority` value that a key may use if there are several keys: the default priority."""
SALT_CHARS = 32


@dataclass(frozen=True)
class Caller:
    """The owner of a key and what it may do. A limit of 0 means unlimited."""

    name: str = "anonymous"
    """Name in the log and the metrics."""
    owner: str = ""
    """Identifies limits, stored responses and cached prompts."""
    may_manage: bool = True
    min_priority: int = LOWEST_PRIORITY
    max_concurrent: int = 0
    requests_per_minute: int = 0
    cache_salt: str = ""
    may_explain_cache: bool = True
    """Whether `cache_report` is allowed: it shows part of another prompt, which may belong to another key."""

    def check_may(self, what: str, param: str | None = None) -> None:
        """Raises `PermissionDenied` if this key may not do `what`, e.g. "unload models"."""
        if not self.may_manage:
            raise PermissionDenied(
                f"the key {self.name!r} may not {what}: that requires an admin key, "
                "NAME(admin)=KEY in its --api-key-file or LOCALLLM_API_KEYS",
                param=param,
            )

    def keep_alive(self, asked_s: float | None) -> float | None:
        """A request's `keep_alive`. It affects everybody, so it requires the right to unload the model.

        Raises `PermissionDenied`.
        """
        if asked_s is not None:
            self.check_may("set keep_alive", "keep_alive")
        return asked_s

    def priority(self, asked: int | None) -> int:
        """A request's priority; the default is 0, or this key's limit if that is higher.

        Raises `InvalidParameter` beyond the limit.
        """
        if asked is None:
            return max(0, self.min_priority)
        if asked < self.min_priority:
            raise InvalidParameter(
                f"priority must be from {self.min_priority} to {HIGHEST_PRIORITY} with the key {self.name!r}, got "
                f"{asked}; its min_priority, or --min-priority-per-key for all, lowers that",
                param="priority",
            )
        return asked

    def salt(self, asked: str | None) -> str:
        """The cache salt of a request's prompt. The client's own salt separates it from the key's other prompts."""
        return self.cache_salt if asked is None else _digest(f"{self.cache_salt}:{asked}")

    def owned(
        self, requests: Sequence[GenerationRequest], *, priority: int | None, cache_salt: str | None
    ) -> list[GenerationRequest]:
        """The requests with this caller's priority and cache salt. With debug logging, they also report cache misses.
        Raises as `priority` does, and `PermissionDenied`.
        """
        urgency, salt = self.priority(priority), self.salt(cache_salt)
        is_asked = any(request.explains_cache for request in requests)
        if is_asked and not self.may_explain_cache:
            raise PermissionDenied(
                "cache_report shows parts of other prompts, so it is off with several API keys; leave it out",
                param="cache_report",
            )
        explains = is_asked or (self.may_explain_cache and logger.isEnabledFor(logging.DEBUG))
        given = {"priority": urgency, "cache_salt": salt, "explains_cache": explains}
        return [msgspec.structs.replace(request, **given) for request in requests]


ANYBODY = Caller()


def caller_of(request: Request) -> Caller:
    """The caller that the gate identified."""
    return caller_in(request.scope)


def caller_in(scope: Scope) -> Caller:
    """The caller in an ASGI scope. Missing on paths that need no key."""
    caller = scope["state"]["caller"]
    assert isinstance(caller, Caller)
    return caller


@dataclass(frozen=True)
class _Keys:
    """The keys valid at one time."""

    pairs: tuple[tuple[Caller, bytes], ...] = ()
    """Each key's caller and bytes."""
    anybody: Caller = ANYBODY
    num_admins: int = 0
    names: frozenset[str] = frozenset()


class KeyRing:
    """The keys of the settings and the key file, which `reload` rereads. Readers never see a partial update."""

    def __init__(self, settings: Settings, token: str | None = None) -> None:
        """`token`: an additional admin key, for the process that started this one. Raises `InvalidParameter`."""
        self._settings = settings
        self._token = token
        self._now = self._read()

    def reload(self) -> None:
        """Raises `InvalidParameter` for an unusable file, and then changes nothing."""
        self._now = self._read()

    @property
    def pairs(self) -> tuple[tuple[Caller, bytes], ...]:
        return self._now.pairs

    @property
    def anybody(self) -> Caller:
        """The caller of requests without a key."""
        return self._now.anybody

    @property
    def names(self) -> frozenset[str]:
        """The names of the configured keys, without the token."""
        return self._now.names

    @property
    def num_admins(self) -> int:
        """The number of keys with the role admin; if 0, every key may do everything."""
        return self._now.num_admins

    def _read(self) -> _Keys:
        keys = self._settings.keys()
        names = frozenset(key.name for key in keys)
        num_admins = sum(key.role == "admin" for key in keys)
        if self._token is not None:
            keys += (ApiKey(name="sidecar", secret=self._token, role="admin"),)
        owners = {key: key.owner() for key in keys}
        are_several = len(set(owners.values())) > 1
        callers = {
            key: self._caller(key, owner, has_admin=num_admins > 0, are_several=are_several)
            for key, owner in owners.items()
        }
        return _Keys(
            pairs=tuple((callers[key], key.secret.encode()) for key in keys),
            anybody=self._caller(None, "", has_admin=False, are_several=False),
            num_admins=num_admins,
            names=names,
        )

    def _caller(self, key: ApiKey | None, owner: str, *, has_admin: bool, are_several: bool) -> Caller:
        settings = self._settings
        key = key or ApiKey(name=ANYBODY.name, secret="")
        is_salted = are_several and not settings.share_cache_between_keys
        return Caller(
            name=key.name,
            owner=owner,
            may_manage=key.role == "admin" or not has_admin,
            min_priority=_given(key.min_priority, self._min_priority(key, are_several)),
            max_concurrent=_given(key.max_concurrent, settings.max_concurrent_per_key),
            requests_per_minute=_given(key.requests_per_minute, settings.requests_per_minute_per_key),
            # Derived from the owner alone, so that conversations on disk are found after a restart. It needs no secret:
            # clients cannot choose it, since their own salt is only hashed together with this one.
            cache_salt=_digest(f"key:{owner}") if is_salted else "",
            may_explain_cache=not are_several,
        )

    def _min_priority(self, key: ApiKey, are_several: bool) -> int:
        if key.role == "admin":
            return LOWEST_PRIORITY
        return _given(self._settings.min_priority_per_key, PRIORITY_AMONG_KEYS if are_several else LOWEST_PRIORITY)


def _given(number: int | None, default: int) -> int:
    return default if number is None else number


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:SALT_CHARS]
