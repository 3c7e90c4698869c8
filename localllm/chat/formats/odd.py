"""Answer formats that need more than tags around reasoning and calls: messages with headers, tags around text,
arguments that are not JSON. Literals are exactly as the templates write them, including white space."""

from __future__ import annotations

from localllm.types.formats import (
    BareArguments,
    Calls,
    ChatFormat,
    NestedArguments,
    ObjectCall,
    PatternCall,
    Slot,
    SlotKind,
    TaggedArguments,
)
from localllm.types.structures import Tags

HARMONY = ChatFormat(
    name="harmony",
    origin="known",
    thought=Tags("<|channel|>analysis<|message|>", "<|end|>"),
    behind_thought="<|start|>assistant",
    text=Tags("<|channel|>final<|message|>", ""),
    also_text=("<|channel|>commentary<|message|>",),
    calls=Calls(
        call=PatternCall(
            before="<|channel|>commentary to=functions.",
            slots=(Slot("name", " <|constrain|>json<|message|>"), Slot("arguments", "<|call|>")),
        ),
        between="<|start|>assistant",
        is_single=True,
    ),
    protocol="harmony",
    turn_end="<|return|>",
)
"""gpt-oss. Calls and texts both end the answer, each with a token that is not part of the text."""

MUSE = ChatFormat(
    name="muse",
    origin="known",
    thought=Tags(" to=self<|message|>", "<|eom|>"),
    behind_thought="<|start|>assistant",
    text=Tags(" to=user<|message|>", ""),
    calls=Calls(
        call=PatternCall(
            before='<atem:function_calls>\n<atem:invoke name="',
            slots=(Slot("name", '">\n'), Slot("arguments", "</atem:invoke>\n</atem:function_calls>")),
        ),
        arguments=TaggedArguments(before='<atem:parameter name="', behind_key='">', after="</atem:parameter>\n"),
        between="\n",
    ),
    protocol="muse",
    turn_end="<|eot|>",
)
"""Muse Glimmer. The header of a call's message, ` to=NAME<|message|>`, comes before the call described here."""

