"""Results find their calls, however a client treats ids."""

from __future__ import annotations

import pytest

from localllm.server.requests.call_ids import with_ids
from localllm.types import Message, ToolCall


def called(*ids: str) -> Message:
    return Message("assistant", "", tool_calls=tuple(ToolCall(f"f{number}", "{}", id) for number, id in enumerate(ids)))


def result(id: str = "", name: str = "") -> Message:
    return Message("tool", "5", tool_call_id=id, name=name)


@pytest.mark.parametrize(
    ("results", "ids"),
    [
        ([result("a"), result("b")], ["a", "b"]),
        ([result("b"), result("a")], ["b", "a"]),
        ([result("x"), result("y")], ["a", "b"]),
        ([result(), result()], ["a", "b"]),
        ([result("x"), result("a")], ["b", "a"]),
        ([result(name="f1"), result(name="f0")], ["b", "a"]),
        ([result("x", name="other"), result()], ["x", "a"]),
        ([result("a"), result("a"), result()], ["a", "a", "b"]),
        ([result("x"), result("y"), result("z")], ["a", "b", "z"]),
        ([result("a"), Message("user", "wait"), result("x")], ["a", "b"]),
    ],
)
def test_a_result_belongs_to_its_id_else_its_name_else_the_next_call(results: list[Message], ids: list[str]) -> None:
    _, *after = with_ids([called("a", "b"), *results])
    assert [message.tool_call_id for message in after if message.role == "tool"] == ids


def test_calls_without_an_id_get_one_that_stays_as_the_conversation_grows() -> None:
    turns = [Message("user", "x"), called("", ""), result(), result(), called(""), result()]
    matched = with_ids(turns)
    ids = [call.id for message in matched for call in message.tool_calls]
    assert len(set(ids)) == 3
    assert [message.tool_call_id for message in matched if message.role == "tool"] == ids
    assert with_ids(turns[:3]) == matched[:3]


def test_a_late_result_of_an_earlier_turn_keeps_its_id() -> None:
    matched = with_ids([called("a"), called("b"), result("a"), result("x")])
    assert [message.tool_call_id for message in matched[2:]] == ["a", "b"]


def test_ids_that_a_client_uses_again_in_every_turn_stay_with_their_turn() -> None:
    turns = [called("call_0"), result("call_0"), called("call_0"), result("call_0")]
    assert with_ids(turns) == tuple(turns)
