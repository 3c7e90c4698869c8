"""What a client probably meant by a URL that is not served. Knows the routes' paths only."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from starlette.routing import Route

_CHAT, _EMBED = "POST /v1/chat/completions", "POST /v1/embeddings"

_OTHERS = (("/v1beta/", "Google's Gemini API is not served"),)
"""How paths of other vendors' APIs begin, and what is said of them."""

_MISSING = (
    ("/v1/audio/", "models here neither hear nor speak"),
    ("/v1/images/", "models here make no images"),
    ("/v1/videos", "models here make no videos"),
    ("/v1/files", "no files are kept here; send their text in the request"),
    ("/v1/uploads", "no files are kept here; send their text in the request"),
    ("/v1/batches", "there are no batches here; send the requests at once, they share what they can"),
    ("/v1/moderations", "no model here moderates"),
    ("/v1/fine_tuning/", "models are not trained here"),
)
"""How paths of OpenAI's API begin, and why they are not served."""

_LONGEST = 200
"""Nothing that is served has a longer path but by its ids."""


def hint(path: str, routes: Sequence[Route]) -> str:
    """The end of the sentence `there is no PATH here`, with the separator; empty where nothing is like it."""
    if len(path) > _LONGEST:
        return ""
    plain = re.sub(r"/+", "/", path).rstrip("/").lower() or "/"
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
    """What a wrong or missing prefix makes of a path."""
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
