"""Memory by the page: address space first, its pages later, on whatever thread, and back to the system.

A page costs most when it is touched for the first time: 256 MiB take 70 to 900 ms then, 23 ms from then on. What the
system offers is asked by the names that `mmap` has here. Knows nothing of who needs memory for what.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap

_LARGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)
"""Linux has this name."""
_GIVE_BACK: int | None = getattr(mmap, "MADV_FREE" if _LARGE_PAGES is None else "MADV_DONTNEED", None)
"""Windows has neither."""
_MAP_NORESERVE = 0x4000 if _LARGE_PAGES is not None else 0
"""On Linux: memory that nobody touches is not counted."""
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE, of Linux 5.14 and later."""

CAN_RELEASE = _GIVE_BACK is not None
"""Whether `release` gives pages back. If not, a reserved area counts as used from the beginning."""


def reserve(num_bytes: int) -> mmap.mmap:
    """Address space without pages; they will be large ones where the system has them. Raises `OSError`."""
    if _GIVE_BACK is None:
        return mmap.mmap(-1, num_bytes)
    private = int(getattr(mmap, "MAP_PRIVATE", 0)) | int(getattr(mmap, "MAP_ANONYMOUS", 0))
    area = mmap.mmap(-1, num_bytes, flags=private | _MAP_NORESERVE)  # type: ignore[call-arg, unused-ignore]
    if _LARGE_PAGES is not None:
        with contextlib.suppress(OSError):  # a kernel without them
            area.madvise(_LARGE_PAGES)  # type: ignore[attr-defined, unused-ignore]
    return area


def populate(address: int, num_bytes: int) -> None:
    """Gives a range of unused whole pages its memory; what stood there is lost. Runs without the interpreter's lock."""
    if _LARGE_PAGES is None or _madvise(address, num_bytes, _POPULATE_WRITE) != 0:
        ctypes.memset(address, 0, num_bytes)


def release(address: int, num_bytes: int) -> None:
    """Gives the memory of a range of whole pages back to the system; what stood there is lost."""
    if _GIVE_BACK is not None:
        _madvise(address, num_bytes, _GIVE_BACK)


def _madvise(address: int, num_bytes: int, advice: int) -> int:
    # Not `mmap.madvise`, which keeps the interpreter's lock meanwhile.
    return int(ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(num_bytes), advice))
