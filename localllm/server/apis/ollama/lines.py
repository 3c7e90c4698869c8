"""Streams of JSON lines, Ollama's equivalent of server-sent events. Knows nothing of their content."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

import msgspec

from localllm.server.answers.generation import ended
from localllm.server.answers.story import encoded
from localllm.server.apis.ollama.errors import error_body
from localllm.server.edge.sse import EventStream, one_line
from localllm.server.state import ServerState


class LineStream(EventStream):
    """Like `EventStream`, but without keep-alive lines, since clients would not skip them."""

    media_type = "application/x-ndjson"

    def __init__(
        self,
        state: ServerState,
        lines: AsyncGenerator[msgspec.Struct, None],
        close: Callable[[], Awaitable[None]],
        headers: Mapping[str, str],
    ) -> None:
        failing = ended(state, lambda error: [error_body(error) + b"\n"])
        super().__init__(encoded(lines, _line), close, headers, keep_alive_s=0, ended=failing)


def _line(line: msgspec.Struct) -> bytes:
    return one_line(msgspec.json.encode(line)) + b"\n"
