"""Requests an answer and prints it to stdout as it streams. Knows no HTTP."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from localllm.cli.chat.answer_views import DEFAULT_LOOK, AnswerStyle, is_drawable, view
from localllm.cli.chat.attachments import Attachment, Attachments, user_message
from localllm.cli.chat.mcp_tools import McpTools
from localllm.cli.chat.schema import DocumentFormat
from localllm.cli.chat.stats import describe, stats_line
from localllm.cli.chat.thinking import Think
from localllm.cli.chat.tools import Tools
from localllm.cli.render.progress import Waiting
from localllm.errors import RequestError, UnsupportedParameter
from localllm.types import Delta, Finish, Media, MediaKind, Message, SamplingParams, ToolCall, whole_calls

if TYPE_CHECKING:
    from localllm.client.api import Client

__all__ = [
    "DEFAULT_LOOK",
    "AnswerStyle",
    "PrintedAnswer",
    "Talk",
    "describe",
    "prepare",
    "stats_line",
    "why_incomplete",
]


class Talk:
    """A model and how to talk to it: by its chat template, or by continuing text (`raw`)."""

    ctx: int | None = None
    """The size of its context in tokens; None: unknown."""
    think = Think()
    """Whether it thinks first, and what is shown of it."""
    tools: Tools | McpTools | None = None
    """The tools that it may call."""
    document: DocumentFormat | None = None
    """The format of every answer; None: text."""
    reads: frozenset[MediaKind] | None = None
    """What it reads beside text; None: unknown."""
    text_only_reason = ""
    """Why it reads only text, and the remedy."""
    template_note = ""
    """That the model has no chat template of its own, or one that leaves out messages."""

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
        self.attachments = Attachments()
        """The files that messages refer to."""

    @property
    def is_plain(self) -> bool:
        """Whether answers are shown verbatim, without Markdown and thoughts."""
        return self.raw or self.document is not None

    def check_reads(self, kinds: Iterable[MediaKind]) -> None:
        """Raises `UnsupportedParameter` if it is known not to read one of these."""
        if self.raw and (kind := next(iter(kinds), None)) is not None:
            raise UnsupportedParameter(
                f"pictures, sounds and documents need the chat template of a model; {self.model_id} continues text",
                param=kind,
            )
        for kind in kinds:
            if self.reads is not None and kind != "document" and kind not in self.reads:
                lacks, word = ("see images", "vision") if kind == "image" else ("hear audio", "audio")
                other = f"; `localllm search {word}` finds models that can"
                why = f": {self.text_only_reason}" if self.text_only_reason else other
                raise UnsupportedParameter(f"{self.model_id} cannot {lacks}{why}", param=kind)

    def ask(self, prompt: str, system: str | None, attached: Sequence[Attachment] = ()) -> Generator[Delta]:
        """The answer to a single prompt."""
        if self.raw:
            return self._blaming_file(self.client.complete(self.model_id, prompt, self.params, **self._format()))
        first = [Message("system", system)] if system is not None else []
        return self.answer([*first, user_message(prompt, attached, self.attachments.files)])

    def answer(self, messages: list[Message], *, may_call: bool = True) -> Generator[Delta]:
        """The answer to a conversation. `may_call=False`: the model may not call its tools."""
        choice = {} if may_call else {"tool_choice": "none"}

        def ask(tools: Sequence[dict[str, Any]]) -> Generator[Delta]:
            fields = {**self.think.fields, **self._format(), **({"tools": tools, **choice} if tools else {})}
            if any(message.media for message in messages):
                fields["files"] = self.attachments.files
            deltas = self.client.chat(self.model_id, messages, self.params, **fields)
            return self._blaming_file(_naming_media(deltas, messages))

        return ask([]) if self.tools is None else self.tools.answer(ask)

    def model_names(self) -> list[str]:
        """The models that the server has. Raises `LocalLLMError`s."""
        return [model.id for model in self.client.models()]

    def _format(self) -> dict[str, Any]:
        return {} if self.document is None else {"response_format": self.document.response_format}

    def _blaming_file(self, deltas: Generator[Delta]) -> Generator[Delta]:
        return deltas if self.document is None else self.document.blaming_file(deltas)


def _naming_media(deltas: Generator[Delta], messages: Sequence[Message]) -> Generator[Delta]:
    """A server's notes and errors about a file name its place in the request; people know it by its name."""
    names = {
        f"messages[{place}].content[{index}]": part.param
        for place, message in enumerate(messages)
        for index, part in enumerate(message.parts)
        if isinstance(part, Media)
    }

    def named(text: str) -> str:
        place, colon, what = text.partition(": ")
        return f"{names.get(place, place)}{colon}{what}"

    try:
        with contextlib.closing(deltas):
            for delta in deltas:
                yield msgspec.structs.replace(delta, notes=tuple(map(named, delta.notes))) if delta.notes else delta
    except RequestError as error:
        param = error.param or ""
        if param not in names:
            raise
        what = error.message.removeprefix(param)
        link = ": " if what == error.message else ""
        raise error.renamed(f"{names[param]}{link}{what}", param) from error


