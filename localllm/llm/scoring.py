"""Scores of texts for a Python program: as many requests at a time as there is room for. Knows nothing of loading."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar, Unpack

from localllm.llm import arguments, keywords
from localllm.llm.adapters import adapter_texts
from localllm.llm.conversations import AsyncConversation, opening
from localllm.llm.generating import Prompt
from localllm.llm.keywords import ChatArguments, ScoreArguments, SelectArguments
from localllm.llm.messages import AnyMessage
from localllm.runtime.answer_reader import Answer
from localllm.runtime.scoring import Scores, Selection, TextScore, check, scores_of, selected, to_score
from localllm.types import GenerationRequest

T = TypeVar("T")
Submit = Callable[[GenerationRequest], Awaitable[list[Answer]]]


class Scoring(ABC):
    """`score`, `select` and `conversation` of `AsyncLLM`."""

    chat: Any

    @abstractmethod
    async def _whole(self, request: GenerationRequest) -> GenerationRequest: ...

    @abstractmethod
    async def _send(self, request: GenerationRequest, adapters: Sequence[str] | None) -> list[Answer]: ...

    @abstractmethod
    async def _in_time(self, timeout_s: float | None, work: Coroutine[Any, Any, T]) -> T: ...

    def conversation(
        self, system: str | None = None, *, messages: Sequence[AnyMessage] = (), **given: Unpack[ChatArguments]
    ) -> AsyncConversation:
        """A conversation that grows with each `ask`, and can be forked. `messages`: it begins with these; the other
        arguments are those of all its answers, as for `chat`."""
        return AsyncConversation(self.chat, opening(system, messages), dict(given))

    @keywords.SCORE.spell_out
    async def score(self, prompt: Prompt, texts: Sequence[str], **given: Unpack[ScoreArguments]) -> list[TextScore]:
        """How likely the model is to write each text behind the prompt: a text that it continues, or messages that it
        answers without thinking. The prompt is computed once."""
        return list((await self._scores("texts", prompt, texts, keywords.SCORE.filled("score", given))).texts)

    @keywords.SELECT.spell_out
    async def select(self, prompt: Prompt, choices: Sequence[str], **given: Unpack[SelectArguments]) -> Selection:
        """The likeliest of several answers; compares them as `score` does, and generates nothing."""
        asked = keywords.SELECT.filled("select", given)
        return selected(await self._scores("choices", prompt, choices, asked), per_token=bool(asked["per_token"]))

    async def _scores(self, name: str, prompt: Prompt, texts: Sequence[str], asked: ScoreArguments) -> Scores:
        request, given = arguments.score_request(prompt, asked), arguments.to_texts(name, texts)
        under = None if asked["adapters"] is None else adapter_texts(asked["adapters"])

        async def work() -> Scores:
            whole = await self._whole(request)
            return await scored(whole, given, lambda each: self._send(each, under), name)

        return await self._in_time(request.timeout_s, work())


async def scored(request: GenerationRequest, texts: Sequence[str], submit: Submit, param: str) -> Scores:
    """The scores of the texts behind the prompt of `request`. `param`: the name of `texts`. Raises
    `InvalidParameter` and what the requests fail with; then the others are cancelled."""
    check(texts, param)

    async def answer(each: GenerationRequest) -> Answer:
        (found,) = await submit(each)
        return await stack.enter_async_context(found)

    async with AsyncExitStack() as stack:
        try:
            async with asyncio.TaskGroup() as group:
                asking = [group.create_task(answer(each)) for each in to_score(request, texts)]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return await scores_of([each.result() for each in asking], texts)
