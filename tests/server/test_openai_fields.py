"""Fields of OpenAI's API: refused by name, neutral, nobody's, or of a wrong value."""

from __future__ import annotations

import pytest

from localllm.server.apis.openai.requests import parse_chat, parse_completion
from tests.server.conftest import Served

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
TEXT = {"model": "tiny", "prompt": "Hi"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("audio", {"voice": "x", "format": "wav"}),
        ("modalities", ["text", "audio"]),
        ("store", True),
        ("verbosity", "low"),
        ("web_search_options", {}),
        ("repetition_penalty", 1.1),
    ],
)
def test_a_field_that_would_change_the_answer_is_refused_by_name(served: Served, field: str, value: object) -> None:
    response = served.http.post("/v1/chat/completions", json={**CHAT, field: value})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"], error["type"]) == ("unsupported_parameter", field, "invalid_request_error")
    assert field in error["message"]
    assert served.runtime.asked == []


def test_what_echo_cannot_do_is_refused_by_name(served: Served) -> None:
    response = served.http.post("/v1/completions", json={**TEXT, "echo": True, "suffix": "end"})
    assert response.status_code == 400
    assert (response.json()["error"]["code"], response.json()["error"]["param"]) == ("invalid_parameter", "echo")
    assert served.runtime.asked == []


def test_fields_at_values_that_ask_for_nothing_are_fine(served: Served) -> None:
    neutral: dict[str, object] = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "functions": None}
    neutral |= {"response_format": {"type": "text"}, "n": 1, "logprobs": False, "top_logprobs": 0, "logit_bias": {}}
    neutral |= {"frequency_penalty": 0, "presence_penalty": 0.0, "modalities": ["text"], "store": False, "stop": None}
    neutral |= {"user": "me", "metadata": {"a": "b"}, "service_tier": "auto", "safety_identifier": "x", "audio": None}
    neutral |= {"prompt_cache_key": "k", "verbosity": "medium", "temperature": None, "stream_options": None}
    response = served.http.post("/v1/chat/completions", json={**CHAT, **neutral})
    assert response.status_code == 200
    assert "x-localllm-ignored" not in response.headers


def test_a_field_that_is_nobodys_is_ignored_and_named_in_a_header(served: Served) -> None:
    message = {"role": "user", "content": "Hi", "nickname": "Ann"}
    body = {"model": "tiny", "messages": [message], "zeal": 3, "fröhlich\r\nx: y": 1}
    response = served.http.post("/v1/chat/completions", json=body)
    assert response.status_code == 200
    assert response.headers["x-localllm-ignored"] == "fr?hlich??x:?y, zeal, messages[].nickname"


