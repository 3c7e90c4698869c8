"""The worker's template process: reads render requests, writes text, and is killed when a template runs away.

jinja2's sandbox bounds neither time nor memory; here each rendering has 1 s of CPU and 256 MB. The process also finds
out from a template how its model writes answers, which takes some hundred renderings. Does not load llama_cpp.

    python -P -m localllm.worker.prompts.template_child        frames on stdin and stdout
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from localllm.chat.formats.known import GENERIC
from localllm.chat.request import FormatRequest, RenderedText, RenderRequest
from localllm.errors import ErrorInfo, LocalLLMError, TemplateError, from_info
from localllm.system import processes
from localllm.types import ChatFormat
from localllm.worker.framing import NotEncodable, encode
from localllm.worker.limited_child import LimitedChild, OverLimit, serve

MAX_CPU_S = 1.0
MAX_MEMORY_BYTES = 256 * 10**6
DEADLINE_S = 5.0
"""Wall-clock limit: five times the CPU limit, because decoding keeps every core busy."""
FINDING_CPU_S, FINDING_DEADLINE_S = 5.0, 15.0
"""Limits for finding a format, while the model loads."""

Question = RenderRequest | FormatRequest


class Rendered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The child's reply."""

    made: RenderedText = RenderedText("")
    format: ChatFormat = ChatFormat()
    error: ErrorInfo | None = None


class TemplateChild:
    """The parent's side: starts the child. Used by one thread."""

    def __init__(self) -> None:
        self._child = LimitedChild(["localllm.worker.prompts.template_child"], Rendered)

    def render(self, request: RenderRequest) -> RenderedText:
        """The prompt. Raises `TemplateError`, also when the child had to be killed."""
        try:
            answer = self._child.ask(_encoded(request), DEADLINE_S)
        except OverLimit as reason:
            raise TemplateError(
                f"the chat template needed more than {MAX_CPU_S:g} s or {MAX_MEMORY_BYTES // 10**6} MB on these "
                f"messages ({reason})",
                param="messages",
            ) from None
        if answer.error is not None:
            raise from_info(answer.error)
        return answer.made

    def find_format(self, request: FormatRequest) -> ChatFormat:
        """How the template writes answers; the generic format, with a note saying why, if the limits do not suffice."""
        try:
            answer = self._child.ask(_encoded(request), FINDING_DEADLINE_S)
        except OverLimit as reason:
            return _generic(
                f"the chat template needed more than {FINDING_CPU_S:g} s or {MAX_MEMORY_BYTES // 10**6} MB on short "
                f"messages ({reason})"
            )
        except LocalLLMError as error:
            return _generic(error.message)
        return answer.format if answer.error is None else _generic(answer.error.message)

    def format_of_model(self, templates: Mapping[str, str], bos_token: str, eos_token: str) -> ChatFormat:
        """From all of the model's templates by name: conversations with tools are rendered with `tool_use`, if there is
        one, which then determines how calls are written."""
        found = self.find_format(FormatRequest(templates["default"], bos_token, eos_token))
        if templates.get("tool_use", templates["default"]) == templates["default"]:
            return found
        with_tools = self.find_format(FormatRequest(templates["tool_use"], bos_token, eos_token))
        if found.thought is None or with_tools.thought is not None:
            return with_tools
        kept = {name: getattr(found, name) for name in ("thought", "behind_thought", "thinking", "begins_thought")}
        return replace(with_tools, **kept)

    def close(self) -> None:
        self._child.close()


def _generic(note: str) -> ChatFormat:
    return msgspec.structs.replace(GENERIC, note=note)


def _encoded(message: Question | Rendered) -> bytearray:
    """The message as a frame. Raises `TemplateError` if it fits into none: too long, or an unpaired surrogate from the
    template itself."""
    try:
        return encode(message)
    except NotEncodable as error:
        raise TemplateError(f"the messages cannot be rendered: {error.reason}", param="messages") from error


def _prepare() -> Callable[[Question], bytearray]:
    from localllm.chat.formats.finding import format_of
    from localllm.chat.template import render

    def answer_to(request: Question) -> bytearray:
        try:
            if isinstance(request, RenderRequest):
                return _encoded(Rendered(made=render(request)))
            processes.limit_further_cpu(FINDING_CPU_S)
            return _encoded(Rendered(format=format_of(**msgspec.structs.asdict(request))))
        except TemplateError as error:
            return encode(Rendered(error=error.info()))

    return answer_to


if __name__ == "__main__":
    questions: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
    serve(questions, Rendered(), _prepare, cpu_s=MAX_CPU_S, memory_bytes=MAX_MEMORY_BYTES)
