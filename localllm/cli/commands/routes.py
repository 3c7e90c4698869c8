"""`localllm route`: where a name leads, and what would happen to a request now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from localllm.cli.shared import report
from localllm.cli.shared.model_names import is_here
from localllm.client.discovery import find_server
from localllm.errors import InvalidParameter
from localllm.settings.config import Settings
from localllm.settings.routes import Route
from localllm.types.wire import Process


def show_routes(settings: Settings, name: str | None, *, as_json: bool) -> int:
    """Print them; returns the exit code. Raises `InvalidParameter` for a name that is no route."""
    routes = settings.sections().routes()
    if name is not None and name not in routes:
        known = ", ".join(routes) or "none; config.toml makes them (localllm help server)"
        raise InvalidParameter(f"{name!r} is no route; known: {known}", param="name")
    shown = [route for route in routes.values() if name in (None, route.name)]
    if not shown and not as_json:
        report.say("localllm: config.toml has no routes (localllm help server)")
    running = _running(settings)
    if as_json:
        report.write_json(msgspec.json.encode([_described(route, settings, running) for route in shown]))
        return report.OK
    for route in shown:
        report.write(*_lines(_described(route, settings, running)))
    return report.OK


def _running(settings: Settings) -> Mapping[str, Process] | None:
    """By model; None: no server runs."""
    server = find_server(settings)
    if server is None:
        return None
    with server as client:
        return {process.model: process for process in client.processes()}


def _described(route: Route, settings: Settings, running: Mapping[str, Process] | None) -> dict[str, Any]:
    weights = dict(route.split)
    models = [
        {"model": model, "weight": weights.get(model), "state": _state(model, settings, running)}
        for model in route.models
    ]
    waits = [] if route.wait_s is None else [f"wait > {route.wait_s:g}s"]
    return {"route": route.name, "models": models, "when": sorted(route.causes) + waits, "mirror": route.mirror}


def _state(model: str, settings: Settings, running: Mapping[str, Process] | None) -> str:
    id = settings.sections().model_named(model)
    if id in settings.sections().routes():
        return "a route"
    process = None if running is None else running.get(id)
    if process is not None:
        return f"{process.status}, {process.requests} requests"
    if not is_here(id, settings):
        return "not on this machine"
    return "not loaded" if running is not None else "here; no server runs"


def _lines(described: Mapping[str, Any]) -> list[str]:
    width = max(len(each["model"]) for each in described["models"])
    lines = [described["route"]]
    for number, each in enumerate(described["models"]):
        before = "asked first" if number == 0 else "then"
        share = "" if each["weight"] is None else f"  weight {each['weight']}"
        lines.append(f"  {before:11}  {each['model']:{width}}  {each['state']}{share}")
    lines.append(f"  {'when':11}  {', '.join(described['when']) or 'never: the first one alone answers'}")
    if described["mirror"] is not None:
        lines.append(f"  {'mirror':11}  {described['mirror']}")
    return lines
