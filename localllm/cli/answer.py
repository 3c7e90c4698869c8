"""An answer on its way from the client to stdout: asked for, printed as it comes, described. Knows no HTTP."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from localllm.cli.progress import Waiting
from localllm.cli.schema import DocumentFormat
from localllm.cli.stats import describe, stats_line
from localllm.cli.thinking import Part, ThoughtSplitter
from localllm.cli.views import DEFAULT_LOOK, Look, is_drawable, view
from localllm.types import Delta, Finish, Message, SamplingParams

if TYPE_CHECKING:
    from localllm.client.api import Client

__all__ = ["DEFAULT_LOOK", "Look", "PrintedAnswer", "Talk", "cut", "describe", "is_at_limit", "prepare", "stats_line"]


class Talk:
    """A model to talk to: by its chat template, or by continuing text."""

    ctx: int | None = None
    """Tokens that fit into its context; None: not known."""
    opens_thoughts = False
    """Whether its template begins the thoughts, so that answers bring no opening tag; learned from an answer."""
    document: DocumentFormat | None = None
    """What every answer is; None: text."""

    def __init__(
        self,
        client: Client,
        model_id: str,
        params: SamplingParams,
        *,
        raw: bool,
        ctx: int | None = None,
        document: DocumentFormat | None = None,
    ) -> None:
        self.client = client
        self.model_id = model_id
        self.params = params
        self.raw = raw
        self.ctx = ctx
        self.document = document

    @property
    def is_plain(self) -> bool:
        """Whether answers are shown as they are: there is neither Markdown nor a thought in their text."""
        return self.raw or self.document is not None

    def ask(self, prompt: str, system: str | None) -> Generator[Delta]:
        """The answer to a single prompt."""
        if self.raw:
            return self._named(self.client.complete(self.model_id, prompt, self.params, **self._format()))
        first = [Message("system", system)] if system is not None else []
        return self.answer([*first, Message("user", prompt)])

    def answer(self, messages: list[Message]) -> Generator[Delta]:
        """The answer to a conversation."""
        return self._named(self.client.chat(self.model_id, messages, self.params, **self._format()))

    def model_names(self) -> list[str]:
        """What could be talked to instead. Raises `LocalLLMError`s."""
        return [model.id for model in self.client.models()]

    def _format(self) -> dict[str, Any]:
        return {} if self.document is None else {"response_format": self.document.response_format}

    def _named(self, deltas: Generator[Delta]) -> Generator[Delta]:
        return deltas if self.document is None else self.document.named(deltas)


class PrintedAnswer:
    """Prints an answer; all its properties are right at any moment, also after a Ctrl-C.

    `plain_text`: it is neither Markdown nor searched for thoughts. What comes as a thought is kept, and not printed.
    """

    def __init__(self, look: Look = DEFAULT_LOOK, *, plain_text: bool = False, opens_thoughts: bool = False) -> None:
        look = look._replace(markdown=False) if plain_text else look
        self._splitter = None if plain_text else ThoughtSplitter(starts_inside=opens_thoughts)
        self._drawable = is_drawable()
        self._view = view(look, drawable=self._drawable)
        self._parts: list[Part] = []
        self._thoughts: list[str] = []
        self.finish: Finish | None = None
        self.first_token_s: float | None = None
        """How long the first piece took."""

    @property
    def text(self) -> str:
        """The answer, without thoughts."""
        return "".join(part.text for part in self._parts[self._begins_at :] if part.kind == "answer")

    @property
    def thoughts(self) -> str:
        """What came before it."""
        unmarked = "".join(part.text for part in self._parts[: self._begins_at])
        marked = "".join(part.text for part in self._parts[self._begins_at :] if part.kind == "thought")
        return "".join(self._thoughts) + unmarked + marked

    @property
    def has_unopened_thoughts(self) -> bool:
        """Whether the prompt had opened them."""
        return self._begins_at > 0

    @property
    def _begins_at(self) -> int:
        return next((place + 1 for place, part in enumerate(self._parts) if part.kind == "unmarked"), 0)

    def print(self, deltas: Generator[Delta]) -> None:
        """To stdout as it comes, with a line end if it has none. Cancels the answer if that cannot be done."""
        asked_s = time.monotonic()
        with contextlib.closing(deltas):
            try:
                with Waiting(visible=self._drawable) as waiting:
                    for delta in deltas:
                        self.finish = delta.finish or self.finish
                        if delta.text and self.first_token_s is None:
                            self.first_token_s = time.monotonic() - asked_s
                            waiting.end()
                        self._thoughts.append(delta.thought)
                        self._take(delta.text)
            except BaseException:
                # Whatever ended it: what had come is shown, and the cursor is at the beginning of a line.
                if self.first_token_s is not None:
                    self._end()
                raise
            self._end()

    def _take(self, text: str) -> None:
        if text:
            parts = self._splitter.feed(text) if self._splitter is not None else [Part("answer", text)]
            self._parts += parts
            self._view.show(text, parts)

    def _end(self) -> None:
        parts = self._splitter.flush() if self._splitter is not None else []
        self._parts += parts
        self._view.end(parts)


def is_at_limit(finish: Finish, params: SamplingParams) -> bool:
    """Whether it was the limit of tokens that ended the answer, and not the context."""
    limit = params.max_tokens
    return finish.reason == "length" and limit is not None and 0 <= limit <= finish.usage.completion_tokens


def cut(finish: Finish, talk: Talk) -> str:
    """Why an answer ended before its end, in words."""
    if finish.reason == "timeout":
        return "the server's time for an answer was over"
    if finish.reason == "cancelled":
        return "it was cancelled"
    if is_at_limit(finish, talk.params):
        return f"cut after {talk.params.max_tokens} tokens, as max_tokens says"
    return f"cut: the context{f' of {talk.ctx} tokens' if talk.ctx else ''} is full"


def prepare(look: Look) -> None:
    """Import what an answer will need, while there is something else to wait for."""
    if look.markdown and is_drawable():
        import localllm.cli.render.blocks
        import localllm.cli.render.live  # noqa: F401
