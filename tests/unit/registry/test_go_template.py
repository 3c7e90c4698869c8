"""Go templates of Ollama's models in Jinja: well-known ones against prompts written by hand, and every construct."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.chat.jinja import apply
from localllm.chat.request import RenderRequest
from localllm.chat.template import render
from localllm.errors import InvalidParameter
from localllm.registry.go_template.translating import to_jinja
from localllm.types import Message, Rendering


def prompt(template: str, *turns: tuple[str, str], generation: bool = True, **variables: Any) -> str:
    messages = [{"role": role, "content": content} for role, content in turns]
    return apply(to_jinja(template), messages=messages, add_generation_prompt=generation, **variables)


def dot(template: str, content: str = "hi") -> str:
    """What a template writes that uses `.Messages`, of one message."""
    return prompt(template + "{{ if .Messages }}{{ end }}", ("user", content))


CHAT = (("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello!"), ("user", "Bye"))

LEGACY = {
    "llama2": (
        "[INST] <<SYS>>{{ .System }}<</SYS>>\n\n{{ .Prompt }} [/INST]\n",
        "[INST] <<SYS>>Be brief.<</SYS>>\n\nHi [/INST]\nHello![INST] <<SYS>><</SYS>>\n\nBye [/INST]\n",
    ),
    "llama2 with a condition": (
        "[INST] {{ if .System }}<<SYS>>{{ .System }}<</SYS>>\n\n{{ end }}{{ .Prompt }} [/INST] {{ .Response }}</s>",
        "[INST] <<SYS>>Be brief.<</SYS>>\n\nHi [/INST] Hello!</s>[INST] Bye [/INST] ",
    ),
    "mistral": (
        "[INST] {{ if .System }}{{ .System }} {{ end }}{{ .Prompt }} [/INST]",
        "[INST] Be brief. Hi [/INST]Hello![INST] Bye [/INST]",
    ),
    "vicuna": (
        "{{ if .System }}{{ .System }}\n\n{{ end }}{{ if .Prompt }}USER: {{ .Prompt }}\n{{ end }}"
        "ASSISTANT: {{ .Response }}\n",
        "Be brief.\n\nUSER: Hi\nASSISTANT: Hello!\nUSER: Bye\nASSISTANT: ",
    ),
    "alpaca": (
        "{{ if .System }}{{ .System }}\n\n{{ end }}{{ if .Prompt }}### Instruction:\n{{ .Prompt }}\n\n{{ end }}"
        "### Response:\n{{ .Response }}\n\n",
        "Be brief.\n\n### Instruction:\nHi\n\n### Response:\nHello!\n\n### Instruction:\nBye\n\n### Response:\n",
    ),
    "chatml": (
        "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}"
        "{{ if .Prompt }}<|im_start|>user\n{{ .Prompt }}<|im_end|>\n{{ end }}"
        "<|im_start|>assistant\n{{ .Response }}<|im_end|>\n",
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        "Hello!<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    ),
    "gemma": (
        "<start_of_turn>user\n{{ if .System }}{{ .System }} {{ end }}{{ .Prompt }}<end_of_turn>\n"
        "<start_of_turn>model\n{{ .Response }}<end_of_turn>\n",
        "<start_of_turn>user\nBe brief. Hi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n"
        "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
    ),
    "phi3": (
        "{{ if .System }}<|system|>\n{{ .System }}<|end|>\n{{ end }}{{ if .Prompt }}<|user|>\n{{ .Prompt }}<|end|>\n"
        "{{ end }}<|assistant|>\n{{ .Response }}<|end|>\n",
        "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello!<|end|>\n<|user|>\nBye<|end|>\n"
        "<|assistant|>\n",
    ),
    "zephyr": (
        "{{- if .System }}\n<|system|>\n{{ .System }}\n</s>\n{{- end }}\n<|user|>\n{{ .Prompt }}\n</s>\n"
        "<|assistant|>\n",
        "\n<|system|>\nBe brief.\n</s>\n<|user|>\nHi\n</s>\n<|assistant|>\nHello!\n<|user|>\nBye\n</s>\n"
        "<|assistant|>\n",
    ),
    "command-r": (
        "{{ if .System }}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{{ .System }}<|END_OF_TURN_TOKEN|>{{ end }}"
        "{{ if .Prompt }}<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{ .Prompt }}<|END_OF_TURN_TOKEN|>{{ end }}"
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{{ .Response }}<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be brief.<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Hello!<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Bye<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    ),
}


@pytest.mark.parametrize("name", LEGACY)
def test_a_template_of_prompt_and_response_writes_a_conversation_turn_by_turn(name: str) -> None:
    template, expected = LEGACY[name]
    assert prompt(template, *CHAT) == expected


def test_a_conversation_that_ends_with_an_answer_is_whole_or_goes_on() -> None:
    template, _ = LEGACY["chatml"]
    assert prompt(template, *CHAT[1:3], generation=False).endswith("assistant\nHello!<|im_end|>\n")
    assert prompt(template, *CHAT[1:3]).endswith("assistant\nHello!"), "an answer to be continued"


def test_what_two_users_or_two_systems_say_in_a_row_is_one_message() -> None:
    template, _ = LEGACY["vicuna"]
    turns = (("system", "A"), ("system", "B"), ("user", "C"), ("user", "D"))
    assert prompt(template, *turns) == "A\n\nB\n\nUSER: C\n\nD\nASSISTANT: "


def test_a_system_message_in_the_middle_begins_a_turn() -> None:
    template, _ = LEGACY["vicuna"]
    turns = (("user", "A"), ("assistant", "B"), ("system", "C"), ("user", "D"))
    assert prompt(template, *turns) == "USER: A\nASSISTANT: B\nC\n\nUSER: D\nASSISTANT: "


def test_parts_of_a_message_that_are_text_are_joined() -> None:
    content = [{"type": "text", "text": "A"}, {"type": "image"}, {"type": "text", "text": "B"}]
    template = to_jinja(LEGACY["vicuna"][0])
    assert apply(template, messages=[{"role": "user", "content": content}]) == "USER: AB\nASSISTANT: "


LLAMA31 = """\
{{- if or .System .Tools }}<|start_header_id|>system<|end_header_id|>
{{- if .System }}

