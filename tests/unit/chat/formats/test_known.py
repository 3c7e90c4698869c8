"""What models of each known family write, spelled out here by hand: whole, parallel, nested, cut off, broken."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from localllm.chat.formats.known import DESCRIBED
from localllm.chat.formats.odd import ODD
from localllm.chat.formats.writer import written_calls
from localllm.types.conversation import ToolCall
from localllm.types.formats import ChatFormat
from tests.each import each
from tests.unit.chat.formats.answers import Answer, at_cuts, at_many_cuts, at_some_cuts, without_ids

FORMATS = {each.name: each for each in DESCRIBED}
Arguments = dict[str, Any]


class Spelling(NamedTuple):
    """How a family writes calls: `begin`, each call by its name, arguments and number, `between` them, `end`."""

    call: Callable[[str, Arguments, int], str]
    begin: str = ""
    between: str = ""
    end: str = ""

    def of(self, *calls: tuple[str, Arguments]) -> str:
        return self.begin + self.between.join(self.call(*each, n) for n, each in enumerate(calls)) + self.end


def text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def tagged(before: str, behind_key: str, after: str, between: str = "") -> Callable[[Arguments], str]:
    return lambda given: between.join(f"{before}{key}{behind_key}{text(each)}{after}" for key, each in given.items())


def dsml(between: str, after: str) -> Callable[[Arguments], str]:
    def spelled(given: Arguments) -> str:
        marks = {key: "true" if isinstance(each, str) else "false" for key, each in given.items()}
        return between.join(
            f'<｜DSML｜parameter name="{key}" string="{marks[key]}">{text(each)}</｜DSML｜parameter>{after}'
            for key, each in given.items()
        )

    return spelled


def python(given: Arguments) -> str:
    return ", ".join(f"{key}={each!r}" for key, each in given.items())


def dump(given: Any) -> str:
    return json.dumps(given, ensure_ascii=False)


def named(name: str, given: Arguments, _number: int = 0) -> str:
    return f'{{"name": "{name}", "arguments": {dump(given)}}}'


def parametered(name: str, given: Arguments, _number: int = 0) -> str:
    return f'{{"name": "{name}", "parameters": {dump(given)}}}'


parameters = tagged("<parameter=", ">", "</parameter>\n")
lined = tagged("<parameter=", ">\n", "\n</parameter>\n")
glm = tagged("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n")
glm_tight = tagged("<arg_key>", "</arg_key><arg_value>", "</arg_value>")
ling = tagged("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>")
hunyuan = tagged("<arg_key:opensource>", "</arg_key:opensource>\n<arg_value:opensource>", "</arg_value:opensource>\n")
minimax = tagged('<parameter name="', '">', "</parameter>\n")
minicpm = tagged('<param name="', '">', "</param>")
v32, v4 = dsml("", "\n"), dsml("\n", "")

SPELLED = {
    "hermes": Spelling(lambda *c: f"<tool_call>\n{named(*c)}\n</tool_call>", between="\n"),
    "exaone-4": Spelling(lambda *c: f"<tool_call>{named(*c)}</tool_call>", between="\n"),
    "qwen3-coder": Spelling(
        lambda f, a, _: f"<tool_call>\n<function={f}>\n{lined(a)}</function>\n</tool_call>", between="\n"
    ),
    "mimo": Spelling(
        lambda f, a, _: f"<tool_call>\n<function={f}>\n{parameters(a)}</function>\n</tool_call>", between="\n"
    ),
    "step-3.5": Spelling(lambda f, a, _: f"<tool_call>\n<function={f}>\n{lined(a)}</function>\n</tool_call>"),
    "seed-oss": Spelling(
        lambda f, a, _: f"<seed:tool_call>\n<function={f}>\n{parameters(a)}</function>\n</seed:tool_call>",
        between="\n",
    ),
    "glm-4.5": Spelling(lambda f, a, _: f"<tool_call>{f}\n{glm(a)}</tool_call>", between="\n"),
    "glm-4.7": Spelling(lambda f, a, _: f"<tool_call>{f}{glm_tight(a)}</tool_call>"),
    "ling-3": Spelling(lambda f, a, _: f"<tool_call>{f}\n{ling(a)}\n</tool_call>", between="\n"),
    "hunyuan-3": Spelling(
        lambda f, a, _: f"<tool_call:opensource>{f}<tool_sep:opensource>\n{hunyuan(a)}</tool_call:opensource>",
        "<tool_calls:opensource>\n", "\n", "\n</tool_calls:opensource>",
    ),
    "k2-horizon": Spelling(
        lambda f, a, _: f"<ifm|tool_call>{f}\n{glm(a).replace('arg_', 'ifm|arg_')}</ifm|tool_call>",
        "<ifm|tool_calls>\n", "\n", "\n</ifm|tool_calls>",
    ),
    "minimax-m2": Spelling(
        lambda f, a, _: f'<invoke name="{f}">\n{minimax(a)}</invoke>',
        "<minimax:tool_call>\n", "\n", "\n</minimax:tool_call>",
    ),
    "minimax-m1": Spelling(named, "<tool_calls>\n", "\n", "\n</tool_calls>"),
    "minicpm-5": Spelling(lambda f, a, _: f'<function name="{f}">{minicpm(a)}</function>', between="\n"),
    "deepseek-v4": Spelling(
        lambda f, a, _: f'<｜DSML｜invoke name="{f}">\n{v4(a)}\n</｜DSML｜invoke>',
        "<｜DSML｜tool_calls>\n", "\n", "\n</｜DSML｜tool_calls>",
    ),
    "deepseek-v3.2": Spelling(
        lambda f, a, _: f'<｜DSML｜invoke name="{f}">\n{v32(a)}</｜DSML｜invoke>',
        "<｜DSML｜function_calls>\n", "\n", "\n</｜DSML｜function_calls>",
    ),
    "deepseek-v3.1": Spelling(
        lambda f, a, _: f"<｜tool▁call▁begin｜>{f}<｜tool▁sep｜>{dump(a)}<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>",
    ),
    "deepseek-r1": Spelling(
        lambda f, a, _: f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{f}\n```json\n{dump(a)}\n```<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>",
    ),
    "kimi-k2": Spelling(
        lambda f, a, n: (
            f"<|tool_call_begin|>functions.{f}:{n}<|tool_call_argument_begin|>{dump(a)}<|tool_call_end|>"
        ),
        "<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>",
    ),
    "mistral-small-3.2": Spelling(lambda f, a, n: f"[TOOL_CALLS]{f}[CALL_ID]abcdefgh{n}[ARGS]{dump(a)}"),
    "ministral-3": Spelling(lambda f, a, _: f"[TOOL_CALLS]{f}[ARGS]{dump(a)}"),
    "mistral-nemo": Spelling(
        lambda f, a, n: f'{{"name": "{f}", "arguments": {dump(a)}, "id": "abcdefgh{n}"}}', "[TOOL_CALLS][", ", ", "]"
    ),
    "mistral": Spelling(named, "[TOOL_CALLS][", ", ", "]"),
    "phi-4-mini": Spelling(named, "<|tool_call|>[", ", ", "]<|/tool_call|>"),
    "granite-3": Spelling(named, "<|tool_call|>[", ", ", "]"),
    "nemotron-2": Spelling(named, "<TOOLCALL>[", ", ", "]</TOOLCALL>"),
    "hunyuan": Spelling(named, "<tool_calls>[", ", ", "]</tool_calls>"),
    "firefunction": Spelling(named, "functools[", ", ", "]"),
    "command-a": Spelling(
        lambda f, a, n: f'{{"tool_call_id": "{n}", "tool_name": "{f}", "parameters": {dump(a)}}}',
        "<|START_ACTION|>[\n    ", ",\n    ", "\n]<|END_ACTION|>",
    ),
    "command-r": Spelling(
        lambda f, a, _: f'{{"tool_name": "{f}", "parameters": {dump(a)}}}', "Action:\n```json\n[\n", ",\n", "\n]```"
    ),
    "apertus": Spelling(lambda f, a, _: f'{{"{f}": {dump(a)}}}', "<|tools_prefix|>[", ", ", "]<|tools_suffix|>"),
    "lfm2": Spelling(lambda f, a, _: f"{f}({python(a)})", "<|tool_call_start|>[", ", ", "]<|tool_call_end|>"),
    "olmo-3": Spelling(lambda f, a, _: f"{f}({python(a)})", "<function_calls>", "\n", "</function_calls>"),
    "functionary-3.1": Spelling(lambda f, a, _: f"<function={f}>{dump(a)}</function>"),
    "internlm-2": Spelling(lambda *c: f"<|action_start|><|plugin|>\n{parametered(*c)}<|action_end|>\n"),
    "llama-3": Spelling(parametered, between="; "),
    "llama-4": Spelling(parametered),
    "xlam": Spelling(named, "[", ", ", "]"),
    "pythonic": Spelling(lambda f, a, _: f"{f}({python(a)})", "[", ", ", "]"),
}  # fmt: skip
"""Not by way of the descriptions, so that a slip in one of these shows."""

SOME: Arguments = {"city": "Ulm", "days": 3}
NESTED: Arguments = {"city": 'a "b" {c} [d', "deep": {"a": [1, {"b": 'x"}]'}], "e": {}}}
UNICODE: Arguments = {"city": "Zürich 北京 🎉"}
EMPTY: Arguments = {}
MADE = [("get_weather", SOME), ("other", EMPTY)]


def made(arguments: Arguments) -> ToolCall:
    return ToolCall("get_weather", dump(arguments), "abcdefgh0")


def whole(name: str, raw: str, at_cuts: Callable[[ChatFormat, str], Answer] = at_many_cuts) -> Answer:
    return without_ids(at_cuts(FORMATS[name], raw))


def test_every_described_family_is_spelled_out() -> None:
    assert set(FORMATS) == set(SPELLED) | {each.name for each in ODD}


@each("name, arguments", itertools.product(SPELLED, [SOME, NESTED, UNICODE, EMPTY]))
def test_a_call_is_read(name: str, arguments: Arguments) -> None:
    assert whole(name, SPELLED[name].of(("get_weather", arguments))) == Answer(calls=(("get_weather", arguments),))


@at_cuts
@each("name", SPELLED)
def test_calls_in_parallel_are_read(name: str, at_cuts: Callable[[ChatFormat, str], Answer]) -> None:
    assert whole(name, SPELLED[name].of(*MADE, ("get_weather", NESTED)), at_cuts).calls == (
        *MADE,
        ("get_weather", NESTED),
    )


@at_cuts
@each("name", SPELLED)
def test_text_around_calls_is_read(name: str, at_cuts: Callable[[ChatFormat, str], Answer]) -> None:
    calls, between = FORMATS[name].calls, SPELLED[name].of(*MADE)
    assert calls is not None
    assert whole(name, f"Well.\n{between}", at_cuts) == Answer(text="Well.", calls=tuple(MADE))
    found = whole(name, f"{between}\nDone.", at_cuts)
    assert (found.text.strip(), found.calls) == ("Done.", tuple(MADE))


@at_cuts
@each("name", SPELLED)
def test_an_answer_that_is_cut_keeps_all_that_came(name: str, at_cuts: Callable[[ChatFormat, str], Answer]) -> None:
    raw = SPELLED[name].of(("get_weather", {"city": "Zürich"}))
    for end in range(raw.index("rich"), len(raw)):
        found = whole(name, raw[:end], at_cuts)
        assert len(found.calls) == 1
        assert found.calls[0][0] == "get_weather"
        assert "Zü" in str(found.calls[0][1])
    for end in range(raw.index("get_w")):
        found = whole(name, raw[:end], at_cuts)
        assert found.calls == ()
        assert found.text.strip() == raw[:end].strip()


@each("name", SPELLED)
def test_an_undeclared_function_is_text(name: str) -> None:
    raw = SPELLED[name].of(("nope", SOME))
    found = whole(name, raw)
    assert (found.text.strip(), found.calls) == (raw.strip(), ())


@each("name", SPELLED)
def test_broken_arguments_are_never_lost(name: str) -> None:
    good = SPELLED[name].of(("get_weather", {"city": "ZZ"}))
    for wrong in ('"ZZ', 'ZZ"', "Z}Z", "Z</Z", "Z)]}Z", "Z\x00Z"):
        found = whole(name, good.replace('"ZZ"', wrong).replace("ZZ", wrong), at_some_cuts)
        shown = found.text + "".join(str(arguments) for _, arguments in found.calls)
        assert shown.count("Z") == 2


@each("name", SPELLED)
def test_a_format_writes_what_its_family_does(name: str) -> None:
    format: ChatFormat = FORMATS[name]
    assert format.calls is not None
    if name in ("lfm2", "olmo-3", "pythonic"):  # Python has two quotes
        return
    assert written_calls(format.calls, [made(SOME)]).replace("abcdefgh0", "0") == SPELLED[name].of(
        ("get_weather", SOME)
    ).replace("abcdefgh0", "0")


QUIRKS = [
    ("minicpm-5", '<function name="get_weather"><param name="city"><![CDATA[a <b> & "c"\n]]></param>'
     '<param name="deep"><![CDATA[{"a": "\\n"}]]></param></function><function name="other"><param name="a">'
     "<![CDATA[x]] >y</param></function>",
     (("get_weather", {"city": 'a <b> & "c"\n', "deep": {"a": "\n"}}), ("other", {"a": "x]] >y"}))),
    ("qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=deep>\n{'a': [True, None, 'q\"']}\n</parameter>\n"
     "<parameter=days>\nNone\n</parameter>\n<parameter=city>\nTrue\n</parameter>\n</function>\n</tool_call>",
     (("get_weather", {"deep": {"a": [True, None, 'q"']}, "days": None, "city": "True"}),)),
    ("seed-oss", "<seed:tool_call>\n<function=get_weather>\n<parameter=deep>{'a': {'b': []}, 'c': 1.5}</parameter>\n"
     "<parameter=days>[1, y=2]</parameter>\n</function>\n</seed:tool_call>",
     (("get_weather", {"deep": {"a": {"b": []}, "c": 1.5}, "days": "[1, y=2]"}),)),
    ("mimo", "<tool_call><function=other></function></tool_call>", (("other", {}),)),
    ("granite-3", '<tool_call>[{"name": "other", "arguments": {}}]', (("other", {}),)),
    ("granite-3", '<|tool_call|> [{"arguments": {}, "name": "other"}]', (("other", {}),)),
    ("llama-3", '<|python_tag|>{"name": "other", "parameters": {}}', (("other", {}),)),
    ("llama-4", '<|python_start|>{"name": "other", "parameters": {}}', (("other", {}),)),
    ("mistral", '[TOOL_CALLS] [{"name": "other", "arguments": {}}]', (("other", {}),)),
    ("phi-4-mini", '<|tool_call|>[{"type": "function", "function": {"name": "other", "arguments": {}}}]<|/tool_call|>',
     (("other", {}),)),
    ("kimi-k2", "<|tool_call_begin|>functions.other:7<|tool_call_argument_begin|>{}<|tool_call_end|>",
     (("other", {}),)),
    ("minimax-m2", '<minimax:tool_call><invoke name="other"></invoke></minimax:tool_call>', (("other", {}),)),
    ("command-a", '<|START_ACTION|>[{"tool_name": "other", "parameters": {}}]<|END_ACTION|>', (("other", {}),)),
    ("lfm2", "<|tool_call_start|>[get_weather(city='Ulm', days=3), other()]<|tool_call_end|>",
     (("get_weather", {"city": "Ulm", "days": 3}), ("other", {}))),
    ("deepseek-r1", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>other\n```json\n{}\n```<｜tool▁call▁end｜>",
     (("other", {}),)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "raw", "calls"), QUIRKS, ids=[each[0] for each in QUIRKS])
def test_what_models_write_otherwise_than_taught_is_read_kindly(name: str, raw: str, calls: Any) -> None:
    assert whole(name, raw) == Answer(calls=calls)
