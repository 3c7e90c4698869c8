"""What becomes of a request's fields: honoured, refused unless they ask for nothing, ignored, or nobody's."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.requests.field_rules import (
    Fates,
    Nested,
    RefusedField,
    honoured,
    known_fields,
    parse_known,
    unknown_fields,
)
from localllm.server.requests.parse import Fields, small

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 1.5]) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=1), inner, max_size=2),
)
NEUTRAL: tuple[Any, ...] = (False, 1, [], "")


class Body(msgspec.Struct, frozen=True, kw_only=True):
    fates: ClassVar[Fates] = Fates({"sound": RefusedField("nobody sings", NEUTRAL)}, {"user": "there is one"})

    model: str | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    user: int | None = None


def same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@given(VALUES)
def test_a_refused_field_is_fine_only_where_it_asks_for_nothing(value: Any) -> None:
    body = json.dumps({"model": "x", "sound": value}).encode()
    if value is None or any(same(value, neutral) for neutral in NEUTRAL):
        assert parse_known(body, Body)[2] == []
    else:
        with pytest.raises(UnsupportedParameter, match="sound is not supported: nobody sings") as raised:
            parse_known(body, Body)
        assert raised.value.param == "sound"


@given(st.dictionaries(st.sampled_from(["model", "from", "from_", "zeal", "a b", ""]), st.just("x")))
def test_fields_that_are_nobodys_are_named_in_order(given_fields: dict[str, str]) -> None:
    _, request, nobodys = parse_known(json.dumps(given_fields).encode(), Body)
    assert nobodys == sorted(given_fields.keys() - {"model", "from"})
    assert request.from_ == given_fields.get("from")


def test_a_field_of_the_struct_that_is_ignored_is_not_honoured_but_still_read() -> None:
    assert honoured(Body) == ["model", "from"]
    assert unknown_fields(["user", "x"], Body, "y.") == ["y.x"]
    with pytest.raises(InvalidParameter, match="user"):
        parse_known(b'{"user": "x"}', Body)


class Part(msgspec.Struct):
    kind: str | None = None

    @classmethod
    def known_in(cls, given: Fields) -> frozenset[str] | None:
        return None if small(given.get("kind")) == "foreign" else known_fields(cls)


class Message(msgspec.Struct):
    nested: ClassVar[Nested] = ("content",)

    content: str | list[str | Part] | None = None


class Conversation(msgspec.Struct):
    nested: ClassVar[Nested] = ("options", "messages")

    messages: list[Message]
    options: Message | None = None
    unread: Part | None = None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"messages": []}, []),
        ({"messages": [{"content": "x", "zeal": 1}], "zest": 1}, ["zest", "messages[].zeal"]),
        ({"messages": [{"zeal": 1}, {"zeal": 2, "content": None}], "options": None}, ["messages[].zeal"]),
        (
            {"messages": [{"content": ["x", {"a": 1}]}, {"content": [{"b": 1}], "c": 1}], "options": {"d": {}}},
            ["options.d", "messages[].c", "messages[].content[].a", "messages[].content[].b"],
        ),
        (
            {"messages": [{"content": [{"kind": "foreign", "a": 1}, {"kind": None, "b": 1}]}]},
            ["messages[].content[].b"],
        ),
        ({"messages": [], "unread": {"zeal": 1}}, []),
    ],
)
def test_nested_fields_that_are_nobodys_are_named_once_with_their_path(body: Any, expected: list[str]) -> None:
    assert parse_known(json.dumps(body).encode(), Conversation)[2] == expected


def test_a_nested_name_that_is_not_text_is_the_requests_fault() -> None:
    with pytest.raises(InvalidParameter, match="not valid JSON"):
        parse_known(b'{"messages": [{"\xff": 1}]}', Conversation)
