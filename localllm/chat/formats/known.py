# ruff: noqa: RUF001
"""Answer formats that models are trained on, described by hand: how each writes its calls.

Facts that depend on the template rather than the family (reasoning, ends of turns) are found by rendering; a
description has reasoning tags only if rendering cannot reveal them. If two describe the same calls, the first is used.
"""

from __future__ import annotations

from localllm.chat.formats.odd import ODD
from localllm.types.formats import (
    Calls,
    ChatFormat,
    JsonArguments,
    ObjectCall,
    PatternCall,
    PythonArguments,
    Slot,
    SlotKind,
    TaggedArguments,
)

HERMES = Calls(call=ObjectCall(before="<tool_call>\n", after="\n</tool_call>"), between="\n")
GENERIC = ChatFormat(calls=HERMES)
"""What models write without specific training; also used to describe tools to them."""


def _known(name: str, calls: Calls, ignored: tuple[str, ...] = ()) -> ChatFormat:
    return ChatFormat(name=name, origin="known", calls=calls, ignored=ignored)


def _objects(begin: str, between: str, end: str, *keys: tuple[SlotKind, str], also: tuple[str, ...] = ()) -> Calls:
    """JSON objects in a row, usually a JSON array."""
    call = ObjectCall(keys=keys) if keys else ObjectCall()
    return Calls(call=call, begin=begin, between=between, end=end, also_begins=also)


def _pattern(
    before: str,
    *slots: tuple[SlotKind, str],
    begin: str = "",
    between: str = "",
    end: str = "",
    arguments: TaggedArguments | PythonArguments | JsonArguments | None = None,
    also: tuple[str, ...] = (),
) -> Calls:
    return Calls(
        call=PatternCall(before=before, slots=tuple(Slot(*each) for each in slots)),
        arguments=arguments or JsonArguments(),
        begin=begin,
        between=between,
        end=end,
        also_begins=also,
    )


def _dsml(section: str, between: str, after: str, behind: str) -> Calls:
    """DeepSeek's format since V3.2: invocations with parameters whose type is marked."""
    arguments = TaggedArguments(
        before='<｜DSML｜parameter name="',
        before_type='" string="',
        type_marks=(("string", "true"), ("*", "false")),
        behind_key='">',
        after=after,
        between=between,
    )
    return _pattern(
        '<｜DSML｜invoke name="', ("name", '">\n'), ("arguments", behind + "</｜DSML｜invoke>"), arguments=arguments,
        begin=f"<｜DSML｜{section}>\n", between="\n", end=f"\n</｜DSML｜{section}>",
    )  # fmt: skip


def _functions(opening: str, closing: str, value: tuple[str, str], between: str = "\n") -> Calls:
    """`<function=NAME>` with `<parameter=KEY>` inside; `value` surrounds each value."""
    before, after = value
    arguments = TaggedArguments(before="<parameter=", behind_key=f">{before}", after=f"{after}</parameter>\n")
    return _pattern(
        f"{opening}\n<function=", ("name", ">\n"), ("arguments", f"</function>\n{closing}"), arguments=arguments,
        between=between,
    )  # fmt: skip


def _invocations(section: str, begin: str = "\n", end: str = "\n") -> Calls:
    """`<invoke name="NAME">` with `<parameter name="KEY">` inside."""
    arguments = TaggedArguments(before='<parameter name="', behind_key='">', after="</parameter>\n")
    return _pattern(
        '<invoke name="', ("name", '">\n'), ("arguments", "</invoke>"), arguments=arguments,
        begin=f"<{section}>{begin}", between="\n", end=f"{end}</{section}>",
    )  # fmt: skip


_HY = ":opensource"
_PARAMETERS: tuple[tuple[SlotKind, str], ...] = (("name", "name"), ("arguments", "parameters"))
_COHERE: tuple[tuple[SlotKind, str], ...] = (
    ("id", "tool_call_id"),
    ("name", "tool_name"),
    ("arguments", "parameters"),
)

_LLAMA_4 = "<|python_start|>", "<|python_end|>"
"""The template puts these around text before calls; models also put them around calls."""

