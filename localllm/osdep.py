"""Every branch on the operating system, and nothing else. mypy runs over this file for linux, darwin and win32."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

from localllm import cgroups


def user_data_dir() -> Path:
    """Where models, KV, plugins and logs are stored."""
    import platformdirs

    return Path(platformdirs.user_data_dir("localllm", appauthor=False))


def user_config_dir() -> Path:
    """Where config.toml lives."""
    import platformdirs

    return Path(platformdirs.user_config_dir("localllm", appauthor=False))


def own_process_group() -> dict[str, Any]:
    """`Popen` arguments that keep Ctrl-C from a child and, on Windows, stop a desktop app's child opening a console."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    else:
        return {"process_group": 0}


def kill_group(pid: int) -> None:
    """Kill a child with `own_process_group` and everything it started. Raises `OSError` if nothing is left of them."""
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(pid)], capture_output=True)
    else:
        os.killpg(pid, signal.SIGKILL)


_not_for_forks: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()


def keep_from_forks(stream: IO[bytes]) -> None:
    """Close the stream in forks, which would otherwise keep a child alive that runs until end-of-file."""
    _not_for_forks.add(stream)


def _close_in_fork() -> None:
    for stream in list(_not_for_forks):
        getattr(stream, "raw", stream).close()  # not the buffer, whose lock another thread may have had


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_fork)


class ExitReason(NamedTuple):
    """How a process ended."""

    exit_code: int | None
    signal: str | None
    crashed: bool
    """Whether a fault or a signal ended it."""

    def __str__(self) -> str:
        return f"signal {self.signal}" if self.signal else f"exit code {self.exit_code}"


def exit_reason(returncode: int) -> ExitReason:
    """Reads a `Popen.returncode`: negative signal numbers on POSIX, NTSTATUS values of 0xC0000000 and up on Windows."""
    if sys.platform == "win32":
        code = returncode & 0xFFFFFFFF
        names = {0xC0000005: "ACCESS_VIOLATION", 0xC000001D: "ILLEGAL_INSTRUCTION", 0xC0000409: "ABORT"}
        return ExitReason(code, names.get(code), code >= 0xC0000000)
    else:
        if returncode >= 0:
            return ExitReason(returncode, None, False)
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = str(-returncode)
        return ExitReason(None, name, True)


def reload_signal() -> signal.Signals | None:
    """The signal that makes a daemon reread its files; Windows has none."""
    if sys.platform == "win32":
        return None
    else:
        return signal.SIGHUP


def has_terminal() -> bool:
    """Whether this process has a terminal that can take Ctrl-C and has not been closed."""
    if sys.platform == "win32":
        return False
    else:
        try:
            os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        except OSError:
            return False
        return True


def claim_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Takes fd 0 and fd 1 for a binary protocol and returns them as private unbuffered files.

    Afterwards fd 0 is the null device and fd 1 is stderr, so that no native print gets between frames.
    """
    sys.stdout.flush()
    read_fd, write_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(read_fd, os.O_BINARY)
        msvcrt.setmode(write_fd, os.O_BINARY)
    sys.stdout = sys.stderr
    return open(read_fd, "rb", buffering=0), open(write_fd, "wb", buffering=0)


def limit_memory(max_bytes: int) -> bool:
    """Limit this process's address space; False if the system has no such limit."""
    if sys.platform == "win32":
        return False
    else:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        try:
            resource.setrlimit(resource.RLIMIT_AS, (max_bytes, hard))
        except (ValueError, OSError):  # macOS refuses RLIMIT_AS
            return False
        return True


def raise_file_limit(wanted: int) -> int | None:
    """Let this process open `wanted` files, or as many as it may; returns the limit, or None if there is none."""
    if sys.platform == "win32":
        return None
    else:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft == resource.RLIM_INFINITY or soft >= target:
            return None if soft == resource.RLIM_INFINITY else soft
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        except (ValueError, OSError):  # macOS has a further limit, kern.maxfilesperproc
            return soft
        return target


def limit_further_cpu(seconds: float) -> None:
    """Have the system kill this process after `seconds` (rounded up) more of CPU time; no effect on Windows."""
    if sys.platform != "win32":
        import math
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        total = math.ceil(used.ru_utime + used.ru_stime + seconds)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (total, hard))


def cpu_model() -> str:
    """A name for this CPU that changes when the CPU does; a key for remembered self-tests."""
    if sys.platform == "linux":
        wanted = ("model name", "cpu family", "model\t", "flags", "Features", "CPU part")
        try:
            with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
                first = file.read().split("\n\n", 1)[0]
        except OSError:
            return "unknown"
        return "\n".join(line for line in first.splitlines() if line.startswith(wanted))
    else:
        import platform

        return f"{platform.machine()} {platform.processor()}"


