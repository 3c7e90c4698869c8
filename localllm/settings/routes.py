"""Routes in `config.toml`: a name that several models answer, one for the other.

    [models."chat"]
    route = ["qwen3:8b", "qwen3:4b"]                       # in this order
    when = ["queue_full", "wait > 5s", "too_long"]         # when the next one answers
    split = {"qwen3:8b" = 90, "qwen3:4b" = 10}             # which one is the first, by conversation
    mirror = "qwen3:14b"                                   # gets a copy of each request, whose answer nobody reads

Knows neither models nor requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from localllm.errors import InvalidParameter

Cause = Literal["queue_full", "too_long", "load_failed"]
"""An error before the first token for which the next model is asked."""
CAUSES: tuple[Cause, ...] = get_args(Cause)
KEYS = ("route", "when", "split", "mirror")
MAX_WEIGHT = 1_000_000
_WAIT = re.compile(r"wait\s*>\s*([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*(ms|s|m)", re.ASCII)
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0}


class Route(NamedTuple):
    """A name that leads to models."""

    name: str
    models: tuple[str, ...]
    """In the order in which they are asked."""
    causes: frozenset[Cause]
    wait_s: float | None
    """How long the first token may take before the next model is asked; None: as long as it takes."""
    split: tuple[tuple[str, int], ...]
    """Models and their weights; empty: the first one always begins."""
    mirror: str | None

    def order(self, share: float) -> tuple[str, ...]:
        """The models as they are asked for a conversation with this number from 0 to 1."""
        first = self._first(share)
        return (first, *(model for model in self.models if model != first))

    def _first(self, share: float) -> str:
        left = share * sum(weight for _, weight in self.split)
        for model, weight in self.split:
            left -= weight
            if left < 0:
                return model
        return self.models[0]


def is_route(table: Mapping[str, Any]) -> bool:
    """Whether a section is one."""
    return not table.keys().isdisjoint(KEYS)


def parse(name: str, table: Mapping[str, Any], source: str) -> Route:
    """Raises `InvalidParameter` that names the section and the key."""

    def wrong(key: str, what: str) -> InvalidParameter:
        return InvalidParameter(f"{source}: {what}", param=key)

    others = [key for key in table if key not in KEYS]
    if others:
        raise wrong(others[0], f"a route has only {', '.join(KEYS)}; set {others[0]} for its models")
    if "*" in name or "?" in name:
        raise wrong("route", "a route has a name of its own, not a pattern")
    split = _split(table.get("split", {}), wrong)
    models = _names(table.get("route", [model for model, _ in split]), "route", wrong)
    if not models:
        raise wrong("route", 'route names models, such as route = ["qwen3:8b", "qwen3:4b"]')
    for model, _ in split:
        if model not in models:
            raise wrong("split", f"split names {model!r}, which is not in route; add it there, or leave route out")
    causes, wait_s = _conditions(table.get("when", list(CAUSES)), wrong)
    mirror = table.get("mirror")
    if mirror is not None and (not isinstance(mirror, str) or not mirror.strip() or mirror == name):
        raise wrong("mirror", "mirror names another model")
    return Route(name, models, causes, wait_s, split, mirror)


def check_circles(found: Sequence[Route], where: str) -> None:
    """Raises `InvalidParameter` for a route that leads to itself."""
    routes = {route.name: route for route in found}

    def follow(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " -> ".join([*path[path.index(name) :], name])
            raise InvalidParameter(
                f"{where}: the routes {circle} lead in a circle; let one of them name a model", param="route"
            )
        route = routes.get(name)
        if route is not None:
            for model in (*route.models, *filter(None, [route.mirror])):
                follow(model, (*path, name))

    for name in routes:
        follow(name, ())


def _names(value: Any, key: str, wrong: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each.strip() for each in value):
        raise wrong(key, f"{key} is a list of models' names")
    if len(set(value)) < len(value):
        raise wrong(key, f"{key} names a model twice")
    return tuple(value)


def _split(value: Any, wrong: Any) -> tuple[tuple[str, int], ...]:
    is_table = isinstance(value, dict) and all(
        isinstance(weight, int) and not isinstance(weight, bool) and 0 <= weight <= MAX_WEIGHT
        for weight in value.values()
    )
    if not is_table or (value and not sum(value.values())):
        raise wrong("split", 'split gives each model its weight, such as split = {"qwen3:8b" = 90, "qwen3:4b" = 10}')
    return tuple(value.items())


def _conditions(value: Any, wrong: Any) -> tuple[frozenset[Cause], float | None]:
    if not isinstance(value, list):
        raise wrong("when", "when is a list of conditions")
    causes: set[Cause] = set()
    wait_s: float | None = None
    for each in value:
        match = _WAIT.fullmatch(each.strip()) if isinstance(each, str) else None
        if match is not None:
            wait_s = float(match[1]) * _UNITS_S[match[2]]
        elif each in CAUSES:
            causes.add(each)
        else:
            raise wrong(
                "when", f"{each!r} is no condition; known are {', '.join(CAUSES)}, and waits such as 'wait > 5s'"
            )
    return frozenset(causes), wait_s
