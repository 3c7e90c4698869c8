"""The worker's template process: reads render requests, writes text, and is killed when a template runs wild.

jinja2's sandbox bounds neither time nor memory: 1 s of CPU and 256 MB for each rendering. No llama_cpp in it.

    python -P -m localllm.worker.template_child        frames on stdin and stdout
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from localllm.chat.request import RenderedText, RenderRequest
from localllm.errors import ErrorInfo, TemplateError, from_info
from localllm.worker.framing import NotEncodable, encode
from localllm.worker.limited_child import LimitedChild, OverLimit, serve

MAX_CPU_S = 1.0
MAX_MEMORY_BYTES = 256 * 1024 * 1024
DEADLINE_S = 5.0
"""Wall-clock bound: five times the CPU bound, because decoding keeps every core busy."""


class Rendered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the child answers."""

    made: RenderedText = RenderedText("")
    error: ErrorInfo | None = None


class TemplateChild:
    """The parent's side: starts the child. Used by one thread."""

    def __init__(self) -> None:
        self._child = LimitedChild(["localllm.worker.template_child"], Rendered)

    def render(self, request: RenderRequest) -> RenderedText:
        """The prompt. Raises `TemplateError`, also when the child had to be killed."""
        try:
            answer = self._child.ask(_encoded(request), DEADLINE_S)
        except OverLimit as reason:
            raise TemplateError(
                f"the chat template needed more than {MAX_CPU_S:g} s or {MAX_MEMORY_BYTES >> 20} MB on these messages "
                f"({reason})",
                param="messages",
            ) from None
        if answer.error is not None:
            raise from_info(answer.error)
        return answer.made

    def close(self) -> None:
        self._child.close()


def _encoded(message: RenderRequest | Rendered) -> bytearray:
    """Raises `TemplateError` for what fits into no frame: too long, or half a surrogate pair of the template's own."""
    try:
        return encode(message)
    except NotEncodable as error:
        raise TemplateError(f"the messages cannot be rendered: {error.reason}", param="messages") from error


def _prepare() -> Callable[[RenderRequest], bytearray]:
    from localllm.chat.template import render

    def answer_to(request: RenderRequest) -> bytearray:
        try:
            return _encoded(Rendered(made=render(request)))
        except TemplateError as error:
            return encode(Rendered(error=error.info()))

    return answer_to


if __name__ == "__main__":
    serve(RenderRequest, Rendered(), _prepare, cpu_s=MAX_CPU_S, memory_bytes=MAX_MEMORY_BYTES)
