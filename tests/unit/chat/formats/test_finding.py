"""Every chat template that llama.cpp carries gets the format that a person would name, and whatever it writes is read
back to what it was made of, wherever it is cut.

The templates are those of `models/templates` in llama.cpp's sources, in the folder that LOCALLLM_CHAT_TEMPLATES names.
Skipped where there are none.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from localllm.chat.formats.finding import answer_text, expected_of, format_of, is_within_thought
from localllm.chat.formats.found.checking import read, reads_back, writes
from localllm.chat.formats.found.rendering import FUNCTIONS, THINKING, Answer, Renderings
from localllm.chat.formats.reader import reader_of
from localllm.chat.request import RenderRequest
from localllm.chat.template import render
from localllm.chat.thoughts import switched
from localllm.types import Message, Rendering, ToolCall
from localllm.types.formats import ChatFormat, PatternCall
from localllm.types.structures import Tags
from tests.each import each
from tests.unit.chat.formats.answers import many_places

NAMED = os.environ.get("LOCALLLM_CHAT_TEMPLATES")
TEMPLATES = sorted(Path(NAMED).glob("*.jinja")) if NAMED else []
needs_templates = pytest.mark.skipif(
    not TEMPLATES, reason="LOCALLLM_CHAT_TEMPLATES names no folder with llama.cpp's models/templates"
)

EXPECTED = {
    "Apertus-8B-Instruct": ("apertus", "", "never"),
    "Apriel-1.6-15b-Thinker-fixed": ("apriel", "Here are my reasoning steps:\n", "always"),
    "Bielik-11B-v3.0-Instruct": ("hermes", "<think>", "switchable"),
    "ByteDance-Seed-OSS": ("seed-oss", "<seed:think>", "switchable"),
    "Cohere2MoE": ("command-a", "<|START_THINKING|>", "always"),
    "CohereForAI-c4ai-command-r-plus-tool_use": ("command-r", "", "never"),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": ("command-a", "<|START_THINKING|>", "switchable"),
    "GLM-4.6": ("glm-4.5", "<think>", "switchable"),
    "GLM-4.7-Flash": ("glm-4.7", "<think>", "switchable"),
    "GigaChat3-10B-A1.8B": ("gigachat-3", "", "never"),
    "GigaChat3.1-10B-A1.8B": ("gigachat-3.1", "", "never"),
    "HuggingFaceTB-SmolLM3-3B": ("generic", "<think>", "switchable"),
    "Kimi-K2-Instruct": ("kimi-k2", "", "never"),
    "Kimi-K2-Thinking": ("kimi-k2", "<think>", "always"),
    "Kimi-K3": ("kimi-k3", "<|open|>think<|sep|>", "switchable"),
    "LFM2-8B-A1B": ("lfm2", "", "never"),
    "LFM2.5-8B-A1B": ("lfm2", "<think>", "always"),
    "LFM2.5-Instruct": ("lfm2", "", "never"),
    "MiMo-VL": ("hermes", "", "never"),
    "MiniMax-M1": ("minimax-m1", "", "never"),
    "MiniMax-M2": ("minimax-m2", "<think>", "always"),
    "MiniMax-M3": ("minimax-m3", "<mm:think>", "switchable"),
    "Mistral-Small-3.2-24B-Instruct-2506": ("mistral-small-3.2", "", "never"),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("qwen3-coder", "<think>", "switchable"),
    "NVIDIA-Nemotron-Nano-v2": ("nemotron-2", "<think>", "always"),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": ("hermes", "", "never"),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": ("hermes", "", "never"),
    "Qwen-QwQ-32B": ("hermes", "<think>", "switchable"),
    "Qwen-Qwen2.5-7B-Instruct": ("hermes", "", "never"),
    "Qwen-Qwen3-0.6B": ("hermes", "<think>", "switchable"),
    "Qwen3-Coder": ("qwen3-coder", "", "never"),
    "Qwen3.5-4B": ("qwen3-coder", "<think>", "switchable"),
    "Reka-Edge": ("hermes", "<think>", "switchable"),
    "Spark2.5": ("glm-4.7", "<think>", "switchable"),
    "StepFun3.5-Flash": ("step-3.5", "<think>", "always"),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": ("deepseek-r1", "<think>", "always"),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": ("deepseek-r1", "<think>", "switchable"),
    "deepseek-ai-DeepSeek-V3.1": ("deepseek-v3.1", "<think>", "switchable"),
    "deepseek-ai-DeepSeek-V3.2": ("deepseek-v3.2", "<think>", "switchable"),
    "deepseek-ai-DeepSeek-V4-Flash-0731": ("deepseek-v4", "<think>", "switchable"),
    "deepseek-ai-DeepSeek-V4": ("deepseek-v4", "<think>", "switchable"),
    "fireworks-ai-llama-3-firefunction-v2": ("firefunction", "", "never"),
    "google-gemma-2-2b-it": ("generic", "", "never"),
    "google-gemma-4-31B-it-interleaved": ("gemma-4", "<|channel>thought\n", "switchable"),
    "google-gemma-4-31B-it": ("gemma-4", "<|channel>thought\n", "switchable"),
    "ibm-granite-granite-3.3-2B-Instruct": ("granite-3", "<think>", "switchable"),
    "ibm-granite-granite-4.0": ("hermes", "", "never"),
    "ibm-granite-granite-4.1": ("hermes", "", "never"),
    "inclusionai-ling-3.0-flash": ("ling-3", "<think>", "switchable"),
    "llama-cpp-deepseek-r1": ("deepseek-r1", "<think>", "always"),
    "llama-cpp-rwkv-world": ("generic", "<think>", "switchable"),
    "meetkai-functionary-medium-v3.1": ("functionary-3.1", "", "never"),
    "meetkai-functionary-medium-v3.2": ("functionary-3.2", "", "never"),
    "meta-llama-Llama-3.1-8B-Instruct": ("llama-3", "", "never"),
    "meta-llama-Llama-3.2-3B-Instruct": ("llama-3", "", "never"),
    "meta-llama-Llama-3.3-70B-Instruct": ("llama-3", "", "never"),
    "microsoft-Phi-3.5-mini-instruct": ("generic", "", "never"),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("ministral-3", "[THINK]", "always"),
    "mistralai-Mistral-Nemo-Instruct-2407": ("mistral-nemo", "", "never"),
    "moonshotai-Kimi-K2": ("kimi-k2", "", "never"),
    "muse-glimmer": ("muse", " to=self<|message|>", "always"),
    "openai-gpt-oss-120b": ("harmony", "<|channel|>analysis<|message|>", "always"),
    "openbmb-MiniCPM5-1B": ("minicpm-5", "<think>", "switchable"),
    "poolside-Laguna-S-2.1": ("glm-4.7", "<think>", "switchable"),
    "poolside-Laguna-XS-2.1": ("glm-4.5", "<think>", "switchable"),
    "poolside-Laguna-XS.2": ("glm-4.5", "<think>", "switchable"),
    "tencent-Hy3": ("hunyuan-3", "<think:opensource>", "switchable"),
    "unsloth-Apriel-1.5": ("apriel", "Here are my reasoning steps:\n", "always"),
    "unsloth-mistral-Devstral-Small-2507": ("ministral-3", "", "never"),
    "upstage-Solar-Open-100B": ("solar-open", "<|think|>", "always"),
}
"""Template -> name of its format, what opens a thought, whether that can be switched off."""

NOTED = {
    "HuggingFaceTB-SmolLM3-3B",
    "google-gemma-2-2b-it",
    "llama-cpp-rwkv-world",
    "microsoft-Phi-3.5-mini-instruct",
}
"""Their templates show no tools."""

VALUE = 'Zürich "北京" {🎉}'
ONE = ToolCall("qzname", json.dumps({"qzkey": VALUE, "qznumber": 3}, ensure_ascii=False), "call00001")
NESTED = ToolCall(
    "qzname", json.dumps({"qzkey": "a\nb", "qzdeep": {"a": 'q"}', "b": "{[ü"}}, ensure_ascii=False), "call00002"
)
OTHER = ToolCall("qzother", "{}", "call00003")
TEXT, THOUGHT = "Let me look: 1 < 2.\nSo ünter way.", "Hm.\nShould I? 'Yes' \"no\" {"


@cache
def of(path: Path) -> ChatFormat:
    return format_of(path.read_text("utf-8"), bos_token="<s>", eos_token="</s>")


@cache
def answers(path: Path) -> list[tuple[Answer, str]]:
    """What the template writes of a matrix of answers, and which part of it is the model's."""
    return list(_answers(path, of(path)))


