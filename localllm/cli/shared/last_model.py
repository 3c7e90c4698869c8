"""The model that `localllm run` used last, which it takes when none is named. One line in the data directory."""

from __future__ import annotations

import contextlib
from pathlib import Path

from localllm.system.files import write_whole

DEFAULT = "demo"
MAX_CHARS = 4096
_NAME = "last-model"


def is_prompt(word: str) -> bool:
    """Whether the only argument is a question rather than a model's name: names have no blanks, and files exist."""
    return " " in word.strip() and not word.endswith(".gguf") and not Path(word).exists()


def lasting(model: str) -> str:
    """The name; a path as an absolute one."""
    return str(Path(model).absolute()) if Path(model).is_file() else model


def remember(model: str, data_dir: Path) -> None:
    """Keeps the name. A folder that cannot be written is no reason to fail a chat."""
    with contextlib.suppress(OSError):
        write_whole(data_dir / _NAME, lasting(model).encode("utf-8", "surrogateescape"))


def last(data_dir: Path) -> str:
    """The name; the bundled model's if there is none."""
    try:
        name = (data_dir / _NAME).read_bytes().decode("utf-8", "surrogateescape").strip()
    except OSError:
        return DEFAULT
    return name if 0 < len(name) <= MAX_CHARS and "\n" not in name else DEFAULT
