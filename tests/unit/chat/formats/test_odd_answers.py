"""What models write whose format is more than tags around thoughts and calls, and what is read of it, however cut."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from msgspec.structs import replace

from localllm.chat.formats import odd
from localllm.chat.formats.known import DESCRIBED
from localllm.chat.formats.reader import reader_of
from localllm.types.conversation import Function
from localllm.types.formats import ChatFormat
from localllm.types.structures import Tags
from tests.each import each
from tests.unit.chat.formats.answers import FUNCTIONS, Answer, at_many_cuts, read, without_ids

NASTY = {"city": 'Ulm "x" }{ </a> \\ <|end|>', "deep": {"a": [True, "]}"], "b": {}}, "days": -3}
PLAIN = {"city": "Zürich 北京 🎉", "days": 3}
SHORT = json.dumps(PLAIN, ensure_ascii=False)[:-19]
DEEP = {"city": 'a "b" }{ \\', "deep": {"a": [True, {"b": "]}"}]}}
UNDECLARED = ("a call of undeclared function 'nope' is in the text",)
UNREAD = ("what could not be read as a call is in the text",)
CUT_CALL = ("the answer ended within a call, which is in the text",)
CUT_ARGUMENTS = ("the answer ended within the arguments of call 0",)
CUT_HEADER = ("the answer ended within the header of a message, which is in the text",)
CUT_THOUGHT = ("the answer ended within its thought",)


def weather(**arguments: Any) -> tuple[str, Any]:
    return ("get_weather", arguments)


OTHER: tuple[str, Any] = ("other", {})


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def said(channel: str, text: str) -> str:
    return f"<|channel|>{channel}<|message|>{text}"


def asked(arguments: Any, name: str = "get_weather") -> str:
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{dump(arguments)}"


NEXT = "<|end|><|start|>assistant"
HARMONY = [
    (said("final", "Hello.\n"), Answer(text="Hello.\n")),
    (said("analysis", "Hm.\nSo.\n") + NEXT + said("final", "Hi 🎉<|return|>"), Answer("Hm.\nSo.", "Hi 🎉")),
    (said("analysis", "A") + NEXT + said("analysis", "B") + NEXT + said("final", "C"), Answer("A\n\nB", "C")),
    (said("analysis", "A") + NEXT + asked(PLAIN) + "<|call|>", Answer("A", calls=(weather(**PLAIN),))),
    (asked(NASTY), Answer(calls=(weather(**NASTY),))),
    (
        said("commentary", "Let me look.") + NEXT + asked(PLAIN) + "<|call|><|start|>assistant" + asked({}, "other"),
        Answer(text="Let me look.", calls=(weather(**PLAIN), OTHER)),
    ),
    (
        f" to=functions.get_weather<|channel|>commentary json<|message|>{dump(PLAIN)}<|call|>",
        Answer(calls=(weather(**PLAIN),)),
    ),
    (
        said("analysis", "A") + f"{NEXT} to=functions.get_weather<|channel|>commentary<|message|>{dump(PLAIN)}",
        Answer("A", calls=(weather(**PLAIN),)),
    ),
    ("<|channel|>analysis to=functions.other code<|message|>{}<|call|>", Answer(calls=(OTHER,))),
    ("<|channel|>commentary to=functions.other<|message|>{}", Answer(calls=(OTHER,))),
    (
        said("commentary<|channel|>analysis", "A") + NEXT + said("final <|constrain|>json", '{"a": 1}'),
        Answer("A", '{"a": 1}'),
    ),
    (said("commentary to=assistant<|channel|>analysis", "A") + NEXT + said("final", "B"), Answer("A", "B")),
    (said("analysis", "A") + said("final", "B"), Answer("A", "B")),
    (said("commentary", "Before.") + NEXT + asked({}, "other") + "<|call|><|start|>assistant" + said("final", "After."),
     Answer(text="Before.\n\nAfter.", calls=(OTHER,))),
    (asked(PLAIN, "nope") + "<|call|>", Answer(text=asked(PLAIN, "nope") + "<|call|>", notes=UNDECLARED)),
    (
        "<|channel|>commentary to=python code<|message|>print(1)<|call|>",
        Answer(
            text="<|channel|>commentary to=python code<|message|>print(1)<|call|>",
            notes=("a call of undeclared function 'python' is in the text",),
        ),
    ),
    (
        "<|channel|>commentary to=functions.get_weather json<|message|>Ulm<|call|>",
        Answer(text="<|channel|>commentary to=functions.get_weather json<|message|>Ulm<|call|>", notes=UNREAD),
    ),
    (
        '<|channel|>commentary to=functions.get_weather<|message|>{"city": "U',
        Answer(calls=(("get_weather", '{"city": "U'),), notes=CUT_ARGUMENTS),
    ),
    (
        "<|channel|>commentary to=functions.get_weather<|message|>",
        Answer(text="<|channel|>commentary to=functions.get_weather<|message|>", notes=CUT_CALL),
    ),
    (said("analysis", "A") + NEXT, Answer("A")),
    ("<|channel|>comm", Answer(text="<|channel|>comm", notes=CUT_HEADER)),
    (said("analysis", "never ends"), Answer("never ends", notes=CUT_THOUGHT)),
    ("No header, but <|channel|> in it,\n", Answer(text="No header, but <|channel|> in it,\n")),
    ("to=day and more", Answer(text="to=day and more", notes=CUT_HEADER)),
    ("", Answer()),
]  # fmt: skip


def atem(*calls: tuple[str, dict[str, Any]]) -> str:
    invokes = ""
    for name, arguments in calls:
        each = "".join(
            f'<atem:parameter name="{key}">{value if isinstance(value, str) else dump(value)}</atem:parameter>\n'
            for key, value in arguments.items()
        )
        invokes += f'<atem:invoke name="{name}">\n{each}</atem:invoke>\n'
    return f"<atem:function_calls>\n{invokes}</atem:function_calls>"


def to(recipient: str, text: str) -> str:
    return f" to={recipient}<|message|>{text}"


ON = "<|eom|><|start|>assistant"
MUSE = [
    (to("user", "Hello 🎉<|eot|>"), Answer(text="Hello 🎉")),
    ("<|message|>Hello", Answer(text="Hello")),
    (to("self", "Hm.\n") + ON + to("user", "Hi"), Answer("Hm.", "Hi")),
    (to("self", "A") + ON + to("self", "B") + ON + to("user", "C"), Answer("A\n\nB", "C")),
    (to("get_weather", atem(("get_weather", PLAIN))) + "<|eot|>", Answer(calls=(weather(**PLAIN),))),
    (
        to("self", "A") + ON + to("get_weather", atem(("get_weather", DEEP))) + ON + to("other", atem(OTHER)),
        Answer("A", calls=(weather(**DEEP), OTHER)),
    ),
    (to("tools.all", atem(("get_weather", PLAIN), OTHER)), Answer(calls=(weather(**PLAIN), OTHER))),
    (
        to("user", "Let me look.\n") + ON + to("other", atem(OTHER)) + ON + to("user", "Done."),
        Answer(text="Let me look.\n\nDone.", calls=(OTHER,)),
    ),
    (to("user", "Look: ") + atem(OTHER), Answer(text="Look:", calls=(OTHER,))),
    (to("self", "A") + ON + atem(OTHER), Answer("A", calls=(OTHER,))),
    (atem(OTHER) + "<|eot|>", Answer(calls=(OTHER,))),
    (
        to("nope", atem(("nope", PLAIN))) + "<|eot|>",
        Answer(text=to("nope", atem(("nope", PLAIN))) + "<|eot|>", notes=UNDECLARED),
    ),
    (
        to("other", atem(OTHER, ("nope", {}))),
        Answer(
            text='\n<atem:invoke name="nope">\n</atem:invoke>\n</atem:function_calls>', calls=(OTHER,), notes=UNDECLARED
        ),
    ),
    (to("other", "no call at all"), Answer(text=to("other", "no call at all"), notes=UNREAD)),
    (
        to("get_weather", '<atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter name="city">Ul'),
        Answer(calls=(("get_weather", '{"city": "Ul'),), notes=CUT_ARGUMENTS),
    ),
    (to("self", f"Or write {atem(OTHER)}") + ON + to("user", "No."), Answer(f"Or write {atem(OTHER)}", "No.")),
    (" to=get_w", Answer(text=" to=get_w", notes=CUT_HEADER)),
]  # fmt: skip


def k3(*calls: tuple[str, dict[str, Any]]) -> str:
    types = {str: "string", int: "number", dict: "object"}
    made = ""
    for number, (name, arguments) in enumerate(calls, 1):
        each = "".join(
            f'<|open|>argument key="{key}" type="{types[type(value)]}"<|sep|>'
            f"{value if isinstance(value, str) else dump(value)}<|close|>argument<|sep|>"
            for key, value in arguments.items()
        )
        made += f'<|open|>call tool="{name}" index="{number}"<|sep|>{each}<|close|>call<|sep|>'
    return f"<|open|>tools<|sep|>{made}<|close|>tools<|sep|>"


def answered(text: str) -> str:
    return f"<|open|>response<|sep|>{text}<|close|>response<|sep|>"


THOUGHT = "Hm.<|close|>think<|sep|>"
K3_END = "<|close|>message<|sep|>"
KIMI_K3 = [
    (THOUGHT + answered("Hello 🎉") + K3_END, Answer("Hm.", "Hello 🎉")),
    (
        THOUGHT + answered("") + k3(("get_weather", PLAIN), OTHER) + K3_END,
        Answer("Hm.", calls=(weather(**PLAIN), OTHER)),
    ),
    (THOUGHT + answered("Look.") + k3(("get_weather", DEEP)), Answer("Hm.", "Look.", (weather(**DEEP),))),
    (THOUGHT + k3(OTHER), Answer("Hm.", calls=(OTHER,))),
    (THOUGHT + answered("A") + k3(OTHER) + answered("B"), Answer("Hm.", "A\n\nB", (OTHER,))),
    (THOUGHT + answered("x") + k3(("get_weather", PLAIN))[:-70],
     Answer("Hm.", "x", (("get_weather", '{"city": "Zürich 北京 🎉", "days\\" type=\\"number\\"<|s'),), CUT_ARGUMENTS)),
    (THOUGHT + k3(("nope", {})), Answer("Hm.", k3(("nope", {})), (), UNDECLARED)),
    ("never ends", Answer("never ends", notes=CUT_THOUGHT)),
]  # fmt: skip


def solar(*calls: tuple[str, dict[str, Any]]) -> str:
    each = "".join(
        f"<|tool_call:begin|>id{number}<|tool_call:name|>{name}<|tool_call:args|>{dump(arguments)}<|tool_call:end|>"
        for number, (name, arguments) in enumerate(calls)
    )
    return f"<|tool_calls|>{each}<|calls|>"


THOUGHT_OF = "<|think|>Hm.<|end|><|begin|>assistant"
SOLAR = [
    ("<|content|>Hello 🎉<|end|>", Answer(text="Hello 🎉")),
    (THOUGHT_OF + "<|content|>Hello", Answer("Hm.", "Hello")),
    (
        THOUGHT_OF + solar(("get_weather", PLAIN), OTHER),
        Answer("Hm.", calls=(weather(**PLAIN), OTHER), ids=("id0", "id1")),
    ),
    (solar(("get_weather", NASTY)), Answer(calls=(weather(**NASTY),), ids=("id0",))),
    ("<|content|>Look.<|end|><|begin|>assistant" + solar(OTHER), Answer(text="Look.", calls=(OTHER,), ids=("id0",))),
    (solar(("nope", {})), Answer(text=solar(("nope", {})), notes=UNDECLARED)),
    (solar(("get_weather", PLAIN)).partition("京")[0],
     Answer(calls=(("get_weather", dump(PLAIN).partition("京")[0]),), notes=CUT_ARGUMENTS)),
    ("<|think|>never ends", Answer("never ends", notes=CUT_THOUGHT)),
]  # fmt: skip

GIGA_CALL = "<|message_sep|>\n\nfunction call<|role_sep|>\n"


def named(arguments: Any, name: str = "get_weather", key: str = "arguments") -> str:
    return f'{{"name": "{name}", "{key}": {dump(arguments)}}}'


GIGACHAT_3 = [
    ("Hello 🎉<|message_sep|>\n\n", Answer(text="Hello 🎉")),
    (GIGA_CALL + named(PLAIN) + "<|message_sep|>", Answer(calls=(weather(**PLAIN),))),
    ("Look." + GIGA_CALL + named(NASTY), Answer(text="Look.", calls=(weather(**NASTY),))),
    (GIGA_CALL + named({}, "nope"), Answer(text=GIGA_CALL + named({}, "nope"), notes=UNDECLARED)),
    (GIGA_CALL + named(PLAIN)[:-20],
     Answer(calls=(("get_weather", SHORT),), notes=CUT_ARGUMENTS)),
    (GIGA_CALL + '{"city": "Ulm"}', Answer(text='function call<|role_sep|>\n{"city": "Ulm"}')),
]  # fmt: skip
GIGACHAT_3_1 = [
    ("Hello 🎉", Answer(text="Hello 🎉")),
    ("<|function_call|>" + named(PLAIN), Answer(calls=(weather(**PLAIN),))),
    ("Look.<|function_call|>" + named(NASTY) + "<|message_sep|>\n\n", Answer(text="Look.", calls=(weather(**NASTY),))),
    ("<|function_call|>" + named({}, "nope"), Answer(text="<|function_call|>" + named({}, "nope"), notes=UNDECLARED)),
    ("<|function_call|>" + named(PLAIN)[:-20], Answer(calls=(("get_weather", SHORT),), notes=CUT_ARGUMENTS)),
    ("<|function_call|>nonsense", Answer(text="<|function_call|>nonsense", notes=UNREAD)),
]  # fmt: skip

GEMMA_WEATHER = (
    '<|tool_call>call:get_weather{city:<|"|>Ulm "x" }{ <|"|>,deep:{a:[true,None,<|"|>]}<|"|>]},days:3}<tool_call|>'
)
GEMMA_MEANT = weather(city='Ulm "x" }{ ', deep={"a": [True, None, "]}"]}, days=3)
GEMMA_OTHER = "<|tool_call>call:other{}<tool_call|>"
GEMMA_4 = [
    ("Hello 🎉", Answer(text="Hello 🎉")),
    ("<|channel>thought\nHm.\n<channel|>Hello", Answer("Hm.", "Hello")),
    (GEMMA_WEATHER + GEMMA_OTHER, Answer(calls=(GEMMA_MEANT, OTHER))),
    ("<|channel>thought\n<channel|>Look." + GEMMA_WEATHER, Answer(text="Look.", calls=(GEMMA_MEANT,))),
    (GEMMA_OTHER + "Done.<|tool_response>", Answer(text="Done.", calls=(OTHER,))),
    ("Done.<|channel>thought\n<channel|>", Answer(text="Done.")),
    (
        '<|tool_call>call:get_weather{city:<|"|>Zürich 北',
        Answer(calls=(("get_weather", '{"city": "Zürich 北'),), notes=CUT_ARGUMENTS),
    ),
    ("<|tool_call>call:nope{a:1}<tool_call|>", Answer(text="<|tool_call>call:nope{a:1}<tool_call|>", notes=UNDECLARED)),
    ("<|tool_call>call:get_weather", Answer(text="<|tool_call>call:get_weather", notes=CUT_CALL)),
    ('<|tool_call>call:get_weather{"city":"Ulm"}', Answer(calls=(weather(city="Ulm"),))),
]  # fmt: skip
FUNCTIONGEMMA = [
    ("Hello 🎉", Answer(text="Hello 🎉")),
    (
        "<start_function_call>call:get_weather{city:<escape>Zürich {\"x\"}<escape>,days:3}<end_function_call>",
        Answer(calls=(weather(city='Zürich {"x"}', days=3),)),
    ),
    (
        "Look.<start_function_call>call:other{}<end_function_call><start_function_call>call:other{}<end_function_call>",
        Answer(text="Look.", calls=(OTHER, OTHER)),
    ),
    ("<start_function_call>call:other{}<end_function_call> Done.", Answer(text="Done.", calls=(OTHER,))),
    (
        "<start_function_call>call:get_weather{city:<escape>Ulm<esc",
        Answer(calls=(("get_weather", '{"city": "Ulm'),), notes=CUT_ARGUMENTS),
    ),
    (
        "<start_function_call>call:nope{}<end_function_call>",
        Answer(text="<start_function_call>call:nope{}<end_function_call>", notes=UNDECLARED),
    ),
]  # fmt: skip

NS = "]<]minimax[>["


def m3(*calls: str) -> str:
    return f"{NS}<tool_call>\n" + "".join(f"{NS}{call}{NS}</invoke>\n" for call in calls) + f"{NS}</tool_call>"


M3_WEATHER = (
    f'<invoke name="get_weather">{NS}<city>Zürich "x" </city> {{{NS}</city>{NS}<days>3{NS}</days>'
    f"{NS}<deep>{NS}<a>{NS}<item>true{NS}</item>{NS}<item>q{NS}</item>{NS}</a>{NS}</deep>"
)
M3_MEANT = weather(city='Zürich "x" </city> {', days=3, deep={"a": [True, "q"]})
M3_OTHER = '<invoke name="other">'
MINIMAX_M3 = [
    ("</mm:think>Hello 🎉", Answer(text="Hello 🎉")),
    ("<mm:think>Hm.</mm:think>Hello", Answer("Hm.", "Hello")),
    (m3(M3_WEATHER, M3_OTHER), Answer(calls=(M3_MEANT, OTHER))),
    ("<mm:think>Hm.</mm:think>Look." + m3(M3_WEATHER), Answer("Hm.", "Look.", (M3_MEANT,))),
    (m3(M3_OTHER) + "\nDone.", Answer(text="Done.", calls=(OTHER,))),
    (
        f'{NS}<tool_call>\n{NS}<invoke name="get_weather">{NS}<city>Ulm]<]mini',
        Answer(calls=(("get_weather", '{"city": "Ulm'),), notes=CUT_ARGUMENTS),
    ),
    (m3('<invoke name="nope">'), Answer(text=m3('<invoke name="nope">'), notes=UNDECLARED)),
    (f"{NS}<tool_call>nonsense", Answer(text=f"{NS}<tool_call>nonsense", notes=UNREAD)),
]  # fmt: skip

STEPS = "Here are my reasoning steps:\nHm.\n[BEGIN FINAL RESPONSE]\n"
APRIEL = [
    ("Hello 🎉", Answer(text="Hello 🎉")),
    (STEPS + "Hello\n[END FINAL RESPONSE]", Answer("Hm.", "Hello")),
    (
        STEPS + f"Look.\n<tool_calls>[{named(NASTY)}, {named({}, 'other')}]</tool_calls>",
        Answer("Hm.", "Look.", (weather(**NASTY), OTHER)),
    ),
    (f"<tool_calls>[{named({}, 'other')}]</tool_calls>\nDone.", Answer(text="Done.", calls=(OTHER,))),
    ("<tool_calls>[" + named(PLAIN)[:-20], Answer(calls=(("get_weather", SHORT),), notes=CUT_ARGUMENTS)),
    (
        f"<tool_calls>[{named({}, 'nope')}]</tool_calls>",
        Answer(text=f"<tool_calls>[{named({}, 'nope')}]</tool_calls>", notes=UNDECLARED),
    ),
    ("Here are my reasoning steps:\nnever ends", Answer("never ends", notes=CUT_THOUGHT)),
]  # fmt: skip


def cohere(arguments: Any, name: str = "get_weather", number: int = 0) -> str:
    return f'{{"tool_call_id": "{number}", "tool_name": "{name}", "parameters": {dump(arguments)}}}'


PLAN = "<|START_THINKING|>Hm.<|END_THINKING|>"
COMMAND_A = [
    ("<|START_RESPONSE|>Hello 🎉<|END_RESPONSE|>", Answer(text="Hello 🎉")),
    (PLAN + "<|START_RESPONSE|>Hello", Answer("Hm.", "Hello")),
    (
        PLAN + f"<|START_ACTION|>[\n    {cohere(NASTY)},\n    {cohere({}, 'other', 1)}\n]<|END_ACTION|>",
        Answer("Hm.", calls=(weather(**NASTY), OTHER), ids=("0", "1")),
    ),
    (f"<|START_ACTION|>[{cohere({}, 'other')}]<|END_ACTION|>", Answer(calls=(OTHER,), ids=("0",))),
    ("<|START_ACTION|>[\n    " + cohere(PLAIN)[:-20], Answer(calls=(("get_weather", SHORT),), notes=CUT_ARGUMENTS)),
    (
        f"<|START_ACTION|>[{cohere({}, 'nope')}]<|END_ACTION|>",
        Answer(text=f"<|START_ACTION|>[{cohere({}, 'nope')}]<|END_ACTION|>", notes=UNDECLARED),
    ),
    ("<|START_THINKING|>never ends", Answer("never ends", notes=CUT_THOUGHT)),
]  # fmt: skip

FUNCTIONARY_3_2 = [
    ("all\nHello 🎉", Answer(text="Hello 🎉")),
    ("get_weather\n" + dump(PLAIN), Answer(calls=(weather(**PLAIN),))),
    (
        "all\nLook.>>>get_weather\n" + dump(NASTY) + ">>>other\n{}",
        Answer(text="Look.", calls=(weather(**NASTY), OTHER)),
    ),
    (">>>all\nwith its own mark", Answer(text="with its own mark")),
    ('get_weather\n{"city": "Zür', Answer(calls=(("get_weather", '{"city": "Zür'),), notes=CUT_ARGUMENTS)),
    ("all\nLook.>>>nope\n{}", Answer(text="Look.>>>nope\n{}", notes=UNDECLARED)),
    ("allegro", Answer(text="allegro")),
    ("al", Answer(text="al")),
    ("all\n>>> 1 + 1\n2", Answer(text=">>> 1 + 1\n2", notes=UNREAD)),
]  # fmt: skip
FUNCTIONARY_3_1 = [
    ("Hello 🎉", Answer(text="Hello 🎉")),
    (f"<function=get_weather>{dump(NASTY)}</function>", Answer(calls=(weather(**NASTY),))),
    ("Look.<function=other>{}</function><function=other>{}</function>", Answer(text="Look.", calls=(OTHER, OTHER))),
    ("<function=other>{}</function> Done.", Answer(text="Done.", calls=(OTHER,))),
    ('<function=get_weather>{"city": "Zür', Answer(calls=(("get_weather", '{"city": "Zür'),), notes=CUT_ARGUMENTS)),
    ("<function=nope>{}</function>", Answer(text="<function=nope>{}</function>", notes=UNDECLARED)),
]  # fmt: skip
LLAMA_3 = [
    ("Hello 🎉", Answer(text="Hello 🎉")),
    (named(NASTY, key="parameters"), Answer(calls=(weather(**NASTY),))),
    ("<|python_tag|>" + named(PLAIN, key="parameters"), Answer(calls=(weather(**PLAIN),))),
    ('<|python_tag|>get_weather.call(city="Zürich", days=3)', Answer(calls=(weather(city="Zürich", days=3),))),
    (
        '<|python_tag|>get_weather.call(city="Zür',
        Answer(calls=(("get_weather", '{"city": "Zür'),), notes=CUT_ARGUMENTS),
    ),
    ('<|python_tag|>nope.call(city="Ulm")', Answer(text='<|python_tag|>nope.call(city="Ulm")', notes=UNREAD)),
    ("<|python_tag|>print(1)", Answer(text="<|python_tag|>print(1)", notes=UNREAD)),
    (named({}, "nope", "parameters"), Answer(text=named({}, "nope", "parameters"))),
    ('{"a": 1}', Answer(text='{"a": 1}')),
    ("<|python_tag|>print({'name': 'other'})", Answer(text="<|python_tag|>print({'name': 'other'})", notes=UNREAD)),
    ("<response>{}</response>", Answer(text="<response>{}</response>")),
]  # fmt: skip

DESCRIBED_BY_NAME = {each.name: each for each in DESCRIBED}
PYTHON_START, PYTHON_END = "<|python_start|>", "<|python_end|>"
PYTHONIC_WEATHER = "get_weather(city='Zürich \"x\"', deep={'a': [True, None, ')]']}, days=3)"
PYTHONIC_MEANT = weather(city='Zürich "x"', deep={"a": [True, None, ")]"]}, days=3)
PYTHONIC = [
    ("Hello 🎉", Answer(text="Hello 🎉")),
    ("[1] is no call, get_weather() neither", Answer(text="[1] is no call, get_weather() neither")),
    (f"[{PYTHONIC_WEATHER}, other()]", Answer(calls=(PYTHONIC_MEANT, OTHER))),
    (f"{PYTHON_START}[{PYTHONIC_WEATHER}]{PYTHON_END}", Answer(calls=(PYTHONIC_MEANT,))),
    (f"Look. {PYTHON_START}[other()]{PYTHON_END} Done.", Answer(text="Look.\n\nDone.", calls=(OTHER,))),
    ('[get_weather(city="Zür', Answer(calls=(("get_weather", '{"city": "Zür'),), notes=CUT_ARGUMENTS)),
    ("[nope(a=1)]", Answer(text="[nope(a=1)]")),
]
LLAMA_4 = [
    ("Hello 🎉", Answer(text="Hello 🎉")),
    (named(NASTY, key="parameters"), Answer(calls=(weather(**NASTY),))),
    (f"{PYTHON_START}{PYTHON_END}{named(PLAIN, key='parameters')}", Answer(calls=(weather(**PLAIN),))),
    (
        f"{PYTHON_START}Look.{PYTHON_END}{named(PLAIN, key='parameters')}{named({}, 'other', 'parameters')}",
        Answer(text="Look.", calls=(weather(**PLAIN), OTHER)),
    ),
    (f"{PYTHON_START}{named(PLAIN, key='parameters')}{PYTHON_END}", Answer(calls=(weather(**PLAIN),))),
    ('{"name": "get_weather", "parameters": {"city": "Zür',
     Answer(calls=(("get_weather", '{"city": "Zür'),), notes=CUT_ARGUMENTS)),
    (named({}, "nope", "parameters"), Answer(text=named({}, "nope", "parameters"))),
]  # fmt: skip

COMMANDS = replace(odd.COMMAND_A, text=Tags("<|START_RESPONSE|>", "<|END_RESPONSE|>"))
TABLES: list[tuple[ChatFormat, list[tuple[str, Answer]]]] = [
    (odd.HARMONY, HARMONY),
    (odd.MUSE, MUSE),
    (odd.KIMI_K3, KIMI_K3),
    (odd.SOLAR_OPEN, SOLAR),
    (odd.GIGACHAT_3, GIGACHAT_3),
    (odd.GIGACHAT_3_1, GIGACHAT_3_1),
    (odd.GEMMA_4, GEMMA_4),
    (odd.FUNCTIONGEMMA, FUNCTIONGEMMA),
    (odd.MINIMAX_M3, MINIMAX_M3),
    (odd.APRIEL, APRIEL),
    (COMMANDS, COMMAND_A),
    (odd.FUNCTIONARY_3_2, FUNCTIONARY_3_2),
    (odd.FUNCTIONARY_3_1, FUNCTIONARY_3_1),
    (odd.LLAMA_3, LLAMA_3),
    (DESCRIBED_BY_NAME["llama-4"], LLAMA_4),
    (DESCRIBED_BY_NAME["pythonic"], PYTHONIC),
]
CASES = [(format, raw, meant) for format, table in TABLES for raw, meant in table]


@each("format, raw, meant", CASES, ids=lambda case: f"{case[0].name} {case[1][:60]!r}")
def test_an_answer_is_read_alike_however_it_is_cut(format: ChatFormat, raw: str, meant: Answer) -> None:
    """Kimi K3's begin within the thought, which their prompts opened."""
    found = at_many_cuts(format, raw, in_thought=format is odd.KIMI_K3)
    assert (found if meant.ids else without_ids(found)) == meant


