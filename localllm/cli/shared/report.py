"""The output of commands: messages on stderr, data on stdout, errors as sentences and exit codes. Knows no command.

Everything goes through `printable`: text from a file, a registry or a server cannot control the terminal.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from typing import TYPE_CHECKING, TextIO

from localllm.errors import LocalLLMError, sentence_of
from localllm.system.printable import printable, printable_json

if TYPE_CHECKING:
    from collections.abc import Iterable

OK = 0
FAILURE = 1
USAGE = 2
NOT_FOUND = 3
MODEL_OR_BACKEND = 4
INTERRUPTED = 130

_EXIT_CODES = {
    "invalid_parameter": USAGE,
    "unknown_parameter": USAGE,
    "unsupported_parameter": USAGE,
    "model_not_found": NOT_FOUND,
    "load_failed": MODEL_OR_BACKEND,
    "load_conflict": MODEL_OR_BACKEND,
    "worker_crashed": MODEL_OR_BACKEND,
}


def exit_code(error: LocalLLMError) -> int:
    """The exit code for an error."""
    return _EXIT_CODES.get(error.code, FAILURE)


def complain(error: LocalLLMError) -> int:
    """One sentence on stderr; returns the exit code."""
    say(f"localllm: {error.message}")
    return exit_code(error)


def refused(error: OSError) -> int:
    """Report an operating system error in one sentence on stderr; returns the exit code."""
    say(f"localllm: {sentence_of(error)}")
    return FAILURE


def not_text(error: UnicodeEncodeError) -> int:
    """Report that an argument, or what else should be text, has bytes that are no text; returns the exit code."""
    if not any("\udc80" <= char <= "\udcff" for char in error.object[error.start : error.end]):
        raise error
    raw = error.object.encode("utf-8", "surrogateescape")
    say(f"localllm: {raw[:80]!r} is not valid UTF-8, so it cannot be used as text; give it in UTF-8")
    return USAGE


def end_output(code: int) -> int:
    """Flush stdout; returns the exit code, or that of a failure if the output could not be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes again at exit
        if error.errno == errno.EPIPE:
            return FAILURE
        return code if code else refused(error)
    return code


def say(text: str) -> None:
    """A message for the user, on stderr: stdout is for data."""
    text = printable(text)
    if sys.stderr.isatty():
        from localllm.cli.render.units import wrapped

        text = wrapped(text, shutil.get_terminal_size().columns)
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def ask(question: str) -> str:
    """Ask on stderr; returns the line that the user types."""
    draw(question)
    return sys.stdin.readline().strip()


def draw(text: str, *, before: str = "", after: str = "") -> None:
    """Text on stderr without a line end. `before` and `after` are our own control sequences."""
    sys.stderr.write(f"{before}{printable(text)}{after}")
    sys.stderr.flush()


def write(*lines: str) -> None:
    """Lines of a command's result on stdout."""
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def write_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A table on stdout; every cell is flattened to one line."""
    from localllm.cli.render.units import table

    sys.stdout.write(table(tuple(head), tuple(map(tuple, rows)), screen_columns()))


def screen_columns() -> int | None:
    """The width of the terminal that stdout is; None if it is none."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None


def write_json(document: bytes, *, indented: bool = True) -> None:
    """A JSON document on stdout, with control characters escaped."""
    if indented:
        import msgspec

        document = msgspec.json.format(document)
    sys.stdout.write(printable_json(document.decode()) + "\n")


def write_text(text: str) -> None:
    """Text as data on stdout: verbatim to a file or a pipe, printable on a terminal."""
    sys.stdout.write(printable(text) if is_terminal(sys.stdout) else text)


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal."""
    return stream.isatty()
