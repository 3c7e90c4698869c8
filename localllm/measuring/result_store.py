"""Caches results about this machine in a small JSON file, by the key of their `Conditions`.

If the file cannot be read or written, a warning is logged and the result is computed again. Two processes may write at
once: each replaces the whole file, so one may lose the other's result. Does not know what the results mean.

Tunings have files of their own (`planning.tuned`): each took minutes that a user asked for, so they are listed, removed
with their model, and a load says why one does not apply. A cache that forgets silently would not do for them.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from localllm.system.files import write_whole

log = logging.getLogger(__name__)
T = TypeVar("T")


class _File(msgspec.Struct, Generic[T], forbid_unknown_fields=True):
    outcomes: dict[str, T] = {}
    """Oldest first."""


class ResultStore(Generic[T]):
    """A cache file of at most `most` outcomes; `subject` names them in warnings."""

    def __init__(self, path: Path, outcome: type[T], *, most: int, subject: str) -> None:
        self.path = path
        self._decoder: msgspec.json.Decoder[_File[T]] = msgspec.json.Decoder(_File[outcome])  # type: ignore[valid-type]
        self._most = most
        self._subject = subject

    def get(self, key: str) -> T | None:
        return self._read().outcomes.get(key)

    def put(self, key: str, outcome: T) -> OSError | None:
        """Returns the error if the file cannot be written."""
        content = self._read()
        content.outcomes.pop(key, None)
        content.outcomes[key] = outcome
        for oldest in list(content.outcomes)[: -self._most]:
            del content.outcomes[oldest]
        try:
            write_whole(self.path, msgspec.json.encode(content))
        except OSError as error:
            log.warning("%s: the result is not remembered path=%s reason=%s", self._subject, self.path, error)
            return error
        return None

    def _read(self) -> _File[T]:
        try:
            return self._decoder.decode(self.path.read_bytes())
        except FileNotFoundError:
            return _File()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning(
                "%s: the file is unreadable, so the result is computed again path=%s reason=%s",
                self._subject,
                self.path,
                error,
            )
            return _File()