def test_every_odd_format_has_a_table() -> None:
    assert {format.name for format, _ in TABLES} >= {each.name for each in odd.ODD}
    assert all(len(table) >= 6 for _, table in TABLES)


RUNS_CODE = Function(name="python", parameters='{"type": "object", "properties": {"source": {"type": "string"}}}')


@pytest.mark.parametrize("format", [odd.LLAMA_3, odd.FUNCTIONARY_3_1], ids=lambda format: format.name)
def test_code_behind_the_python_tag_is_a_call_of_the_function_that_runs_code(format: ChatFormat) -> None:
    code = 'print("a")\nif x == {"b": 1}:\n    pass'
    answer = at_many_cuts(format, f"<|python_tag|>{code}", functions=(*FUNCTIONS, RUNS_CODE))
    assert without_ids(answer) == Answer(calls=(("python", {"source": code}),))


def test_a_call_in_code_is_numbered_behind_those_before_it() -> None:
    raw = "<function=other>{}</function><|python_tag|>get_weather.call(city='Ulm')<function=other>{}</function>"
    assert at_many_cuts(odd.FUNCTIONARY_3_1, raw).calls == (OTHER, weather(city="Ulm"), OTHER)


IN_THOUGHT = [
    (odd.HARMONY, "on.<|end|><|start|>assistant<|channel|>final<|message|>Hi", Answer("on.", "Hi")),
    (odd.HARMONY, "never ends", Answer("never ends", notes=CUT_THOUGHT)),
    (odd.MUSE, "on.<|eom|><|start|>assistant to=user<|message|>Hi", Answer("on.", "Hi")),
    (odd.APRIEL, "on.\n[BEGIN FINAL RESPONSE]\nHi", Answer("on.", "Hi")),
    (odd.SOLAR_OPEN, "on.<|end|><|begin|>assistant<|content|>Hi", Answer("on.", "Hi")),
]


