"""Runs an agent in this terminal: Ctrl-C is left to it, and signals that end us are passed on to it. Knows no agent."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType

from localllm.errors import LocalLLMError

SIGNALLED = 128
"""Added to the signal's number: the exit code of a shell for a program that a signal ended."""


def run_agent(command: Sequence[str], environment: Mapping[str, str], prepare: Callable[[], None]) -> int:
    """Run it; returns its exit code. `prepare` is called right before the start, and no signal interrupts it.

    Raises `LocalLLMError`.
    """
    running: list[subprocess.Popen[bytes]] = []
    ended_by: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        ended_by.append(number)
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    with _handled(pass_on):
        prepare()
        if ended_by:
            return SIGNALLED + ended_by[0]
        try:
            running.append(subprocess.Popen(command, env=dict(environment)))
        except OSError as error:
            raise LocalLLMError(f"{command[0]} cannot be started: {error.strerror or error}") from error
        if ended_by:  # since the last check
            running[0].send_signal(ended_by[0])
        code = running[0].wait()
    return SIGNALLED - code if code < 0 else code


@contextlib.contextmanager
def _handled(pass_on: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Installs handlers, rather than SIG_IGN, which the agent would inherit."""
    handlers: dict[int, Callable[[int, FrameType | None], None]] = {signal.SIGINT: lambda *_: None}
    handlers |= {getattr(signal, name): pass_on for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)}
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
