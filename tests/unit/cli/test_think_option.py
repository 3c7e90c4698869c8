"""`--think`, `/set think` and `--tools`: what is sent, what is refused, how calls are shown."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.cli.chat.answer import Talk
from localllm.cli.chat.thinking import Think
from localllm.cli.chat.tools import Tools, as_json_line, load_tools, shown
from localllm.cli.commands.run import RunOptions, _answer
from localllm.errors import InvalidParameter
from localllm.types import CallDelta, Delta, Finish, Message, SamplingParams, Timings, ToolCall, Usage

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


class Recorder:
    """A client that answers with these deltas."""

    def __init__(self, *deltas: Delta | Exception) -> None:
        self.deltas = deltas
        self.fields: dict[str, Any] = {}

    def chat(self, _model: str, _messages: object, _params: object, **fields: Any) -> Generator[Delta]:
        self.fields = fields
        for delta in self.deltas:
            if isinstance(delta, Exception):
                raise delta
            yield delta


def talk(client: Recorder, **given: Any) -> Talk:
    made = Talk(cast(Any, client), "tiny", SamplingParams(), raw=False)
    for name, value in given.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("typed", "wanted", "budget", "look"),
    [
        ("default", None, None, "on"),
        ("on", True, None, "on"),
        ("hide", True, None, "hide"),
        ("off", False, None, "off"),
        ("0", False, None, "off"),
        ("300", True, 300, "on"),
    ],
)
def test_what_is_typed_is_what_the_server_is_asked_for(
    typed: str, wanted: bool | None, budget: int | None, look: str
) -> None:
    client = Recorder()
    think = Think().with_value(typed)
    list(talk(client, think=think).answer([Message("user", "Hi")]))
    assert client.fields == {"enable_thinking": wanted, "thinking_budget": budget}
    assert think.shown == look
    assert think.described()


@given(st.sampled_from(["default", "on", "hide", "off", "0", "1", "999999999"]))
def test_what_is_shown_can_be_typed(typed: str) -> None:
    think = Think().with_value(typed)
    assert Think().with_value(str(think)) == think


def test_a_budget_leaves_hidden_what_was_hidden() -> None:
    assert Think().with_value("hide").with_value("64") == Think("hide", wanted=True, budget_tokens=64)


@given(st.text().filter(lambda text: text not in ("default", "on", "hide", "off")))
def test_nothing_else_is_taken(text: str) -> None:
    if not (text.isascii() and text.isdecimal() and (len(text) <= 9 or int(text) == 0)):
        with pytest.raises(InvalidParameter, match="think takes"):
            Think().with_value(text)


@pytest.mark.parametrize(
    "content",
    [
        [TOOL],
        {"tools": [TOOL]},
        [{"name": "weather", "parameters": {"type": "object"}}],
        [{"type": "function", "name": "weather", "parameters": {"type": "object"}}],
    ],
)
def test_tools_are_read_as_people_write_them_and_sent_as_openai_has_them(tmp_path: Path, content: object) -> None:
    file = tmp_path / "tools.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(content).encode())
    client = Recorder()
    list(talk(client, tools=load_tools(file)).answer([]))
    assert client.fields["tools"] == [TOOL]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "cannot be read"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "has no tools"),
        (b'{"tool": []}', "has no tools"),
        (b" " * 1_000_001, "more than 1,000,000 bytes"),
        (b'[{"type": "function", "function": {"name": "a"}}, {"type": "web_search"}]', r"tools\[1\] is not a tool"),
        (b'[{"type": "function", "function": {"name": 3}}]', r"tools\[0\] is not a tool"),
    ],
)
def test_a_file_that_has_no_tools_is_refused_by_its_name(tmp_path: Path, content: bytes | None, word: str) -> None:
    file = tmp_path / "tools.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidParameter, match=word) as caught:
        load_tools(file)
    assert str(file) in caught.value.message


def test_a_tool_that_the_server_refuses_is_refused_by_its_file() -> None:
    client = Recorder(InvalidParameter("a pattern", param="tools[0].function.parameters"))
    with pytest.raises(InvalidParameter, match=r"my\.json: a pattern"):
        list(talk(client, tools=Tools([TOOL], Path("my.json"))).answer([]))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (ToolCall("ping"), "ping()"),
        (ToolCall("weather", '{"city":"Ulm","days":[1,2]}'), 'weather(city="Ulm", days=[1, 2])'),
        (
            ToolCall("write", json.dumps({"path": "a.py", "text": "print(1)\nprint('" + "a" * 90 + "')\n"})),
            'write\n  path: "a.py"\n  text:\n    print(1)\n    print(\'' + "a" * 90 + "')",
        ),
        (ToolCall("weather\x1b[2J", '{"city": "Ul'), 'weather\N{REPLACEMENT CHARACTER}[2J({"city": "Ul'),
    ],
)
def test_a_call_is_shown_so_that_a_person_can_read_it(call: ToolCall, text: str) -> None:
    assert shown(call) == text


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=200) | st.integers(), max_size=4), st.text(max_size=9))
def test_no_call_tells_a_terminal_anything(arguments: dict[str, str | int], name: str) -> None:
    call = ToolCall(name, json.dumps(arguments))
    assert not {character for character in shown(call) if character < " "} - {"\n", "\t"}
    assert json.loads(as_json_line(call)) == {"name": name, "arguments": arguments}
    assert "\n" not in as_json_line(call)


def _finish(reason: str) -> Finish:
    return Finish(cast(Any, reason), Usage(5, 7), Timings(0.0, 0.1, 0.1))


def test_a_single_prompts_calls_are_lines_of_json_and_thoughts_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    calls = Delta(calls=(CallDelta(0, '{"city":"Ulm"}', "weather", "1"), CallDelta(1, "{}", "ping", "2")))
    client = Recorder(Delta(thought="Hm."), calls, Delta(finish=_finish("stop"), notes=("a note",)))
    tools = Tools([TOOL], Path("tools.json"))
    options = RunOptions("tiny", "Hi", None, raw=False, params=SamplingParams(), load={}, tools=tools)
    assert _answer(talk(client, tools=tools), "Hi", options, verbose=False) == 0
    out, err = capsys.readouterr()
    assert out == '{"name": "weather", "arguments": {"city": "Ulm"}}\n{"name": "ping", "arguments": {}}\n'
    assert err == "localllm: a note\n"


def test_half_a_call_is_a_failure_and_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    client = Recorder(Delta(calls=(CallDelta(0, '{"city":', "weather", "1"),)), Delta(finish=_finish("length")))
    options = RunOptions("tiny", "Hi", None, raw=False, params=SamplingParams(max_tokens=7), load={})
    made = talk(client)
    made.params = options.params
    assert _answer(made, "Hi", options, verbose=False) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "localllm: the call to weather is incomplete: cut at max_tokens, 7\n"