@pytest.mark.parametrize(("format", "raw", "meant"), IN_THOUGHT, ids=lambda each: getattr(each, "name", None))
def test_a_thought_that_the_prompt_opened_is_one(format: ChatFormat, raw: str, meant: Answer) -> None:
    assert at_many_cuts(format, raw, in_thought=True) == meant


UNSPLIT = [
    (odd.HARMONY, said("analysis", "A\n") + NEXT + said("final", "B"), said("analysis", "A\n") + "<|end|>\n\nB"),
    (odd.MUSE, to("self", "A") + ON + to("user", "B"), to("self", "A") + "<|eom|>\n\nB"),
    (odd.GEMMA_4, "<|channel>thought\nA\n<channel|>B", "<|channel>thought\nA\n<channel|>B"),
]


@pytest.mark.parametrize(("format", "raw", "text"), UNSPLIT, ids=lambda each: getattr(each, "name", None))
def test_thoughts_that_are_not_split_off_are_text_with_their_marks(format: ChatFormat, raw: str, text: str) -> None:
    assert at_many_cuts(format, raw, splits_thoughts=False) == Answer(text=text)


UNCALLED = [
    (odd.HARMONY, asked(PLAIN) + "<|call|>"),
    (odd.MUSE, to("other", atem(OTHER)) + "<|eot|>"),
    (odd.LLAMA_3, '<|python_tag|>get_weather.call(city="Ulm")'),
    (odd.GEMMA_4, GEMMA_WEATHER),
]


