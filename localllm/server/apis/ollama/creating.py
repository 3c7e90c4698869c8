"""`/api/create`, `/api/blobs` and `/api/push`: models made from other models or uploaded files."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response

from localllm.errors import InvalidParameter, ModelNotFound
from localllm.server.apis.ollama.asked import model_of, read
from localllm.server.apis.ollama.names import ours
from localllm.server.apis.ollama.progress import Report, respond, transferring
from localllm.server.apis.ollama.pulling import pull
from localllm.server.apis.ollama.replies import ProgressLine
from localllm.server.apis.ollama.requests import CreateRequest, PushRequest
from localllm.server.edge.callers import caller_of
from localllm.server.errors import TooLarge
from localllm.server.requests.body import pieces
from localllm.server.state import ServerState
from localllm.types.states import MakeState, PushState

QUANTIZING_DIGEST = "0" * 19
"""The digest by which clients distinguish quantizing from a download."""


async def create(request: Request) -> Response:
    """`POST /api/create`. Disconnecting stops it."""
    caller_of(request).check_may("create models")
    state, body, given = await read(request, CreateRequest)
    headers, name = given.headers(state), ours(body.asked_model)
    body.made(name, body.base)  # errors in the request get a status

    async def work(report: Report) -> None:
        asked = body.base if body.modelfile is None else await state.runtime.uploads.base_in(body.modelfile)
        base = None if asked is None else await _base(state, asked, report)
        await state.runtime.make(body.made(name, base), lambda made: report(_line(made)))

    return await respond(request, state, work, headers, stream=body.stream is not False)


async def has_blob(request: Request) -> Response:
    """`HEAD /api/blobs/{digest}`."""
    caller_of(request).check_may("upload files")
    state: ServerState = request.app.state.server
    there = await state.runtime.uploads.has(_digest(request))
    return Response(status_code=200 if there else 404)


async def upload_blob(request: Request) -> Response:
    """`POST /api/blobs/{digest}`: the body is the file, written to disk as it arrives."""
    caller_of(request).check_may("upload files")
    state: ServerState = request.app.state.server
    state.admit()
    digest = _digest(request)
    if await state.runtime.uploads.has(digest):
        return Response(status_code=200)
    most, declared = state.settings.max_upload_mb * 10**6, request.headers.get("content-length", "")
    size_bytes = int(declared) if declared.isdigit() else None
    if most and size_bytes is not None and size_bytes > most:
        raise _too_large(state)
    await state.runtime.uploads.receive(digest, _bounded(request, state, most), size_bytes)
    return Response(status_code=201)


async def push(request: Request) -> Response:
    """`POST /api/push`: to the registry in the model's name. Disconnecting stops it."""
    caller_of(request).check_may("push models")
    state, body, given = await read(request, PushRequest)
    headers, id = given.headers(state), await model_of(state, body.asked_model)

    async def work(report: Report) -> None:
        report(ProgressLine(status="retrieving manifest"))
        await state.runtime.pulls.push(id, lambda news: report(transferring(news, _pushing(news))))

    return await respond(request, state, work, headers, stream=body.stream is not False)


async def _base(state: ServerState, asked: str, report: Report) -> str:
    """The id of the base model, which is pulled if necessary."""
    try:
        return await model_of(state, asked)
    except ModelNotFound:
        return await pull(state, asked, report)


def _line(made: MakeState) -> ProgressLine:
    if made.phase == "reading":
        return ProgressLine(status="parsing GGUF")
    if made.phase == "writing":
        return ProgressLine(status="writing manifest")
    if made.phase == "using":
        return ProgressLine(status=f"{'creating new' if made.is_new else 'using existing'} layer {made.digest}")
    return ProgressLine(
        status=f"quantizing {made.source_type} model to {made.type}",
        digest=QUANTIZING_DIGEST,
        total=made.total_bytes,
        completed=made.done_bytes,
    )


def _pushing(news: PushState) -> ProgressLine:
    if news.phase != "uploading":
        return ProgressLine(status="pushing manifest")
    return ProgressLine(
        status=f"pushing {news.digest.removeprefix('sha256:')[:12]}",
        digest=news.digest,
        total=news.total_bytes,
        completed=news.done_bytes,
    )


def _digest(request: Request) -> str:
    """The digest in the path, as Ollama's clients write it, with a colon or a hyphen."""
    digest: str = request.path_params["digest"]
    return digest.lower()


async def _bounded(request: Request, state: ServerState, most: int) -> AsyncGenerator[bytes, None]:
    """The body, piece by piece. Raises `TooLarge`, `ClientGone`, and `InvalidParameter` for an empty body."""
    num_bytes = 0
    async for piece in pieces(request):
        num_bytes += len(piece)
        if most and num_bytes > most:
            raise _too_large(state)
        yield piece
    if not num_bytes:
        raise InvalidParameter("missing request body", param="digest")


def _too_large(state: ServerState) -> TooLarge:
    return TooLarge(f"the file is larger than {state.settings.max_upload_mb} MB; --max-upload-mb raises the limit")
