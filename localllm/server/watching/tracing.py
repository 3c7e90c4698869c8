"""Sends spans to a collector of OpenTelemetry: OTLP as JSON over HTTP, in batches. Knows nothing of a span's content.

Requests never wait for the collector. While it does not answer, spans beyond a limit are dropped, which the log says.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque

import httpx

from localllm import __version__
from localllm.errors import InvalidParameter
from localllm.server.edge import log
from localllm.server.watching.spans import Span, attributes_of
from localllm.settings.config import Settings
from localllm.settings.values import comma_list

MAX_SPANS = 4096
"""Spans that wait; some 4 MB."""
BATCH = 512
PAUSE_S = 1.0
"""Between two batches, so that spans gather."""
TIMEOUT_S = 3.0
_TRACES = "/v1/traces"


class Tracer:
    """Used on one event loop; its task begins with the first span."""

    def __init__(self, url: str, headers: dict[str, str], server: str, *, pause_s: float = PAUSE_S) -> None:
        """`url`: of the collector, with or without `/v1/traces`; `server`: this one's name."""
        base = url.rstrip("/")
        self._url = base if base.endswith(_TRACES) else base + _TRACES
        self._client = httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S, trust_env=False)
        self._resource = {
            "attributes": attributes_of(
                {"service.name": "localllm", "service.version": __version__, "service.instance.id": server}
            )
        }
        self._pause_s = pause_s
        self._spans: deque[Span] = deque()
        self._task: asyncio.Task[None] | None = None
        self._failure: str | None = None

    def add(self, spans: list[Span]) -> None:
        """Take spans to send."""
        if len(self._spans) + len(spans) <= MAX_SPANS:
            self._spans.extend(spans)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_all())

    async def close(self) -> None:
        """Send what waits, if the collector answers in time."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        while self._spans and await self._send():
            pass
        await self._client.aclose()

    async def _send_all(self) -> None:
        while self._spans:
            await asyncio.sleep(self._pause_s)
            await self._send()

    async def _send(self) -> bool:
        """Send one batch; on failure, it waits on while there is room for others."""
        batch = [self._spans[index] for index in range(min(BATCH, len(self._spans)))]
        failure = await self._post(batch)
        if failure is None or len(self._spans) >= MAX_SPANS // 2:
            for _ in batch:
                self._spans.popleft()
        if failure is not None and self._failure is None:
            effect = f"spans wait, and beyond {MAX_SPANS // 2} are dropped"
            log.event(logging.WARNING, "collector_failed", url=self._url, reason=failure, effect=effect)
        elif failure is None and self._failure is not None:
            log.event(logging.INFO, "collector_answers", url=self._url)
        self._failure = failure
        return failure is None

    async def _post(self, batch: list[Span]) -> str | None:
        """Why it failed."""
        scope = {"name": "localllm", "version": __version__}
        body = {"resourceSpans": [{"resource": self._resource, "scopeSpans": [{"scope": scope, "spans": batch}]}]}
        try:
            reply = await self._client.post(
                self._url, content=json.dumps(body), headers={"content-type": "application/json"}
            )
        except httpx.HTTPError as error:
            return str(error) or type(error).__name__
        return None if reply.is_success else f"status {reply.status_code}"


def tracer_of(settings: Settings, server: str) -> Tracer | None:
    """The tracer that the settings ask for, if any. Raises `InvalidParameter`."""
    if settings.otel_endpoint is None:
        return None
    try:
        is_url = httpx.URL(settings.otel_endpoint).scheme in ("http", "https")
    except httpx.InvalidURL:
        is_url = False
    if not is_url:
        raise InvalidParameter(
            "otel_endpoint must be an http(s) address such as http://localhost:4318", param="otel_endpoint"
        )
    pairs = [pair.partition("=") for pair in comma_list(settings.otel_headers)]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise InvalidParameter("otel_headers takes NAME=VALUE pairs, comma-separated", param="otel_headers")
    return Tracer(settings.otel_endpoint, {name.strip(): value.strip() for name, _, value in pairs}, server)
