"""Fields of the Responses API: refused by name, neutral, nobody's, or of a wrong value."""

from __future__ import annotations

from typing import get_args

import pytest

from localllm.server.apis.responses.requests import Includable, ResponseRequest, parse_response
from localllm.server.apis.responses.tools import OfferedTools
from localllm.settings.config import Settings
from localllm.types import Message, SamplingParams
from tests.later import openai
from tests.server.conftest import Served, running

BODY = {"model": "tiny", "input": "Hi"}
PATH = "/v1/responses"


def test_everything_that_can_be_included_is_known() -> None:
    assert set(get_args(Includable)) == set(get_args(openai.types.responses.ResponseIncludable))


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("background", True, "background"),
        ("conversation", "conv_1", "conversation"),
        ("context_management", [{"type": "compaction"}], "context_management"),
        ("moderation", {"model": "x"}, "moderation"),
        ("prompt", {"id": "pmpt_1"}, "prompt"),
        ("grammar", "root ::= x", "grammar"),
        ("n", 2, "n"),
        ("logprobs", True, "logprobs"),
        ("max_tokens", 5, "max_tokens"),
        ("response_format", {"type": "json_object"}, "response_format"),
        ("messages", [], "messages"),
    ],
)
def test_a_field_that_would_change_the_answer_is_refused_by_name(
    served: Served, field: str, value: object, param: str
) -> None:
    response = served.http.post(PATH, json={**BODY, field: value})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"], error["type"]) == ("unsupported_parameter", param, "invalid_request_error")
    assert param in error["message"]
    assert served.runtime.asked == []


def test_a_field_of_the_chat_api_is_told_its_name_here(served: Served) -> None:
    error = served.http.post(PATH, json={**BODY, "max_tokens": 5}).json()["error"]
    assert "max_output_tokens" in error["message"]


def test_fields_at_values_that_ask_for_nothing_are_fine(served: Served) -> None:
    neutral: dict[str, object] = {
        "tools": [],
        "tool_choice": "none",
        "parallel_tool_calls": False,
        "truncation": "auto",
    }
    neutral |= {"text": {"format": {"type": "text"}, "verbosity": "medium"}, "reasoning": {"effort": None}, "n": 1}
    neutral |= {"background": False, "store": None, "include": [], "top_logprobs": 0, "max_tool_calls": 3, "stop": None}
    neutral |= {"user": "me", "metadata": {"a": "b"}, "service_tier": "auto", "safety_identifier": "x", "prompt": None}
    neutral |= {"prompt_cache_key": "k", "prompt_cache_retention": "24h", "access_programs": {"cyber": "standard"}}
    neutral |= {"stream_options": {"include_obfuscation": False}, "instructions": None, "max_tokens": None}
    response = served.http.post(PATH, json={**BODY, **neutral})
    assert response.status_code == 200
    assert "x-localllm-ignored" not in response.headers


def test_a_field_that_is_nobodys_is_ignored_and_named_in_a_header(served: Served) -> None:
    item = {"role": "user", "content": "Hi", "name": "Ann"}
    response = served.http.post(PATH, json={"model": "tiny", "input": [item], "zeal": 3, "prediction": {}})
    assert response.status_code == 200
    assert response.headers["x-localllm-ignored"] == "prediction, zeal, input[].name"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": 3}, "input"),
        ({"input": [3]}, "input[0]"),
        ({"input": [{"role": 3, "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": "x"}, {"role": "user"}]}, "input[1].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": "message", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input[0].role"),
        ({"model": 3}, "model"),
        ({"instructions": ["x"]}, "instructions"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"max_output_tokens": -2}, "max_output_tokens"),
        ({"seed": 2**63}, "seed"),
        ({"max_output_tokens": 2**31}, "max_output_tokens"),
        ({"max_output_tokens": 8, "min_tokens": 9}, "min_tokens"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"top_logprobs": 21, "include": ["message.output_text.logprobs"]}, "top_logprobs"),
        ({"include": ["everything"]}, "include[0]"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {str(number): "x" for number in range(17)}}, "metadata"),
        ({"metadata": {"x" * 65: ""}}, "metadata"),
        ({"metadata": {"x": "y" * 513}}, "metadata"),
        ({"text": "plain"}, "text"),
        ({"top_k": -2}, "top_k"),
        ({"previous_response_id": 3}, "previous_response_id"),
    ],
)
def test_a_wrong_value_is_a_400_that_names_the_field(served: Served, change: dict[str, object], param: str) -> None:
    response = served.http.post(PATH, json={**BODY, **change})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"].partition("[...]")[0]) == ("invalid_parameter", param)
    assert served.runtime.asked == []


def test_a_thought_of_which_nothing_came_is_left_out(served: Served) -> None:
    text = {"type": "reasoning_text", "text": "Hm."}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [text], "status": "completed"}
    response = served.http.post(PATH, json={"model": "tiny", "input": [thought, {"role": "user", "content": "Hi"}]})
    assert response.status_code == 200
    assert served.runtime.asked[0][1] == [Message("user", "Hi")]


def test_a_strict_server_refuses_what_is_nobodys_and_names_an_unsupported_item_as_such() -> None:
    with running(Settings(port=0, grace_s=0.1, strict=True)) as served:
        wrong = {"role": "user", "content": "Hi", "zeal": 3}
        error = served.http.post(PATH, json={"model": "tiny", "input": [wrong]}).json()["error"]
        assert (error["code"], error["param"]) == ("unknown_parameter", "input[].zeal")
        item = {"type": "mesage", "role": "user", "content": "Hi"}
        error = served.http.post(PATH, json={"model": "tiny", "input": [item]}).json()["error"]
        assert (error["code"], error["param"]) == ("unsupported_parameter", "input[0].type")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3", b"\xff", b'{"model": "\\ud800"}', b"[" * 50_000, b"{}"])
def test_a_body_that_is_no_request_is_a_400_with_the_reason(served: Served, body: bytes) -> None:
    response = served.http.post(PATH, content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_parameter"


def test_extensions_reach_the_sampler_and_the_scheduler() -> None:
    body = b"""{"model": "m", "input": "x", "top_k": 5, "stop": "x", "ignore_eos": true, "max_output_tokens": 9,
        "logit_bias": {"3": 1}, "priority": -3, "timeout": 2.5}"""
    request = parse_response(body, ResponseRequest).request
    asked = request.generation(request.taken([], lambda _: None).items, OfferedTools())
    assert asked.params == SamplingParams(top_k=5, stop=("x",), ignore_eos=True, max_tokens=9, logit_bias={3: 1.0})
    assert (asked.priority, asked.timeout_s) == (-3, 2.5)