def _answers(path: Path, format: ChatFormat) -> Iterator[tuple[Answer, str]]:
    made = Renderings(path.read_text("utf-8"), "<s>", "</s>")
    seen = set()
    for thought in ("", THOUGHT):
        for text in ("", TEXT):
            for calls in ((), (ONE,), (ONE, OTHER), (NESTED,), (OTHER, NESTED, ONE)):
                answer = made.answer(*calls, text=text, thought=thought, variables=THINKING)
                if answer is None or not (answer.text or calls) or answer.rendered in seen:
                    continue
                seen.add(answer.rendered)
                text_of_it = answer_text(answer, format)
                mark = format.turn_end.strip()
                if not mark or mark not in text_of_it or mark in format.ignored:  # else it is two turns
                    yield answer, text_of_it


@needs_templates
def test_the_table_has_all_of_them() -> None:
    assert {path.stem for path in TEMPLATES} == set(EXPECTED)


SOME_CUTS = 5


@needs_templates
@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
@each("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_has_the_format_that_a_person_would_name_and_is_read_back(path: Path, *, everywhere: bool) -> None:
    """In one test, so that a template is compiled and probed once."""
    has_the_format_that_a_person_would_name(path)
    is_read_back_wherever_it_is_cut(path, everywhere=everywhere)
    loses_nothing_of_an_answer_that_is_cut_off(path)
    has_an_undeclared_function_as_text_with_a_note(path)


def has_the_format_that_a_person_would_name(path: Path) -> None:
    found = of(path)
    opening = found.thought.opening if found.thought else ""
    assert (found.name, opening, found.thinking) == EXPECTED[path.stem]
    assert bool(found.note) == (found.origin == "generic") == (path.stem in NOTED)


def is_read_back_wherever_it_is_cut(path: Path, *, everywhere: bool) -> None:
    """The longest answer with calls at some places or at every place, the others whole and character by character."""
    found = of(path)
    made = answers(path)
    longest = max((text for answer, text in made if answer.calls), key=len, default="")
    for answer, text in made:
        expected, in_thought = expected_of(answer, text, found), is_within_thought(answer, text, found)
        whole = read(reader_of(found, FUNCTIONS, in_thought=in_thought), [text])
        every_cut = everywhere and text == longest
        is_read = reads_back(found, FUNCTIONS, text, expected, in_thought=in_thought, everywhere=every_cut)
        assert is_read, (text, whole)
        for place in random.Random(text).choices(range(len(text)), k=SOME_CUTS if text == longest else 0):
            pieces = text[:place], text[place:]
            assert read(reader_of(found, FUNCTIONS, in_thought=in_thought), pieces) == whole, pieces
        if not in_thought and found.begins_thought and found.thought and answer.thought:
            _, _, inside = text.partition(found.thought.opening)
            assert reads_back(found, FUNCTIONS, inside, expected, in_thought=True), inside


def loses_nothing_of_an_answer_that_is_cut_off(path: Path) -> None:
    """What is read of a beginning is a beginning of what is read of the whole, but for the pieces of a marker."""
    found = of(path)
    made = [(answer, text) for answer, text in answers(path) if len(answer.calls) == 2]
    for answer, text in made[-1:]:
        in_thought = is_within_thought(answer, text, found)
        for end in many_places(text):
            cut = read(reader_of(found, FUNCTIONS, in_thought=in_thought), [text[:end]])
            assert _agree(cut.thought, answer.thought)
            assert _agree(cut.text, answer.text) or cut.text.strip() in text
            for (name, arguments), call in zip(cut.calls, answer.calls, strict=False):
                assert name == call.name
                assert _starts(arguments, call.arguments), (arguments, text[:end])


def _agree(made: str, whole: str) -> bool:
    """Whether it is a beginning, or the whole with the beginning of a marker behind it."""
    return whole.startswith(made.strip()) or made.strip().startswith(whole)


def _starts(made: str, whole: str) -> bool:
    """Whether JSON is a beginning of other JSON, blanks and escapes aside; closing what is open is no harm."""
    tight = ["".join(each.split()) for each in (made, whole)]
    return tight[1].startswith(tight[0]) or tight[1].startswith(tight[0].rstrip('}"')) or "\\" in made


def has_an_undeclared_function_as_text_with_a_note(path: Path) -> None:
    found = of(path)
    for answer, text in answers(path):
        if not answer.calls or answer.thought:
            continue
        whole = read(reader_of(found, ()), [text])
        assert whole.calls == ()
        assert all(call.name in whole.text for call in answer.calls)
        assert whole.notes or found.opened or (found.calls is not None and found.calls.is_bare)


def test_a_template_that_fails_on_everything_has_the_generic_format_and_a_note() -> None:
    for hostile in ("{{ raise_exception('no') }}", "{% if %}", "{{ messages[99].content }}", ""):
        found = format_of(hostile)
        assert (found.name, found.origin, found.thought) == ("generic", "generic", None)
        assert found.calls is not None
        assert found.note


def test_a_format_that_nobody_described_is_made_of_what_the_template_writes() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}{{ '[[' if loop.first else ' & ' }}do {{ c.function.name }} with "
        "{{ c.function.arguments | tojson }}!{{ ']]' if loop.last else '' }}{% endfor %}<|/{{ m.role }}|>{% endfor %}"
        "{{ tools | tojson if tools else '' }}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    found = format_of(template)
    assert (found.name, found.origin, found.note, found.turn_end) == ("found", "found", "", "<|/assistant|>")
    assert found.calls is not None
    assert (found.calls.begin, found.calls.between, found.calls.end) == ("[[", " & ", "]]")
    assert isinstance(found.calls.call, PatternCall)
    assert found.calls.call.before == "do "
    text = 'Well [[do qzname with {"qzkey": "a]]!"}! & do qzother with {}!]]'
    assert read(reader_of(found, FUNCTIONS), text).calls == (("qzname", '{"qzkey": "a]]!"}'), ("qzother", "{}"))
    assert writes(found, (ToolCall("f", "{}"), ToolCall("g", "{}")), "[[do f with {}! & do g with {}!]]")


