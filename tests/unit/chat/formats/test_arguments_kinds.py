"""Arguments that are no JSON: models' are read as JSON, however they are cut, and what is written is read again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.chat.formats.arguments import bare_arguments, nested_arguments, python_arguments
from localllm.chat.formats.arguments.reading import ArgumentsReader
from localllm.types.conversation import Function
from localllm.types.formats import BareArguments, NestedArguments
from tests.unit.chat.formats.answers import many_places

QUOTE = '<|"|>'
PREFIX = "]<]minimax[>["
BROKEN = object()

GEMMA = BareArguments(quote=QUOTE)
M3 = NestedArguments(prefix=PREFIX)

Make = Callable[[], ArgumentsReader]


def python() -> ArgumentsReader:
    return python_arguments.reader(function({"city": {}, "days": {}}))


def bare() -> ArgumentsReader:
    return bare_arguments.reader(GEMMA)


def nested(schema: str = "", prefix: str = PREFIX) -> Make:
    f = Function(name="f", parameters=schema)
    return lambda: nested_arguments.reader(NestedArguments(prefix=prefix), f)


def function(properties: dict[str, Any]) -> Function:
    return Function(name="f", parameters=json.dumps({"type": "object", "properties": properties}))


def read(make: Make, *pieces: str) -> tuple[str, str | None, bool]:
    """The JSON, what is behind the arguments (None: they are not whole), and whether they are broken."""
    reader = make()
    written, rest, is_broken = "", None, False
    for piece in pieces:
        if rest is not None:
            rest += piece
            continue
        more, rest, is_broken = reader.feed(piece)
        written += more
    if rest is None:
        more, rest, is_broken = reader.flush()
        written += more
    return written, rest, is_broken


def assert_read_alike(make: Make, text: str, cuts: Iterable[int] | None = None) -> tuple[str, str | None, bool]:
    """Whole, character by character and cut in two at many points, or at these."""
    whole = read(make, text)
    assert read(make, *text) == whole
    for cut in many_places(text) if cuts is None else cuts:
        assert read(make, text[:cut], text[cut:]) == whole, cut
    return whole


PYTHON = [
    ('city="Ulm", days=3)', {"city": "Ulm", "days": 3}),
    (")", {}),
    (" )", {}),
    ('city = "Ulm" , days = 3 , )', {"city": "Ulm", "days": 3}),
    ("city='Ulm \"x\"')", {"city": 'Ulm "x"'}),
    ("text='it\\'s', other=\"a \\\"b\\\"\")", {"text": "it's", "other": 'a "b"'}),
    ("text='it's', days=3)", {"text": "it's", "days": 3}),
    ('deep={"a": [True, None, "q"], \'b\': (1, 2.5,)})', {"deep": {"a": [True, None, "q"], "b": [1, 2.5]}}),
    ('deep={"a": [true, null, false]})', {"deep": {"a": [True, None, False]}}),
    ("a=[], b={}, c=())", {"a": [], "b": {}, "c": []}),
    ('text="a)b, c=]}")', {"text": "a)b, c=]}"}),
    ('text="""two\n"lines" here""")', {"text": 'two\n"lines" here'}),
    ("text='', other=\"\")", {"text": "", "other": ""}),
    (r'text="\n\t\\\x41\u00fc\U0001f600\101\d\/")', {"text": "\n\t\\Aü\U0001f600A\\d/"}),
    (r'text="\ud83d\ude00 \ud83d \ude00")', {"text": "\U0001f600 \ufffd \ufffd"}),
    (r'text="\U0000d83d \U0000de00")', {"text": "\ufffd \ufffd"}),
    (r'path=r"C:\new\d+")', {"path": r"C:\new\d+"}),
    ("a=1_000, b=0x1F, c=.5, d=5.)", {"a": 1000, "b": 31, "c": 0.5, "d": 5.0}),
    ("a=-2e3, b=+3, c=007)", {"a": -2e3, "b": 3, "c": 7}),
    ("unit=celsius)", {"unit": "celsius"}),
    ('"Ulm", 3)', {"city": "Ulm", "days": 3}),
    ('"Ulm", days=3)', {"city": "Ulm", "days": 3}),
    ('stadt="Ulm an der Donau \U0001f600 ß")', {"stadt": "Ulm an der Donau \U0001f600 ß"}),
    ("d={1: 2, None: 3})", {"d": {"1": 2, "null": 3}}),
    ("a=f(3))", BROKEN),
    ("a=1 + 2)", BROKEN),
    ("a={1, 2})", BROKEN),
    ("a=)", BROKEN),
    ("=3)", BROKEN),
    ("1, 2, 3)", BROKEN),
    ("a=" + "[" * 200 + "]" * 200 + ")", BROKEN),
]  # fmt: skip


@pytest.mark.parametrize(("text", "meant"), PYTHON)
def test_keyword_arguments_are_read_as_json_however_they_are_cut(text: str, meant: object) -> None:
    """What stands behind the bracket stays."""
    written, rest, is_broken = assert_read_alike(python, text + ", g(a=1)]")
    if meant is BROKEN:
        assert is_broken
        assert rest is not None
    else:
        assert (json.loads(written), rest, is_broken) == (meant, "), g(a=1)]", False)


BARE = [
    ('{city:<|"|>Ulm<|"|>,days:3}', {"city": "Ulm", "days": 3}),
    ('{deep:{a:[true,None,<|"|>q<|"|>]}}', {"deep": {"a": [True, None, "q"]}}),
    ("{}", {}),
    (" { } ", {}),
    ('{text:<|"|>a "quoted" {b}, c:] <|x<|"|>}', {"text": 'a "quoted" {b}, c:] <|x'}),
    ('{ city : <|"|>Ulm<|"|> , days : 3 , }', {"city": "Ulm", "days": 3}),
    ('{<|"|>city<|"|>:<|"|><|"|>}', {"city": ""}),
    ('{"city":"Ulm \\"x\\"","n":-1.5e3}', {"city": 'Ulm "x"', "n": -1500.0}),
    ("{city:Ulm an der Donau,ok:true,none:null}", {"city": "Ulm an der Donau", "ok": True, "none": None}),
    ('{text:<|"|>zwei\nZeilen ß \U0001f600<|"|>,a:[],b:{}}', {"text": "zwei\nZeilen ß \U0001f600", "a": [], "b": {}}),
    ('{path:<|"|>C:\\new\\"x"<|"|>}', {"path": 'C:\\new\\"x"'}),
    ("{city}", BROKEN),
    ("{city:}", BROKEN),
    ("{:3}", BROKEN),
    ("city:3", BROKEN),
    ("{a:[1 2]{}}", BROKEN),
    ("{a:" + "[" * 200 + "]" * 200 + "}", BROKEN),
]  # fmt: skip


@pytest.mark.parametrize(("text", "meant"), BARE)
def test_bare_arguments_are_read_as_json_however_they_are_cut(text: str, meant: object) -> None:
    """What stands behind the brace stays."""
    written, rest, is_broken = assert_read_alike(bare, text.strip() + "<tool_call|> on")
    if meant is BROKEN:
        assert is_broken
        assert rest is not None
    else:
        assert (json.loads(written), rest, is_broken) == (meant, "<tool_call|> on", False)


CUT = [
    (python, 'city="Ulm"', '{"city": "Ulm"}', ""),
    (python, 'city="Ulm", ', '{"city": "Ulm"}', ""),
    (python, "a=[1, 2] ", '{"a": [1, 2]}', ""),
    (python, "days=3", '{"days": ', None),
    (python, 'city="Ul', '{"city": "Ul', None),
    (python, "a=[1, 2", '{"a": [1, ', None),
    (python, 'city="Ulm", da', '{"city": "Ulm"}', ""),
    (python, "", "", None),
    (bare, "{city:<|\"|>Ul<|", '{"city": "Ul', None),
    (bare, "{a:[1,2", '{"a": [1, ', None),
    (bare, "{", "", None),
    (nested(), f"{PREFIX}<a>1{PREFIX}</a>", '{"a": 1}', ""),
    (nested(), f"{PREFIX}<a>1{PREFIX}</a>]<]mini", '{"a": 1}', "]<]mini"),
    (nested(), f"{PREFIX}<a>1{PREFIX}</", '{"a": 1', None),
    (nested(), "", "", None),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text", "written", "rest"), CUT)
def test_arguments_that_end_with_the_answer_are_closed_where_only_a_literal_is_missing(
    make: Make, text: str, written: str, rest: str | None
) -> None:
    """A number may go on, and stays open."""
    assert assert_read_alike(make, text) == (written, rest, False)


def test_functiongemmas_quote_is_another() -> None:
    text = "{city:<escape>Ulm<escape>}<end_function_call>"
    written, rest, _ = assert_read_alike(lambda: bare_arguments.reader(BareArguments(quote="<escape>")), text)
    assert (json.loads(written), rest) == ({"city": "Ulm"}, "<end_function_call>")


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "names": {"type": "array", "items": {"type": "string"}},
        "deep": {"$ref": "#/$defs/deep"},
        "color": {"enum": ["1", "2"]},
        "list": {"type": "array"},
        "open": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {},
    },
    "$defs": {
        "deep": {"type": "object", "properties": {"item": {"type": "string"}, "next": {"$ref": "#/$defs/deep"}}},
    },
}
NESTED = [
    ("@<city>Ulm@</city>@<days>3@</days>", {"city": "Ulm", "days": 3}),
    ("", {}),
    ("\n@<city> Ulm \n@</city>\n@<days> 3 @</days>\n", {"city": " Ulm \n", "days": 3}),
    ("@<city>3@</city>@<color>1@</color>@<maybe>null@</maybe>", {"city": "3", "color": "1", "maybe": None}),
    ('@<city>a "b" <c> {d}</x>@</city>', {"city": 'a "b" <c> {d}</x>'}),
    (
        "@<names>@<item>1@</item>\n@<item>@</item>@<item>b ü \U0001f600@</item>@</names>",
        {"names": ["1", "", "b ü \U0001f600"]},
    ),
    ("@<deep>@<item>x@</item>@<next>@<next>@</next>@</next>@</deep>", {"deep": {"item": "x", "next": {"next": {}}}}),
    ("@<list>@</list>@<open>@</open>@<any>@</any>", {"list": [], "open": {}, "any": ""}),
    ("@<any>@<item>true@</item>@<item>@<a>1@</a>@</item>@</any>", {"any": [True, {"a": 1}]}),
    ("@<any>@<a>x@</a>@<b>2.5@</b>@</any>", {"any": {"a": "x", "b": 2.5}}),
    ("@<open>@<item>3@</item>@</open>", {"open": {"item": "3"}}),
    ('@<list>["a", {"b": 1}]@</list>@<any>[x@</any>', {"list": ["a", {"b": 1}], "any": "[x"}),
    ("@<days>many@</days>", {"days": "many"}),
    ("@<undeclared>None@</undeclared>", {"undeclared": None}),
    ("text", BROKEN),
    ("@<any>@<a>1@</a>text@</any>", BROKEN),
    ("@<any>" * 120, BROKEN),
]


@pytest.mark.parametrize("prefix", [PREFIX, ""])
@pytest.mark.parametrize(("text", "meant"), NESTED)
def test_nested_arguments_are_read_as_their_schema_has_them_however_they_are_cut(
    prefix: str, text: str, meant: object
) -> None:
    """What stands behind them stays."""
    text = text.replace("@", prefix)
    end = f"{prefix}</invoke>\n"
    written, rest, is_broken = assert_read_alike(nested(json.dumps(SCHEMA), prefix), text + end)
    if meant is BROKEN:
        assert is_broken
        assert rest is not None
    else:
        assert (json.loads(written), rest, is_broken) == (meant, end, False)


@pytest.mark.parametrize("parameters", ["", "no JSON", "[]", '{"$ref": "#"}', '{"$ref": "#/$defs/no"}'])
def test_a_schema_that_says_nothing_allows_everything(parameters: str) -> None:
    written, _, _ = read(nested(parameters, ""), "<a>1</a><b>x</b></invoke>")
    assert json.loads(written) == {"a": 1, "b": "x"}


KEYS = st.from_regex(r"[A-Za-zä_][A-Za-z0-9ß_.$-]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        'it\'s "so"',
        "<|",
        '<|"|',
        "]<]mini",
        "\\",
        "\\n",
        ")",
        "a, b=3",
        "{a:b}",
        "</item>",
        "\x00\x7f\u2028",
        "None",
        "3",
    ]
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
CUTS = st.lists(st.integers(0, 500), max_size=5)


@given(ARGUMENTS, CUTS)
def test_written_keyword_arguments_are_read_again_at_any_cut(arguments: dict[str, Any], cuts: list[int]) -> None:
    written, rest, is_broken = assert_read_alike(python, python_arguments.written(arguments) + ")]", cuts)
    assert (json.loads(written), rest, is_broken) == (arguments, ")]", False)


@given(ARGUMENTS, CUTS)
def test_written_bare_arguments_are_read_again_at_any_cut(arguments: dict[str, Any], cuts: list[int]) -> None:
    text = bare_arguments.written(GEMMA, arguments) + "<tool_call|>"
    written, rest, is_broken = assert_read_alike(bare, text, cuts)
    assert (json.loads(written), rest, is_broken) == (arguments, "<tool_call|>", False)


def schema_of(value: Any) -> dict[str, Any]:
    """The schema that a value has alone."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema_of(each) for key, each in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0]) if value else {}}
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return {"type": kinds[type(value)]}


