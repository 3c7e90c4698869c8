"""Which messages go from a conversation that is too long, the way Ollama leaves them out."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from localllm.server.apis.ollama.truncating import room_of, shortened
from localllm.types import Message, ToolCall

ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
MESSAGES = st.lists(st.builds(Message, ROLES, st.text(max_size=50)), min_size=1, max_size=12)


@given(MESSAGES, st.integers(2, 1000), st.integers(1, 999))
def test_some_go_each_time_and_never_the_last_nor_a_system_message(
    messages: list[Message], num_tokens: int, most: int
) -> None:
    fewer = shortened(messages, num_tokens, min(most, num_tokens - 1))
    if fewer is None:
        turns = [message for message in messages if not message.is_system]
        assert sum(message.role != "tool" for message in turns) < 2, "there was something that could go"
        return
    assert len(fewer) < len(messages)
    assert fewer[-1] is messages[-1] or messages[-1].is_system
    kept = [message for message in messages if any(message is other for other in fewer)]
    assert list(fewer) == kept, "in their order"
    assert [m for m in fewer if m.is_system] == [m for m in messages if m.is_system]
    turns = [message for message in fewer if not message.is_system]
    assert turns[0].role != "tool", "a result without its call"


def test_as_many_go_as_it_takes() -> None:
    turns = [Message("user" if index % 2 == 0 else "assistant", "x" * 84) for index in range(11)]
    fewer = shortened([Message("system", "s" * 84), *turns], 1200, 600)
    assert fewer is not None
    assert fewer == (Message("system", "s" * 84), *turns[6:])


def test_a_call_goes_with_its_result() -> None:
    call = Message("assistant", "", tool_calls=(ToolCall("f", "{}", "1"),))
    messages = [Message("user", "x" * 500), call, Message("tool", "y" * 500, tool_call_id="1")]
    assert shortened(messages, 100, 90) == tuple(messages[1:])
    assert shortened(messages[1:], 100, 90) is None


def test_tens_of_thousands_of_messages_take_no_time_worth_mentioning() -> None:
    """Looking at all of them for each that goes took 12 s, on the event loop."""
    messages = [Message("user", "x")] * 20_000
    began_s = time.process_time()
    fewer = shortened(messages, 100_000, 10)
    assert fewer is not None
    assert len(fewer) < 10
    assert time.process_time() - began_s < 2


def test_an_answer_gets_what_it_asks_for_or_a_fourth() -> None:
    assert (room_of(4096, None), room_of(4096, -1), room_of(4096, 100), room_of(4096, 4000)) == (1024, 1024, 100, 1024)
