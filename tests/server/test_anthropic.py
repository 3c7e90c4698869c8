"""Anthropic's Messages API before a scripted runtime, asked by Anthropic's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from localllm.errors import ContextLengthExceeded, InvalidParameter, LocalLLMError, ModelNotFound, QueueFull
from localllm.server.apis.anthropic.events import encode
from localllm.server.apis.anthropic.story import Story
from localllm.settings.config import Settings
from localllm.types import CallDelta, Delta, Finish, Message, Timings, ToolCall, Usage
from tests.later import anthropic
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH, HANG, tiny_model

END = Delta("", 1, FINISH)
USER: Any = [{"role": "user", "content": "Hi"}]
BODY: dict[str, Any] = {"model": "tiny", "max_tokens": 50, "messages": USER}
TEXTS = [{"type": "text", "text": "no such city"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: dict[str, Any] = {"name": "weather", "description": "The weather.", "input_schema": SCHEMA}
ANSWER = (
    Delta(thought="Let me ", num_tokens=1),
    Delta(thought="see.", num_tokens=1),
    Delta("In ", 1),
    Delta("Ulm", 1),
    Delta(calls=(CallDelta(0, "", "weather", "call_1"),)),
    Delta(calls=(CallDelta(0, '{"city": '),)),
    Delta(calls=(CallDelta(0, '"Ulm"}'), CallDelta(1, '{"city": "Bonn"}', "weather", "call_2"))),
    END,
)


def ended(reason: Any, stop: str | None = None) -> Delta:
    return Delta("", 1, Finish(reason, Usage(7, 3, cached_tokens=2), Timings(0.1, 0.2, 0.3), stop))


@pytest.fixture
def client(served: Served) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served.url, api_key="x", max_retries=0, timeout=10) as client:
        yield client


def asked(served: Served, **fields: Any) -> Any:
    """The request as the runtime got it."""
    response = served.http.post("/v1/messages", json={**BODY, **fields})
    assert response.status_code == 200, response.text
    return served.runtime.requests[-1]


def refused(served: Served, **fields: Any) -> str:
    response = served.http.post("/v1/messages", json={**BODY, **fields})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["type"] == "invalid_request_error"
    return str(response.json()["error"]["message"])


def events(text: str) -> list[dict[str, Any]]:
    """Each checked to be called what it says it is."""
    found: list[dict[str, Any]] = []
    for event in text.strip().split("\n\n"):
        name, data = event.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_a_thought_a_text_and_two_calls_come_as_blocks(served: Served, client: anthropic.Anthropic) -> None:
    served.runtime.script = ANSWER
    message = client.messages.create(**BODY)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    thinking, text, first, second = (block.model_dump() for block in message.content)
    assert thinking["thinking"] == "Let me see."
    assert thinking["signature"]
    assert text["text"] == "In Ulm"
    assert (first["id"], first["name"], first["input"]) == ("call_1", "weather", {"city": "Ulm"})
    assert second["input"] == {"city": "Bonn"}
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (5, 2, 3)
    assert usage.cache_creation_input_tokens == 0
    assert message.model == "tiny"


def test_a_stream_adds_up_to_the_same_in_the_clients_own_helper(served: Served, client: anthropic.Anthropic) -> None:
    served.runtime.script = ANSWER
    whole = client.messages.create(**BODY)
    with client.messages.stream(**BODY) as stream:
        streamed = stream.get_final_message()
    assert streamed.model_dump(exclude={"id"})["content"] == whole.model_dump(exclude={"id"})["content"]
    assert (streamed.stop_reason, streamed.usage.output_tokens) == ("tool_use", 3)
    assert streamed.usage.cache_read_input_tokens == 2
    assert streamed.usage.input_tokens == 5


def test_the_events_come_in_anthropics_order(served: Served) -> None:
    served.runtime.script = (Delta(thought="Hm.", num_tokens=1), Delta("Hi", 1), END)
    response = served.http.post("/v1/messages?beta=true", json={**BODY, "stream": True})
    assert [event["type"] for event in events(response.text)] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events(response.text)[4]["delta"]["type"] == "signature_delta"


@given(st.lists(st.sampled_from(["thought", "text", "call", "pieces", "text and call"])))
def test_whatever_comes_the_events_add_up_to_the_message(kinds: list[str]) -> None:
    deltas: list[Delta] = []
    for index, kind in enumerate(kinds):
        head = CallDelta(index, "{}" if kind == "call" else "", "weather", f"call_{index}")
        deltas.append(Delta("a" * ("text" in kind), thought="b" * (kind == "thought")))
        if kind != "thought" and kind != "text":
            deltas[-1] = Delta(deltas[-1].text, calls=(head,))
        if kind == "pieces":
            rest = CallDelta(index, "1}")
            deltas += [Delta(calls=(CallDelta(index, '{"x":'),)), Delta("behind", calls=(rest,))]
    story = Story("msg_1", "tiny")
    told = [*story.begin(7)]
    for delta in deltas:
        told += story.feed(delta)
    told += story.end(FINISH)
    blocks: list[dict[str, Any]] = []
    for event in (json.loads(encode(each).split(b"data: ")[1]) for each in told):
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"] | ({"input": ""} if "input" in event["content_block"] else {}))
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(blocks) - 1
            (name, piece) = next((key, value) for key, value in event["delta"].items() if key != "type")
            blocks[-1]["input" if name == "partial_json" else name] += piece
    assert len(blocks) == len(story.message.content)
    for block, made in zip(blocks, story.message.content, strict=True):
        for name, value in block.items():
            if name == "input":
                assert json.loads(value or "{}") == json.loads(bytes(made.input))  # type: ignore[union-attr]
            elif name != "type":
                assert getattr(made, name) == value


@pytest.mark.parametrize("stream", [False, True])
def test_the_clients_own_loop_of_tools_ends(served: Served, client: anthropic.Anthropic, stream: bool) -> None:
    """It asks for a thread that the server holds first, and sends whole conversations where there is none."""
    cities: list[str] = []

    @anthropic.beta_tool
    def weather(city: str) -> str:
        """The weather."""
        cities.append(city)
        return "sunny"

    served.runtime.scripts = [ANSWER, (Delta("Sunny.", 1), END)]
    fields: dict[str, Any] = {**BODY, "tools": [weather], "stream": stream}
    last = client.beta.messages.tool_runner(**fields).until_done()
    assert (last.content[-1].text, cities) == ("Sunny.", ["Ulm", "Bonn"])
    said = served.runtime.requests[-1].messages
    assert said is not None
    assert [message.role for message in said] == ["user", "assistant", "tool", "tool"]


@pytest.mark.parametrize(
    ("end", "reason", "sequence"),
    [
        (ended("stop"), "end_turn", None),
        (ended("length"), "max_tokens", None),
        (ended("timeout"), "max_tokens", None),
        (ended("stop", "###"), "stop_sequence", "###"),
    ],
)
def test_why_it_ended_is_said(
    served: Served, client: anthropic.Anthropic, end: Delta, reason: str, sequence: Any
) -> None:
    served.runtime.script = (Delta("Hi", 1), end)
    message = client.messages.create(**BODY)
    assert (message.stop_reason, message.stop_sequence) == (reason, sequence)


def test_a_call_that_was_cut_says_so_and_has_no_arguments(served: Served) -> None:
    served.runtime.script = (Delta(calls=(CallDelta(0, '{"city": "U', "weather", "c"),)), ended("length"))
    given = served.http.post("/v1/messages", json=BODY).json()
    assert given["content"][0]["input"] == {}
    assert given["stop_reason"] == "max_tokens"
    assert "content[0].input" in given["localllm"]["warnings"][0]


def test_a_conversation_of_blocks_is_the_conversation(served: Served) -> None:
    given = asked(
        served,
        system=[
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37.f6d; cch=a1b2c;"},
            {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Be brief."},
        ],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "Weather?", "cache_control": {"type": "ephemeral"}}]},
            {"role": "system", "content": "The time is 12:00."},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "redacted_thinking", "data": "zzz"},
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Ulm"}},
                    {"type": "tool_use", "id": "t2", "name": "weather", "input": {}},
                    {"type": "tool_use", "id": "t3", "name": "weather", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"},
                    {"type": "tool_result", "tool_use_id": "t2", "content": TEXTS, "is_error": True},
                    {"type": "tool_result", "tool_use_id": "t3"},
                    {"type": "text", "text": "And?"},
                ],
            },
        ],
        tools=[TOOL],
    )  # fmt: skip
    assert given.messages == (
        Message("system", "Be kind.\nBe brief.", parts=("Be kind.", "Be brief.")),
        Message("user", "Weather?"),
        Message("system", "The time is 12:00."),
        Message(
            "assistant",
            "Let me see.",
            thought="Hm.",
            tool_calls=(
                ToolCall("weather", '{"city":"Ulm"}', "t1"),
                ToolCall("weather", "{}", "t2"),
                ToolCall("weather", "{}", "t3"),
            ),
        ),
        Message("tool", "sunny", tool_call_id="t1"),
        Message("tool", "Error: no such city", tool_call_id="t2"),
        Message("tool", "", tool_call_id="t3"),
        Message("user", "And?"),
    )


def test_a_system_message_may_be_there_until_the_next_of_the_users(served: Served) -> None:
    hint = {"role": "system", "content": "Now.", "clear_at": "next_user_message"}
    said = [*USER, hint, {"role": "assistant", "content": "Hello."}, *USER, {**hint, "content": "Later."}]
    given = [message.content for message in asked(served, messages=said).messages]
    assert given == ["Hi", "Hello.", "Hi", "Later."]


def test_fields_that_are_nobodys_are_named_wherever_they_are(served: Served) -> None:
    block = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}, "zeal": 1}
    fields: dict[str, Any] = {
        "system": [block],
        "messages": [{"role": "user", "content": [block], "zest": 1}],
        "thinking": {"type": "adaptive", "block_binding": None, "zip": 1},
        "output_config": {"effort": "low", "task_budget": None, "vim": 1},
    }
    response = served.http.post("/v1/messages", json={**BODY, **fields})
    assert response.headers["x-localllm-ignored"] == (
        "thinking.zip, output_config.vim, system[].zeal, messages[].zest, messages[].content[].zeal"
    )


def test_a_system_prompt_as_a_string_loses_the_changing_line_too(served: Served) -> None:
    given = asked(served, system="x-anthropic-billing-header: cch=00000;\n\nBe kind.")
    assert given.messages[0] == Message("system", "Be kind.")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ("auto", True)),
        ({"type": "auto"}, ("auto", True)),
        ({"type": "auto", "disable_parallel_tool_use": True}, ("auto", False)),
        ({"type": "any"}, ("required", True)),
        ({"type": "tool", "name": "weather"}, ("required", False)),
        ({"type": "none"}, ("none", True)),
    ],
)
def test_what_may_be_called_is_what_tool_choice_says(served: Served, choice: Any, expected: tuple[str, bool]) -> None:
    given = asked(served, tools=[TOOL], **({"tool_choice": choice} if choice else {}))
    assert (given.calling.choice, given.calling.parallel) == expected
    assert json.loads(given.calling.functions[0].parameters) == SCHEMA
    (told,) = json.loads(given.rendering.tools)
    assert told["function"]["parameters"] == SCHEMA


def test_tools_of_anthropics_own_are_left_out_or_refused(served: Served) -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}, TOOL]
    response = served.http.post("/v1/messages", json={**BODY, "tools": tools})
    assert response.headers["x-localllm-ignored"] == "tools[0]:web_search_20250305"
    assert json.loads(served.runtime.requests[-1].rendering.tools)[0]["function"]["name"] == "weather"
    with running(Settings(port=0, grace_s=0.1, hosted_tools="refuse")) as strict:
        assert "web_search_20250305" in refused(strict, tools=tools)


@pytest.mark.parametrize("choice", [{"type": "tool", "name": "web_search"}, {"type": "any"}])
def test_a_choice_that_only_a_hosted_tool_could_meet_is_left_out_with_it(
    served: Served, choice: dict[str, Any]
) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    response = served.http.post("/v1/messages", json={**BODY, "tools": [search], "tool_choice": choice})
    assert response.headers["x-localllm-ignored"] == "tools[0]:web_search_20250305, tool_choice"
    both = {**BODY, "tools": [search, TOOL], "tool_choice": {"type": "any"}}
    assert served.http.post("/v1/messages", json=both).headers["x-localllm-ignored"] == "tools[0]:web_search_20250305"
    (_, given) = served.runtime.requests
    assert given.calling is not None
    assert given.calling.choice == "required"


CLIENT_TOOLS = [
    ("bash_20241022", "bash", set(), {"command", "restart"}),
    ("bash_20250124", "bash", set(), {"command", "restart"}),
    ("text_editor_20250124", "str_replace_editor", {"command", "path"}, {"new_str", "view_range", "insert_line"}),
    ("text_editor_20250728", "str_replace_based_edit_tool", {"command", "path"}, {"insert_text", "old_str"}),
    ("memory_20250818", "memory", {"command"}, {"file_text", "old_path", "new_path", "insert_text"}),
]


@pytest.mark.parametrize(("kind", "name", "required", "some"), CLIENT_TOOLS)
def test_a_tool_that_the_client_runs_by_a_published_schema_is_offered(
    served: Served, kind: str, name: str, required: set[str], some: set[str]
) -> None:
    tool = {"type": kind, "name": name, "cache_control": {"type": "ephemeral"}}
    choice = {"type": "tool", "name": name}
    response = served.http.post("/v1/messages", json={**BODY, "tools": [tool], "tool_choice": choice})
    assert "x-localllm-ignored" not in response.headers
    (given,) = served.runtime.requests
    assert given.calling is not None
    (function,) = given.calling.functions
    schema = json.loads(function.parameters)
    assert (function.name, set(schema.get("required", []))) == (name, required)
    assert some <= schema["properties"].keys()
    commands = schema["properties"]["command"].get("enum", [])
    assert ("undo_edit" in commands) == (name == "str_replace_editor")


@pytest.mark.parametrize(
    ("thinking", "switch", "budget"),
    [
        (None, False, None),
        ({"type": "disabled"}, False, None),
        ({"type": "adaptive"}, None, None),
        ({"type": "between_tools"}, None, None),
        ({"type": "enabled", "budget_tokens": 1024}, True, 1024),
    ],
)
def test_it_thinks_where_it_is_asked_to(served: Served, thinking: Any, switch: Any, budget: Any) -> None:
    given = asked(served, **({"thinking": thinking} if thinking else {}))
    assert json.loads(given.rendering.variables).get("enable_thinking") == switch
    assert given.thinking_budget == budget


def test_a_thought_that_is_not_to_be_shown_has_a_block_without_text(
    served: Served, client: anthropic.Anthropic
) -> None:
    served.runtime.script = (Delta(thought="Hm.", num_tokens=1), Delta("Hi", 1), END)
    fields = {**BODY, "extra_body": {"thinking": {"type": "adaptive", "display": "omitted"}}}
    whole = client.messages.create(**fields).content[0].model_dump()
    with client.messages.stream(**fields) as stream:
        assert stream.get_final_message().content[0].model_dump() == whole
    assert whole["thinking"] == ""
    assert whole["signature"]


def test_sampling_and_limits_are_anthropics_words(served: Served) -> None:
    params = asked(served, stop_sequences=["###", ""], temperature=0.5, top_p=0.9, top_k=7, max_tokens=9).params
    assert params.stop == ("###",)
    assert (params.temperature, params.top_p, params.top_k, params.max_tokens) == (0.5, 0.9, 7, 9)


def test_an_answer_can_be_held_to_a_schema(served: Served) -> None:
    format = {"type": "json_schema", "schema": SCHEMA}
    for fields in ({"output_config": {"format": format}}, {"output_format": format}):
        structure = asked(served, **fields).structure
        assert json.loads(structure.source) == SCHEMA


def test_what_clients_send_along_is_taken_by_a_strict_server() -> None:
    with running(Settings(port=0, grace_s=0.1, strict=True)) as strict:
        headers = {"anthropic-beta": "claude-code-20250219,what-is-this-2099", "anthropic-version": "2023-06-01"}
        body = {
            **BODY,
            "metadata": {"user_id": "u"},
            "service_tier": "auto",
            "context_management": {"edits": []},
            "tools": [{**TOOL, "cache_control": {"type": "ephemeral"}, "type": "custom"}],
        }
        response = strict.http.post("/v1/messages?beta=true", json=body, headers=headers)
        assert response.status_code == 200, response.text
        assert strict.http.post("/v1/messages", json={**BODY, "frobnicate": 1}).status_code == 400


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_tokens": UNSET}, "max_tokens"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "content[0].source.type"),
        ({"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]}, "content[0].source.type"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages[0].content[0].tool_use_id"),
        ({"system": [{"type": "image"}]}, "system[0]"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [TOOL, TOOL]}, "weather"),
        ({"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
        ({"temperature": -1}, "temperature"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(served: Served, fields: dict[str, Any], words: str) -> None:
    body = {name: value for name, value in {**BODY, **fields}.items() if value is not UNSET}
    response = served.http.post("/v1/messages", json=body)
    assert response.status_code == 400, response.text
    given = response.json()
    assert given["type"] == "error"
    assert given["error"]["type"] == "invalid_request_error"
    assert words in given["error"]["message"]
    assert given["request_id"] == response.headers["request-id"]


@pytest.mark.parametrize(
    ("error", "kind", "type"),
    [
        (ModelNotFound("no such model"), "NotFoundError", "not_found_error"),
        (QueueFull("full"), "RateLimitError", "rate_limit_error"),
        (InvalidParameter("bad", param="x"), "BadRequestError", "invalid_request_error"),
    ],
)
def test_the_client_raises_what_it_raises_for_anthropics_errors(
    served: Served, client: anthropic.Anthropic, error: LocalLLMError, kind: str, type: str
) -> None:
    served.runtime.refusal = error
    with pytest.raises(getattr(anthropic, kind)) as raised:
        client.messages.create(**BODY)
    body: Any = raised.value.body
    assert body["error"]["type"] == type
    assert raised.value.request_id == body["request_id"]


def test_a_prompt_that_is_too_long_is_refused_in_the_words_that_agents_look_for(
    served: Served, client: anthropic.Anthropic
) -> None:
    served.runtime.refusal = ContextLengthExceeded("too long", prompt_tokens=900, context_length=512)
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 900 tokens > 512 maximum"):
        client.messages.create(**BODY)


def test_a_stream_that_fails_ends_with_an_error(served: Served, client: anthropic.Anthropic) -> None:
    served.runtime.script = (Delta("Hi", 1), QueueFull("full"))
    last = events(served.http.post("/v1/messages", json={**BODY, "stream": True}).text)[-1]
    assert (last["type"], last["error"]["type"]) == ("error", "rate_limit_error")
    with pytest.raises(anthropic.APIStatusError), client.messages.stream(**BODY) as stream:
        stream.get_final_message()


def test_a_silent_stream_is_kept_alive_by_pings() -> None:
    with running(Settings(port=0, grace_s=0.1, keep_alive_s=0.02)) as served:
        served.runtime.script = (Delta("Hi", 1), HANG)
        with served.http.stream("POST", "/v1/messages", json={**BODY, "stream": True}) as response:
            num_pings = 0
            for line in response.iter_lines():
                assert not line.startswith(":")
                num_pings += line == "event: ping"
                if num_pings == 4:
                    break
            assert num_pings == 4


@pytest.mark.parametrize("name", ["api_key", "auth_token"])
def test_a_key_comes_in_either_header(guarded: Served, name: str) -> None:
    for secret, is_known in (("sesame", True), ("wrong", False)):
        keys: Any = {name: secret}
        with anthropic.Anthropic(base_url=guarded.url, max_retries=0, **keys) as client:
            if is_known:
                assert client.messages.create(**BODY).content
            else:
                with pytest.raises(anthropic.AuthenticationError):
                    client.messages.create(**BODY)


def test_a_name_that_clients_know_by_heart_is_another_models() -> None:
    aliases = "claude-*=tiny, gpt-4o"
    with running(Settings(port=0, grace_s=0.1, model_aliases=aliases)) as served:
        for name in ("claude-opus-4-1", "gpt-4o", "tiny"):
            assert served.http.post("/v1/messages", json={**BODY, "model": name}).json()["model"] == name
            chat = {"model": name, "messages": USER}
            assert served.http.post("/v1/chat/completions", json=chat).status_code == 200
            assert served.http.post("/v1/embeddings", json={"model": name, "input": "x"}).status_code == 200
        assert {model for model, *_ in served.runtime.asked} == {"tiny"}
        served.runtime.models = [tiny_model(), tiny_model("claude-mine")]
        served.http.post("/v1/messages", json={**BODY, "model": "claude-mine"})
        assert served.runtime.asked[-1][0] == "claude-mine"
        served.http.post("/v1/messages", json={**BODY, "model": "claude-mine:latest"})
        assert served.runtime.asked[-1][0] == "claude-mine", "the name of a loaded model, not one to be replaced"


@pytest.mark.parametrize("wrong", ["=tiny", "claude-*="])
def test_an_alias_that_is_none_is_an_error_before_anything_is_served(wrong: str) -> None:
    with pytest.raises(InvalidParameter, match="model_aliases"):
        Settings(model_aliases=wrong).aliases()
