"""MCP servers in the Responses API, as OpenAI's client uses them: real servers, a model whose answers are written."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from localllm.server.mcp import McpHubs
from localllm.settings.config import Settings
from localllm.types import CallDelta, Delta, Finish, Message, Timings, ToolCall, Usage
from tests.e2e.conftest import COMMAND, TIMEOUT_S
from tests.later import openai, response_event
from tests.mcp.test_mcp_hub import children, is_running, needs_proc
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH

if TYPE_CHECKING:
    from localllm.mcp.server_pool import Hub

ROOT = Path(__file__).parents[2]
PATH = "/v1/responses"
TOOL_SERVER = {
    "command": sys.executable,
    "args": ["-P", "-m", "tests.mcp.tool_server"],
    "env": {"PYTHONPATH": str(ROOT)},
}
MCP: Any = {"type": "mcp", "server_label": "tools", "require_approval": "never"}
WEATHER: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
HI = {"role": "user", "content": "Hi"}
END = Delta("", 0, FINISH)
DONE = [Delta("It is 5.", 2), END]


def calls(*asked: tuple[str, str]) -> list[Delta]:
    pieces = [CallDelta(index, arguments, name, f"call_{index}") for index, (name, arguments) in enumerate(asked)]
    return [*(Delta(calls=(piece,), num_tokens=1) for piece in pieces), END]


ADD = ("tools__add", '{"a": 2, "b": 3}')


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = tmp_path_factory.mktemp("mcp") / "mcp.json"
    dead = {**TOOL_SERVER, "args": ["-P", "-m", "tests.mcp.odd_server", "dies"]}
    file.write_text(json.dumps({"mcpServers": {"tools": TOOL_SERVER, "dead": dead}}), "utf-8")
    with running(Settings(port=0, grace_s=0.1, mcp_servers=file, mcp_max_rounds=3)) as served:
        yield served


@pytest.fixture
def served(shared: Served) -> Served:
    shared.runtime.reset()
    return shared


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def create(client: openai.OpenAI, **fields: Any) -> Any:
    return client.responses.create(**{"model": "tiny", "input": "2 and 3?", "tools": [MCP], **fields})


def test_a_call_is_made_and_the_answer_goes_on_in_the_same_response(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [[Delta(thought="Hm."), *calls(ADD)]]
    served.runtime.script = DONE
    response = create(client)
    listed, thought, call = response.output[:3]
    assert (listed.type, listed.server_label, listed.error) == ("mcp_list_tools", "tools", None)
    assert "add" in {tool.name for tool in listed.tools}
    assert thought.type == "reasoning"
    assert (call.type, call.name, call.arguments, call.output) == ("mcp_call", "add", ADD[1], "5")
    assert (call.status, call.error, call.server_label) == ("completed", None, "tools")
    assert response.output_text == "It is 5."
    assert response.status == "completed"
    assert response.usage.output_tokens == 6
    asked = served.runtime.asked[-1][1]
    assert asked == [
        Message("user", "2 and 3?"),
        Message("assistant", "", thought="Hm.", tool_calls=(ToolCall("tools__add", ADD[1], call.id),)),
        Message("tool", "5", tool_call_id=call.id, name="tools__add"),
    ]
    assert all(answer.closed.is_set() for answer in served.runtime.answers)


def test_the_tokens_of_the_tools_are_counted_too(served: Served) -> None:
    body = {"model": "tiny", "input": "2 and 3?", "tools": [MCP]}
    response = served.http.post(f"{PATH}/input_tokens", json=body, timeout=60)
    assert response.status_code == 200
    assert "x-localllm-ignored" not in response.headers
    assert "tools__add" in served.runtime.renderings[-1].tools


def test_the_events_are_openais_and_add_up_to_the_response(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [calls(ADD, ("tools__fail", "{}"))]
    served.runtime.script = DONE
    events = list(create(client, stream=True))
    for event in events:
        assert response_event().validate_python(event.model_dump()).type == event.type
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:6] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
    ]
    response = events[-1].response
    openai.types.responses.Response.model_validate(response.model_dump())
    assert events[-1].type == "response.completed"
    for index, item in enumerate(response.output):
        own = [event for event in events if getattr(event, "output_index", None) == index]
        assert own[0].type == "response.output_item.added"
        assert own[-1].type == "response.output_item.done"
        assert own[-1].item == item
    for index, end in ((1, "completed"), (2, "failed")):
        own = [event.type for event in events if getattr(event, "output_index", None) == index]
        assert own == [
            "response.output_item.added",
            "response.mcp_call.in_progress",
            "response.mcp_call_arguments.delta",
            "response.mcp_call_arguments.done",
            f"response.mcp_call.{end}",
            "response.output_item.done",
        ]
    failed = response.output[2]
    assert (failed.status, failed.output) == ("failed", None)
    assert "the disk is full" in str(failed.error)
    assert [message.role for message in served.runtime.asked[-1][1]] == ["user", "assistant", "tool", "tool"]  # type: ignore[attr-defined]
    assert served.runtime.asked[-1][1][-1].content.startswith("Error: ")  # type: ignore[index]


def test_the_next_turn_has_the_calls_and_their_results(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [calls(ADD), calls(ADD)]
    served.runtime.script = DONE
    first = create(client)
    second = create(client, input="And again?", previous_response_id=first.id)
    roles = [message.role for message in served.runtime.asked[-1][1]]  # type: ignore[attr-defined]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]
    assert "mcp_list_tools" not in {item.type for item in second.output}, "the conversation has the list already"
    items = [{"role": "user", "content": "2 and 3?"}, *(item.model_dump() for item in first.output)]
    create(client, input=[*items, {"role": "user", "content": "And again?"}])
    assert [message.role for message in served.runtime.asked[-1][1]] == roles  # type: ignore[attr-defined]


def test_a_picture_that_a_tool_returns_is_seen_now_and_in_later_turns_or_gets_a_note(
    served: Served, client: openai.OpenAI
) -> None:
    def seen() -> list[tuple[int, str]]:
        asked = served.runtime.requests[-1]
        assert all(
            medium.digest in {file.digest for file in asked.media} for m in asked.messages or () for medium in m.media
        )
        return [(len(m.media), str(m.parts[0])) for m in asked.messages or () if m.role == "tool"]

    served.runtime.reads = frozenset({"image"})
    served.runtime.scripts = [calls(("tools__picture", "{}"))]
    served.runtime.script = DONE
    first = create(client)
    assert seen() == [(1, "see")]
    create(client, input="And again?", previous_response_id=first.id)
    assert seen() == [(1, "see")]
    items = [{"role": "user", "content": "Show."}, *(item.model_dump() for item in first.output)]
    create(client, input=[*items, HI])
    assert seen() == [(1, "see")]
    served.runtime.reads = frozenset()
    create(client, input=[*items, HI])
    (result,) = (m for m in served.runtime.requests[-1].messages or () if m.role == "tool")
    assert result.content == "see\n[image omitted: the model cannot see images]"


def test_a_call_waits_for_an_approval_and_is_made_with_it(served: Served, client: openai.OpenAI) -> None:
    tool = {**MCP, "require_approval": "always"}
    served.runtime.scripts = [calls(ADD)]
    asked = create(client, tools=[tool])
    request = asked.output[-1]
    assert (request.type, request.name, request.arguments) == ("mcp_approval_request", "add", ADD[1])
    assert asked.status == "completed"
    assert len(served.runtime.asked) == 1, "nothing goes on before somebody has said yes"

    served.runtime.script = DONE
    yes = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
    response = create(client, tools=[tool], input=[yes], previous_response_id=asked.id)
    call, message = response.output
    assert (call.type, call.output, call.approval_request_id) == ("mcp_call", "5", request.id)
    assert message.content[0].text == "It is 5."
    assert [each.role for each in served.runtime.asked[-1][1]] == ["user", "assistant", "tool"]  # type: ignore[attr-defined]

    again = create(client, tools=[tool], input="Thanks", previous_response_id=response.id)
    assert [item.type for item in again.output] == ["message"], "an approval is good for one call"


def test_a_call_that_is_not_approved_is_not_made_and_the_model_hears_why(served: Served, client: openai.OpenAI) -> None:
    tool = {**MCP, "require_approval": {"never": {"tool_names": ["repeat"]}}}
    served.runtime.scripts = [calls(("tools__repeat", '{"text": "x"}')), calls(ADD)]
    served.runtime.script = DONE
    asked = create(client, tools=[tool])
    assert [item.type for item in asked.output] == ["mcp_list_tools", "mcp_call", "mcp_approval_request"]
    no = {
        "type": "mcp_approval_response",
        "approval_request_id": asked.output[-1].id,
        "approve": False,
        "reason": "Too dear.",
    }
    response = create(client, tools=[tool], input=[no], previous_response_id=asked.id)
    assert [item.type for item in response.output] == ["message"]
    assert served.runtime.asked[-1][1][-1].content == "The user did not allow this call. Too dear."  # type: ignore[index]


def test_only_the_tools_that_are_allowed_are_offered(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = DONE
    create(client, tools=[{**MCP, "allowed_tools": ["add"]}, WEATHER])
    calling = served.runtime.requests[-1].calling
    assert calling is not None
    assert [function.name for function in calling.functions] == ["tools__add", "weather"]
    create(client, tools=[{**MCP, "allowed_tools": {"tool_names": ["add", "fail"]}}])
    calling = served.runtime.requests[-1].calling
    assert calling is not None
    assert [function.name for function in calling.functions] == ["tools__add", "tools__fail"]


def test_calls_of_the_client_own_functions_end_the_response_behind_ours(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [calls(ADD, ("weather", "{}"))]
    response = create(client, tools=[MCP, WEATHER])
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "function_call"]
    assert response.output[1].output == "5"
    assert len(served.runtime.asked) == 1


def test_rounds_are_bounded_and_the_last_answer_may_call_nothing(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [calls(ADD)] * 3
    served.runtime.script = DONE
    response = create(client, tool_choice="required")
    assert [item.type for item in response.output] == ["mcp_list_tools", *["mcp_call"] * 3, "message"]
    choices = [request.calling and request.calling.choice for request in served.runtime.requests]
    assert choices == ["required", "auto", "auto", "none"]


def test_tokens_and_time_are_bounded_for_all_answers_together(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = calls(ADD)
    response = create(client, max_output_tokens=5)  # each answer takes 3, as the script says
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert [request.params.max_tokens for request in served.runtime.requests] == [5, 2]
    served.runtime.reset()
    served.runtime.scripts = [calls(("tools__wait", "{}"))]
    served.runtime.script = DONE
    late = create(client, extra_body={"timeout": 1})
    assert "the request timed out" in str(late.output[1].error)


def test_an_mcp_server_that_hangs_when_it_is_started_again_ends_with_the_request(
    served: Served, client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    hub = McpHubs.hub

    async def second_hangs(hubs: McpHubs, label: str) -> Hub:
        opened.append(label)
        if len(opened) > 1:
            await asyncio.sleep(30)
        return await hub(hubs, label)

    monkeypatch.setattr(McpHubs, "hub", second_hangs)
    served.runtime.scripts = [calls(ADD)]
    served.runtime.script = DONE
    late = create(client, extra_body={"timeout": 1}, timeout=20)
    assert "the request timed out" in str(late.output[1].error)


def test_a_server_that_cannot_be_used_is_a_list_with_an_error(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = DONE
    response = create(client, tools=[{**MCP, "server_label": "dead"}, WEATHER])
    assert response.output[0].error == "it ended with exit code 3: no key given"
    assert response.output_text == "It is 5."


def test_a_server_that_ended_is_started_again_for_the_next_call(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [calls(("tools__leave", "{}"), ADD)]
    served.runtime.script = DONE
    response = create(client)
    assert "it ended with exit code 3" in str(response.output[1].error)
    assert response.output[2].output == "5"


@pytest.mark.parametrize(
    ("tool", "param", "words"),
    [
        ({"server_url": "http://10.0.0.1/mcp"}, "tools[0].server_url", "server_label: tools, dead"),
        ({"authorization": "x"}, "tools[0].authorization", "does not connect to MCP servers described in a request"),
        ({"connector_id": "connector_gmail"}, "tools[0].connector_id", "server_label"),
        ({"server_label": "others"}, "tools[0].server_label", "available: tools, dead"),
        ({"server_label": None}, "tools[0].server_label", "is missing"),
        ({"require_approval": "perhaps"}, "tools[0].require_approval", ""),
    ],
)
def test_what_a_request_may_not_say_of_a_server_is_refused_by_name(
    served: Served, tool: dict[str, Any], param: str, words: str
) -> None:
    body = {"model": "tiny", "input": "Hi", "tools": [{**MCP, **tool}]}
    response = served.http.post(PATH, json=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"].startswith(param)
    assert words in error["message"]
    assert served.runtime.asked == []


def test_an_approval_of_nothing_is_refused(served: Served) -> None:
    for approval, words in (
        ({"approve": True}, "no approval request 'x'"),
        ({}, "approve is missing"),
    ):
        items = [HI, {"type": "mcp_approval_response", "approval_request_id": "x", **approval}]
        response = served.http.post(PATH, json={"model": "tiny", "input": items, "tools": [MCP]})
        assert response.status_code == 400
        assert words in response.json()["error"]["message"]


def test_a_client_that_leaves_ends_the_call_and_the_answer(served: Served) -> None:
    served.runtime.scripts = [calls(("tools__wait", "{}"))]
    body = {"model": "tiny", "input": "Hi", "tools": [MCP], "stream": True}
    with httpx.stream("POST", f"{served.url}{PATH}", json=body, trust_env=False, timeout=60) as response:
        for line in response.iter_lines():
            if "mcp_call_arguments.done" in line:
                break
    assert served.runtime.answers[0].closed.wait(30)
    served.runtime.scripts = [calls(ADD)]
    served.runtime.script = DONE
    again = served.http.post(PATH, json={**body, "stream": False}, timeout=60).json()
    assert again["output"][1]["output"] == "5"


@needs_proc
def test_no_mcp_server_outlives_ours(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"tools": TOOL_SERVER}}), "utf-8")
    before = children()
    with running(Settings(port=0, grace_s=0.1, mcp_servers=file)) as served:
        assert children() == before, "it is started by the first request that names it"
        served.runtime.script = [Delta("Hi", 1), Delta("", 0, Finish("stop", Usage(1, 1), Timings(0, 0, 0)))]
        assert served.http.post(PATH, json={"model": "tiny", "input": "Hi", "tools": [MCP]}).status_code == 200
        (started,) = children() - before
        assert is_running(started)
    assert not is_running(started)


def test_a_file_that_is_not_right_is_refused_at_the_start(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"url": "x"}}}', "utf-8")
    command = [*COMMAND, "serve", "--port", "0", "--mcp-servers", str(file)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 2
    assert f"{file}: server 'a': url must begin with http:// or https://" in done.stderr
