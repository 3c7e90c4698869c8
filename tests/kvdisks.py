"""What tests of saved conversations share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from localllm.kvdisk.cache import DiskCache
from localllm.kvdisk.entry import DiskEntry, is_beginning
from localllm.kvdisk.fingerprint import Parts
from localllm.kvdisk.folder import Folder

PARTS = Parts(
    model="sha256:00", adapters=(), kv_types=("f16", "f16"), layout="partitioned", slots=4, slot_capacity=1024,
    flash_attention="on", library_version="0.3.36", library_hash="22",
)  # fmt: skip
OTHER_PARTS = msgspec.structs.replace(PARTS, model="sha256:01")
TIMEOUT_S = 60.0
MIB = 1024 * 1024


def tokens_of(*tokens: int) -> npt.NDArray[np.int32]:
    return np.array(tokens, np.int32)


def complaints(texts: list[str]) -> Callable[[str], None]:
    """For caches that are to warn: into that list."""
    return texts.append


def unexpected(text: str) -> None:
    """For those that are not to."""
    raise AssertionError(text)


@contextmanager
def opened(
    root: Path,
    *,
    parts: Parts = PARTS,
    model: str = "tiny",
    max_bytes: int = 64 * MIB,
    beside_bytes: Callable[[], int] = lambda: 0,
    **options: Any,
) -> Iterator[DiskCache]:
    """Closed in the end; by default with room, and without a word."""
    folder = Folder(root, model=model, parts=parts, max_bytes=max_bytes, beside_bytes=beside_bytes)
    cache = DiskCache(folder, **{"warn": unexpected, **options})
    try:
        yield cache
    finally:
        assert cache.close(TIMEOUT_S)


def put(cache: DiskCache, tokens: npt.NDArray[np.int32], state: bytes = b"state", **options: Any) -> DiskEntry:
    """And wait until it is written."""
    entry = cache.store(tokens, state, **options)
    assert entry is not None
    assert cache.flush(TIMEOUT_S)
    return entry


def holds(cache: DiskCache, tokens: npt.NDArray[np.int32], domain: str = "") -> bool:
    """Whether all of these tokens are a prefix of an entry of that domain."""
    return any(is_beginning(tokens, domain, entry) for entry in cache.entries)


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """The last arguments of the calls of a function from now on."""
    original, calls = getattr(owner, name), list[Any]()

    def noted(*arguments: Any) -> Any:
        calls.append(arguments[-1])
        return original(*arguments)

    monkeypatch.setattr(owner, name, noted)
    return calls


def known(cache: DiskCache) -> list[list[int]]:
    return sorted(entry.tokens.tolist() for entry in cache.entries)


def files(root: Path) -> list[Path]:
    return sorted(root.glob("*/*.kv"))