def test_what_open_webui_keeps_for_itself_does_no_harm_where_it_comes_through(served: Served) -> None:
    """Its backend takes most of it out; what is left depends on its version, and on filters of its users."""
    kept: dict[str, object] = {"chat_id": "1", "session_id": "2", "id": "3", "params": {"num_ctx": 8192}, "files": []}
    kept |= {"features": {"web_search": False}, "variables": {"{{USER_NAME}}": "Ann"}, "tool_ids": [], "model_item": {}}
    kept |= {"background_tasks": {"title_generation": True}, "tool_servers": [], "filter_ids": []}
    known: dict[str, object] = {"metadata": {"task": "title_generation", "chat_id": "1"}, "user": {"name": "Ann"}}
    response = served.http.post("/v1/chat/completions", json={**CHAT, **kept, **known})
    assert response.status_code == 200
    assert set(response.headers["x-localllm-ignored"].split(", ")) == kept.keys()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("name", "told"), [(" ", "?"), ("", "?"), ("\t", "?"), (" a b ", "?a?b?"), ("a,b", "a?b"), ("\r\nx: y", "??x:?y")]
)
def test_a_field_of_any_name_is_told_in_a_header_that_may_be_sent(
    served: Served, name: str, told: str, stream: bool
) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    body = {"model": "tiny", "messages": messages, "max_tokens": 2, "stream": stream, name: 1}
    response = served.http.post("/v1/chat/completions", json=body)
    assert response.status_code == 200
    assert response.headers["x-localllm-ignored"] == told
    loading = served.http.post("/localllm/load", json={"model": "tiny", "stream": stream, name: 1})
    assert (loading.status_code, loading.headers["x-localllm-ignored"]) == (200, told)


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": [{"role": 3, "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x"}, {"role": "user"}]}, "messages[1].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"model": 3}, "model"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"seed": 2**63}, "seed"),
        ({"seed": -(2**63) - 1}, "seed"),
        ({"top_k": -2}, "top_k"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"repeat_penalty": 0}, "repeat_penalty"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"the": 1}}, "logit_bias.the"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"max_completion_tokens": -2}, "max_completion_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
        ({"stop": ["x" * 257]}, "stop"),
        ({"stop": [1]}, "stop[0]"),
        ({"n": 0}, "n"),
        ({"n": 261}, "n"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
        ({"typical_p": 1.5}, "typical_p"),
        ({"xtc_probability": 2}, "xtc_probability"),
        ({"mirostat": 3}, "mirostat"),
        ({"dynatemp_exponent": 0}, "dynatemp_exponent"),
        ({"dry_base": 0.5}, "dry_base"),
        ({"dry_sequence_breakers": [""]}, "dry_sequence_breakers"),
        ({"dry_sequence_breakers": ["x"] * 129}, "dry_sequence_breakers"),
        ({"priority": 1001}, "priority"),
        ({"timeout": 0}, "timeout"),
        ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
    ],
)
def test_a_wrong_value_is_a_400_that_names_the_field(served: Served, change: dict[str, object], param: str) -> None:
    response = served.http.post("/v1/chat/completions", json={**CHAT, **change})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("invalid_parameter", param)
    assert param in error["message"] or param.split("[")[0] in error["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"3", b'"x"', b"\xff", b'{"model": "\\ud800"}', b"[" * 50_000, b'{"a":' * 15_000, b"{}"],
)
def test_a_body_that_is_no_request_is_a_400_with_the_reason(served: Served, body: bytes) -> None:
    for path in ("/v1/chat/completions", "/v1/completions"):
        response = served.http.post(path, content=body, headers={"content-type": "application/json"})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "invalid_parameter"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": ["a"] * 2049}, "prompt"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"best_of": 261}, "best_of"),
    ],
)
def test_a_wrong_value_of_a_completion_is_a_400_that_names_the_field(
    served: Served, change: dict[str, object], param: str
) -> None:
    response = served.http.post("/v1/completions", json={**TEXT, **change})
    assert response.status_code == 400
    assert (response.json()["error"]["code"], response.json()["error"]["param"]) == ("invalid_parameter", param)


def test_extensions_reach_the_sampler() -> None:
    body = b'{"model": "m", "messages": [], "top_k": 5, "min_p": 0.1, "ignore_eos": true, "stop": "x"}'
    params = parse_chat(body)[0].params()
    assert (params.top_k, params.min_p, params.ignore_eos, params.stop) == (5, 0.1, True, ("x",))


def test_priority_and_timeout_reach_the_scheduler() -> None:
    (request,) = parse_completion(b'{"model": "m", "prompt": "x", "priority": -3, "timeout": 2.5}')[0].generations(
        most=1
    )
    assert (request.priority, request.timeout_s) == (-3, 2.5)


@pytest.mark.parametrize(
    ("fields", "is_batch"),
    [({}, False), ({"batch": True}, True), ({"service_tier": "flex"}, True), ({"service_tier": "priority"}, False)],
)
def test_a_request_of_the_batch_class_says_so_itself_or_by_openais_tier(
    served: Served, fields: dict[str, object], is_batch: bool
) -> None:
    assert served.http.post("/v1/chat/completions", json=CHAT | fields).status_code == 200
    assert [request.batch for request in served.runtime.requests] == [is_batch]