KIMI_K3 = ChatFormat(
    name="kimi-k3",
    origin="known",
    thought=Tags("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    behind_thought="",
    text=Tags("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    calls=Calls(
        call=PatternCall(
            before='<|open|>call tool="',
            slots=(Slot("name", '" index="'), Slot("number", '"<|sep|>'), Slot("arguments", "<|close|>call<|sep|>")),
            first_number=1,
        ),
        arguments=TaggedArguments(
            before='<|open|>argument key="',
            before_type='" type="',
            type_marks=(
                ("string", "string"),
                ("boolean", "boolean"),
                ("null", "null"),
                ("integer", "number"),
                ("number", "number"),
                ("object", "object"),
                ("array", "array"),
            ),
            behind_key='"<|sep|>',
            after="<|close|>argument<|sep|>",
        ),
        begin="<|open|>tools<|sep|>",
        end="<|close|>tools<|sep|>",
    ),
    ignored=("<|close|>message<|sep|>",),
    turn_end="<|close|>message<|sep|><|end_of_msg|>",
)

SOLAR_OPEN = ChatFormat(
    name="solar-open",
    origin="known",
    thought=Tags("<|think|>", "<|end|>"),
    behind_thought="<|begin|>assistant",
    text=Tags("<|content|>", ""),
    calls=Calls(
        call=PatternCall(
            before="<|tool_call:begin|>",
            slots=(
                Slot("id", "<|tool_call:name|>"),
                Slot("name", "<|tool_call:args|>"),
                Slot("arguments", "<|tool_call:end|>"),
            ),
        ),
        begin="<|tool_calls|>",
        end="<|calls|>",
    ),
    ignored=("<|begin|>assistant", "<|end|>"),
    turn_end="<|end|>",
)

GIGACHAT_3 = ChatFormat(
    name="gigachat-3",
    origin="known",
    calls=Calls(call=ObjectCall(), begin="<|message_sep|>\n\nfunction call<|role_sep|>\n", is_single=True),
    ignored=("<|message_sep|>",),
    turn_end="<|message_sep|>\n\n",
)
GIGACHAT_3_1 = ChatFormat(
    name="gigachat-3.1",
    origin="known",
    calls=Calls(call=ObjectCall(before="<|function_call|>"), is_single=True),
    ignored=("<|message_sep|>",),
    turn_end="<|message_sep|>\n\n",
)


def _gemma_calls(opening: str, quote: str, closing: str) -> Calls:
    call = PatternCall(before=f"{opening}call:", slots=(Slot("name"), Slot("arguments", closing)))
    return Calls(call=call, arguments=BareArguments(quote=quote))


GEMMA_4 = ChatFormat(
    name="gemma-4",
    origin="known",
    thought=Tags("<|channel>thought\n", "\n<channel|>"),
    behind_thought="",
    calls=_gemma_calls("<|tool_call>", '<|"|>', "<tool_call|>"),
    ignored=("<|channel>thought\n<channel|>", "<channel|>", "<|tool_response>"),
    turn_end="<turn|>\n",
)
"""The model occasionally writes empty reasoning after its text, or only the closing tag; after calls, the opening of
their results."""

FUNCTIONGEMMA = ChatFormat(
    name="functiongemma",
    origin="known",
    calls=_gemma_calls("<start_function_call>", "<escape>", "<end_function_call>"),
    turn_end="<end_of_turn>\n",
)

_M3 = "]<]minimax[>["
MINIMAX_M3 = ChatFormat(
    name="minimax-m3",
    origin="known",
    thought=Tags("<mm:think>", "</mm:think>"),
    behind_thought="",
    calls=Calls(
        call=PatternCall(
            before=f'{_M3}<invoke name="', slots=(Slot("name", '">'), Slot("arguments", f"{_M3}</invoke>\n"))
        ),
        arguments=NestedArguments(prefix=_M3),
        begin=f"{_M3}<tool_call>\n",
        end=f"{_M3}</tool_call>",
    ),
    ignored=("</mm:think>",),
    turn_end="[e~[\n",
)
"""An answer without reasoning begins with the closing tag."""

_COHERE: tuple[tuple[SlotKind, str], ...] = (("id", "tool_call_id"), ("name", "tool_name"), ("arguments", "parameters"))


COMMAND_A = ChatFormat(
    name="command-a",
    origin="known",
    thought=Tags("<|START_THINKING|>", "<|END_THINKING|>"),
    behind_thought="",
    calls=Calls(
        call=ObjectCall(keys=_COHERE), begin="<|START_ACTION|>[\n    ", between=",\n    ", end="\n]<|END_ACTION|>"
    ),
    turn_end="<|END_OF_TURN_TOKEN|>",
)
"""Command R7B and all later models. The tags around text differ, and are found by rendering."""

APRIEL = ChatFormat(
    name="apriel",
    origin="known",
    thought=Tags("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
    behind_thought="",
    calls=Calls(call=ObjectCall(), begin="\n<tool_calls>[", between=", ", end="]</tool_calls>"),
    ignored=("[END FINAL RESPONSE]",),
    turn_end="\n<|end|>\n",
)

FUNCTIONARY_3_2 = ChatFormat(
    name="functionary-3.2",
    origin="known",
    text=Tags(">>>all\n", ""),
    calls=Calls(call=PatternCall(before=">>>", slots=(Slot("name", "\n"), Slot("arguments")))),
    opened=">>>",
    turn_end="<|eot_id|>",
)
FUNCTIONARY_3_1 = ChatFormat(
    name="functionary-3.1",
    origin="known",
    calls=Calls(
        call=PatternCall(before="<function=", slots=(Slot("name", ">"), Slot("arguments", "</function>"))),
    ),
    protocol="python_tag",
    turn_end="<|eom_id|>",
)
LLAMA_3 = ChatFormat(
    name="llama-3",
    origin="known",
    calls=Calls(
        call=ObjectCall(keys=(("name", "name"), ("arguments", "parameters"))),
        also_begins=("<|python_tag|>",),
        is_single=True,
    ),
    protocol="python_tag",
    turn_end="<|eot_id|>",
)

ODD = (
    HARMONY,
    MUSE,
    KIMI_K3,
    SOLAR_OPEN,
    GIGACHAT_3,
    GIGACHAT_3_1,
    GEMMA_4,
    FUNCTIONGEMMA,
    MINIMAX_M3,
    COMMAND_A,
    APRIEL,
    FUNCTIONARY_3_2,
    FUNCTIONARY_3_1,
    LLAMA_3,
)
