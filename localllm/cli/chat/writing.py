"""Writes a text in the user's editor: `$VISUAL`, `$EDITOR`, or one that is installed. Knows no conversation."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from localllm.cli.shared.given_text import decoded
from localllm.errors import LocalLLMError

USUAL = ("editor", "nano", "vi", "notepad")
"""Tried in this order where neither variable is set."""


def written(text: str) -> str:
    """What the file contains when the editor ends, without line ends at the end. Raises `LocalLLMError`."""
    command = editor()
    with tempfile.TemporaryDirectory(prefix="localllm-") as folder:  # for its owner only
        path = Path(folder) / "message.md"
        path.write_text(f"{text}\n" if text else "", "utf-8")
        try:
            code = subprocess.run([*command, str(path)], check=False).returncode
        except OSError as error:
            raise LocalLLMError(f"the editor {command[0]} cannot be started: {error.strerror or error}") from error
        if code:
            raise LocalLLMError(f"the editor {command[0]} ended with code {code}; nothing is sent")
        with contextlib.suppress(FileNotFoundError):
            return decoded(path.read_bytes(), "the message").rstrip("\r\n")
    return ""


def editor() -> list[str]:
    """The command, without the file. Raises `LocalLLMError` if there is none."""
    for name in ("VISUAL", "EDITOR"):
        if given := os.environ.get(name, "").strip():
            return shlex.split(given, posix=os.sep == "/")
    for program in USUAL:
        if (found := shutil.which(program)) is not None:
            return [found]
    raise LocalLLMError("no editor was found; set EDITOR to the command of yours")
