"""Where commands speak: words on stderr, data on stdout, errors as sentences and exit codes. Knows no command.

Everything printed here is printable: what a file, a registry or a server said gives the terminal no orders.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, TextIO

from localllm.errors import LocalLLMError, sentence_of
from localllm.printable import printable, printable_json

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
    """The exit code for an error of the tree."""
    return _EXIT_CODES.get(error.code, FAILURE)


def complain(error: LocalLLMError) -> int:
    """One sentence on stderr; returns the exit code."""
    say(f"localllm: {error.message}")
    return exit_code(error)


def refused(error: OSError) -> int:
    """One sentence on stderr about what the system refused; returns the exit code."""
    say(f"localllm: {sentence_of(error)}")
    return FAILURE


def end_output(code: int) -> int:
    """Everything printed is where it was to go; returns the exit code, of a failure where it is not."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes again at its end
        if error.errno == errno.EPIPE:
            return FAILURE
        return code if code else refused(error)
    return code


def say(text: str) -> None:
    """A line for the human, on stderr: stdout is for data."""
    print(printable(text), file=sys.stderr, flush=True)  # noqa: T201


def ask(question: str) -> str:
    """The line that the person at the terminal types after the question on stderr."""
    draw(question)
    return sys.stdin.readline().strip()


def draw(text: str, *, before: str = "", after: str = "") -> None:
    """Text on stderr that does not end a line. `before` and `after` are orders of ours to the terminal."""
    sys.stderr.write(f"{before}{printable(text)}{after}")
    sys.stderr.flush()


def write(*lines: str) -> None:
    """Lines of a command's result on stdout."""
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def write_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """A table on stdout; a cell is one line, whatever is in it."""
    from localllm.cli.units import table

    sys.stdout.write(table(tuple(head), tuple(map(tuple, rows))))


def write_json(document: bytes, *, indented: bool = True) -> None:
    """A JSON document on stdout; characters that a terminal obeys are escaped in it."""
    if indented:
        import msgspec

        document = msgspec.json.format(document)
    sys.stdout.write(printable_json(document.decode()) + "\n")


def write_text(text: str) -> None:
    """Text that is data, on stdout: byte for byte into a file or a pipe, printable on a terminal."""
    sys.stdout.write(printable(text) if is_terminal(sys.stdout) else text)


def is_terminal(stream: TextIO) -> bool:
    """Whether a person reads that."""
    return stream.isatty()
