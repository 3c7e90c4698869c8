"""Adds an entry to the desktop's menu, by freedesktop.org's specifications. Knows no window.

https://specifications.freedesktop.org/desktop-entry-spec/latest/
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from pathlib import Path

NAME = "localllm"
_RESERVED = frozenset(" \t\n\"'\\><~|&;$*?#()`")
_ESCAPED = frozenset('"`$\\')


def entry(command: Sequence[str]) -> str:
    """The `.desktop` file that starts `command`."""
    return (
        "[Desktop Entry]\n"
        "Type=Application\n"
        "Name=localllm\n"
        "GenericName=Chat with local models\n"
        "Comment=Run quantized models on this machine\n"
        f"Exec={' '.join(quoted(word) for word in command)}\n"
        f"Icon={NAME}\n"
        "Terminal=false\n"
        "Categories=Utility;Development;\n"
        "Keywords=LLM;AI;GGUF;chat;\n"
        "StartupNotify=true\n"
    )


def quoted(word: str) -> str:
    """One argument of `Exec`, quoted if necessary, and escaped for the file format."""
    word = word.replace("%", "%%")
    if word and not _RESERVED & set(word):
        return word
    inside = "".join(f"\\{each}" if each in _ESCAPED else each for each in word)
    return '"' + inside.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t") + '"'


def install(data_dir: Path, command: Sequence[str]) -> list[Path]:
    """Write the entry and its icon below the user's `data_dir`; returns the files. Raises `OSError`."""
    icon = importlib.resources.files("localllm.server.ui").joinpath("icon.svg").read_bytes()
    files = {
        data_dir / "applications" / f"{NAME}.desktop": entry(command).encode(),
        data_dir / "icons" / "hicolor" / "scalable" / "apps" / f"{NAME}.svg": icon,
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return list(files)