K2_HORIZON = (
    "{{ '<|ifm|im_start|>system\n' + (tools | tojson) + '<|ifm|im_end|>\n' if tools }}"
    "{% for m in messages %}<|ifm|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% if m.reasoning_content is not defined %}{{ raise_exception('no thinking field') }}{% endif %}"
    "<ifm|think>\n{{ m.reasoning_content }}</ifm|think>{% endif %}{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}{{ '<ifm|tool_calls>' if loop.first }}\n<ifm|tool_call>{{ c.function.name }}\n"
    "{% for k, v in c.function.arguments.items() %}<ifm|arg_key>{{ k }}</ifm|arg_key>\n<ifm|arg_value>"
    "{{ v if v is string else v | tojson }}</ifm|arg_value>\n{% endfor %}</ifm|tool_call>"
    "{{ '\n</ifm|tool_calls>' if loop.last }}{% endfor %}<|ifm|im_end|>\n{% endfor %}"
    "{% set mark = {'medium': 'think_fast', 'low': 'think_faster'}[reasoning_effort] or 'think' %}"
    "{% if add_generation_prompt %}<|ifm|im_start|>assistant\n<ifm|{{ mark }}>\n{% endif %}"
)
"""As its documentation and the parsers of others describe it; the template itself is not published with them."""


