"""The page's files, and the headers that restrict the page to them. Knows nothing of their content.

They contain no user data, so they need no key; the page asks for one. The page shows a model's output as text, never as
HTML. Should that fail, the policy still allows only scripts from these files and requests to this server.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import re
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from localllm.errors import clipped
from localllm.server.errors import NotFound

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content-Security-Policy, https://www.w3.org/TR/CSP3/. `blob:`: the user's own attachments."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",  # revalidated each time, mostly with a 304
}
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
INDEX = "index.html"
_COMMENT = re.compile(rb"^[ \t]*(?:/\*\*.*?\*/|//[^\n]*)", re.DOTALL | re.MULTILINE)
"""Matches comments for readers of the source, a sixth of the scripts. Only at line starts, so never inside a string."""


class File(NamedTuple):
    """A file as served."""

    content: bytes
    media_type: str
    etag: str


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [Route("/", root), Route("/v1", base), Route("/ui/{name}", file)]


@functools.cache
def files() -> dict[str, File]:
    """Name -> file; read only once."""
    found: dict[str, File] = {}
    for entry in importlib.resources.files("localllm.server.ui").iterdir():
        media_type = _TYPES.get(entry.name.rpartition(".")[2])
        if media_type is not None:
            content = entry.read_bytes()
            if media_type == _TYPES["js"]:
                # Newlines stay, and so do line numbers.
                content = _COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), content)
            found[entry.name] = File(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


async def root(request: Request) -> Response:
    """`GET /`: the page for browsers; for others the text by which Ollama's clients recognize its server."""
    if request.app.state.server.settings.ui and "text/html" in request.headers.get("accept", ""):
        return _response(request, files()[INDEX])
    return PlainTextResponse("Ollama is running", headers={"vary": "accept"})


async def base(request: Request) -> Response:
    """`GET /v1`, which `serve` prints for clients: browsers are led to the page."""
    if request.app.state.server.settings.ui and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("./", headers={"vary": "accept"})
    raise NotFound("/v1 is the base URL of the API, for example of GET /v1/models and POST /v1/chat/completions")


async def file(request: Request) -> Response:
    """`GET /ui/{name}`."""
    found = files().get(request.path_params["name"])
    if found is None or not request.app.state.server.settings.ui:
        raise NotFound(f"{clipped(request.url.path)} is not served here")
    return _response(request, found)


def _response(request: Request, file: File) -> Response:
    headers = HEADERS | {"etag": file.etag, "vary": "accept"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)
