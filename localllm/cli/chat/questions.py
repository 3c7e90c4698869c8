"""What the chat asks for at the keyboard, and how the reply is read. Knows no terminal library and no conversation."""

from __future__ import annotations

from collections.abc import Callable

QUOTES = '"""'
MESSAGE, RESULT = ">>> ", "result> "
"""The prompts for a message and for a tool call's result."""

ReadLine = Callable[[str], str]
"""Takes the prompt to show; raises `EOFError` at Ctrl-D, `KeyboardInterrupt` at Ctrl-C."""


class LineDropped(KeyboardInterrupt):
    """Ctrl-C at a line that was not empty."""


def read_message(read_line: ReadLine, prompt: str = MESSAGE) -> str:
    """One line, or everything between triple quotes. Raises `EOFError`, `KeyboardInterrupt`, dropping the message."""
    line = read_line(prompt)
    if not line.lstrip().startswith(QUOTES):
        return line
    text = line.lstrip().removeprefix(QUOTES)
    while not text.rstrip().endswith(QUOTES):
        text += "\n" + read_line("... ")
    return text.rstrip().removesuffix(QUOTES).strip("\n")
