"""Sends one request and watches it until its answer is whole. Knows no levels and no statistics.

A server may refuse a field that only makes figures comparable (`ignore_eos`, which OpenAI does not know). If the
refusal names such a field, the request is repeated without it, and all later ones leave it out.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any, Literal

import httpx
import msgspec

from localllm.bench.answer import Answer, AnswerBuilder, RequestFailed, message_of
from localllm.bench.prompts import Prompt

Api = Literal["chat", "completions"]

MAX_ERROR_BYTES = 65_536
"""Limit for reading a response that is not an answer."""
AFTER_DONE_S = 1.0
"""How long to wait for the end of a response after its `[DONE]`."""
_PATHS: dict[Api, str] = {"chat": "/chat/completions", "completions": "/completions"}
_REFUSALS = (400, 422)


_OPTIONAL = ("stream_options", "temperature", "ignore_eos")


class Recipe:
    """The fields of every request besides its prompt; learns which ones the server refuses."""

    def __init__(self, model: str, api: Api, *, ignore_eos: bool) -> None:
        self.path = _PATHS[api]
        self.forgone: list[str] = []
        """Fields that this server refused."""
        self._api = api
        self._model = model
        self._limit_name = "max_tokens"
        # Greedy and of fixed length, so that two runs do the same work and throughputs can be compared.
        self._optional: dict[str, Any] = {"stream_options": {"include_usage": True}, "temperature": 0}
        if ignore_eos:
            self._optional["ignore_eos"] = True

    def fields(self, prompt: Prompt, max_tokens: int) -> dict[str, Any]:
        """The body of a request sent now."""
        common = {"model": self._model, "stream": True, self._limit_name: max_tokens, **self._optional}
        if self._api == "completions":
            return {"prompt": "\n".join(part for part in prompt if part), **common}
        shared = [{"role": "system", "content": prompt.shared}] if prompt.shared else []
        return {"messages": [*shared, {"role": "user", "content": prompt.own}], **common}

    def forgo(self, sent: dict[str, Any], refusal: str) -> bool:
        """Leave out optional fields of the body `sent` that the refusal names; returns whether to repeat the request.

        Concurrent requests are all refused; for all but the first, the field is left out already.
        """
        refused = [name for name in sent if name in _OPTIONAL and re.search(rf"\b{name}\b", refusal)]
        for name in refused:
            if self._optional.pop(name, None) is not None:
                self.forgone.append(name)
        if "max_tokens" in sent and "max_completion_tokens" in refusal:  # OpenAI's own newer models
            self._limit_name = "max_completion_tokens"
            return True
        return bool(refused)


async def ask(
    client: httpx.AsyncClient,
    recipe: Recipe,
    prompt: Prompt,
    *,
    max_tokens: int,
    timeout_s: float,
    on_tokens: Callable[[int], None] = lambda _count: None,
) -> Answer:
    """Send a request and return its whole answer. Raises `RequestFailed`."""
    while True:
        fields = recipe.fields(prompt, max_tokens)
        request = client.build_request(
            "POST", recipe.path, content=msgspec.json.encode(fields), headers={"content-type": "application/json"}
        )
        builder = AnswerBuilder(time.perf_counter_ns())
        try:
            async with asyncio.timeout(timeout_s) as limit:
                response = await client.send(request, stream=True)
                try:
                    if response.status_code == httpx.codes.OK:
                        return await _watch(response, builder, limit, on_tokens)
                    refusal = await _body_of(response)
                finally:
                    await response.aclose()
        except TimeoutError as error:
            if builder.is_done:
                return builder.flush(time.perf_counter_ns())
            text = f"no whole answer within {timeout_s:g} s ({builder.num_deltas} pieces of text arrived)"
            raise RequestFailed("timeout", text) from error
        except httpx.HTTPError as error:
            raise _network_failure(error, builder) from error
        if response.status_code not in _REFUSALS or not recipe.forgo(fields, refusal):
            said = _sentence(refusal) or response.reason_phrase or "no reason given"
            raise RequestFailed(f"http_{response.status_code}", said)


async def _watch(
    response: httpx.Response, builder: AnswerBuilder, limit: asyncio.Timeout, on_tokens: Callable[[int], None]
) -> Answer:
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if kind in ("application/json", "text/html"):
        said = _sentence(await _body_of(response))
        raise RequestFailed("not_openai", f"the answer is {kind}, not a stream of events: {said}")
    async for data in response.aiter_raw():
        was_done = builder.is_done
        on_tokens(builder.feed(data, time.perf_counter_ns()))
        if builder.is_done and not was_done:
            # The rest is still read, since closing the response here would close its connection.
            limit.reschedule(asyncio.get_running_loop().time() + AFTER_DONE_S)
    return builder.flush(time.perf_counter_ns())


async def _body_of(response: httpx.Response) -> str:
    body = b""
    async for data in response.aiter_bytes():
        body += data
        if len(body) > MAX_ERROR_BYTES:
            break
    return body[:MAX_ERROR_BYTES].decode("utf-8", "replace")


def _sentence(body: str) -> str:
    try:
        return message_of(msgspec.json.decode(body))
    except msgspec.MsgspecError:
        return body


def _network_failure(error: httpx.HTTPError, builder: AnswerBuilder) -> RequestFailed:
    reason = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return RequestFailed("connect", reason)
    return RequestFailed("cut_short", f"{reason} (after {builder.num_deltas} pieces of text)")
