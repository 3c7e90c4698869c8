"""Conversations as values: what is asked and answered is kept, forks go on by themselves, failures change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from localllm.errors import InvalidParameter, RequestTimeout
from localllm.llm.conversations import Conversation, opening
from localllm.types import Chat, Finish, Timings, Usage

FINISH = Finish("stop", Usage(1, 1), Timings(0.0, 0.0, 0.0))


class Echo:
    """Answers with the number of messages, or fails."""

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []

    def chat(self, messages: list[Any], **given: Any) -> Chat:
        self.given.append(given)
        if messages[-1]["content"] == "fail":
            raise RequestTimeout("late")
        return Chat(f"{len(messages)}", FINISH)


def said(conversation: Conversation) -> list[str]:
    return [each["content"] if isinstance(each, Mapping) else each.content for each in conversation.messages]


def test_a_conversation_grows_and_its_forks_go_on_by_themselves() -> None:
    echo = Echo()
    talk = Conversation(echo.chat, opening("Be brief.", []), {"temperature": 0, "seed": 1})
    assert talk.ask("one").text == "2"
    fork = talk.fork()
    assert fork.ask("two", seed=2).text == "4"
    talk.add({"role": "user", "content": "three"}, {"role": "user", "content": "four"})
    assert talk.ask().text == "5"
    assert said(talk) == ["Be brief.", "one", "2", "three", "four", "5"]
    assert said(fork) == ["Be brief.", "one", "2", "two", "4"]
    assert (len(talk), len(fork)) == (6, 5)
    assert echo.given[1] == {"temperature": 0, "seed": 2}


def test_what_fails_is_not_said() -> None:
    talk = Conversation(Echo().chat, opening(None, []), {})
    with pytest.raises(RequestTimeout):
        talk.ask("fail")
    with pytest.raises(InvalidParameter, match="ask\\(\\) returns whole answers"):
        talk.ask("one", stream=True)
    assert not talk.messages
    with talk._asking("one", {}), pytest.raises(InvalidParameter, match="fork\\(\\) it to ask two things"):
        talk.ask("two")
    assert talk.ask("three").text == "1"
    with pytest.raises(InvalidParameter, match="system must be a text"):
        opening(7, [])  # type: ignore[arg-type]
