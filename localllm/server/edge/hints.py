"""Suggestions for URLs that are not served. Knows only the routes' paths."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from starlette.routing import Route

_CHAT, _EMBED = "POST /v1/chat/completions", "POST /v1/embeddings"

_OTHERS = (("/v1beta/", "Google's Gemini API is not served"),)
"""Path prefixes of other vendors' APIs, and the hint for each."""

_MARKS = {
    "/api/v1/chat": "LM Studio's own chat is not served; `POST /v1/responses` keeps conversations, too, and takes its "
    "pictures (`data_url`) and MCP tools",
    "/version": "gateways take a server with it for vLLM; `GET /api/version` tells the version",
    "/server_info": "gateways take a server with it for SGLang; see `GET /model_info` and `GET /loads`",
    "/get_server_info": "gateways take a server with it for SGLang; see `GET /model_info` and `GET /loads`",
}
"""Paths of other servers, by which gateways recognize these or that a name alone would lead astray, and hints."""

_MISSING = (
    ("/v1/audio/speech", "speech is not generated"),
    ("/v1/audio/voices", "speech is not generated"),
    ("/v1/images/", "image generation is not supported"),
    ("/v1/videos", "video generation is not supported"),
    ("/v1/uploads", "files are sent in one piece, to /v1/files"),
    ("/v1/moderations", "moderation is not supported"),
    ("/v1/fine_tuning/", "fine-tuning is not supported"),
)
"""Path prefixes of OpenAI's API that are not served, and why."""

_LONGEST = 200
"""Served paths are no longer than this, apart from ids."""


def hint(path: str, routes: Sequence[Route]) -> str:
    """The rest of the message `PATH is not served here`, with its separator; empty if there is nothing similar."""
    routes = [route for route in routes if route.methods != {"HEAD"}]
    if len(path) > _LONGEST:
        return ""
    plain = re.sub(r"/+", "/", path).rstrip("/").lower() or "/"
    if plain in _MARKS:
        return f": {_MARKS[plain]}"
    versioned = plain if plain.startswith("/v1/") else f"/v1{plain}"
    missing = next((words for start, words in _MISSING if f"{versioned}/".startswith(start)), None)
    if missing is not None:
        return f": {missing}"
    vendor = next((words for start, words in _OTHERS if f"{plain}/".startswith(start)), None)
    if vendor is not None:
        return f": {vendor}; OpenAI clients use the base URL /v1"
    meant = _served(_variants(plain), routes) or _similar(plain, routes)
    return f"; did you mean {meant}?" if meant else ""


def _variants(path: str) -> Iterable[str]:
    """Variants of a path with a wrong or missing prefix."""
    yield path
    bare = re.sub(r"^(/openai|/api)?(/v[0-9]+)*", "", path)
    yield f"/v1{bare}"
    yield bare
    yield f"/localllm{bare}"


def _served(paths: Iterable[str], routes: Sequence[Route]) -> str | None:
    for path in paths:
        for route in routes:
            if route.path_regex.fullmatch(path):
                return f"{_method(route)} {path}"
    return None


def _similar(path: str, routes: Sequence[Route]) -> str | None:
    by_path = {route.path: route for route in routes}
    near = difflib.get_close_matches(path, by_path, 1, 0.8)
    return f"{_method(by_path[near[0]])} {near[0]}" if near else None


def _method(route: Route) -> str:
    return min((route.methods or {"GET"}) - {"HEAD"}, key=["POST", "GET", "DELETE"].index)
