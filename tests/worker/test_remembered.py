"""Agents send our own answers back in words of their own: what we generated is not computed again, on any memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from localllm.formats import Calls, ObjectCall
from localllm.llama import library, selftest
from localllm.types import (
    Calling,
    ChatFormat,
    Function,
    GenerationRequest,
    Message,
    Rendering,
    Tags,
    ToolCall,
)  # fmt: skip
from tests.models import families
from tests.models.maker import write_llama
from tests.worker.scripted import ScriptedWorker, scripted_worker

CTX = 8192
NUM_TURNS = 20
FORMAT = ChatFormat(
    name="hermes",
    origin="known",
    thought=Tags("<think>\n", "\n</think>"),
    calls=Calls(call=ObjectCall(before="<tool_call>\n", after="\n</tool_call>"), between="\n"),
    turn_end="<|im_end|>\n",
    thinking="switchable",
    shows_tools=True,
)
TEMPLATE = """\
{%- if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif %}
{%- set last = namespace(user=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set last.user = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role == 'assistant' %}<|im_start|>assistant
{% if m.reasoning_content and loop.index0 > last.user %}<think>
{{ m.reasoning_content | trim }}
</think>

{% endif %}{{ m.content or '' }}
{%- for call in m.tool_calls or [] %}
{%- if m.content or not loop.first %}
{% endif %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""
"""Keeps the thoughts behind the user's last message, as Qwen3's."""
FUNCTIONS = (Function(name="read"), Function(name="write"))
TOOLS = json.dumps([{"type": "function", "function": {"name": each.name}} for each in FUNCTIONS])
START = (Message("system", "You help."), Message("user", "Mend the house, please."))
NO_THINKING = json.dumps({"enable_thinking": False})

MODELS: dict[str, Callable[[Path], Path]] = {
    "attention": write_llama,
    "sliding window": families.write_sliding_window,
    "recurrent": families.write_recurrent,
    "hybrid": families.write_hybrid,
}


@pytest.fixture(scope="module")
def loaded_library(home: Path) -> library.Library:
    return library.load(selftest.choose(home).choice, plugin_dir=None, verbose=False)


@pytest.fixture(params=MODELS)
def worker(request: pytest.FixtureRequest, loaded_library: library.Library, tmp_path: Path) -> Iterator[ScriptedWorker]:
    path = MODELS[request.param](tmp_path / "model.gguf")
    with scripted_worker(loaded_library, path, template=TEMPLATE, format=FORMAT, ctx=CTX) as worker:
        yield worker


@pytest.fixture
def attention(loaded_library: library.Library, tmp_path: Path) -> Iterator[ScriptedWorker]:
    path = write_llama(tmp_path / "model.gguf")
    with scripted_worker(loaded_library, path, template=TEMPLATE, format=FORMAT, ctx=CTX) as worker:
        yield worker


def ask(*messages: Message, **given: Any) -> GenerationRequest:
    rendering = Rendering(tools=TOOLS, variables=given.pop("variables", "{}"))
    return GenerationRequest(messages=messages, calling=Calling(functions=FUNCTIONS), rendering=rendering, **given)


def written(thought: str, text: str, *calls: tuple[str, str]) -> str:
    """As a model writes it, which is not how the template would."""
    parts = [f"<think>\n{thought}\n</think>\n\n" if thought else "", text]
    parts += [f'{"" if not text else chr(10)}<tool_call>\n{{"name":"{name}","arguments":{arguments}}}\n</tool_call>'
              for name, arguments in calls]  # fmt: skip
    return "".join(parts)


def sent_back(text: str, *calls: tuple[str, str], id: str) -> Message:
    """As a client writes it: no thought, arguments in other words, other ids, other white space."""
    made = tuple(
        ToolCall(name, json.dumps(dict(reversed(json.loads(arguments).items())), indent=2), f"{id}-{number}")
        for number, (name, arguments) in enumerate(calls)
    )
    return Message("assistant", f"{text} " if text else "", tool_calls=made)


def result(text: str, id: str) -> Message:
    return Message("tool", text, tool_call_id=id)


@pytest.mark.parametrize("variables", ["{}", NO_THINKING], ids=["thinking", "not thinking"])
def test_nothing_that_we_generated_is_computed_again_in_twenty_turns_of_calls(
    worker: ScriptedWorker, variables: str
) -> None:
    messages, known = list(START), 0
    for turn in range(NUM_TURNS):
        call = ("read" if turn % 2 else "write", f'{{"path":"src/{turn}.py","lines":[1,{turn}.0],"why":"é"}}')
        text = "I look." if turn % 3 == 0 else ""
        thought = "" if variables == NO_THINKING else f"What is in file {turn}?"
        answer = written(thought, text, call)
        sequence, finish = worker.answer(ask(*messages, variables=variables), worker.cut_anyhow(answer, turn))
        assert finish.usage.cached_tokens == known, f"turn {turn}"
        assert worker.spelled(sequence.tokens).endswith(answer)
        known = sequence.num_tokens
        for number, each in enumerate(messages):  # new ids in every request
            calls = tuple(replace(one, id=f"{turn}-{number}") for one in each.tool_calls)
            is_result = each.role == "tool"
            messages[number] = replace(each, tool_calls=calls, tool_call_id=f"{turn}-{number - 1}" if is_result else "")
        messages += [sent_back(text, call, id=f"new{turn}"), result(f"def f{turn}(): ...", f"new{turn}-0")]
    text = worker.spelled(sequence.tokens)
    assert text.count("<tool_call>\n") == NUM_TURNS
    assert text.count('{"name":"') == NUM_TURNS, "every call is as it was written"
