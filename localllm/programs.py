"""How this program starts a module of itself as a process of its own. Knows no such module.

`python -P -m MODULE` where there is an interpreter. A frozen program (PyInstaller) has none and starts itself again
with `--localllm-child MODULE`, which its first lines hand to `run_child`:

    from localllm.programs import run_child

    run_child()  # does not return in a child
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

CHILD_OPTION = "--localllm-child"
_LIBRARY_PATH = "LD_LIBRARY_PATH"


def is_frozen() -> bool:
    """Whether there is a program and no interpreter that could run another module."""
    return bool(getattr(sys, "frozen", False))


def own_command(module: str) -> list[str]:
    """The argv that runs `module` as `python -m` does. `-P` keeps the user's current folder off the import path."""
    if is_frozen():
        return [str(program()), CHILD_OPTION, module]
    return [sys.executable, "-P", "-m", module]


def run_child() -> None:
    """Run the module that `own_command` named and end the process; returns where this process is no child."""
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
    """Programs that a frozen program starts load the system's libraries, not those that it carries.

    PyInstaller puts its folder first in this variable and keeps the user's value beside it
    (https://pyinstaller.org/en/stable/runtime-information.html).
    """
    before = os.environ.get(f"{_LIBRARY_PATH}_ORIG")
    if before is not None:
        os.environ[_LIBRARY_PATH] = before
    else:
        os.environ.pop(_LIBRARY_PATH, None)


def program() -> Path:
    """What is frozen: of two the one with a console, since Windows gives the other no standard streams."""
    this = Path(sys.executable)
    console = this.with_name(f"localllm{this.suffix}")
    return console if console.is_file() else this