ALIKE = st.recursive(
    st.booleans() | NUMBERS | TEXTS,
    lambda inner: inner.map(lambda one: [one, one]) | st.just([]) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(KEYS, ALIKE, max_size=3), CUTS)
def test_written_nested_arguments_are_read_again_at_any_cut(arguments: dict[str, Any], cuts: list[int]) -> None:
    """Lists are of alike items, as their schemas say."""
    end = f"{PREFIX}</invoke>"
    text = nested_arguments.written(M3, arguments) + end
    written, rest, is_broken = assert_read_alike(nested(json.dumps(schema_of(arguments))), text, cuts)
    assert (json.loads(written), rest, is_broken) == (arguments, end, False)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (python, "a='" + "x" * 200_000 + "')"),
        (python, "a='x'" + " " * 200_000 + ")"),
        (python, "a=" + "7" * 200_000 + ")"),
        (bare, "{a:" + QUOTE + '<|"|' * 50_000 + QUOTE + "}"),
        (nested(), f"{PREFIX}<a>" + "x" * 200_000 + f"{PREFIX}</a>{PREFIX}</invoke>"),
    ],
)
def test_long_arguments_take_linear_time_character_by_character(make: Make, text: str) -> None:
    """Two hundred thousand pieces: re-reading from the start would take minutes, beyond the suite's limit."""
    written, rest, is_broken = read(make, *text)
    assert (rest is None, is_broken, written[-1]) == (False, False, "}")
