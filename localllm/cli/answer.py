"""An answer on its way from the client to stdout: asked for, printed as it comes, described. Knows no HTTP."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING

from localllm.types import Delta, Finish, Message, SamplingParams

if TYPE_CHECKING:
    from localllm.client.api import Client


_HARMLESS = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
"""A model may be made to write escape sequences; a terminal would obey them, a pipe or a file does not."""


class Talk:
    """A model to talk to: by its chat template, or by continuing text."""

    def __init__(self, client: Client, model_id: str, params: SamplingParams, *, raw: bool) -> None:
        self.client = client
        self.model_id = model_id
        self.params = params
        self.raw = raw

    def ask(self, prompt: str, system: str | None) -> Generator[Delta]:
        """The answer to a single prompt."""
        if self.raw:
            return self.client.complete(self.model_id, prompt, self.params)
        first = [Message("system", system)] if system is not None else []
        return self.answer([*first, Message("user", prompt)])

    def answer(self, messages: list[Message]) -> Generator[Delta]:
        """The answer to a conversation."""
        return self.client.chat(self.model_id, messages, self.params)


class PrintedAnswer:
    """Prints an answer; `text` and `finish` are right at any moment, also after a Ctrl-C."""

    def __init__(self) -> None:
        self.finish: Finish | None = None
        self._on_terminal = sys.stdout.isatty()
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def print(self, deltas: Generator[Delta]) -> None:
        """To stdout as it comes, with a line end if it has none. Cancels the answer if that cannot be done."""
        with contextlib.closing(deltas):
            try:
                for delta in deltas:
                    self.finish = delta.finish or self.finish
                    self._write(delta.text)
            except KeyboardInterrupt:
                self._end_line()
                raise
            self._end_line()

    def _write(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            sys.stdout.write(text.translate(_HARMLESS) if self._on_terminal else text)
            sys.stdout.flush()

    def _end_line(self) -> None:
        if not self._pieces or not self._pieces[-1].endswith("\n"):
            sys.stdout.write("\n")
            sys.stdout.flush()


def describe(finish: Finish) -> str:
    """Timings in one line; the first token comes out of the prompt's computation."""
    usage, timings = finish.usage, finish.timings
    computed = usage.prompt_tokens - usage.cached_tokens
    return (
        f"[{finish.reason}] prompt {usage.prompt_tokens} tokens ({usage.cached_tokens} cached), "
        f"{_rate(computed, timings.prefill_s)}; answer {usage.completion_tokens} tokens, "
        f"{_rate(usage.completion_tokens - 1, timings.decode_s)}; waited {timings.queue_s * 1000:.0f} ms"
    )


def _rate(tokens: int, seconds: float) -> str:
    return f"{seconds:.2f} s, {tokens / seconds:.1f} tokens/s" if seconds > 0 and tokens > 0 else f"{seconds:.2f} s"
