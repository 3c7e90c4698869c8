"""Caches results about this machine in a small JSON file, keyed by everything that a result depends on.

If the file cannot be read or written, a warning is logged and the result is computed again. Two processes may write at
once: each replaces the whole file, so one may lose the other's result. Does not know what the results mean.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from localllm.errors import naming

log = logging.getLogger(__name__)
T = TypeVar("T")


class _File(msgspec.Struct, Generic[T], forbid_unknown_fields=True):
    outcomes: dict[str, T] = {}
    """Oldest first."""


def key(*parts: str) -> str:
    """A short digest of all parts."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


class ResultStore(Generic[T]):
    """A cache file of at most `most` outcomes; `subject` names them in warnings."""

    def __init__(self, path: Path, outcome: type[T], *, most: int, subject: str) -> None:
        self.path = path
        self._decoder: msgspec.json.Decoder[_File[T]] = msgspec.json.Decoder(_File[outcome])  # type: ignore[valid-type]
        self._most = most
        self._subject = subject

    def get(self, name: str) -> T | None:
        return self._read().outcomes.get(name)

    def put(self, name: str, outcome: T) -> OSError | None:
        """Returns the error if the file cannot be written."""
        content = self._read()
        content.outcomes.pop(name, None)
        content.outcomes[name] = outcome
        for oldest in list(content.outcomes)[: -self._most]:
            del content.outcomes[oldest]
        try:
            with naming(self.path):
                self._replace(msgspec.json.encode(content))
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

    def _replace(self, content: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=self.path.name, dir=self.path.parent)
        try:
            with open(handle, "wb") as file:
                file.write(content)
            os.replace(name, self.path)
        except OSError as error:
            os.unlink(name)
            error.filename = str(self.path)  # not the temporary file
            raise
