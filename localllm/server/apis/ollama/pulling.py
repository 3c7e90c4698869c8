"""`/api/pull`: progress of our pulls in Ollama's format."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from localllm.errors import LocalLLMError, ModelNotFound
from localllm.server.apis.ollama.names import found, in_registry, ours, parse
from localllm.server.apis.ollama.progress import Report, transferring
from localllm.server.apis.ollama.replies import ProgressLine
from localllm.server.state import ServerState
from localllm.types.states import PullState

DEMO = "demo"
_ENDING = ("verifying sha256 digest", "writing manifest")


async def pull(state: ServerState, asked: str, report: Report) -> str:
    """Pull a model and return its id. A short name is looked up in our catalog, then in Ollama's library.

    Raises as `Runtime.pull`.
    """
    report(ProgressLine(status="pulling manifest"))

    def news(news: PullState) -> None:
        if news.phase == "downloading" or news.waiting_for is not None:
            report(transferring(news, _downloading(asked, news)))

    id = await _pulled(state, asked, news)
    for status in _ENDING:
        report(ProgressLine(status=status))
    return id


async def _pulled(state: ServerState, asked: str, news: Callable[[PullState], None]) -> str:
    if found(asked, [DEMO]):  # bundled with localllm
        return DEMO
    wanted, name = ours(asked), parse(asked)
    try:
        return (await state.runtime.pull(wanted, news)).id
    except ModelNotFound:
        if name is None or not name.is_short:
            raise
    try:
        return (await state.runtime.pull(in_registry(asked), news)).id
    except ModelNotFound as error:
        raise _no_manifest() from error


def _no_manifest() -> LocalLLMError:
    """The error with Ollama's message."""
    return ModelNotFound("pull model manifest: file does not exist", param="model")


def _downloading(asked: str, state: PullState) -> ProgressLine:
    digest = hashlib.sha256(asked.encode("utf-8", "replace")).hexdigest()
    total = state.total_bytes
    return ProgressLine(
        status=f"pulling {digest[:12]}",
        digest=f"sha256:{digest}",
        **({} if total is None else {"total": total, "completed": min(state.done_bytes, total)}),
    )
