"""Long operations that report progress in lines. Knows nothing of the operations."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from localllm.server.answers.progress import Progress
from localllm.server.apis.ollama.lines import LineStream
from localllm.server.apis.ollama.replies import ProgressLine
from localllm.server.requests.body import json_response
from localllm.server.state import ServerState
from localllm.types.states import PullState, PushState

Report = Callable[[ProgressLine], None]
SUCCESS = ProgressLine(status="success")


def transferring(state: PullState | PushState, line: ProgressLine) -> ProgressLine:
    """`line`, or one that names the host that the transfer is waiting for."""
    return line if state.waiting_for is None else ProgressLine(status=f"waiting for {state.waiting_for}")


async def respond(
    request: Request,
    state: ServerState,
    work: Callable[[Report], Coroutine[Any, Any, None]],
    headers: dict[str, str],
    *,
    stream: bool,
) -> Response:
    """The operation's lines, or only the last. An error before the first line gets a status."""

    async def successful(report: Report) -> ProgressLine:
        await work(report)
        return SUCCESS

    progress = Progress(successful)
    if not stream:
        return json_response(await progress.ended(request.receive), headers)
    await progress.begun(request.receive)
    return LineStream(state, progress.events(), progress.close, headers)
