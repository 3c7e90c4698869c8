"""Each kind of structure becomes a grammar that takes what it should and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localllm.errors import InvalidParameter
from localllm.grammar.compose import grammar_of
from localllm.types.structures import Structure, StructureKind
from tests.nonsense import accepts, compiled

POINT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
CALL, THOUGHT = '<t>{"a":1}</t>', "<think>a < b\n</think>"
TAG = {"type": "tag", "begin": "<t>", "content": {"type": "json_schema", "json_schema": POINT}, "end": "</t>"}
OLD = {
    "type": "structural_tag",
    "structures": [{"begin": "<f=a>", "schema": POINT, "end": "</f>"}, {"begin": "<f=b>", "schema": {"type": "null"},
    "end": "</f>"}],
    "triggers": ["<f="],
}  # fmt: skip


def new(**format_: Any) -> dict[str, Any]:
    return {"type": "structural_tag", "format": format_}


def source_of(source: Any) -> str:
    return source if isinstance(source, str) else json.dumps(source)


@pytest.mark.parametrize(
    ("kind", "source", "taken", "refused"),
    [
        ("json_object", "", ["{}", '{"a":[1,{"b":null}]}'], ["[]", "1", "", '{"a":1', "{a:1}"]),
        ("json_schema", POINT, ['{"a":1}'], ['{"a":1.5}', "{}", '{"a":1}x']),
        ("json_schema", "true", ["1", "[]", '"x"', "null"], ["", "x"]),
        ("regex", "a/b+", ["a/b", "a/bbb"], ["a/", "xa/b"]),
        ("regex", r"a\/b\d", ["a/b1"], ["a/b"]),
        ("regex", "x\ny", ["x\ny"], ["xy"]),
        ("choice", ["a", "ab", 'é\n"/\\x'], ["a", "ab", 'é\n"/\\x'], ["b", "", "aab"]),
        ("lark", 'start: "a" /b+/', ["ab", "abb"], ["a"]),
        ("lark", 'start: "x" %json {"type": "object", "properties": {"a": {"const": 1}}} "y"',
         ['x{"a":1}y', "x{}y"], ['x{"\\u0061":2}y', 'x{ "a":1}y']),
        ("structural_tag", OLD, ["", "hi", 'hi <f=a>{"a":1}</f> you <f=b>null</f>', "é < f"],
         ['<f=a>{"a":"x"}</f>', "hi <f=zzz", "<f=a>", '<f=a>{"a":1}', '<f=b>{"a":1}</f>']),
        ("structural_tag", new(type="const_string", value='é"x'), ['é"x'], ["x"]),
        ("structural_tag", new(type="sequence", elements=[
            {"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"},
            {"type": "json_schema", "json_schema": POINT}]),
         [THOUGHT + '{"a":1}', '<think></think>{"a":1}'], [THOUGHT, '{"a":1}', THOUGHT + "{}"]),
        ("structural_tag", new(type="triggered_tags", triggers=["<t"], tags=[TAG]), ["x", CALL + "y" + CALL], ["<tx"]),
        ("structural_tag", new(type="triggered_tags", triggers=["<t"], tags=[TAG], at_least_one=True), ["x" + CALL],
        ["x"]),
        ("structural_tag", new(type="triggered_tags", triggers=["<t"], tags=[TAG], stop_after_first=True),
         ["x", "x" + CALL], [CALL + "y", CALL * 2]),
        ("structural_tag", new(type="tags_with_separator", tags=[TAG], separator=", ", at_least_one=True),
         [CALL, f"{CALL}, {CALL}"], ["", CALL + ", ", CALL * 2]),
        ("structural_tag", new(type="or", elements=[{"type": "regex", "pattern": "a/b"}, TAG,
            {"type": "grammar", "grammar": 'root ::= "x" [yz]'}]), ["a/b", "xz", CALL], ["a", "x"]),
        ("structural_tag", new(type="plus", content={"type": "const_string", "value": "ab"}), ["ab", "abab"], ["",
        "aba"]),
        ("structural_tag", new(type="tag", begin="<", content={"type": "const_string", "value": "c"}, end=["/>", ">>"]),
         ["<c/>", "<c>>"], ["<c", "<c>"]),
    ],
)  # fmt: skip
def test_a_kind_takes_its_texts_and_no_others(
    kind: StructureKind, source: Any, taken: list[str], refused: list[str]
) -> None:
    matcher = compiled(grammar_of(Structure(kind=kind, source=source_of(source), whitespace="minimal")))
    assert [text for text in taken if not accepts(matcher, text)] == []
    assert [text for text in refused if accepts(matcher, text)] == []


@pytest.mark.parametrize(
    ("kind", "source", "path"),
    [
        ("regex", "", ""), ("choice", [], ""), ("choice", ["a", ""], "[1]"), ("choice", "{}", ""), ("choice", "[", ""),
        ("json_schema", "nope", ""), ("json_schema", '{"a":1,"a":2}', ""),
        ("json_schema", "[]", ""),
        ("json_schema", '{"minimum": NaN}', ""), ("json_schema", '{"const": "\\ud800"}', ""), ("json_schema",
        "[" * 5000, ""),
        ("json_schema", '{"not":' * 120 + "{}" + "}" * 120, ""), ("structural_tag", "3", ""), ("structural_tag",
        new(type="qwen_xml_parameter"),
        ".format.type"), ("structural_tag", new(type="any_text", excludes=["a"]), ".format.excludes"),
        ("structural_tag", OLD | {"x": 1}, ".x"),
        ("structural_tag", OLD | {"triggers": ["<g"]}, ".structures[0].begin"), ("structural_tag",
        OLD | {"triggers": []}, ".triggers"),
        ("structural_tag", OLD | {"structures": [{"begin": "<f=", "schema": {"uniqueItems": True}, "end": ""}]},
         ".structures[0].schema.uniqueItems"),
        ("structural_tag", new(type="sequence", elements=[{"type": "any_text"}, TAG]), ".format.elements[0]"),
    ],
)  # fmt: skip
def test_what_is_no_structure_is_refused_with_its_path(kind: StructureKind, source: Any, path: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        grammar_of(Structure(kind=kind, source=source_of(source), param="structure"))
    assert caught.value.param == f"structure{path}"
