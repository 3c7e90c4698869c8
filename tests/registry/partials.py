"""The content of a partial file, for tests that inspect it between downloads."""

from __future__ import annotations

from pathlib import Path

from localllm.registry.fetch.partial import good_ranges, read_record
from localllm.registry.names.digest import Digest


def present_bytes(partial: Path, *, digest: Digest | None, size_bytes: int | None) -> int:
    """Bytes of this file left by an earlier download; 0 if the next one cannot use them."""
    record = read_record(partial)
    if record is None or record.digest != (None if digest is None else str(digest)):
        return 0
    if size_bytes is not None and size_bytes != record.size_bytes:
        return 0
    return good_ranges(partial, record).num_bytes