DESCRIBED: tuple[ChatFormat, ...] = (
    *ODD,
    _known("hermes", HERMES),
    _known("exaone-4", Calls(call=ObjectCall(before="<tool_call>", after="</tool_call>"), between="\n")),
    _known("qwen3-coder", _functions("<tool_call>", "</tool_call>", ("\n", "\n"))),
    _known("mimo", _functions("<tool_call>", "</tool_call>", ("", ""))),
    _known("step-3.5", _functions("<tool_call>", "</tool_call>", ("\n", "\n"), between="")),
    _known("seed-oss", _functions("<seed:tool_call>", "</seed:tool_call>", ("", ""))),
    _known(
        "glm-4.5",
        _pattern(
            "<tool_call>", ("name", "\n"), ("arguments", "</tool_call>"), between="\n",
            arguments=TaggedArguments(
                before="<arg_key>", behind_key="</arg_key>\n<arg_value>", after="</arg_value>\n"
            ),
        ),
    ),
    _known(
        "glm-4.7",
        _pattern(
            "<tool_call>", ("name", ""), ("arguments", "</tool_call>"),
            arguments=TaggedArguments(before="<arg_key>", behind_key="</arg_key><arg_value>", after="</arg_value>"),
        ),
    ),
    _known(
        "ling-3",
        _pattern(
            "<tool_call>", ("name", "\n"), ("arguments", "\n</tool_call>"), between="\n",
            arguments=TaggedArguments(before="<arg_key>", behind_key="</arg_key>\n<arg_value>", after="</arg_value>"),
        ),
    ),
    _known(
        "hunyuan-3",
        _pattern(
            f"<tool_call{_HY}>", ("name", f"<tool_sep{_HY}>\n"), ("arguments", f"</tool_call{_HY}>"),
            begin=f"<tool_calls{_HY}>\n", between="\n", end=f"\n</tool_calls{_HY}>",
            arguments=TaggedArguments(
                before=f"<arg_key{_HY}>",
                behind_key=f"</arg_key{_HY}>\n<arg_value{_HY}>",
                after=f"</arg_value{_HY}>\n",
            ),
        ),
    ),
    _known(
        "k2-horizon",
        _pattern(
            "<ifm|tool_call>", ("name", "\n"), ("arguments", "</ifm|tool_call>"),
            begin="<ifm|tool_calls>\n", between="\n", end="\n</ifm|tool_calls>",
            arguments=TaggedArguments(
                before="<ifm|arg_key>", behind_key="</ifm|arg_key>\n<ifm|arg_value>", after="</ifm|arg_value>\n"
            ),
        ),
    ),
    _known("minimax-m2", _invocations("minimax:tool_call")),
    _known("minimax-m1", _objects("<tool_calls>\n", "\n", "\n</tool_calls>")),
    _known(
        "minicpm-5",
        _pattern(
            '<function name="', ("name", '">'), ("arguments", "</function>"), between="\n",
            arguments=TaggedArguments(
                before='<param name="', behind_key='">', after="</param>", quotes=("<![CDATA[", "]]>")
            ),
        ),
    ),
    _known("deepseek-v4", _dsml("tool_calls", "\n", "</｜DSML｜parameter>", "\n")),
    _known("deepseek-v3.2", _dsml("function_calls", "", "</｜DSML｜parameter>\n", "")),
    _known(
        "deepseek-v3.1",
        _pattern(
            "<｜tool▁call▁begin｜>", ("name", "<｜tool▁sep｜>"), ("arguments", "<｜tool▁call▁end｜>"),
            begin="<｜tool▁calls▁begin｜>", end="<｜tool▁calls▁end｜>",
        ),
    ),
    _known(
        "deepseek-r1",
        _pattern(
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
            ("name", "\n```json\n"), ("arguments", "\n```<｜tool▁call▁end｜>"),
            begin="<｜tool▁calls▁begin｜>", between="\n", end="<｜tool▁calls▁end｜>",
        ),
    ),
    _known(
        "kimi-k2",
        _pattern(
            "<|tool_call_begin|>functions.",
            ("name", ":"), ("number", "<|tool_call_argument_begin|>"), ("arguments", "<|tool_call_end|>"),
            begin="<|tool_calls_section_begin|>", end="<|tool_calls_section_end|>",
        ),
    ),
    _known(
        "mistral-small-3.2", _pattern("[TOOL_CALLS]", ("name", "[CALL_ID]"), ("id", "[ARGS]"), ("arguments", ""))
    ),
    _known("ministral-3", _pattern("[TOOL_CALLS]", ("name", "[ARGS]"), ("arguments", ""))),
    _known(
        "mistral-nemo",
        _objects("[TOOL_CALLS][", ", ", "]", ("name", "name"), ("arguments", "arguments"), ("id", "id")),
    ),
    _known("mistral", _objects("[TOOL_CALLS][", ", ", "]")),
    _known("phi-4-mini", _objects("<|tool_call|>[", ", ", "]<|/tool_call|>")),
    _known("granite-3", _objects("<|tool_call|>[", ", ", "]", also=("<tool_call>[",))),
    _known("nemotron-2", _objects("<TOOLCALL>[", ", ", "]</TOOLCALL>")),
    _known("hunyuan", _objects("<tool_calls>[", ", ", "]</tool_calls>")),
    _known("firefunction", _objects("functools[", ", ", "]")),
    _known("command-r", _objects("Action:\n```json\n[\n", ",\n", "\n]```", *_COHERE[1:])),
    _known(
        "apertus",
        Calls(
            call=ObjectCall(keys=()), begin="<|tools_prefix|>[", between=", ", end="]<|tools_suffix|>"
        ),
    ),
    _known(
        "lfm2",
        _pattern(
            "", ("name", "("), ("arguments", ")"),
            begin="<|tool_call_start|>[", between=", ", end="]<|tool_call_end|>", arguments=PythonArguments(),
        ),
    ),
    _known(
        "olmo-3",
        _pattern(
            "", ("name", "("), ("arguments", ")"),
            begin="<function_calls>", between="\n", end="</function_calls>", arguments=PythonArguments(),
        ),
    ),
    _known(
        "internlm-2",
        Calls(call=ObjectCall(before="<|action_start|><|plugin|>\n", after="<|action_end|>\n", keys=_PARAMETERS)),
    ),
    _known(
        "llama-4",
        Calls(call=ObjectCall(keys=_PARAMETERS), also_begins=_LLAMA_4),
        ignored=_LLAMA_4,
    ),
    _known("xlam", Calls(call=ObjectCall(), begin="[", between=", ", end="]")),
    _known(
        "pythonic",
        _pattern(
            "", ("name", "("), ("arguments", ")"), begin="[", between=", ", end="]", arguments=PythonArguments(),
            also=tuple(f"{mark}[" for mark in _LLAMA_4),
        ),
        ignored=_LLAMA_4,
    ),
)  # fmt: skip

SHOWN_BY: dict[str, tuple[str, ...]] = {
    "lfm2": ("<|tool_list_start|>", "List of tools: ["),
    "kimi-k2": ("<|im_system|>tool_declare<|im_middle|>",),
    "granite-3": ("<|tool_call|> followed by a JSON list",),
}
"""Marks of a prompt with tools, for families whose template writes no calls."""
