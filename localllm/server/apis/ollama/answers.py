"""An answer as lines of Ollama's chat or generate stream, or as one object. Knows nothing of HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from msgspec import UNSET

from localllm.errors import InternalError
from localllm.runtime.runtime import Answer
from localllm.server.apis.ollama import replies as out
from localllm.types import CallDelta, Delta, TokenLogprob, ToolCall, whole_calls

Context = Callable[[str], Awaitable[list[int] | None]]
"""Converts a text to the tokens of `context`."""


class Shape:
    """Makes the lines of a chat or of a plain prompt."""

    def __init__(self, model: str, *, is_chat: bool) -> None:
        """`model`: the name the client used."""
        self._model = model
        self._is_chat = is_chat

    def line(
        self,
        *,
        text: str = "",
        thought: str = "",
        calls: Sequence[out.CallObject] = (),
        logprobs: Sequence[TokenLogprob] = (),
        reason: str = "",
        **metrics: Any,
    ) -> out.ChatReply | out.GenerateReply:
        """`reason`: why the answer ended."""
        common: dict[str, Any] = {
            "model": self._model,
            "created_at": out.now(),
            "done": bool(reason),
            "done_reason": reason or UNSET,
            "logprobs": out.logprobs(logprobs) if logprobs else UNSET,
            **metrics,
        }
        if not self._is_chat:
            return out.GenerateReply(response=text, thinking=thought or UNSET, **common)
        message = out.ReplyMessage(content=text, thinking=thought or UNSET, tool_calls=list(calls) or UNSET)
        return out.ChatReply(message=message, **common)


class Told:
    """An answer in progress, as lines or as one reply.

    `started_s`: time of the request; `load_s`: time until it was accepted; `context`: for plain prompts.
    """

    def __init__(
        self, answer: Answer, shape: Shape, started_s: float, load_s: float, context: Context | None = None
    ) -> None:
        self._context = context
        self._answer = answer
        self._shape = shape
        self._started_s = started_s
        self._load_s = load_s

    async def lines(self) -> AsyncGenerator[out.ChatReply | out.GenerateReply, None]:
        """Each call is sent complete, in its own line before the last, where clients do not look for calls."""
        calls, texts = _Calls(), list[str]()
        async for delta in self._answer:
            texts.append(delta.text)
            logprobs = delta.logprobs  # sent with the first of these lines
            for text, thought in (("", delta.thought), (delta.text, "")):
                if text or thought:
                    yield self._shape.line(text=text, thought=thought, logprobs=logprobs)
                    logprobs = ()
            made = calls.feed(delta.calls, is_last=delta.finish is not None)
            if made:
                objects, broken = _call_objects(made)
                yield self._shape.line(text=broken, calls=objects, logprobs=logprobs)
                logprobs = ()
            if delta.finish is not None:
                yield await self._last(delta, "".join(texts), logprobs=logprobs)
                return
            if logprobs:
                yield self._shape.line(logprobs=logprobs)
        raise InternalError("the answer ended without a finish reason")

    async def whole(self) -> out.ChatReply | out.GenerateReply:
        """The complete reply."""
        texts, thoughts = list[str](), list[str]()
        deltas, logprobs = list[CallDelta](), list[TokenLogprob]()
        async for delta in self._answer:
            texts.append(delta.text)
            thoughts.append(delta.thought)
            deltas += delta.calls
            logprobs += delta.logprobs
            if delta.finish is not None:
                numbered = list(enumerate(whole_calls(deltas)))
                calls, broken = _call_objects(numbered)
                text = "".join(texts)
                return await self._last(
                    delta, text, text=text + broken, thought="".join(thoughts), calls=calls, logprobs=logprobs
                )
        raise InternalError("the answer ended without a finish reason")

    async def _last(self, delta: Delta, whole: str, **said: Any) -> out.ChatReply | out.GenerateReply:
        assert delta.finish is not None
        reason = out.done_reason(delta.finish)
        context = None if self._context is None else await self._context(whole)
        total_s = time.perf_counter() - self._started_s
        costs = out.metrics(delta.finish, self._load_s, total_s)
        if context is not None:
            costs = {"context": context, **costs}
        return self._shape.line(**said, reason=reason, **costs)


class _Calls:
    """Collects pieces of calls until each is complete."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[CallDelta]] = {}

    def feed(self, deltas: Sequence[CallDelta], *, is_last: bool) -> list[tuple[int, ToolCall]]:
        """Calls that are complete now, with their numbers. A call ends when the next one begins or the answer ends."""
        for delta in deltas:
            self._pieces.setdefault(delta.index, []).append(delta)
        ended = list(self._pieces) if is_last else list(self._pieces)[:-1]
        return [(index, whole_calls(self._pieces.pop(index))[0]) for index in ended]


def _call_objects(calls: Sequence[tuple[int, ToolCall]]) -> tuple[list[out.CallObject], str]:
    """The complete calls, and the text of truncated ones, so that nothing of an answer is lost."""
    objects, broken = list[out.CallObject](), list[str]()
    for index, call in calls:
        found = out.call_object(index, call)
        if found is None:
            broken.append(f"{call.name} {call.arguments}")
        else:
            objects.append(found)
    return objects, "\n".join(broken)
