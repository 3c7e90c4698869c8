"""Sends a batch's line to the application's own routes, without a socket: the same fields, errors and replies.

Behind the gate: the key was checked when the batch was made. The line's caller is the key's owner, whose limits of
requests it does not use up. Knows nothing of batches.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from starlette.types import ASGIApp, Message, Receive, Scope

from localllm.batches.lines import MESSAGES, BatchLine
from localllm.batches.results import Reply
from localllm.server.edge.callers import Caller
from localllm.server.edge.limits import KeyLimits, Limited
from localllm.server.requests.body import HeldBodies

_JSON_HEADERS = [(b"content-type", b"application/json")]
_MESSAGES_HEADERS = [*_JSON_HEADERS, (b"anthropic-version", b"2023-06-01")]


def behind_gate(router: ASGIApp) -> ASGIApp:
    """The routes, for callers that are known. Bodies are bounded by how many lines are in flight."""
    return HeldBodies(Limited(router, KeyLimits(lambda: 0.0)), max_bytes=sys.maxsize)


async def send(app: ASGIApp, caller: Caller, line: BatchLine) -> Reply:
    """The reply to a line."""
    collected = _Collected()
    await app(_scope(caller, line), _body(line.body), collected.send)
    return Reply(collected.status, collected.request_id, bytes(collected.body))


def _scope(caller: Caller, line: BatchLine) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": line.url,
        "raw_path": line.url.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": _MESSAGES_HEADERS if line.url == MESSAGES else _JSON_HEADERS,
        "client": None,
        "server": None,
        "state": {"caller": replace(caller, max_concurrent=0, requests_per_minute=0), "has_own_host": True},
    }


def _body(body: bytes) -> Receive:
    """The body, and then a client that never leaves."""
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            await asyncio.get_running_loop().create_future()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


class _Collected:
    """A response, whole."""

    def __init__(self) -> None:
        self.status = 0
        self.request_id = ""
        self.body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = {bytes(name).lower(): bytes(value) for name, value in message["headers"]}
            self.request_id = headers.get(b"x-request-id", b"").decode("latin-1")
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")