def test_a_template_that_wants_a_thought_in_every_answer_has_its_own_format() -> None:
    found = format_of(K2_HORIZON)
    assert (found.name, found.origin, found.note) == ("k2-horizon", "known", "")
    assert (found.thought, found.thinking, found.begins_thought) == (
        Tags("<ifm|think>", "</ifm|think>"),
        "always",
        True,
    )
    for effort, mark in (("low", "ifm|think_faster"), ("medium", "ifm|think_fast"), ("high", "ifm|think")):
        rendering = Rendering(variables=json.dumps({"reasoning_effort": effort}))
        assert found.for_answer(rendering).thought == Tags(f"<{mark}>", f"</{mark}>")
        assert f"</{mark}>" in found.literals
    prompt = render(RenderRequest(K2_HORIZON, (Message("user", "A"), Message("assistant", "B"), Message("user", "C"))))
    assert "</ifm|think>B" in prompt.text


CHAT = (
    "{% for m in messages %}<|start|>{{ m.role }}\nBEFORE{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\nOPENING{% endif %}"
)
THINK = Tags("<think>", "</think>")


@pytest.mark.parametrize(
    ("before", "opening", "thought", "thinking", "begins"),
    [
        ("", "", None, "never", False),
        ("", "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}", THINK, "switchable", False),
        ("", "{% if enable_thinking %}<think>\n{% endif %}", THINK, "switchable", True),
        ("", "<think>\n", THINK, "always", True),
        ("{{ '[THINK]' + m.reasoning_content + '[/THINK]' if m.reasoning_content }}", "",
         Tags("[THINK]", "[/THINK]"), "always", False),
        ("{{ '<|begin_of_it|> ' + m.thinking + ' <|end_of_it|>' if m.thinking }}", "",
         Tags("<|begin_of_it|>", "<|end_of_it|>"), "always", False),
        ("{{ 'Thus: ' + m.reasoning + ' So: ' if m.reasoning }}", "", Tags("Thus:", "So:"), "always", False),
        ("{{ 'Use <think></think>. ' if thinking and m.role == 'user' }}", "", THINK, "switchable", False),
        ("{{ m.content.split('</think>')[-1] if 0 else '' }}{# <think> #}", "", THINK, "always", False),
        ("{{ m.content.split('</think>')[-1] if 0 else '' }}", "", None, "never", False),
    ],
)  # fmt: skip
def test_thoughts_and_their_switch_are_found_by_rendering(
    before: str, opening: str, thought: Tags | None, thinking: str, *, begins: bool
) -> None:
    found = format_of(CHAT.replace("BEFORE", before).replace("OPENING", opening))
    assert (found.thought, found.thinking, found.begins_thought) == (thought, thinking, begins)
    assert found.turn_end == "<|end|>\n"


