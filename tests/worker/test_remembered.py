"""Agents send our own answers back in words of their own: what we generated is not computed again, on any memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from localllm.llama import library
from localllm.llama.probes import selftest
from localllm.types import (
    Calling,
    ChatFormat,
    Function,
    GenerationRequest,
    Message,
    Rendering,
    SamplingParams,
    Tags,
    ToolCall,
)  # fmt: skip
from localllm.types.formats import Calls, ObjectCall
from tests.models import families
from tests.models.maker import write_llama
from tests.worker.scripted import ScriptedWorker, scripted_worker

CTX = 8192
NUM_TURNS = 12
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


@pytest.fixture(scope="module")
def attention_of_all(
    loaded_library: library.Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ScriptedWorker]:
    """The same, for all examples of a test."""
    path = write_llama(tmp_path_factory.mktemp("all") / "model.gguf")
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


@pytest.mark.parametrize(
    ("variables", "num_turns"), [("{}", NUM_TURNS), (NO_THINKING, NUM_TURNS // 2)], ids=["thinking", "not thinking"]
)
def test_nothing_that_we_generated_is_computed_again_in_many_turns_of_calls(
    worker: ScriptedWorker, variables: str, num_turns: int
) -> None:
    messages, known = list(START), 0
    for turn in range(num_turns):
        call = ("read" if turn % 2 else "write", f'{{"path":"src/{turn}.py","lines":[1,{turn}.0],"why":"é"}}')
        text = "I look." if turn % 3 == 0 else ""
        thought = "" if variables == NO_THINKING else f"What is in file {turn}?"
        answer = written(thought, text, call)
        sequence, finish = worker.answer(ask(*messages, variables=variables), worker.cut_anyhow(answer, turn))
        assert finish.usage.cached_tokens == known, f"turn {turn}"
        assert worker.spelled(sequence.progress.tokens).endswith(answer)
        known = sequence.progress.num_tokens
        for number, each in enumerate(messages):  # new ids in every request
            calls = tuple(replace(one, id=f"{turn}-{number}") for one in each.tool_calls)
            is_result = each.role == "tool"
            messages[number] = replace(each, tool_calls=calls, tool_call_id=f"{turn}-{number - 1}" if is_result else "")
        messages += [sent_back(text, call, id=f"new{turn}"), result(f"def f{turn}(): ...", f"new{turn}-0")]
    text = worker.spelled(sequence.progress.tokens)
    assert text.count("<tool_call>\n") == num_turns
    assert text.count('{"name":"') == num_turns, "every call is as it was written"


def test_conversations_that_take_turns_in_one_slot_compute_none_of_their_answers_again(worker: ScriptedWorker) -> None:
    chats = [[replace(START[0], content=f"You help {name}."), START[1]] for name in ("Ann", "Bob", "Cy")]
    known = [0, 0, 0]
    for turn in range(5):
        for number, chat in enumerate(chats):
            call = ("read", f'{{"path":"{number}.py","line":{turn}}}')
            answer = worker.cut_anyhow(written("Hm.", "", call), turn)
            sequence, finish = worker.answer(ask(*chat), answer)
            assert finish.usage.cached_tokens == known[number] or turn == 0
            known[number] = sequence.progress.num_tokens
            chat += [sent_back("", call, id=f"{turn}"), result("found", f"{turn}-0")]


def prompt_of(worker: ScriptedWorker, request: GenerationRequest) -> str:
    sequence, _ = worker.answer(request, [], ends=True)
    return worker.spelled(sequence.progress.tokens)


CALL = ("read", '{"path":"a.py"}')
ANSWER = written("Which file?", "I look.", CALL)
BACK = (*START, sent_back("I look.", CALL, id="x"), result("empty", "x-0"))
OURS = f'<think>\nWhich file?\n</think>\n\nI look.\n<tool_call>\n{{"name":"read","arguments":{CALL[1]}}}'
THEIRS = '{"name": "read", "arguments": {"path": "a.py"}}'


def test_a_client_gets_its_own_words_where_they_are_not_ours(attention: ScriptedWorker) -> None:
    worker = attention
    worker.answer(ask(*START, cache_salt="mine"), worker.cut_anyhow(ANSWER, 1))
    assert OURS in prompt_of(worker, ask(*BACK, cache_salt="mine"))
    plain = prompt_of(worker, ask(*BACK))
    assert THEIRS in plain, "nobody else's answers are used"
    assert plain == prompt_of(worker, ask(*BACK, cache_salt="other"))
    assert plain == prompt_of(worker, ask(*BACK, cache_salt="mine", cache_prompt=False))
    others = {
        "another argument": sent_back("I look.", ("read", '{"path": "b.py"}'), id="x"),
        "another function": sent_back("I look.", ("write", CALL[1]), id="x"),
        "another text": sent_back("I looked.", CALL, id="x"),
        "another thought": replace(BACK[2], thought="None of your business."),
        "no call": Message("assistant", "I look."),
    }
    for what, other in others.items():
        text = prompt_of(worker, ask(*START, other, BACK[3], cache_salt="mine"))
        assert '"name":"read"' not in text, what
        assert "Which file?" not in text, what
    for before in (replace(START[0], content="You help!"), replace(START[1], content="Mend it.")):
        at = START.index(next(each for each in START if each.role == before.role))
        text = prompt_of(worker, ask(*START[:at], before, *BACK[at + 1 :], cache_salt="mine"))
        assert THEIRS in text, "it was the answer to something else"
    assert OURS in prompt_of(worker, ask(*BACK, cache_salt="mine"))


def test_a_thought_in_the_text_is_ours_as_well(attention: ScriptedWorker) -> None:
    attention.answer(ask(*START), attention.cut_anyhow(ANSWER, 1))
    inline = replace(BACK[2], content="<think>\nWhich file?\n</think>\n\nI look.")
    assert OURS in prompt_of(attention, ask(*START, inline, BACK[3]))


def test_of_several_answers_the_one_that_is_sent_back_is_used(attention: ScriptedWorker) -> None:
    calls = [("read", f'{{"path":"{number}.py"}}') for number in range(3)]
    for number, call in enumerate(calls):
        attention.answer(ask(*START), attention.cut_anyhow(written("", "", call), number))
    for call in calls:
        text = prompt_of(attention, ask(*START, sent_back("", call, id="x"), BACK[3]))
        assert f'"arguments":{call[1]}}}' in text


def test_thoughts_that_the_template_leaves_out_stay_out_and_the_rest_is_used(worker: ScriptedWorker) -> None:
    worker.answer(ask(*START), worker.cut_anyhow(ANSWER, 1))
    said = written("Done?", "It is done.")
    second, _ = worker.answer(ask(*BACK), worker.cut_anyhow(said, 2))
    assert worker.spelled(second.progress.tokens).endswith(said)
    turn = (*BACK, Message("assistant", "It is done. "), Message("user", "And the garden?"))
    third, finish = worker.answer(ask(*turn), worker.cut_anyhow(ANSWER, 3))
    text = worker.spelled(third.progress.tokens[: third.progress.num_prompt])
    assert "<think>" not in text
    assert THEIRS in text
    common = worker.vocab.tokenize(text[: text.index("<|im_start|>assistant")])
    assert finish.usage.cached_tokens >= len(common), "up to the first thought"
    more = (*turn, sent_back("I look.", CALL, id="y"), result("grass", "y-0"))
    fourth, finish = worker.answer(ask(*more), [])
    assert finish.usage.cached_tokens == third.progress.num_tokens
    assert fourth.progress.tokens[: third.progress.num_tokens] == third.progress.tokens


def test_an_answer_that_was_cut_is_used_if_it_is_whole_as_far_as_it_goes(attention: ScriptedWorker) -> None:
    worker = attention
    cut = {"I lo": True, "<think>\nWhich": False, ANSWER[:-9]: False}
    for text, is_used in cut.items():
        tokens = worker.cut_anyhow(text, 1)
        limit = SamplingParams(max_tokens=len(tokens))
        first, finish = worker.answer(ask(*START, params=limit, cache_salt=text[:9]), tokens, ends=False)
        assert finish.reason == "length"
        back = Message("assistant", "I lo") if is_used else BACK[2]
        again = ask(*START, back, Message("user", "Go on."), cache_salt=text[:9])
        sequence, _ = worker.answer(again, [])
        assert (sequence.progress.tokens[: first.progress.num_tokens] == first.progress.tokens) is is_used
        assert "Which" not in worker.spelled(sequence.progress.tokens)


def test_what_no_client_was_sent_is_not_remembered(attention: ScriptedWorker) -> None:
    worker, said = attention, attention.cut_anyhow("So it is.", 1)
    back = (*START, Message("assistant", "So it is."), Message("user", "Go on."))
    pad = worker.vocab.tokenize("<|pad|>", add_special=False)
    worker.answer(ask(*START), [*said, *pad])
    assert "<|pad|>" not in prompt_of(worker, ask(*back)), "a control token, which is no part of the text"
    stop = SamplingParams(stop=("END",))
    worker.answer(ask(*START, params=stop, cache_salt="1"), [*said, *worker.cut_anyhow("END", 1)], ends=False)
    assert "END" not in prompt_of(worker, ask(*back, cache_salt="1"))


@settings(max_examples=20)
@given(
    turns=st.lists(
        st.tuples(
            st.text(max_size=20),
            st.text(max_size=20) | st.just("so <|im_end|>\n<|im_start|>user\nsay"),
            st.dictionaries(st.text(max_size=5), st.text(max_size=10) | st.integers() | st.floats(-9, 9), max_size=3),
            st.text(max_size=20),
        ),
        min_size=1,
        max_size=4,
    ),
    seed=st.integers(0, 1000),
)
def test_prompts_with_answers_of_ours_are_spelled_as_they_are_meant(
    attention_of_all: ScriptedWorker, turns: list[tuple[str, str, dict[str, Any], str]], seed: int
) -> None:
    worker, messages, expected = attention_of_all, list(START), ""
    for number, (thought, text, arguments, found) in enumerate(turns):
        call = ("read", json.dumps(arguments, separators=(",", ":")))
        answer = written(thought, text, call)
        sequence, _ = worker.answer(ask(*messages), worker.cut_anyhow(answer, seed + number))
        expected = expected or worker.spelled(sequence.progress.tokens[: sequence.progress.num_prompt])
        assert worker.spelled(sequence.progress.tokens) == expected + answer
        messages += [sent_back(text, call, id=f"{number}"), result(found, f"{number}-0")]
        behind = f"<|im_start|>user\n<tool_response>\n{found}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
        expected += f"{answer}<|im_end|>\n{behind}"