class PrintedAnswer:
    """Prints an answer. Its properties are valid at any time, also after Ctrl-C. Calls are collected, not printed.

    `plain_text`: do not render Markdown; collect thoughts without printing them.
    """

    def __init__(self, look: AnswerStyle = DEFAULT_LOOK, *, plain_text: bool = False) -> None:
        look = look._replace(markdown=False, thoughts="off") if plain_text else look
        self._drawable = is_drawable()
        self._view = view(look, drawable=self._drawable)
        self._deltas: list[Delta] = []
        self.finish: Finish | None = None
        self.first_token_s: float | None = None
        """Time to first token."""
        self.thinking_s = 0.0
        """From the first piece of thinking to the last."""

    @property
    def text(self) -> str:
        """The answer, without thoughts."""
        return "".join(delta.text for delta in self._deltas)

    @property
    def thoughts(self) -> str:
        """The thinking before the answer."""
        return "".join(delta.thought for delta in self._deltas)

    @property
    def num_thought_tokens(self) -> int:
        """Without the tags around the thinking, which `usage` includes."""
        return sum(delta.num_tokens for delta in self._deltas if delta.thought)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls; if the answer was cut, the arguments of the last one are incomplete JSON."""
        return whole_calls(piece for delta in self._deltas for piece in delta.calls)

    @property
    def notes(self) -> tuple[str, ...]:
        """The server's notes on the answer, without duplicates."""
        return tuple(dict.fromkeys(note for delta in self._deltas for note in delta.notes))

    def print(self, deltas: Generator[Delta]) -> None:
        """Print to stdout as it streams, ending with a line end. Cancels the request if printing fails."""
        asked_s = time.monotonic()
        thinking_since_s: float | None = None
        with contextlib.closing(deltas):
            try:
                with Waiting(visible=self._drawable) as waiting:
                    for delta in deltas:
                        self.finish = delta.finish or self.finish
                        if self.first_token_s is None and (delta.text or delta.thought or delta.calls):
                            self.first_token_s = time.monotonic() - asked_s
                            waiting.end()
                        if delta.thought:
                            thinking_since_s = thinking_since_s or time.monotonic()
                            self.thinking_s = time.monotonic() - thinking_since_s
                        self._deltas.append(delta)
                        self._view.show(delta)
            except BaseException:
                # Show all that has arrived, and leave the cursor at the start of a line.
                if self.first_token_s is not None:
                    self._view.end()
                raise
            self._view.end()


def why_incomplete(finish: Finish, talk: Talk) -> str:
    """Why an answer is incomplete, for a message."""
    if finish.reason == "timeout":
        return "the server's request timeout expired"
    if finish.reason == "cancelled":
        return "it was cancelled"
    if finish.is_context_full:
        return f"cut: the context{f' of {talk.ctx} tokens' if talk.ctx else ''} is full"
    limit = talk.params.max_tokens
    if finish.is_closed:
        most = finish.usage.completion_tokens if limit is None else limit
        return f"closed at max_tokens, {most}, with the shortest values that the schema allows"
    return f"cut at max_tokens, {finish.usage.completion_tokens if limit is None else limit}"


def prepare(look: AnswerStyle) -> None:
    """Import what printing an answer needs, while the model loads."""
    if look.markdown and is_drawable():
        import localllm.cli.render.blocks
        import localllm.cli.render.live  # noqa: F401
