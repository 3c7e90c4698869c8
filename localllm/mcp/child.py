"""Runs a program that speaks MCP on stdin and stdout, as a transport of the SDK. Knows nothing of messages.

Replaces the SDK's: lines have a maximum length, lines that are not messages are dropped without logging, the
program's log is kept for errors, and everything it started ends with it, since it has its own process group.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from localllm.chat.surrogates import whole_json
from localllm.mcp.servers import StdioServer
from localllm.system import processes

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Maximum length of a message."""
LOG_BYTES = 4 * 1024
"""Number of bytes kept from the end of its log."""
LEAVE_S, TERMINATE_S = 2.0, 1.0
"""Seconds for it to exit after its stdin is closed, and after it is terminated."""

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class Child:
    """A program that is running or has exited."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self.num_dropped = 0
        """The number of lines that were not messages."""
        self.fault = ""
        """The protocol violation for which it was ended, if any."""
        self._log = bytearray()
        self._log_is_whole = anyio.Event()

    def logged(self, data: bytes) -> None:
        self._log += data
        del self._log[:-LOG_BYTES]

    def log_ends(self) -> None:
        self._log_is_whole.set()

    async def has_ended(self, within_s: float) -> bool:
        """Waits for its exit and the end of its log."""
        if self.process is None:
            return False
        with anyio.move_on_after(within_s):
            await self.process.wait()
            await self._log_is_whole.wait()
        return self.process.returncode is not None

    @property
    def last_words(self) -> str:
        """The last line of its log."""
        lines = [line.strip() for line in bytes(self._log).decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""

    @property
    def end(self) -> str:
        """How it exited; "" while it runs."""
        code = self.process.returncode if self.process is not None else None
        why = self.fault or ("" if code is None else f"it ended with {processes.exit_reason(code)}")
        return f"{why}: {self.last_words}" if why and self.last_words else why


@contextlib.asynccontextmanager
async def running(server: StdioServer, child: Child) -> AsyncIterator[Streams]:
    """Start a server. On exit, it and all its children have ended. Raises `OSError`, `ValueError`."""
    environment = {**get_default_environment(), **server.env}
    program = shutil.which(server.command, path=environment.get("PATH")) or server.command
    process = await asyncio.create_subprocess_exec(
        program,
        *server.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=server.cwd,
        limit=MAX_LINE_BYTES,
        **processes.own_process_group(),
    )
    child.process = process
    heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, said = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_hear, process, child, heard)
        group.start_soon(_say, process, said, heard)
        group.start_soon(_keep_log, process, child)
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, child)
            group.cancel_scope.cancel()
            for stream in (heard, incoming, outgoing, said):
                stream.close()


async def _hear(
    process: asyncio.subprocess.Process, child: Child, heard: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    """Read its messages until it exits. Other lines are dropped, because some programs print a greeting."""
    assert process.stdout is not None
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with heard:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    child.fault = f"it wrote a line of more than {MAX_LINE_BYTES} bytes"
                    return
                if not line:
                    return
                try:
                    message = jsonrpc_message_adapter.validate_json(whole_json(line), by_name=False)
                except ValueError:
                    child.num_dropped += 1
                    continue
                await heard.send(SessionMessage(message))


async def _say(
    process: asyncio.subprocess.Process,
    said: MemoryObjectReceiveStream[SessionMessage],
    heard: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    assert process.stdin is not None
    try:
        async with said:
            async for message in said:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode("utf-8", "replace") + b"\n")
                await process.stdin.drain()
    except OSError:
        heard.close()  # so that pending calls fail


async def _keep_log(process: asyncio.subprocess.Process, child: Child) -> None:
    assert process.stderr is not None
    while data := await process.stderr.read(LOG_BYTES):
        child.logged(data)
    child.log_ends()


async def _end(process: asyncio.subprocess.Process, child: Child) -> None:
    """Terminates it, then kills it and its children if necessary."""
    assert process.stdin is not None
    process.stdin.close()
    if child.fault or not await child.has_ended(LEAVE_S):
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await child.has_ended(TERMINATE_S)
    with contextlib.suppress(OSError):
        processes.kill_group(process.pid)
    await child.has_ended(TERMINATE_S)
    process._transport.close()  # type: ignore[attr-defined]  # a child of its own may hold the pipes open