{{ .System }}
{{- end }}
{{- if .Tools }}

Cutting Knowledge Date: December 2023
{{- end }}<|eot_id|>
{{- end }}
{{- range $i, $_ := .Messages }}
{{- $last := eq (len (slice $.Messages $i)) 1 }}
{{- if eq .Role "user" }}<|start_header_id|>user<|end_header_id|>
{{- if and $.Tools $last }}

Given the following functions, please respond with a JSON for a function call.

{{ range $.Tools }}
{{- . }}
{{ end }}
Question: {{ .Content }}<|eot_id|>
{{- else }}

{{ .Content }}<|eot_id|>
{{- end }}{{ if $last }}<|start_header_id|>assistant<|end_header_id|>

{{ end }}
{{- else if eq .Role "assistant" }}<|start_header_id|>assistant<|end_header_id|>
{{- if .ToolCalls }}
{{ range .ToolCalls }}
{"name": "{{ .Function.Name }}", "parameters": {{ .Function.Arguments }}}{{ end }}
{{- else }}

{{ .Content }}
{{- end }}{{ if not $last }}<|eot_id|>{{ end }}
{{- else if eq .Role "tool" }}<|start_header_id|>ipython<|end_header_id|>

{{ .Content }}<|eot_id|>{{ if $last }}<|start_header_id|>assistant<|end_header_id|>

