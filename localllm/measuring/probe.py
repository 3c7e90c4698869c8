"""Asks a child process one question, since what it examines may crash, hang or print.

    parent    ask(command, question, Answer, limit_s)      JSON on its stdin, lines of JSON back
    child     serve(Question, reply)                       reply(question, send); the last answer counts

A child that answers several times leaves its findings before a crash. It is killed at the limit, and when the parent is
interrupted; if the parent is killed, the child ends itself soon after the limit. Knows no questions.
"""

from __future__ import annotations

import faulthandler
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

import msgspec

from localllm.system import processes

GRACE_S = 5.0
"""After the parent's limit, until a child without a parent ends itself."""
DEFAULT_LIMIT_S = 60.0
"""For a child that a person starts."""
MAX_LAST_WORDS = 300
"""Characters of the last line that a child wrote to stderr."""

Question = TypeVar("Question")
Answer = TypeVar("Answer", bound=msgspec.Struct)
Send = Callable[[msgspec.Struct], None]


class Failure(NamedTuple):
    """How a child failed."""

    kind: Literal["died", "hung", "failed"]
    detail: str
    """For people: `signal SIGILL`, `no answer in 20 s`."""


def ask(
    command: Sequence[str],
    question: msgspec.Struct,
    answer: type[Answer],
    limit_s: float,
    *,
    shows_errors: bool = False,
) -> tuple[Answer | None, Failure | None]:
    """The child's last whole answer, if any, and how it failed, if it did; one of both is there.

    `shows_errors`: its stderr is this process's, instead of a detail of the failure.
    """
    output, failure = _output(command, msgspec.json.encode(question), limit_s, shows_errors=shows_errors)
    decoder, unreadable = msgspec.json.Decoder(answer), "it gave no answer"
    for line in reversed(output.splitlines()):
        try:
            return decoder.decode(line), failure
        except msgspec.MsgspecError as error:  # cut off by a crash
            unreadable = f"its answer is unreadable: {error}"
    return None, failure or Failure("failed", unreadable)


def _output(
    command: Sequence[str], question: bytes, limit_s: float, *, shows_errors: bool
) -> tuple[bytes, Failure | None]:
    try:
        child = subprocess.run(
            [*command, str(limit_s + GRACE_S)],
            input=question,
            stdout=subprocess.PIPE,
            stderr=None if shows_errors else subprocess.PIPE,
            timeout=limit_s,
            **processes.own_process_group(),
        )
    except subprocess.TimeoutExpired as error:
        return error.stdout or b"", Failure("hung", f"no answer in {limit_s:g} s")
    except OSError as error:
        return b"", Failure("failed", f"{command[0]} does not start: {error.strerror or error}")
    if child.returncode == 0:
        return child.stdout, None
    reason = processes.exit_reason(child.returncode)
    last_words = (child.stderr or b"").decode("utf-8", "replace").strip().splitlines()[-1:]
    detail = ": ".join([str(reason), *(line[:MAX_LAST_WORDS] for line in last_words)])
    return child.stdout, Failure("died" if reason.crashed else "failed", detail)


def serve(question: type[Question], reply: Callable[[Question, Send], None]) -> None:
    """The child's side. Native code may print or crash; answers use a private descriptor."""
    questions, answers = processes.claim_standard_streams()
    processes.die_quietly()
    limit_s = float(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_LIMIT_S
    # A C thread: it fires even while native code spins with the GIL held.
    faulthandler.dump_traceback_later(limit_s, exit=True)

    def send(answer: msgspec.Struct) -> None:
        answers.write(msgspec.json.encode(answer) + b"\n")

    reply(msgspec.json.decode(questions.read(), type=question), send)
