"""The examples of docs/embedding.md, cut out of the file: what is tested is the text that stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import localllm

GUIDE = (Path(localllm.__file__).parent / "docs" / "embedding.md").read_text("utf-8")
_NAME = re.compile(r"(?://|#) (\w+\.(?:js|py))\b")


class Block(NamedTuple):
    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """Of a program that its first line names; None for a snippet that runs as it stands."""
        named = _NAME.match(self.text)
        return None if named is None else named[1]


BLOCKS = [Block(*found) for found in re.findall(r"```(\w+)\n(.*?)```", GUIDE, re.DOTALL)]


def snippets(language: str) -> list[str]:
    """Those that run as they stand."""
    return [block.text for block in BLOCKS if block.language == language and block.file_name is None]


def write(folder: Path, *file_names: str) -> None:
    """Put programs of the guide into a folder, under their names."""
    for name in file_names:
        (text,) = [block.text for block in BLOCKS if block.file_name == name]
        (folder / name).write_text(text, "utf-8")