def num_physical_cores() -> int:
    """CPU cores that this process may use; hyperthreads count once if they can be identified.

    In a container, at most as many as its CPU quota keeps busy. On macOS only the fast cores: evenly divided work
    would wait for the slow ones.
    """
    if sys.platform == "linux":
        usable = os.sched_getaffinity(0)
        siblings = set()
        for cpu in usable:
            try:
                path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
                siblings.add(Path(path).read_text("ascii").strip())
            except OSError:
                siblings.add(str(cpu))
        return cgroups.threads_within(max(1, len(siblings)))
    elif sys.platform == "darwin":
        libc = ctypes.CDLL(None)
        for name in (b"hw.perflevel0.physicalcpu", b"hw.physicalcpu"):  # the first on Apple silicon
            count, size = ctypes.c_int32(0), ctypes.c_size_t(4)
            if libc.sysctlbyname(name, ctypes.byref(count), ctypes.byref(size), None, ctypes.c_size_t(0)) == 0:
                return max(1, count.value)
        return os.cpu_count() or 1
    else:
        return max(1, (os.cpu_count() or 1) // 2)


def num_usable_cpus() -> int:
    """Logical CPUs that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:
        return os.cpu_count() or 1


def busy_cpu_s() -> float | None:
    """CPU time that all processes have used on these CPUs, from an arbitrary start; None if unknown."""
    if sys.platform == "linux":
        try:
            with open("/proc/stat", encoding="ascii") as file:
                lines = [line.split() for line in file if line.startswith("cpu")]
            usable = {f"cpu{cpu}" for cpu in os.sched_getaffinity(0)}
            busy = sum(int(line[at]) for line in lines if line[0] in usable for at in (1, 2, 3, 6, 7, 8))
        except (OSError, ValueError, IndexError):
            return None
        return busy / os.sysconf("SC_CLK_TCK")
    elif sys.platform == "darwin":
        libc, ticks, count = ctypes.CDLL(None), (ctypes.c_uint32 * 4)(), ctypes.c_uint32(4)  # user, system, idle, nice
        failed = libc.host_statistics(libc.mach_host_self(), 3, ticks, ctypes.byref(count))  # HOST_CPU_LOAD_INFO
        return None if failed else (ticks[0] + ticks[1] + ticks[3]) / 100
    else:
        times = [ctypes.c_uint64() for _ in range(3)]  # idle, kernel (idle, too), user; in 100 ns
        if not ctypes.windll.kernel32.GetSystemTimes(*map(ctypes.byref, times)):
            return None
        return (times[1].value + times[2].value - times[0].value) / 1e7


def shared_library_names(stem: str) -> tuple[str, ...]:
    """File names that a shared library called `stem` may have, likeliest first; `stem` may hold a `*`."""
    if sys.platform == "win32":
        return (f"{stem}.dll", f"lib{stem}.dll")
    elif sys.platform == "darwin":
        return (f"lib{stem}.dylib", f"lib{stem}.so")
    else:
        return (f"lib{stem}.so",)


def symbol_libraries(main: ctypes.CDLL, folder: Path, stems: tuple[str, ...]) -> list[ctypes.CDLL]:
    """Where to look up the symbols of `main` and of the libraries that it depends on.

    dlsym searches the dependencies of a handle too; Windows does not, so there each DLL is opened by its name.
    """
    if sys.platform == "win32":
        paths = (folder / name for stem in stems for name in shared_library_names(stem))
        return [main, *(ctypes.CDLL(str(path)) for path in paths if path.is_file())]
    else:
        return [main]


def builds_cpu_variants() -> bool:
    """Whether to recommend llama.cpp's flags for run-time-selectable CPU backends here (GCC and Clang on Linux)."""
    return sys.platform == "linux"


def die_quietly() -> None:
    """This process may crash by design: no core dump, and on Windows no dialog that waits for a click."""
    if sys.platform == "win32":
        ctypes.windll.kernel32.SetErrorMode(0x0001 | 0x0002)  # SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX
    else:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def _windows_memory() -> tuple[int, int] | None:
    """Total and available main memory in bytes."""
    if sys.platform == "win32":

        class MemoryStatus(ctypes.Structure):
            _fields_ = (
                ("length", ctypes.c_uint32),
                ("load", ctypes.c_uint32),
                ("total_physical", ctypes.c_uint64),
                ("available_physical", ctypes.c_uint64),
                ("rest", ctypes.c_uint64 * 5),
            )

        status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
        if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
            return None
        return int(status.total_physical), int(status.available_physical)
    else:
        return None


def available_memory() -> int | None:
    """Bytes that this process could allocate without swapping; None if unknown."""
    if sys.platform == "win32":
        status = _windows_memory()
        return None if status is None else status[1]
    elif sys.platform == "darwin":
        try:
            text = subprocess.run(["vm_stat"], capture_output=True, text=True, timeout=5, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return None
        pages = dict(line.split(":", 1) for line in text.splitlines()[1:] if ":" in line)
        reclaimable = ("Pages free", "Pages inactive", "Pages speculative", "Pages purgeable")
        return sum(int(pages.get(name, "0").strip(" .")) for name in reclaimable) * os.sysconf("SC_PAGE_SIZE")
    else:
        available, group = _linux_memory_available(), cgroups.memory()
        if available is None or group is None:
            return available
        return min(available, group.free_bytes)


def total_memory() -> int | None:
    """Main memory of this machine, or of this container, in bytes; None if unknown."""
    if sys.platform == "win32":
        status = _windows_memory()
        return None if status is None else status[0]
    else:
        try:
            total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (OSError, ValueError):
            return None
        group = cgroups.memory() if sys.platform == "linux" else None
        return total if group is None else min(total, group.limit_bytes)


def _linux_memory_available() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return None


def platform_name() -> str:
    """For people: `Linux x86_64`, `Darwin arm64`."""
    import platform

    return f"{platform.system()} {platform.machine()}"


def open_plain(path: Path, flags: int, mode: int = 0o666) -> int:
    """`os.open` that neither follows a symbolic link at the end of the path nor blocks on a pipe; not inherited.

    Windows has no such flag: it follows links, but creating one requires a privilege.
    """
    if sys.platform == "win32":
        return os.open(path, flags | os.O_BINARY | os.O_NOINHERIT, mode)
    else:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)


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


def user_cache_root() -> Path:
    """The folder in which programs of the user keep their caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    else:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def desktop_data_dir() -> Path | None:
    """The user's folder for menu entries and icons on freedesktop.org systems; None on others."""
    if sys.platform == "linux":
        return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    else:
        return None


def shared_ollama_dirs() -> list[Path]:
    """Folders in which Ollama, running as a system service, keeps its models."""
    if sys.platform == "linux":
        return [Path("/usr/share/ollama/.ollama/models"), Path("/var/lib/ollama/models")]
    else:
        return []


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


def boot_id() -> str | None:
    """An id that changes with every boot; None if unknown."""
    if sys.platform == "linux":
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip() or None
        except (OSError, ValueError):
            return None
    elif sys.platform == "darwin":
        size, text = ctypes.c_size_t(64), ctypes.create_string_buffer(64)
        libc = ctypes.CDLL(None)
        if libc.sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
            return None
        return text.value.decode("ascii", "replace") or None
    else:
        return None


def obeys_sequences(fd: int) -> bool:
    """Whether the terminal behind `fd` obeys escape sequences for cursor and colours."""
    if sys.platform == "win32":
        import msvcrt

        enable_virtual_terminal_processing = 0x0004
        handle = msvcrt.get_osfhandle(fd)
        mode = ctypes.c_uint32()
        if not ctypes.windll.kernel32.GetConsoleMode(handle, ctypes.byref(mode)):
            return False
        return bool(
            ctypes.windll.kernel32.SetConsoleMode(handle, mode.value | enable_virtual_terminal_processing)
        )  # refused before Windows 10
    else:
        return os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


@contextlib.contextmanager
def quiet_keys(fd: int) -> Iterator[None]:
    """While active, typed text is not echoed but kept for the next reader; Ctrl-C works. No effect on Windows."""
    if sys.platform == "win32":
        yield
    else:
        import termios

        try:
            before = termios.tcgetattr(fd)
        except (termios.error, ValueError):  # not a terminal
            yield
            return
        quiet = [*before[:6], list(before[6])]
        quiet[0] &= ~termios.ICRNL  # Enter stays what it is for a reader in raw mode
        quiet[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(fd, termios.TCSANOW, quiet)
        try:
            yield
        finally:
            termios.tcsetattr(fd, termios.TCSANOW, before)


def private_file(path: Path) -> None:
    """Create a file that only its owner can read, unless it exists; default rights on Windows. Raises `OSError`."""
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
