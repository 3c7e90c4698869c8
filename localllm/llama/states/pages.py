"""Memory by the page: address space first, pages later, on any thread, and back to the system.

A page costs most when first touched: 256 MiB take 70 to 900 ms then, and 23 ms later. What the system offers is
detected by the names in `mmap`. Knows nothing of who needs memory for what.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap

_LARGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)
"""Only Linux has this name."""
_GIVE_BACK: int | None = getattr(mmap, "MADV_FREE" if _LARGE_PAGES is None else "MADV_DONTNEED", None)
"""Windows has neither."""
_MAP_NORESERVE = 0x4000 if _LARGE_PAGES is not None else 0
"""On Linux: untouched memory is not counted."""
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE, since Linux 5.14."""

CAN_RELEASE = _GIVE_BACK is not None
"""Whether `release` gives pages back. If not, a reserved area counts as used from the start."""


def reserve(num_bytes: int) -> mmap.mmap:
    """Address space without pages; later ones are large if the system supports that. Raises `OSError`."""
    if _GIVE_BACK is None:
        return mmap.mmap(-1, num_bytes)
    private = int(getattr(mmap, "MAP_PRIVATE", 0)) | int(getattr(mmap, "MAP_ANONYMOUS", 0))
    area = mmap.mmap(-1, num_bytes, flags=private | _MAP_NORESERVE)  # type: ignore[call-arg, unused-ignore]
    if _LARGE_PAGES is not None:
        with contextlib.suppress(OSError):  # a kernel without them
            area.madvise(_LARGE_PAGES)  # type: ignore[attr-defined, unused-ignore]
    return area


def populate(address: int, num_bytes: int) -> None:
    """Gives a range of unused whole pages its memory; existing content is lost. Releases the interpreter lock."""
    if _LARGE_PAGES is None or _madvise(address, num_bytes, _POPULATE_WRITE) != 0:
        ctypes.memset(address, 0, num_bytes)


def release(address: int, num_bytes: int) -> None:
    """Gives the memory of a range of whole pages back to the system; its content is lost."""
    if _GIVE_BACK is not None:
        _madvise(address, num_bytes, _GIVE_BACK)


def _madvise(address: int, num_bytes: int, advice: int) -> int:
    # Not `mmap.madvise`, which holds the interpreter lock meanwhile.
    return int(ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(num_bytes), advice))