def test_a_template_that_leaves_out_the_users_message_is_noticed() -> None:
    lost = "{% for message in messages %}<|{{ message.role }}|>{% endfor %}"
    assert format_of(lost).omits_messages
    assert not format_of("{% for message in messages %}{{ message.content }}{% endfor %}").omits_messages
    assert not format_of("{{ raise_exception('never') }}").omits_messages


def test_efforts_count_only_where_they_change_the_prompt() -> None:
    reads = CHAT.replace("BEFORE", "{{ reasoning_effort if reasoning_effort in ['low', 'high'] }}")
    assert format_of(reads.replace("OPENING", "")).efforts
    names = CHAT.replace("BEFORE", "{% set kept = reasoning_effort %}")
    assert not format_of(names.replace("OPENING", "")).efforts


def test_blanks_behind_a_thought_are_those_of_the_template() -> None:
    for blanks in ("", "\n", "\n\n", " "):
        before = f"{{{{ '<think>' + m.reasoning_content + '</think>{blanks}' if m.reasoning_content }}}}"
        found = format_of(CHAT.replace("BEFORE", before.replace("\n", "\\n")).replace("OPENING", ""))
        assert (found.thought, found.behind_thought) == (THINK, blanks)


@pytest.mark.parametrize(
    ("variables", "off"),
    [("thinking_mode", "disabled"), ("reasoning_effort", "no_think"), ("thinking_budget", 0)],
)
def test_a_switch_of_a_templates_own_is_turned_by_the_common_one(variables: str, off: str | int) -> None:
    opening = "{% if NAME is defined and NAME == OFF %}<think></think>{% else %}<think>{% endif %}"
    source = CHAT.replace("BEFORE", "").replace("OPENING", opening.replace("NAME", variables).replace("OFF", repr(off)))
    found = format_of(source)
    assert (found.thought, found.thinking, found.begins_thought) == (THINK, "switchable", True)
    for wanted in (True, False):
        given = Rendering(variables=json.dumps({"enable_thinking": wanted, "mood": 1}))
        told = switched(given, found)
        text = render(RenderRequest(source, (Message("user", "a"),), rendering=told)).text
        assert text.endswith("<think>" if wanted else "</think>")
        assert json.loads(told.variables)["mood"] == 1
    said = Rendering(variables=json.dumps({"enable_thinking": False, variables: "mine"}))
    assert json.loads(switched(said, found).variables)[variables] == "mine"
    assert switched(Rendering(), found) == Rendering()


def test_a_word_that_a_template_only_repeats_switches_nothing() -> None:
    source = CHAT.replace("BEFORE", "Reasoning: {{ reasoning_effort }} of {{ thinking_budget }}").replace(
        "OPENING", "<think>"
    )
    found = format_of(source)
    assert (found.thinking, found.switch, found.efforts) == ("always", ("", ""), True)
