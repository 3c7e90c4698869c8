"""The terminal: whether there is one, what it obeys, quiet keys."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator


def open_standard_streams() -> None:
    """Open the null device on whichever of 0, 1 and 2 is closed, as some services start programs.

    Otherwise Python has no such stream, and the next file that is opened becomes, say, the standard output.
    """
    for fd, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
            os.set_inheritable(fd, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


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
