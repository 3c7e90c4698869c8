"""What models write, and what is read of it: whole, cut anywhere, and one character after the other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localllm.types.formats import ChatFormat
from tests.each import each
from tests.unit.chat.formats.answers import (
    APERTUS,
    COHERE,
    DEEPSEEK,
    DSML,
    GLM,
    HERMES,
    KIMI,
    LLAMA,
    MISTRAL,
    NEMO,
    QWEN_CODER,
    Answer,
    at_many_cuts,
    without_ids,
)

NASTY = {"city": 'Ulm "x" }{ </tool_call> \\', "deep": {"a": [True, None, "]}"], "b": {}}, "days": -3}
NASTY_JSON = json.dumps(NASTY)
OPEN_CITY = '{"city": "Ul'
UNDECLARED = "a call of undeclared function 'nope' is in the text"
UNREAD = "what could not be read as a call is in the text"
CUT_CALL = "the answer ended within a call, which is in the text"
CUT_ARGUMENTS = "the answer ended within the arguments of call 0"
INVALID = "the arguments of call 0 are not valid JSON"


def call(**arguments: Any) -> tuple[str, Any]:
    return ("get_weather", arguments)


def hermes(arguments: str, name: str = "get_weather") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def coder(*arguments: tuple[str, str], name: str = "get_weather") -> str:
    each = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments)
    return f"<tool_call>\n<function={name}>\n{each}</function>\n</tool_call>"


def glm(*arguments: tuple[str, str], name: str = "get_weather") -> str:
    each = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in arguments)
    return f"<tool_call>{name}\n{each}</tool_call>"


def deepseek(arguments: str, name: str = "get_weather") -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


SECTION = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"

HERMES_CASES = [
    ("Hello, world.", Answer(text="Hello, world.")),
    ("  indented\n", Answer(text="  indented\n")),
    ("", Answer()),
    (hermes('{"city": "Ulm"}'), Answer(calls=(call(city="Ulm"),))),
    (hermes("{}", "other"), Answer(calls=(("other", {}),))),
    (hermes(NASTY_JSON), Answer(calls=(("get_weather", NASTY),))),
    (
        hermes('{"city": "Ulm"}') + "\n" + hermes('{"city": "Bonn"}') + hermes("{}", "other"),
        Answer(calls=(call(city="Ulm"), call(city="Bonn"), ("other", {}))),
    ),
    (
        "<think>\nWell, a < b.\n\nSo.\n</think>\n\nI look.\n" + hermes('{"city": "Ulm"}') + "\n",
        Answer(thought="Well, a < b.\n\nSo.", text="I look.", calls=(call(city="Ulm"),)),
    ),
    ("<think></think>\n\nYes.", Answer(text="Yes.")),
    ("<think>\n\n</think>\n\n" + hermes("{}"), Answer(calls=(call(),))),
    ("<think>a</think><think>b</think>c", Answer(thought="a\n\nb", text="c")),
    ("<think>a\n</think>\n\n\n  b", Answer(thought="a", text="\n  b")),
    ("So <think>not a thought</think>", Answer(text="So <think>not a thought</think>")),
    (
        "<think>\nnever closed </thin",
        Answer(thought="never closed </thin", notes=("the answer ended within its thought",)),
    ),
    (
        "<think>\n" + hermes("{}"),
        Answer(thought=hermes("{}"), notes=("the answer ended within its thought",)),
    ),
    ("Before\n" + hermes("{}") + "\nbehind", Answer(text="Before\n\nbehind", calls=(call(),))),
    (hermes("{}") + "\n\nbehind\n", Answer(text="behind", calls=(call(),))),
    # Written kindly read: no white space, other keys in any order, arguments as text, none, under another name.
    ('<tool_call>{"name":"other","arguments":{"a":1}}</tool_call>', Answer(calls=(("other", {"a": 1}),))),
    (
        '<tool_call> {"id": 7, "arguments" : {"a": [1, {}]} , "type": "function", "name" : "other" } </tool_call>',
        Answer(calls=(("other", {"a": [1, {}]}),)),
    ),
    (
        '<tool_call>\n{"name": "other", "arguments": "{\\"a\\": \\"\\\\\\"\\"}"}\n</tool_call>',
        Answer(calls=(("other", {"a": '"'}),)),
    ),
    ('<tool_call>\n{"arguments": "{}", "name": "other"}', Answer(calls=(("other", {}),))),
    ('<tool_call>\n{"name": "other", "arguments": null}\n</tool_call>', Answer(calls=(("other", {}),))),
    ('<tool_call>\n{"name": "other"}\n</tool_call>', Answer(calls=(("other", {}),))),
    ('<tool_call>\n{"name": "other", "parameters": {"a": 1}}', Answer(calls=(("other", {"a": 1}),))),
    (
        '<tool_call>\n{"type": "function", "function": {"name": "other", "arguments": {"a": 1}}}\n</tool_call>',
        Answer(calls=(("other", {"a": 1}),)),
    ),
    ('<tool_call>\n{"name": "functions.other", "arguments": {}}', Answer(calls=(("other", {}),))),
    ('<tool_call>\n{"name": "other", "arguments": {"a": "b\nc\td"}}', Answer(calls=(("other", {"a": "b\nc\td"}),))),
    # A bracket too many, or one or two too few.
    (hermes('{"city": "Ulm"}}') + " x", Answer(text="x", calls=(call(city="Ulm"),))),
    (hermes('{"city": "Ulm"'), Answer(calls=(call(city="Ulm"),))),
    (
        '<tool_call>\n{"name": "other", "arguments": {"a": [1\n</tool_call> x',
        Answer(text="x", calls=(("other", {"a": [1]}),)),
    ),
    (
        '<tool_call>\n{"name": "other", "arguments": {"a":\n</tool_call>',
        Answer(calls=(("other", '{"a":\n}'),), notes=(INVALID,)),
    ),
    (hermes('{"a": 1}', "other") + "}", Answer(text="}", calls=(("other", {"a": 1}),))),
    # Unicode, as it is and escaped.
    (hermes('{"city": "Zürich \\u00e9 \\ud83d\\ude00 ｜ 🤖"}'), Answer(calls=(call(city="Zürich é 😀 ｜ 🤖"),))),
    # Cut off.
    (hermes('{"city": "Ulm"}')[:-12], Answer(calls=(call(city="Ulm"),))),
    ('<tool_call>\n{"name": "other", "arguments": {}', Answer(calls=(("other", {}),))),
    (
        f'<tool_call>\n{{"name": "get_weather", "arguments": {OPEN_CITY}',
        Answer(calls=(("get_weather", OPEN_CITY),), notes=(CUT_ARGUMENTS,)),
    ),
    ('Hm.\n<tool_call>\n{"name": "get_we', Answer(text='Hm.\n<tool_call>\n{"name": "get_we', notes=(CUT_CALL,))),
    ("Hm.\n<tool_ca", Answer(text="Hm.\n<tool_ca")),
    ("Hm.\n<tool_call>", Answer(text="Hm.\n<tool_call>", notes=(CUT_CALL,))),
    # Broken.
    (
        "Use <tool_call> to call: " + hermes("{}"),
        Answer(text="Use <tool_call> to call:", calls=(call(),), notes=(UNREAD,)),
    ),
    (
        "<tool_call>\nget_weather(city=3)\n</tool_call> x",
        Answer(text="<tool_call>\nget_weather(city=3)\n</tool_call> x", notes=(UNREAD,)),
    ),
    (hermes("[1]"), Answer(text=hermes("[1]"), notes=(UNREAD,))),
    (hermes('"no object"'), Answer(text=hermes('"no object"'), notes=(UNREAD,))),
    (hermes("{city: 3}"), Answer(calls=(("get_weather", "{city: 3}"),), notes=(INVALID,))),
    (
        '<tool_call>{"arguments": {}}</tool_call>',
        Answer(text='<tool_call>{"arguments": {}}</tool_call>', notes=(UNREAD,)),
    ),
    # Undeclared: all of it is text, whatever stands in it.
    (hermes("{}", "nope"), Answer(text=hermes("{}", "nope"), notes=(UNDECLARED,))),
    (
        "x " + hermes(json.dumps({"a": hermes("{}")}), "nope") + "\n" + hermes("{}"),
        Answer(text="x " + hermes(json.dumps({"a": hermes("{}")}), "nope"), calls=(call(),), notes=(UNDECLARED,)),
    ),
]

CODER_CASES = [
    (coder(("city", "Ulm"), ("days", "3")), Answer(calls=(call(city="Ulm", days=3),))),
    ("Hm.\n\n" + coder(name="other") + "\n", Answer(text="Hm.", calls=(("other", {}),))),
    (
        coder(("city", "Ulm")) + "\n" + coder(("city", "Bonn")),
        Answer(calls=(call(city="Ulm"), call(city="Bonn"))),
    ),
    (
        coder(("city", '\n<b>"x"</b>\n\\n\t</param>\n'), ("deep", '{"a": ["</x>", null]}')),
        Answer(calls=(call(city='\n<b>"x"</b>\n\\n\t</param>\n', deep={"a": ["</x>", None]}),)),
    ),
    (coder(("city", "3"), ("loose", "3")), Answer(calls=(call(city="3", loose=3),))),
    (coder(("city", '{"a": 1}'), ("loose", "so so")), Answer(calls=(call(city='{"a": 1}', loose="so so"),))),
    (coder(("either", "null"), ("days", "three")), Answer(calls=(call(either=None, days="three"),))),
    (coder(("either", "3")), Answer(calls=(call(either="3"),))),
    # Seed and MiniCPM5 were taught Python's values.
    (
        coder(("deep", "{'a': [True, None, 'q']}"), ("loose", "False")),
        Answer(calls=(call(deep={"a": [True, None, "q"]}, loose=False),)),
    ),
    (coder(("loose", '{"a": "b\nc"}'), ("deep", "{a b}")), Answer(calls=(call(loose={"a": "b\nc"}, deep="{a b}"),))),
    (coder(("city", "Zürich 😀 \u2028")), Answer(calls=(call(city="Zürich 😀 \u2028"),))),
    # MiMo and others write no line ends; some forget the outer tag, or what closes.
    (
        "<tool_call><function=get_weather><parameter=city>Ulm</parameter></function></tool_call>",
        Answer(calls=(call(city="Ulm"),)),
    ),
    ("<function=other>\n</function>\n</tool_call>", Answer(calls=(("other", {}),))),
    (
        "<function=other></function>\n<function=get_weather><parameter=days>\n4\n</parameter>",
        Answer(calls=(("other", {}), call(days=4))),
    ),
    (coder(("city", "Ulm"))[:-12], Answer(calls=(call(city="Ulm"),))),
    (
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nUlm\n</para",
        Answer(calls=(("get_weather", '{"city": "Ulm\\n</para'),), notes=(CUT_ARGUMENTS,)),
    ),
    ("<tool_call>\n<function=get_wea", Answer(text="<tool_call>\n<function=get_wea", notes=(CUT_CALL,))),
    (coder(("a", "1"), name="nope"), Answer(text=coder(("a", "1"), name="nope"), notes=(UNDECLARED,))),
    (
        "<tool_call>\n<function=other>\nwhat?</function>",
        Answer(text="<tool_call>\n<function=other>\nwhat?</function>", notes=(UNREAD,)),
    ),
    ("<tool_call>{}</tool_call>", Answer(text="<tool_call>{}</tool_call>", notes=(UNREAD,))),
]

GLM_CASES = [
    (glm(("city", "Ulm"), ("days", "3")), Answer(calls=(call(city="Ulm", days=3),))),
    ("<think>Hm.</think>\nHi.\n" + glm(name="other"), Answer(thought="Hm.", text="Hi.", calls=(("other", {}),))),
    (glm(("city", "Ulm")) + "\n" + glm(name="other"), Answer(calls=(call(city="Ulm"), ("other", {})))),
    ("<tool_call>other</tool_call>", Answer(calls=(("other", {}),))),
    (
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>\n a\n</arg_value></tool_call>",
        Answer(calls=(call(city="\n a\n"),)),
    ),
    (glm(("city", '</tool_call> "é" <')), Answer(calls=(call(city='</tool_call> "é" <'),))),
    (glm(("loose", '["a", {"b": "}"}]')), Answer(calls=(call(loose=["a", {"b": "}"}]),))),
    (
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Ulm",
        Answer(calls=(("get_weather", '{"city": "Ulm'),), notes=(CUT_ARGUMENTS,)),
    ),
    (glm(name="nope") + " x", Answer(text=glm(name="nope") + " x", notes=(UNDECLARED,))),
    ("<tool_call>other\n{}", Answer(text="<tool_call>other\n{}", notes=(UNREAD,))),
]

MISTRAL_CASES = [
    (
        '[TOOL_CALLS]get_weather[CALL_ID]abcDEF123[ARGS]{"city": "Ulm"}[TOOL_CALLS]other[CALL_ID]x2[ARGS]{}',
        Answer(calls=(call(city="Ulm"), ("other", {})), ids=("abcDEF123", "x2")),
    ),
    (
        '[THINK]a[/THINK]b[TOOL_CALLS]other[ARGS]{"a": "]"}',
        Answer(thought="a", text="b", calls=(("other", {"a": "]"}),)),
    ),
    ('[TOOL_CALLS]get_weather{"city": "Ulm"}', Answer(calls=(call(city="Ulm"),))),
    (f"[TOOL_CALLS]get_weather[ARGS]{NASTY_JSON}", Answer(calls=(("get_weather", NASTY),))),
    ("[TOOL_CALLS]nope[ARGS]{}", Answer(text="[TOOL_CALLS]nope[ARGS]{}", notes=(UNDECLARED,))),
    (
        f"[TOOL_CALLS]get_weather[ARGS]{OPEN_CITY}",
        Answer(calls=(("get_weather", OPEN_CITY),), notes=(CUT_ARGUMENTS,)),
    ),
    ("[TOOL_CALLS] other [ARGS] {} ", Answer(calls=(("other", {}),))),
    ("[1] and [TOOL] are text", Answer(text="[1] and [TOOL] are text")),
]

NEMO_CASES = [
    (
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "]"}, "id": "a"}, '
        '{"name": "other", "arguments": {}}]',
        Answer(calls=(call(city="]"), ("other", {}))),
    ),
    ('[TOOL_CALLS] [ {"name": "other", "arguments": {}} , ] x', Answer(text="x", calls=(("other", {}),))),
    ('[TOOL_CALLS]{"name": "other", "arguments": {}}', Answer(calls=(("other", {}),))),
    (
        'Hm.[TOOL_CALLS][{"id": "b2", "name": "other", "arguments": {}}]',
        Answer(text="Hm.", calls=(("other", {}),), ids=("b2",)),
    ),
    (
        '[TOOL_CALLS][{"name": "nope", "arguments": {}}, {"name": "other", "arguments": {}}]',
        Answer(text='[TOOL_CALLS][{"name": "nope", "arguments": {}}', calls=(("other", {}),), notes=(UNDECLARED,)),
    ),
    (
        '[TOOL_CALLS][{"name": "nope", "arguments": {}}]',
        Answer(text='[TOOL_CALLS][{"name": "nope", "arguments": {}}]', notes=(UNDECLARED,)),
    ),
    ("[TOOL_CALLS][]", Answer(text="[TOOL_CALLS][]", notes=(UNREAD,))),
    (
        '[TOOL_CALLS][{"name": "other", "arguments": {}}, {"name": 3}]',
        Answer(text=', {"name": 3}]', calls=(("other", {}),), notes=(UNREAD,)),
    ),
]

DEEPSEEK_CASES = [
    (SECTION[0] + deepseek('{"city": "Ulm"}') + SECTION[1], Answer(calls=(call(city="Ulm"),))),
    (
        "a</think>b\n" + SECTION[0] + deepseek("{}") + "\n" + deepseek("{}", "other") + SECTION[1],
        Answer(text="a</think>b", calls=(call(), ("other", {}))),
    ),
    (deepseek(NASTY_JSON), Answer(calls=(("get_weather", NASTY),))),
    (SECTION[0] + deepseek("", "other") + SECTION[1], Answer(calls=(("other", {}),))),
    (
        SECTION[0] + deepseek("{}", "nope") + deepseek("{}") + SECTION[1],
        Answer(text=SECTION[0] + deepseek("{}", "nope"), calls=(call(),), notes=(UNDECLARED,)),
    ),
    (SECTION[0] + "oops", Answer(text=SECTION[0] + "oops", notes=(UNREAD,))),
    (
        SECTION[0] + deepseek(OPEN_CITY)[: -len("<｜tool▁call▁end｜>")],
        Answer(calls=(("get_weather", OPEN_CITY),), notes=(CUT_ARGUMENTS,)),
    ),
]

DSML_CASES = [
    (
        'Hm.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">1</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="loose" string="false">1</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="loose2" string="true">1</｜DSML｜parameter>\n'
        '</｜DSML｜invoke>\n<｜DSML｜invoke name="other">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
        Answer(text="Hm.", calls=(call(city="1", loose=1, loose2="1"), ("other", {}))),
    ),
    ('<｜DSML｜invoke name="other"></｜DSML｜invoke>', Answer(calls=(("other", {}),))),
    (
        '<｜DSML｜function_calls><｜DSML｜invoke name="other"><｜DSML｜parameter name="a" string="fal',
        Answer(
            text='<｜DSML｜function_calls><｜DSML｜invoke name="other"><｜DSML｜parameter name="a" string="fal',
            notes=(CUT_CALL,),
        ),
    ),
]

OTHER_CASES = [
    (
        KIMI,
        "Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.other:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_call_begin|>functions.get_weather:1<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>",
        Answer(text="Hm.", calls=(("other", {}), call()), ids=("functions.other:0", "functions.get_weather:1")),
    ),
    (
        COHERE,
        '<|START_THINKING|>a<|END_THINKING|><|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "other", '
        '"parameters": {"a": 1}},\n    {"tool_call_id": "1", "tool_name": "other", "parameters": {}}\n]<|END_ACTION|>',
        Answer(thought="a", calls=(("other", {"a": 1}), ("other", {})), ids=("0", "1")),
    ),
    (COHERE, "<|START_RESPONSE|>Hi\n<|END_RESPONSE|>", Answer(text="Hi")),
    (COHERE, "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>Hi", Answer(thought="a", text="Hi")),
    (
        APERTUS,
        'x<|tools_prefix|>[{"get_weather": {"city": "Ulm"}}, {"other": {}}]<|tools_suffix|>',
        Answer(text="x", calls=(call(city="Ulm"), ("other", {}))),
    ),
    (LLAMA, '{"name": "get_weather", "parameters": {"city": "Ulm"}}', Answer(calls=(call(city="Ulm"),))),
    (LLAMA, '\n{"type": "function", "name": "other", "parameters": {}}', Answer(calls=(("other", {}),))),
    (LLAMA, '<|python_tag|>{"name": "other", "parameters": {}}', Answer(calls=(("other", {}),))),
    (
        LLAMA,
        '{"name": "other", "parameters": {}}; {"name": "get_weather", "arguments": {}}',
        Answer(calls=(("other", {}), call())),
    ),
    (LLAMA, '{"name": "Bob", "age": 3}', Answer(text='{"name": "Bob", "age": 3}')),
    (LLAMA, '{"answer": {"name": "other"}}', Answer(text='{"answer": {"name": "other"}}')),
    (LLAMA, 'As {"name": "other", "parameters": {}}', Answer(text="As", calls=(("other", {}),))),
    (LLAMA, '[1, {"name": "other", "parameters": {}}]', Answer(text='[1, {"name": "other", "parameters": {}}]')),
    (
        LLAMA,
        '{"tool": {"name": "other", "parameters": {}}}',
        Answer(text='{"tool": {"name": "other", "parameters": {}}}'),
    ),
    (LLAMA, '{"type": "function", "name": "other", "parameters": {}}', Answer(calls=(("other", {}),))),
    (LLAMA, '{"parameters": {}, "name": "other"} So.', Answer(text="So.", calls=(("other", {}),))),
    (LLAMA, '{"name": "other", "description": "A tool."}', Answer(text='{"name": "other", "description": "A tool."}')),
    (
        LLAMA,
        '{"name": "other", "parameters": {}, "why": "so"}',
        Answer(text='"why": "so"', calls=(("other", {}),), notes=("what could not be read as a call is in the text",)),
    ),
    (LLAMA, '{"name": "oth', Answer(text='{"name": "oth')),
]

CASES = [
    *((HERMES, *each) for each in HERMES_CASES),
    *((QWEN_CODER, *each) for each in CODER_CASES),
    *((GLM, *each) for each in GLM_CASES),
    *((MISTRAL, *each) for each in MISTRAL_CASES),
    *((NEMO, *each) for each in NEMO_CASES),
    *((DEEPSEEK, *each) for each in DEEPSEEK_CASES),
    *((DSML, *each) for each in DSML_CASES),
    *OTHER_CASES,
]


@each("format, raw, expected", CASES, ids=lambda case: f"{case[0].name} {case[1][:60]!r}")
def test_an_answer_is_read_alike_however_it_is_cut(format: ChatFormat, raw: str, expected: Answer) -> None:
    found = at_many_cuts(format, raw)
    assert without_ids(found) == without_ids(expected)
    if expected.ids:
        assert found.ids == expected.ids


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("Well.\n</think>\n\nYes.", Answer(thought="Well.", text="Yes.")),
        ("\n<think>\nWell.\n</think>\n\nYes.", Answer(thought="Well.", text="Yes.")),
        ("</think>\n\nYes.", Answer(text="Yes.")),
        ("Well.\n</think>\n\n" + hermes("{}"), Answer(thought="Well.", calls=(call(),))),
        ("Well", Answer(thought="Well", notes=("the answer ended within its thought",))),
    ],
)
def test_a_prompt_that_ends_within_a_thought_leaves_the_rest_of_it_to_the_answer(raw: str, expected: Answer) -> None:
    assert without_ids(at_many_cuts(HERMES, raw, in_thought=True)) == expected


@pytest.mark.parametrize("in_thought", [False, True])
def test_a_thought_that_is_not_to_be_split_stays_in_the_text_as_it_is(in_thought: bool) -> None:
    thought = ("" if in_thought else "<think>\n") + "Well,\n <tool_call> \n</think>\n\n"
    found = at_many_cuts(HERMES, thought + "Yes.\n" + hermes("{}"), in_thought=in_thought, splits_thoughts=False)
    assert without_ids(found) == Answer(text=thought + "Yes.", calls=(call(),))


def test_calls_are_text_where_none_are_wanted() -> None:
    raw = "Yes.\n" + hermes("{}") + "\n"
    assert at_many_cuts(HERMES, "<think>\na</think>" + raw, reads_calls=False) == Answer(thought="a", text=raw)