@pytest.mark.parametrize(("format", "raw"), UNCALLED, ids=lambda each: getattr(each, "name", None))
def test_calls_that_are_not_read_are_text(format: ChatFormat, raw: str) -> None:
    assert at_many_cuts(format, raw, reads_calls=False) == Answer(text=raw)


@pytest.mark.parametrize("format", [odd.HARMONY, odd.MUSE], ids=lambda format: format.name)
def test_the_text_of_a_message_waits_no_longer_than_it_may_be_a_marker(format: ChatFormat) -> None:
    reader = reader_of(format, FUNCTIONS)
    header = said("final", "") if format is odd.HARMONY else to("user", "")
    assert reader.feed(header + "Hello wor").text == "Hello wor"
    assert reader.feed("ld<|").text == "ld"
    assert reader.feed("x").text == "<|x"


@pytest.mark.parametrize("format", [odd.HARMONY, odd.MUSE], ids=lambda format: format.name)
def test_it_is_known_when_a_message_is_a_thought(format: ChatFormat) -> None:
    reader = reader_of(format, FUNCTIONS)
    opening, closing = (format.thought.opening, format.thought.closing) if format.thought else ("", "")
    seen = []
    for piece in (opening, "A", closing, format.behind_thought, format.text.opening if format.text else "", "B"):
        reader.feed(piece)
        seen.append(reader.is_thinking)
    assert seen == [True, True, False, False, False, False]


LONG = ["x" * 200_000, "<|" * 60_000, "{" * 100_000, ">>>a\n" * 20_000, "<|channel|>" * 8_000]
SOME_LONG = [(format, LONG[(number + step) % len(LONG)]) for number, format in enumerate(odd.ODD) for step in (0, 2)]


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(SOME_LONG, id="some"),
        pytest.param([*itertools.product(odd.ODD, LONG)], id="all", marks=pytest.mark.exhaustive),
    ],
)
def test_long_answers_take_linear_time(cases: list[tuple[ChatFormat, str]]) -> None:
    """In small pieces: reading from the start again at each would take minutes, beyond the suite's limit."""
    for format, text in cases:
        pieces = [text[at : at + 16] for at in range(0, len(text), 16)]
        found = read(format, pieces)
        assert len(found.text) > len(text) * 0.9, format.name
