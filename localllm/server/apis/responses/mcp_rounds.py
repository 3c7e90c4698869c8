"""A response with MCP tools: consecutive answers, each continuing after the calls of the previous one.

Limited in rounds, tokens and time. Knows neither fields nor events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

import msgspec

from localllm.mcp.outcome import Outcome
from localllm.runtime.runtime import Answer
from localllm.server.answers.choices import merged
from localllm.server.answers.generation import Asking
from localllm.server.answers.remarks import finish_reason
from localllm.server.apis.responses.events import Event
from localllm.server.apis.responses.items import AnyItem
from localllm.server.apis.responses.mcp import ended_call
from localllm.server.apis.responses.parts import McpCallPart
from localllm.server.apis.responses.requests import ResponseRequest
from localllm.server.apis.responses.story import Story
from localllm.server.mcp import McpHubs
from localllm.server.requests.body import field_notes
from localllm.types import Finish, GenerationRequest

Generate = Callable[[ResponseRequest, list[AnyItem]], GenerationRequest]
"""Makes the request for an answer to a conversation. Raises `RequestError`s."""


class Rounds(NamedTuple):
    """The rounds of one request."""

    story: Story
    asking: Asking
    body: ResponseRequest
    conversation: list[AnyItem]
    """The conversation before the first answer."""
    hubs: McpHubs
    generate: Generate
    deadline_s: float | None
    """Deadline by `time.monotonic` for all rounds."""
    max_rounds: int

    async def events(self, answering: asyncio.Future[list[Answer]], *, says_miss: bool) -> AsyncGenerator[Event, None]:
        """All events. Raises what ends an answer early; closing it ends the running answer or call."""
        (answer,) = await answering
        story, num_rounds = self.story, 0
        story.warn(field_notes(answer.notes))
        has_begun = False
        try:
            while True:
                async for _, delta in merged([answer]):
                    if not has_begun:  # as in `events_of`
                        has_begun = True
                        for event in story.begin(answer.num_prompt_tokens):
                            yield event
                    for event in story.feed(delta):
                        yield event
                finish = delta.finish
                assert finish is not None
                calls: list[McpCallPart] = []
                if finish_reason(finish) == "stop" and story.has_mcp_calls:
                    for event in story.pause():
                        yield event
                    calls = story.take_calls()
                for call in calls:
                    outcome = await self._run(call)
                    for event in story.ran(call, ended_call(call.item, outcome)):
                        yield event
                num_rounds += 1
                finish = story.counted(finish)
                tokens_left = self._tokens_left(finish)
                if not calls or story.waits_for_client or tokens_left == 0:
                    if calls and tokens_left == 0:
                        finish = msgspec.structs.replace(finish, reason="length")
                    for event in story.end(finish, answer.cache_miss if says_miss else None):
                        yield event
                    return
                await answer.aclose()
                answer = await self._next(num_rounds, tokens_left)
        finally:
            await answer.aclose()

    async def _run(self, call: McpCallPart) -> Outcome:
        """Run a call within the request's time limit."""
        origin = call.origin
        try:
            async with asyncio.timeout(self._time_left_s()):
                hub = await self.hubs.hub(origin.label)
                return await hub.call(origin.hub_name, call.item.arguments)
        except TimeoutError:
            return Outcome("the request timed out", is_error=True)

    async def _next(self, num_rounds: int, tokens_left: int | None) -> Answer:
        """The answer to the conversation so far; after the last round, without tools."""
        body = msgspec.structs.replace(
            self.body,
            max_output_tokens=tokens_left,
            tool_choice="none" if num_rounds >= self.max_rounds else None,
            timeout=None if self.deadline_s is None else self._time_left_s(),
        )
        self.story.go_on()
        generation = self.generate(body, [*self.conversation, *self.story.kept_items])
        return await self.asking.one_more(generation)

    def _tokens_left(self, finish: Finish) -> int | None:
        """The remaining tokens; None if unlimited."""
        most = self.body.max_output_tokens
        return None if most is None or most < 0 else max(0, most - finish.usage.completion_tokens)

    def _time_left_s(self) -> float | None:
        return None if self.deadline_s is None else max(0.001, self.deadline_s - time.monotonic())
