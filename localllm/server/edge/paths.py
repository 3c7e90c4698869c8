"""Paths with and without `/v1`, both of which llama-server has. Knows no endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from starlette.routing import Route

PREFIX = "/v1"


def both(path: str, endpoint: Callable[..., Any], methods: Iterable[str] = ("GET",)) -> list[Route]:
    """Two routes to one endpoint; `path` has the prefix and is the label of both in metrics."""
    methods = [*methods]
    return [Route(path.removeprefix(PREFIX), endpoint, methods=methods), Route(path, endpoint, methods=methods)]
