"""`GET /localllm/doctor`: the report of `localllm doctor` about this machine, for the page.

Runs the command in a separate process, since the libraries that it tests may crash. Knows nothing of the report.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localllm.server.edge.callers import caller_of
from localllm.server.edge.sse import unless_gone
from localllm.server.requests.body import json_response
from localllm.server.state import ServerState
from localllm.settings.config import Settings
from localllm.system import processes
from localllm.system.programs import own_command
from localllm.types import wire as body

TIMEOUT_S = 120.0
"""The first examination tests every CPU backend; later ones use its results."""
MAX_BYTES = 100_000
"""Maximum size of the text, of which the end is kept."""


def routes() -> list[Route]:
    """Endpoints of this module."""
    return [Route("/localllm/doctor", examine)]


async def examine(request: Request) -> Response:
    """`GET /localllm/doctor`. The text names folders of this machine, so it requires the right to manage models."""
    caller_of(request).check_may("examine the machine")
    state: ServerState = request.app.state.server
    return json_response(await unless_gone(request.receive, _examined(state)))


def command(settings: Settings) -> list[str]:
    """The command line, with the libraries and folders that this server uses."""
    given = {
        "--home": settings.home,
        "--plugin-dir": settings.plugin_dir,
        "--runtime": settings.runtime,
        "--rpc": settings.rpc,
    }
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    return [*own_command("localllm"), "doctor", *options]


async def _examined(state: ServerState) -> body.Diagnosis:
    async with state.examining:
        return await _examined_now(command(state.settings))


async def _examined_now(command: list[str]) -> body.Diagnosis:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
        **processes.own_process_group(),
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        text = f"The examination did not finish within {TIMEOUT_S:g} s; run `localllm doctor` in a terminal."
        return body.Diagnosis(works=False, text=text)
    finally:
        if process.returncode is None:
            with contextlib.suppress(OSError):
                processes.kill_group(process.pid)
            await process.wait()
    return body.Diagnosis(works=process.returncode == 0, text=output[-MAX_BYTES:].decode("utf-8", "replace"))
