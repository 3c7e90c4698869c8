"""Runs modules of localllm in child processes. Knows no such module.

With a Python interpreter, the command is `python -P -m MODULE`. A frozen program (PyInstaller) has none and starts
itself again with `--localllm-child MODULE`, which its first lines pass to `run_child`:

    from localllm.system.programs import run_child

    run_child()  # does not return in a child
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

CHILD_OPTION = "--localllm-child"
_LIBRARY_PATH = "LD_LIBRARY_PATH"


def is_frozen() -> bool:
    """Whether this is a frozen program, without an interpreter that could run another module."""
    return bool(getattr(sys, "frozen", False))


def own_command(module: str) -> list[str]:
    """The command line that runs `module` as `python -m` does. `-P` keeps the current folder off the import path."""
    if is_frozen():
        return [str(program()), CHILD_OPTION, module]
    return [sys.executable, "-P", "-m", module]


def run_child() -> None:
    """In a child process, run the module that `own_command` named, and exit. In any other process, return."""
    if sys.argv[1:2] != [CHILD_OPTION]:
        return
    module, arguments = sys.argv[2], sys.argv[3:]
    if module.partition(".")[0] != "localllm":
        raise SystemExit(f"{CHILD_OPTION} runs modules of localllm, not {module!r}")
    import runpy

    sys.argv = [sys.argv[0], *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    raise SystemExit(0)


def restore_library_path() -> None:
    """Let programs that a frozen program starts load the system's libraries instead of the bundled ones.

    PyInstaller puts its own folder first in LD_LIBRARY_PATH and keeps the user's value in LD_LIBRARY_PATH_ORIG
    (https://pyinstaller.org/en/stable/runtime-information.html).
    """
    before = os.environ.get(f"{_LIBRARY_PATH}_ORIG")
    if before is not None:
        os.environ[_LIBRARY_PATH] = before
    else:
        os.environ.pop(_LIBRARY_PATH, None)


def program() -> Path:
    """The frozen program; of two, the one with a console, because Windows gives the other no standard streams."""
    this = Path(sys.executable)
    console = this.with_name(f"localllm{this.suffix}")
    return console if console.is_file() else this
