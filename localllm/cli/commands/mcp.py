"""`localllm mcp`: connects an MCP server to a localllm server, over stdio or HTTP. Knows no protocol.

stdout belongs to the protocol: messages go to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from localllm.cli.options.settings import as_arguments
from localllm.cli.shared import config, report
from localllm.cli.shared.model_names import is_here, is_name
from localllm.client.discovery import find_server, is_anybody_there
from localllm.client.sidecar import Sidecar
from localllm.errors import InvalidParameter, ModelNotFound
from localllm.mcp import check_installed
from localllm.settings.config import Settings
from localllm.system.shell_words import shell_word

if TYPE_CHECKING:
    from localllm.client.api import Client
    from localllm.mcp.tool_answers import Answering

WHERE = ("host", "port")
"""Settings that locate a running server; they are not passed to our own."""


def serve_mcp(model: str | None, given: Mapping[str, Any], *, http_port: int | None) -> int:
    """Serve until stdin ends or Ctrl-C; returns the exit code. Raises `LocalLLMError`s."""
    check_installed("mcp")
    settings = config.load(given)
    if http_port is not None and not 0 <= http_port <= 65535:
        raise InvalidParameter(f"--http takes a port from 0 to 65535, got {http_port}", param="http")
    if model is not None and not is_here(model, settings):
        raise ModelNotFound(f"{model} is not on this machine; get it with localllm pull {shell_word(model)}")
    from localllm.server.edge import log

    log.configure("warning" if http_port is None else settings.log_level)
    load = {name: value for name, value in given.items() if name not in WHERE}
    with _server(model, load, settings) as answering:
        if http_port is None:
            # A thread that reads stdin cannot be interrupted. Our own server ends with us, however we end.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            asyncio.run(_serve(answering, settings, http_port))
        except OSError as error:
            if http_port is None:
                raise
            raise InvalidParameter(
                f"port {http_port} on 127.0.0.1 is not available: {error.strerror}; --http 0 takes any free port",
                param="http",
            ) from error
        except KeyboardInterrupt:
            pass  # the normal way to stop
    return report.OK


async def _serve(answering: Answering, settings: Settings, http_port: int | None) -> None:
    from localllm.mcp import serving as protocol
    from localllm.server.edge.guarded import guarded

    if http_port is not None:
        await protocol.serve_http(answering, http_port, lambda app: guarded(app, settings), _announce)
        return
    await protocol.serve_stdio(answering)


def _announce(url: str) -> None:
    report.say(f"localllm: MCP at {url} (Ctrl-C to stop)")


@contextlib.contextmanager
def _server(model: str | None, load: Mapping[str, Any], settings: Settings) -> Iterator[Answering]:
    """A running server, or our own, which starts in the background; the first call waits for it."""
    from localllm.client.api import Client
    from localllm.mcp.tool_answers import Answering

    running = None
    if (model is None or is_name(model)) and not as_arguments(load) and is_anybody_there(settings):
        running = find_server(settings)
    with contextlib.ExitStack() as stack:
        if running is not None:
            client = stack.enter_context(running)

            def connect() -> tuple[Client, str | None]:
                return client, None if model is None else client.load(model)
        else:
            arguments = [*([] if model is None else [model]), *as_arguments(load)]
            arguments += [] if settings.verbose else ["--log-level=warning"]
            sidecar = stack.enter_context(Sidecar.spawn(arguments, stderr=sys.stderr))

            def connect() -> tuple[Client, str | None]:
                ready = sidecar.wait_ready()
                return stack.enter_context(Client(ready.url, ready.token)), ready.model

        yield Answering(connect)
