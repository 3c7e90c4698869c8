"""Tries to open a screen in a child process: Qt ends its process where a library of the system is missing.

Knows nothing of servers and pages. As a module it is that child.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import subprocess
from collections.abc import Iterator

from localllm.errors import UnsupportedParameter
from localllm.system import folders
from localllm.system.programs import is_frozen, own_command

TIMEOUT_S = 60.0
_MISSING = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")
_NO_SCREEN = "could not connect to display"
_NAMED = re.compile(r"(lib[\w.+-]+?)\.so(?:\.(\d+))?[\w.]*")


class Trial:
    """Begins with the object, so that it runs while a server starts."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        # A frozen program brings its libraries along.
        if folders.desktop_data_dir() is not None and not is_frozen():
            self._child = subprocess.Popen(
                own_command(__name__),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=os.environ | {"QT_DEBUG_PLUGINS": "1"},  # else Qt does not say which library it lacks
            )

    def check(self) -> None:
        """Raises `UnsupportedParameter` with the remedy if a window would end this process."""
        if self._child is None:
            return
        try:
            _, errors = self._child.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:  # a slow machine: the window itself will show
            self.end()
            return
        text, code = errors.decode("utf-8", "replace"), self._child.returncode
        if code < 0 or (code and _MISSING.search(text)):
            raise UnsupportedParameter(f"{why(text)}; `localllm serve` and a browser show the same page", param="app")

    def end(self) -> None:
        """Ends the child, if it still runs."""
        if self._child is not None and self._child.returncode is None:
            self._child.kill()
            self._child.communicate()


@contextlib.contextmanager
def running() -> Iterator[Trial]:
    """A trial that ends with the block at the latest."""
    begun = Trial()
    try:
        yield begun
    finally:
        begun.end()


def why(errors: str) -> str:
    """What Qt's complaints mean, as a sentence with the remedy."""
    if _NO_SCREEN in errors:
        return f"the screen {os.environ.get('DISPLAY', '')!r} cannot be opened (DISPLAY)"
    missing = [*dict.fromkeys(_MISSING.findall(errors))]
    if missing:
        packages = " ".join(map(package_of, missing))
        return f"a window needs {', '.join(missing)}, which this system lacks (on Debian: sudo apt install {packages})"
    last = next((line for line in reversed(errors.splitlines()) if line.strip()), "no reason is known")
    return f"Qt cannot open a window: {last.strip()[:200]}"


def package_of(library: str) -> str:
    """The Debian package of a library, by Debian's rule for their names."""
    found = _NAMED.fullmatch(library)
    if found is None:
        return library
    name, version = found[1].lower().replace("_", "-"), found[2] or ""
    return f"{name}-{version}" if version and name[-1].isdigit() else name + version


def _open() -> None:
    chosen = importlib.import_module("webview.guilib").initialize()
    if chosen.__name__.endswith(".qt"):
        importlib.import_module("qtpy.QtWidgets").QApplication([])


if __name__ == "__main__":
    _open()
