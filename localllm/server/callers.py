"""Who asks: the keys that are valid now, and what the one behind a request may do. Knows nothing of models.

One `Caller` per owner, so that limits are shared by keys of one name. Without any key everybody is `ANYBODY`.
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
"""The most urgent `priority` of a key where there are several and no setting says otherwise: the default priority."""
SALT_CHARS = 32


@dataclass(frozen=True)
class Caller:
    """Whose key it is and what it may do. A limit of 0 is none."""

    name: str = "anonymous"
    """What the log and the metrics say."""
    owner: str = ""
    """Whose limits, stored responses and cached prompts these are."""
    may_manage: bool = True
    min_priority: int = LOWEST_PRIORITY
    max_concurrent: int = 0
    requests_per_minute: int = 0
    cache_salt: str = ""
    may_explain_cache: bool = True
    """Why a prompt is not in the cache shows some of another prompt, which may be another key's."""

    def check_may(self, what: str, param: str | None = None) -> None:
        """Raises `PermissionDenied` where this key may not do `what`, e.g. "unload models"."""
        if not self.may_manage:
            raise PermissionDenied(
                f"the key {self.name!r} may not {what}: on this server that needs an admin key, "
                "NAME(admin)=KEY in its --api-key-file or LOCALLLM_API_KEYS",
                param=param,
            )

    def keep_alive(self, asked_s: float | None) -> float | None:
        """Of a request. It changes for everybody how long the model stays, so it takes the right to unload it.

        Raises `PermissionDenied`.
        """
        if asked_s is not None:
            self.check_may("set keep_alive", "keep_alive")
        return asked_s

    def priority(self, asked: int | None) -> int:
        """Of a request; one without a priority gets 0, or this key's bound if that is higher.

        Raises `InvalidParameter` for one beyond the bound.
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
        """Of a request's prompt in the KV cache. A client's own salt separates it from the key's other prompts."""
        return self.cache_salt if asked is None else _digest(f"{self.cache_salt}:{asked}")

    def owned(
        self, requests: Sequence[GenerationRequest], *, priority: int | None, cache_salt: str | None
    ) -> list[GenerationRequest]:
        """The requests with the priority and the cache salt they get from this caller. For a debug log, they explain
        the cache. Raises as `priority` does, and `PermissionDenied`.
        """
        urgency, salt = self.priority(priority), self.salt(cache_salt)
        is_asked = any(request.explains_cache for request in requests)
        if is_asked and not self.may_explain_cache:
            raise PermissionDenied(
                "cache_report shows some of other prompts: it is off on a server with several API keys; leave it out",
                param="cache_report",
            )
        explains = is_asked or (self.may_explain_cache and logger.isEnabledFor(logging.DEBUG))
        given = {"priority": urgency, "cache_salt": salt, "explains_cache": explains}
        return [msgspec.structs.replace(request, **given) for request in requests]


ANYBODY = Caller()


def caller_of(request: Request) -> Caller:
    """Whose key the gate found on this request."""
    return caller_in(request.scope)


def caller_in(scope: Scope) -> Caller:
    """The same. There is none where the gate looked for no key, and then nothing may be decided by it."""
    caller = scope["state"]["caller"]
    assert isinstance(caller, Caller)
    return caller


@dataclass(frozen=True)
class _Keys:
    """What is valid at one time."""

    pairs: tuple[tuple[Caller, bytes], ...] = ()
    """Each key's caller and its bytes."""
    anybody: Caller = ANYBODY
    num_admins: int = 0
    names: frozenset[str] = frozenset()


class KeyRing:
    """The keys of the settings and of their file, which `reload` reads again. Readers never see a half-read state."""

    def __init__(self, settings: Settings, token: str | None = None) -> None:
        """`token` is one more key, an admin's: that of the process that started this one. Raises `InvalidParameter`."""
        self._settings = settings
        self._token = token
        self._now = self._read()

    def reload(self) -> None:
        """Raises `InvalidParameter` for a file that cannot be used, and leaves everything as it was."""
        self._now = self._read()

    @property
    def pairs(self) -> tuple[tuple[Caller, bytes], ...]:
        return self._now.pairs

    @property
    def anybody(self) -> Caller:
        """Who asks where there is no key."""
        return self._now.anybody

    @property
    def names(self) -> frozenset[str]:
        """Of the settings' keys, without the token's."""
        return self._now.names

    @property
    def num_admins(self) -> int:
        """Keys that the settings made an admin's; none: every key may do everything."""
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
            # Made of the owner alone, so that conversations on the disk are found again after a restart. It needs no
            # secret: no client can choose it, since a salt of its own is only ever hashed together with this one.
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