{{ end }}
{{- end }}
{{- end }}"""
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": {"type": "object"}}}
TOOL_JSON = '{"type":"function","function":{"name":"add","description":"Adds","parameters":{"type":"object"}}}'


def test_llama_3_1_writes_a_conversation() -> None:
    assert prompt(LLAMA31, *CHAT) == (
        "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_llama_3_1_writes_tools_calls_and_results() -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": "é<"}}}
    messages = [
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "2"},
        {"role": "user", "content": "Thanks"},
    ]
    written = apply(to_jinja(LLAMA31), messages=messages, tools=[TOOL], add_generation_prompt=True)
    assert written == (
        "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\n1+1?<|eot_id|>"
        '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "add", "parameters": {"a":1,"b":"é<"}}<|eot_id|>'
        "<|start_header_id|>ipython<|end_header_id|>\n\n2<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nGiven the following functions, please respond with a JSON for a "
        f"function call.\n\n{TOOL_JSON}\n\nQuestion: Thanks<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_a_translated_template_goes_through_what_every_template_does() -> None:
    tools = '[{"type":"function","function":{"name":"qzadd","parameters":{"type":"object","properties":{}}}}]'
    request = RenderRequest(to_jinja(LLAMA31), (Message("user", "Hi"),), rendering=Rendering(tools=tools))
    assert "qzadd" in render(request).text
    described = RenderRequest(to_jinja(LEGACY["chatml"][0]), (Message("user", "Hi"),), rendering=Rendering(tools=tools))
    assert "qzadd" in render(described).text, "a template that shows no tools has them in its system message"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("a  {{- /* nothing */ -}}  b", "ab"),
        ("a {{- 1 -}} b {{ 2 }} c", "a1b 2 c"),
        ('{{ "a\\tb\\u00e9\\"" }}{{ `raw\\n` }}', 'a\tbé"raw\\n'),
        ("{{ true }} {{ 1.5 }} {{ -3 }}", "true 1.5 -3"),
        ("{% raw %} {# no #} {{ `}}` }}", "{% raw %} {# no #} }}"),
        ("{{ if eq 1 2 1 }}one of them{{ end }}", "one of them"),
        ("{{ if and (ne 1 2) (lt 1 2) (le 2 2) (gt 3 2) (ge 3 3) }}y{{end}}", "y"),
        ("{{ and 1 0 }}{{ or 0 `x` }}{{ not 0 }}", "0xtrue"),
        ("{{ len `abc` }}{{ len .Messages }}{{ (index .Messages 0).Content }}", "31hi"),
        ("{{ slice `abcdef` 1 3 }}{{ slice `abc` 1 }}", "bcbc"),
        ("{{ .Messages | len | eq 1 }}", "true"),
        ("{{ print `a` `b` }}{{ printf `%s is %v%%` `x` 5 }}", "abx is 5%"),
        ("{{ json `a\"b` }}", '"a\\"b"'),
        ("{{ $x := 1 }}{{ range .Messages }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ $x }}{{ end }}{{ $x }}", "21"),
        ("{{ if $x := .Messages }}{{ len $x }}{{ end }}", "1"),
        ("{{ with .System }}s{{ else }}none{{ end }}", "none"),
        ("{{ with index .Messages 0 }}{{ .Content }}{{ $.System }}{{ end }}", "hi"),
        ("{{ range .Tools }}t{{ else }}no tools{{ end }}", "no tools"),
        ("{{ range $m := .Messages }}{{ $m.Role }}{{ end }}", "user"),
        ("{{ range .Messages }}{{ .Content }}{{ break }}x{{ end }}", "hi"),
        ("{{ range .Messages }}{{ continue }}x{{ end }}", ""),
        ("{{ if false }}a{{ else if false }}b{{ else if true }}c{{ else }}d{{ end }}e", "ce"),
        ("{{ if false }}a{{ else if false }}b{{ else }}d{{ end }}e", "de"),
        ("{{ range .Messages }}{{ range .ToolCalls }}x{{ end }}{{ .Thinking }}{{ end }}", ""),
    ],
)  # fmt: skip
def test_each_construct_means_what_it_means_in_go(template: str, expected: str) -> None:
    assert dot(template) == expected


def test_properties_of_a_tool_are_ranged_over_by_name() -> None:
    template = (
        "{{ range .Tools }}{{ range $name, $p := .Function.Parameters.Properties }}{{ $name }}:{{ $p.Type }}"
        "{{ if $p.Items }}!{{ end }} {{ end }}{{ end }}{{ range .Messages }}{{ end }}"
    )
    function = {"name": "f", "parameters": {"properties": {"b": {"type": "string"}, "a": {"type": "number"}}}}
    assert prompt(template, ("user", "x"), tools=[{"function": function}]) == "a:number b:string "


@pytest.mark.parametrize(
    ("template", "line", "column", "reason"),
    [
        ('{{ define "x" }}{{ end }}', 1, 4, "define is not supported"),
        ('a\n{{ template "x" . }}', 2, 4, "template is not supported"),
        ("a\n b{{ html .Prompt }}", 2, 6, "the function html"),
        ("{{ .First }}", 1, 4, "the field .First"),
        ("{{ range .Messages }}\n{{ .Images }}{{ end }}", 2, 4, "the field .Images"),
        ("{{ . }}", 1, 4, "'.' without a field"),
        ("{{ $x }}", 1, 4, r"the variable \$x is used before it is set"),
        ("{{ if .System }}", 1, 1, "this if has no end"),
        ("{{ end }}", 1, 4, "end without"),
        ("{{ if 1 }}{{ else }}{{ else }}{{ end }}", 1, 24, "a second else"),
        ("{{ .Prompt", 1, 1, "does not end with"),
        ("{{ eq 1 }}", 1, 4, "eq does not take 1 argument"),
        ("{{ printf `%q` 1 }}", 1, 4, "printf is supported only with"),
        ("{{ (eq 1 1 }}", 1, 4, "not closed"),
        ("{{ 'x' }}", 1, 4, "is not supported"),
        ("{{ }}", 1, 1, "this action is empty"),
        ("{{ .Prompt | 5 }}", 1, 14, "not a function"),
        ("{{ break }}", 1, 4, "break outside of range"),
    ],
)
def test_what_is_not_covered_is_refused_by_name_and_position(
    template: str, line: int, column: int, reason: str
) -> None:
    with pytest.raises(InvalidParameter, match=rf"line {line}, column {column}: .*{reason}") as caught:
        to_jinja(template)
    assert caught.value.param == "template"


@settings(max_examples=40)
@given(st.text(max_size=60).filter(lambda text: "{{" not in f"{text}{{"), st.text(max_size=60), st.text(max_size=60))
def test_whatever_text_stands_in_a_template_or_a_message_is_written_as_it_is(
    text: str, question: str, system: str
) -> None:
    written = prompt(text + "{{ .System }}|{{ .Prompt }}|{{ .Response }}", ("system", system), ("user", question))
    assert written == f"{text}{system}|{question}|"


@given(
    st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text("ab{}%\n", max_size=4)), max_size=6)
)
def test_a_conversation_is_rendered_as_ollama_does_it(turns: list[tuple[str, str]]) -> None:
    template = "[{{ .System }}/{{ .Prompt }}/{{ .Response }}]"
    assert prompt(template, *turns) == _as_ollama(turns)


def _as_ollama(turns: list[tuple[str, str]]) -> str:
    """Its loop over merged messages, in Python."""
    merged: list[list[str]] = []
    for role, content in turns:
        if merged and merged[-1][0] == role:
            merged[-1][1] += f"\n\n{content}"
        else:
            merged.append([role, content])
    written, system, question, answer = "", "", "", ""
    for role, content in merged:
        if (role == "system" and (question or answer)) or (role == "user" and answer):
            written, system, question, answer = f"{written}[{system}/{question}/{answer}]", "", "", ""
        if role == "system":
            system = content
        elif role == "user":
            question = content
        else:
            answer = content
    return f"{written}[{system}/{question}/{answer}"


@given(st.text('{}-. "`$:=|()\n/*ifendrangewithelseMessagesPromptSystem01', max_size=80))
def test_whatever_is_written_is_translated_to_jinja_that_compiles_or_refused(template: str) -> None:
    try:
        jinja = to_jinja(template)
    except InvalidParameter:
        return
    jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(jinja)
