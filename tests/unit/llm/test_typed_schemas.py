"""What a type's JSON Schema allows can be read as that type: Python's own types and pydantic's."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm import InvalidParameter, Structure
from localllm.llm import typed_schemas
from localllm.llm.schemas import SchemaShape, to_shape
from localllm.llm.typed_schemas import BASE64, DECIMAL, DURATION, INTEGER_KEY, NAIVE_DATETIME, NAIVE_TIME
from tests.later import jsonschema

ANY: Any = None
"""`Any` as a type checker sees it: what it makes of unions and annotations is not a type."""


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Point(NamedTuple):
    x: int
    y: int = 0


class Options(TypedDict):
    loud: bool
    colour: NotRequired[Colour]


@dataclasses.dataclass
class Tree:
    value: int
    children: list[Tree] = dataclasses.field(default_factory=list)


class Cat(msgspec.Struct, tag="cat"):
    name: str


class Dog(msgspec.Struct, tag="dog", rename="camel"):
    is_good: bool = True


class Row(msgspec.Struct, array_like=True, tag=True):
    name: str
    size: float = 0.0


class Everything(msgspec.Struct):
    when: dt.datetime
    naive: Annotated[dt.datetime, msgspec.Meta(tz=False)]
    day: dt.date
    clock: Annotated[dt.time, msgspec.Meta(tz=False)]
    how_long: dt.timedelta
    id: uuid.UUID
    price: Decimal
    data: bytes
    pet: Cat | Dog
    options: Options
    tree: Tree
    point: Point
    row: Row
    pair: tuple[int, str]
    row_of: tuple[float, ...]
    some: Annotated[list[int], msgspec.Meta(min_length=1, max_length=3)]
    tags: set[str]
    counts: dict[int, int]
    by_colour: dict[Colour, int]
    share: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    even: Annotated[int, msgspec.Meta(multiple_of=2)]
    word: Annotated[str, msgspec.Meta(pattern="^[a-z]+$", max_length=5, title="A word")]
    letter: Literal["a", 1, None]
    anything: Any
    maybe: int | None = None


EVERYTHING: dict[str, Any] = {
    "when": "2024-02-29T12:00:00Z", "naive": "2024-02-28T12:00:00", "day": "2024-02-29", "clock": "23:59:59.5",
    "how_long": "P1DT2H", "id": "12345678-1234-5678-1234-567812345678", "price": "12.50", "data": "aGk=",
    "pet": {"type": "dog", "isGood": False}, "options": {"loud": True, "colour": "red"},
    "tree": {"value": 1, "children": [{"value": 2}]}, "point": [1], "row": ["Row", "x", 1.5], "pair": [1, "a"],
    "row_of": [1, 2.5], "some": [1], "tags": ["a", "a"], "counts": {"-3": 4}, "by_colour": {"green": 1}, "share": 0.5,
    "even": 4, "word": "abc", "letter": None, "anything": [{}],
}  # fmt: skip
WRONG = {
    "when": "2024-02-29T12:00:00", "naive": "2024-02-28", "day": "today", "clock": "24:00:00", "how_long": "P1Y",
    "id": "1", "price": "1.", "data": "a", "pet": {"type": "dog", "extra": 1}, "options": {"colour": "red"},
    "tree": {"value": 1, "children": [{}]}, "point": [], "row": ["Cat", "x"], "pair": [1], "row_of": ["a"],
    "some": [], "tags": [1], "counts": {"x": 4}, "by_colour": {"blue": 1}, "share": 1, "even": 3, "word": "abcdef",
    "letter": "b", "maybe": "x",
}  # fmt: skip


def structure_of(kind: Any) -> Structure:
    shape = to_shape(kind)
    assert shape is not None
    return shape.structure


def validator_of(kind: Any) -> Any:
    schema = json.loads(structure_of(kind).source)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def read(kind: Any, document: object) -> Any:
    shape: SchemaShape[Any] | None = to_shape(kind)
    assert shape is not None
    return shape.read(json.dumps(document))


def test_every_kind_of_field_has_a_schema_and_is_read_as_its_type() -> None:
    validator_of(Everything).validate(EVERYTHING)
    value = read(Everything, EVERYTHING)
    assert value.pet == Dog(is_good=False)
    assert value.tree == Tree(1, [Tree(2)])
    assert (value.point, value.row, value.tags) == (Point(1), Row("x", 1.5), {"a"})
    assert (value.counts, value.by_colour) == ({-3: 4}, {Colour.GREEN: 1})
    assert (value.price, value.data, value.how_long) == (Decimal("12.50"), b"hi", dt.timedelta(days=1, hours=2))
    assert value.naive.tzinfo is None
    assert value.when.tzinfo is dt.UTC


@pytest.mark.parametrize("field", WRONG)
def test_what_a_field_cannot_be_its_schema_does_not_allow(field: str) -> None:
    assert not validator_of(Everything).is_valid({**EVERYTHING, field: WRONG[field]})


def test_properties_are_those_of_the_type_in_its_order_and_no_other() -> None:
    assert not validator_of(Everything).is_valid({**EVERYTHING, "more": 1})
    schema = json.loads(structure_of(Everything).source)["$defs"]["Everything"]
    assert list(schema["properties"]) == list(Everything.__struct_fields__)
    assert schema["required"] == [name for name in Everything.__struct_fields__ if name != "maybe"]


READS: list[tuple[str, Callable[[str], object]]] = [
    (BASE64, lambda text: msgspec.convert(text, bytes)),
    (DECIMAL, lambda text: msgspec.convert(text, Decimal)),
    (DURATION, lambda text: msgspec.convert(text, dt.timedelta)),
    (DURATION, pydantic.TypeAdapter(dt.timedelta).validate_strings),
    (NAIVE_DATETIME, lambda text: msgspec.convert(text, Annotated[dt.datetime, msgspec.Meta(tz=False)])),
    (NAIVE_TIME, lambda text: msgspec.convert(text, Annotated[dt.time, msgspec.Meta(tz=False)])),
    (INTEGER_KEY, lambda text: msgspec.convert({text: 1}, dict[int, int], str_keys=True)),
]


@given(data=st.data())
@pytest.mark.parametrize("number", range(len(READS)))
def test_every_text_of_a_pattern_of_ours_can_be_read(number: int, data: st.DataObject) -> None:
    pattern, reads = READS[number]
    assert reads(data.draw(st.from_regex(pattern.replace("$", "\\Z")))) is not None


@given(kind=st.sampled_from([Tree, Options, Point, dict[str, int], list[Cat | Dog], tuple[int, bool]]), data=st.data())
def test_every_value_of_a_type_is_allowed_once_it_is_json(kind: Any, data: st.DataObject) -> None:
    value = data.draw(st.from_type(kind))
    document = msgspec.json.decode(msgspec.json.encode(value))
    validator_of(kind).validate(document)
    assert read(kind, document) == value


class Money(pydantic.BaseModel):
    kind: Literal["money"] = "money"
    amount: Annotated[Decimal, pydantic.Field(ge=0, max_digits=5, decimal_places=2)]


class Thing(pydantic.BaseModel):
    kind: Literal["thing"]
    names: set[str] = set()


class Gift(pydantic.BaseModel):
    of: Annotated[Money | Thing, pydantic.Field(discriminator="kind")]
    path: Path
    secret: pydantic.SecretStr
    data: bytes
    encoded: pydantic.Base64Bytes
    id: pydantic.UUID4 = uuid.UUID("12345678-1234-4234-8234-567812345678")
    naive: pydantic.NaiveDatetime | None = None
    host: pydantic.IPvAnyAddress | None = None
    parts: list[Gift] = []
    at_least_two: Annotated[set[int], pydantic.Field(min_length=2)] = {1, 2}


GIFT = {"path": "a", "secret": "s", "data": "d", "encoded": "aGk="}


def test_a_pydantic_model_is_read_as_itself() -> None:
    document = {**GIFT, "of": {"kind": "money", "amount": 12.5}, "parts": [{**GIFT, "of": {"kind": "thing"}}]}
    validator_of(Gift).validate(document)
    gift = read(Gift, document)
    assert isinstance(gift, Gift)
    assert isinstance(gift.of, Money)
    assert gift.of.amount == Decimal("12.5")
    assert gift.encoded == b"hi"
    assert isinstance(gift.parts[0].of, Thing)


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("id", "12345678-1234-4234-8234-567812345678", "12345678-1234-1234-8234-567812345678"),
        ("naive", "2024-02-28T12:00:00", "2024-02-28T12:00:00Z"),
        ("host", "::1", "1.2.3"),
        ("encoded", "aGk=", "aGk"),
    ],
)
def test_a_text_is_what_the_type_reads(field: str, good: str, bad: str) -> None:
    document = {**GIFT, "of": {"kind": "thing"}}
    for text in (good, bad):
        assert validator_of(Gift).is_valid({**document, field: text}) == (text == good)
    read(Gift, {**document, field: good})
    with pytest.raises(pydantic.ValidationError):
        read(Gift, {**document, field: bad})


@pytest.mark.parametrize(
    "of", [{"amount": 1}, {"kind": "money", "amount": "x"}, {"kind": "money", "amount": 1000},
           {"kind": "money", "amount": 1.234}, {"kind": "thing", "more": 1}]
)  # fmt: skip
def test_what_pydantic_would_refuse_its_schema_does_not_allow(of: dict[str, object]) -> None:
    """Its own schema allows the first three: a default tag may be missing, a Decimal may be any text."""
    assert not validator_of(Gift).is_valid({**GIFT, "of": of})
    with pytest.raises(pydantic.ValidationError):
        Gift.model_validate_json(json.dumps({**GIFT, "of": of}), extra="forbid")


def test_keywords_that_reading_makes_needless_are_dropped_and_no_others() -> None:
    source = structure_of(Gift).source
    for keyword in ("discriminator", "oneOf", "binary", "password", '"path"}'):
        assert keyword not in source.replace('"path":', "")
    assert source.count("uniqueItems") == 1, "equal items would be fewer than two in the set"

    class Written(pydantic.BaseModel):
        items: list[int] = pydantic.Field(json_schema_extra={"uniqueItems": True})

    assert "uniqueItems" in structure_of(Written).source, "nobody but the person who wrote it knows why"


def test_a_type_adapter_and_dataclasses_of_pydantic_are_its_own() -> None:
    @pydantic.dataclasses.dataclass
    class Checked:
        size: Annotated[int, pydantic.Field(gt=3)]

    assert read(Checked, {"size": 4}) == Checked(4)
    adapter = pydantic.TypeAdapter(list[Thing])
    assert read(adapter, [{"kind": "thing"}]) == [Thing(kind="thing")]


def test_rules_of_a_types_own_are_its_own_errors() -> None:
    class Odd(msgspec.Struct):
        number: int

        def __post_init__(self) -> None:
            if self.number % 2 == 0:
                raise ValueError("even")

    with pytest.raises(msgspec.ValidationError, match="even"):
        read(Odd, {"number": 2})


class Socket:
    pass


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        (Socket, "Socket"), (list[Socket], "Socket"), (dict[float, int], "keys"), (3, "3"), ("{", "not JSON"),
        ("[]", "not a JSON Schema"), (b"\xff", "not JSON"), ({"const": float("nan")}, "as JSON"),
        ({"const": {1}}, "as JSON"),
        (Annotated[bytes, msgspec.Meta(max_length=3)], "length of bytes"), (Socket(), "Socket"),
        (pydantic.TypeAdapter(Callable[[], int]), "no JSON Schema"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused_by_name(schema: Any, word: str) -> None:
    with pytest.raises(InvalidParameter, match=word) as caught:
        to_shape(schema)
    assert caught.value.param == "schema"


def test_a_schema_is_sent_in_the_order_it_was_written_in() -> None:
    written = '{"type": "object", "properties": {"b": {}, "a": {"const": "é"}}}'
    assert structure_of(written).source == written
    assert structure_of(written.encode()).source == written
    assert json.loads(structure_of(json.loads(written)).source) == json.loads(written)
    assert list(json.loads(structure_of(json.loads(written)).source)["properties"]) == ["b", "a"]
    assert to_shape(None) is None


def test_structures_are_made_of_what_people_have_at_hand() -> None:
    assert Structure.json() == Structure(kind="json_object")
    assert Structure.json({"a": 1}, whitespace="pretty").source == '{"a": 1}'
    assert Structure.json("{}").kind == "json_schema"
    assert Structure.choice("yes", "nó").source == '["yes", "nó"]'
    assert read(Structure.regex("[0-9]"), 7) == "7", "what is no JSON stays text"
    assert read(Structure.json(), {"a": 1}) == {"a": 1}
    assert structure_of(Structure.grammar('root ::= "a"')).param == "schema"


def test_equal_names_of_classes_do_not_hide_each_other() -> None:
    def made(kind: type) -> type:
        return msgspec.defstruct("Same", [("value", kind)])

    schema = typed_schemas.schema_of(tuple[made(int), made(str)])  # type: ignore[misc]
    assert sorted(schema["$defs"]) == ["Same", "Same_2"]
