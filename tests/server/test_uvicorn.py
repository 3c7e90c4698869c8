"""What we use of uvicorn beyond its documented API; pyproject.toml allows only the minor version that has it."""

from __future__ import annotations

import ast
import asyncio
import importlib.metadata
import inspect
import tomllib
from pathlib import Path

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from localllm.server.edge import http, protocol

OF_THE_PROTOCOL = {"client", "config", "conn", "cycle", "loop", "server_state", "transport"}
OF_A_CYCLE = {"keep_alive", "disconnected", "message_event", "response_complete", "scope"}
OVERRIDDEN = {
    "__init__", "connection_made", "connection_lost", "data_received", "on_response_complete", "send_400_response",
    "pause_writing", "resume_writing", "shutdown", "timeout_keep_alive_handler",
}  # fmt: skip
OF_THE_SERVER = {"capture_signals", "config", "main_loop", "on_tick", "serve", "server_state", "should_exit"}


def _nodes(cls: type) -> list[ast.AST]:
    return list(ast.walk(ast.parse(inspect.getsource(cls))))


def _used(cls: type, owner: str) -> set[str]:
    """The attributes of `owner` (`self`, `self.cycle`) in the code of a class."""
    nodes = [node for node in _nodes(cls) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if ast.unparse(node.value) == owner}


def _made(cls: type) -> set[str]:
    """The methods and attributes that a class has of its own."""
    methods = {node.name for node in _nodes(cls) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return methods | {name for name in _used(cls, "self") if name.startswith("_")} | set(vars(cls))


def test_the_protocol_uses_these_attributes_of_uvicorns_and_they_exist() -> None:
    cls = protocol.Connection
    assert _used(cls, "self") - _made(cls) - OVERRIDDEN <= OF_THE_PROTOCOL
    assert _used(cls, "self.cycle") == OF_A_CYCLE
    assert vars(cls).keys() & vars(H11Protocol).keys() >= OVERRIDDEN
    state = ServerState()
    loop = asyncio.new_event_loop()
    there = H11Protocol(Config(None, lifespan="off", log_config=None), state, {}, loop)  # type: ignore[arg-type]
    loop.close()
    assert vars(there).keys() >= OF_THE_PROTOCOL
    assert set(inspect.signature(RequestResponseCycle.__init__).parameters) >= {"scope", "message_event"}
    assert {"connections", "tasks"} <= vars(state).keys()


def test_the_server_has_what_we_extend() -> None:
    there = vars(Server).keys() | vars(Server(Config(None, log_config=None))).keys()  # type: ignore[arg-type]
    assert there >= OF_THE_SERVER
    own = {name for cls in (http.HttpServer, http._Server) for name in _used(cls, "self._server")}
    assert own <= OF_THE_SERVER | {"plain", "stopping"}


def test_the_allowed_versions_are_one_minor_version() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    (wanted,) = (line for line in project["dependencies"] if line.startswith("uvicorn"))
    minor = int(importlib.metadata.version("uvicorn").split(".")[1])
    assert wanted == f"uvicorn>=0.{minor},<0.{minor + 1}"
