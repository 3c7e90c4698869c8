"""`localllm app`: shows a window until it is closed, or installs its desktop entry. Knows nothing of web views."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localllm.cli.options.settings import as_arguments
from localllm.cli.shared import config, report
from localllm.errors import UnsupportedParameter
from localllm.system import folders
from localllm.system.programs import is_frozen, own_command, program
from localllm.window import desktop


def show_window(given: Mapping[str, Any], model: str | None) -> int:
    """Shows the window until it is closed; returns the exit code. Raises `LocalLLMError`s, `OSError`."""
    from localllm.window.app import Options, open_window

    settings = config.load(given)
    own = {name: given[name] for name in ("home", "verbose")}
    arguments = ["--ui", *as_arguments(own), *([] if settings.verbose else ["--log-level=warning"])]
    open_window(Options(settings, model, arguments), lambda text: report.say(f"localllm: {text}"))
    return report.OK


def install_entry() -> int:
    """Installs the desktop entry; returns the exit code. Raises `UnsupportedParameter`, `OSError`."""
    folder = folders.desktop_data_dir()
    if folder is None:
        raise UnsupportedParameter(
            "this system has no .desktop files; the frozen build (native/localllm.spec) has a program for its desktop",
            param="install_desktop",
        )
    for path in desktop.install(folder, [*_command(), "app"]):
        report.write(str(path))
    return report.OK


def _command() -> list[str]:
    """The command that starts localllm, independent of this shell's PATH."""
    if is_frozen():
        return [str(program())]
    beside = Path(sys.argv[0])
    found = str(beside.absolute()) if beside.is_file() and beside.suffix != ".py" else shutil.which("localllm")
    return [found] if found else own_command("localllm")
