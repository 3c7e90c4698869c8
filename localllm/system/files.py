"""Files: locks, atomic writes, clones, plain opens that follow no link."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import stat
import sys
import threading
import time
from pathlib import Path

from localllm.errors import InvalidParameter


def open_plain(path: Path, flags: int, mode: int = 0o666) -> int:
    """`os.open` that neither follows a symbolic link at the end of the path nor blocks on a pipe; not inherited.

    Windows has no such flag: it follows links, but creating one requires a privilege.
    """
    if sys.platform == "win32":
        return os.open(path, flags | os.O_BINARY | os.O_NOINHERIT, mode)
    else:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)


def bounded_bytes(path: Path, most_bytes: int, *, param: str) -> bytes:
    """The content of a file that a user named; `param` is where. Raises `InvalidParameter` if it cannot be read or is
    larger."""
    try:
        with open(path, "rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be read: {error.strerror or error}", param=param) from error
    if len(data) > most_bytes:
        raise InvalidParameter(f"{path} has more than {most_bytes:,} bytes", param=param)
    return data


def try_lock(fd: int, *, exclusive: bool) -> bool:
    """Lock an open file; False if another descriptor, of any process, holds a conflicting lock.

    The lock lasts until `unlock` or the end of the process. It does not prevent reads and writes.
    """
    if sys.platform == "win32":
        import msvcrt

        fail_immediately, exclusively = 1, 2
        flags = fail_immediately | (exclusively if exclusive else 0)
        kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
        region = _lock_region()
        if kernel32.LockFileEx(ctypes.c_void_p(msvcrt.get_osfhandle(fd)), flags, 0, 1, 0, ctypes.byref(region)):
            return True
        error = ctypes.get_last_error()
        if error not in (33, 997):  # ERROR_LOCK_VIOLATION, ERROR_IO_PENDING
            raise ctypes.WinError(error)
        return False
    else:
        import fcntl

        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def unlock(fd: int) -> None:
    """Release the lock of `try_lock`. Closing the file does too, but with a delay on Windows."""
    if sys.platform == "win32":
        import msvcrt

        kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
        region = _lock_region()
        kernel32.UnlockFileEx(ctypes.c_void_p(msvcrt.get_osfhandle(fd)), 0, 1, 0, ctypes.byref(region))
    else:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)


def _lock_region() -> ctypes.Structure:
    """OVERLAPPED for one byte far beyond any content, because Windows blocks reads of a locked region."""

    class Overlapped(ctypes.Structure):
        _fields_ = (
            ("internal", ctypes.c_void_p),
            ("internal_high", ctypes.c_void_p),
            ("offset", ctypes.c_uint32),
            ("offset_high", ctypes.c_uint32),
            ("event", ctypes.c_void_p),
        )

    return Overlapped(offset_high=0x40000000)


def clone_file(source_fd: int, target: Path) -> None:
    """Make `target` a copy-on-write clone of the source. Raises `OSError` if that is not possible.

    FICLONE on Linux (Btrfs, XFS), clonefile on macOS (APFS). Not on Windows, which clones on ReFS only.
    """
    if sys.platform == "linux":
        import fcntl

        fd = open_plain(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            fcntl.ioctl(fd, getattr(fcntl, "FICLONE", 0x40049409), source_fd)
        except OSError:
            target.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
    elif sys.platform == "darwin":
        libc = ctypes.CDLL(None, use_errno=True)
        current_folder = -2
        if libc.fclonefileat(source_fd, current_folder, os.fsencode(target), 0) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(target))
    else:
        raise OSError(errno.ENOTSUP, "files are not cloned on this system", str(target))


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power failure. Windows has no call for it, and mostly needs none."""
    if sys.platform != "win32":
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def remove_file(path: Path) -> None:
    """Delete a file, even a read-only one; no error if it does not exist."""
    if sys.platform == "win32":
        try:
            os.chmod(path, 0o600)
        except FileNotFoundError:
            return
    path.unlink(missing_ok=True)


def replace_file(source: Path, target: Path) -> None:
    """`os.replace` that also replaces a read-only file.

    On Windows, waits up to half a second for a process that is reading the old file, often a virus scanner.
    """
    if sys.platform == "win32":
        if target.is_file():
            os.chmod(target, 0o600)
        for _ in range(24):
            try:
                os.replace(source, target)
                return
            except PermissionError:
                time.sleep(0.02)
    os.replace(source, target)


def write_at(fd: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of the data at `offset`, from any thread. Windows has one position per file, hence the lock."""
    view = memoryview(data)
    if sys.platform == "win32":
        with _WRITE_AT:
            os.lseek(fd, offset, os.SEEK_SET)
            while view:
                view = view[os.write(fd, view) :]
    else:
        while view:
            written = os.pwrite(fd, view, offset)
            view, offset = view[written:], offset + written


_WRITE_AT = threading.Lock()


def private_file(path: Path) -> None:
    """Create a file that only its owner can read, unless it exists; default rights on Windows. Raises `OSError`."""
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))


TEMPORARY = ".tmp-"
"""Prefix of the names of incomplete files."""


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file atomically: at any moment it has either the old content or the new. Creates the folder.

    A symbolic link is replaced, not followed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    try:
        with open(create(temporary), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        replace_file(temporary, path)
    except BaseException as error:
        remove_file(temporary)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # people know nothing of the temporary file
        raise
    sync_folder(path.parent)


def flush(path: Path) -> None:
    """Syncs a file's content, so that it survives a power failure."""
    fd = open_plain(path, os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_ordinary(path: Path) -> int | None:
    """A descriptor for reading; None for a link, folder, pipe or device."""
    try:
        fd = open_plain(path, os.O_RDONLY)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def create(path: Path) -> int:
    """Creates a new file in place of any existing one; never writes through a symbolic or hard link."""
    remove_file(path)
    return open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def free_bytes(folder: Path) -> int:
    """Free bytes on the disk of a folder, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
