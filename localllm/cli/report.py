"""How a command ends: the one place where errors become sentences on stderr and exit codes. Knows no command."""

from __future__ import annotations

import sys

from localllm.errors import LocalLLMError

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
    print(f"localllm: {error.message}", file=sys.stderr)  # noqa: T201
    return exit_code(error)


def say(text: str) -> None:
    """A line for the human, on stderr: stdout is for data."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201
