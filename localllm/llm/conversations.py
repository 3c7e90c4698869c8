"""A conversation as a value: it grows by what is asked and answered, and can be forked. Knows no model.

Forks have their beginning in common, which is computed once, whoever goes on first.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from localllm.errors import InvalidParameter
from localllm.llm.messages import AnyMessage
from localllm.types import Chat


class Turns:
    """The messages of a conversation, and the arguments of all its answers."""

    def __init__(self, messages: Iterable[AnyMessage], given: dict[str, Any]) -> None:
        self._messages = tuple(messages)
        self._given = given
        self._is_asking = False

    @property
    def messages(self) -> list[AnyMessage]:
        """All of them, as `chat` takes them."""
        return list(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, *messages: AnyMessage) -> None:
        """Append messages, such as results of tools, without an answer."""
        self._messages += messages

    @contextmanager
    def _asking(self, content: Any, given: Mapping[str, Any]) -> Iterator[list[AnyMessage]]:
        """The messages to be answered."""
        if given.get("stream"):
            raise InvalidParameter(
                "ask() returns whole answers; chat(conversation.messages, stream=True) streams one", param="stream"
            )
        if self._is_asking:
            raise InvalidParameter("this conversation is being answered; fork() it to ask two things", param="content")
        asked = () if content is None else ({"role": "user", "content": content},)
        self._is_asking = True
        try:
            yield [*self._messages, *asked]
        finally:
            self._is_asking = False

    def _answered(self, asked: list[AnyMessage], answer: Chat) -> None:
        self._messages = (*asked, answer.message)


class AsyncConversation(Turns):
    """Made by `AsyncLLM.conversation`."""

    def __init__(
        self, chat: Callable[..., Coroutine[Any, Any, Any]], messages: Iterable[AnyMessage], given: dict[str, Any]
    ) -> None:
        super().__init__(messages, given)
        self._chat = chat

    def fork(self) -> Self:
        """One with the same messages, which goes on by itself."""
        return type(self)(self._chat, self._messages, self._given)

    async def ask(self, content: Any = None, **given: Any) -> Chat:
        """The answer to what a user says now, a text or parts; None: to the messages as they are. Both are in the
        conversation then, unless it fails. `given`: as for `chat`, before those of the conversation."""
        with self._asking(content, given) as asked:
            answer: Chat = await self._chat(asked, **{**self._given, **given})
            self._answered(asked, answer)
            return answer


class Conversation(Turns):
    """Made by `LLM.conversation`."""

    def __init__(self, chat: Callable[..., Any], messages: Iterable[AnyMessage], given: dict[str, Any]) -> None:
        super().__init__(messages, given)
        self._chat = chat

    def fork(self) -> Self:
        """One with the same messages, which goes on by itself."""
        return type(self)(self._chat, self._messages, self._given)

    def ask(self, content: Any = None, **given: Any) -> Chat:
        """See `AsyncConversation.ask`."""
        with self._asking(content, given) as asked:
            answer: Chat = self._chat(asked, **{**self._given, **given})
            self._answered(asked, answer)
            return answer


def opening(system: str | None, messages: Iterable[AnyMessage]) -> list[AnyMessage]:
    """The first messages. Raises `InvalidParameter`."""
    if system is not None and not isinstance(system, str):
        raise InvalidParameter(f"system must be a text or None, got {type(system).__name__}", param="system")
    return [*([] if system is None else [{"role": "system", "content": system}]), *messages]
