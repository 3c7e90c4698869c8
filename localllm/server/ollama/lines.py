"""Streams of JSON lines, which Ollama has where others have events. Knows nothing of what is in them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

import msgspec

from localllm.errors import LocalLLMError
from localllm.server import log
from localllm.server.errors import defect
from localllm.server.ollama.errors import error_body
from localllm.server.sse import EventStream
from localllm.server.state import ServerState

logger = logging.getLogger("localllm")


class LineStream(EventStream):
    """As `EventStream`; there is no line that every client skips, so nothing fills its silence."""

    media_type = "application/x-ndjson"

    def __init__(
        self,
        state: ServerState,
        lines: AsyncGenerator[msgspec.Struct, None],
        close: Callable[[], Awaitable[None]],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(_encoded(state, lines), close, headers, keep_alive_s=0)


async def _encoded(state: ServerState, lines: AsyncGenerator[msgspec.Struct, None]) -> AsyncGenerator[bytes, None]:
    """Whatever goes wrong ends it with a line that says so, never in silence."""
    try:
        async for line in lines:
            yield msgspec.json.encode(line) + b"\n"
    except LocalLLMError as error:
        log.event(logging.WARNING, "stream_failed", code=error.code, message=error.message)
        yield error_body(state.seen_by_client(error)) + b"\n"
    except Exception as error:
        logger.exception("defect in a stream")
        yield error_body(defect(error)) + b"\n"
    finally:
        await lines.aclose()
