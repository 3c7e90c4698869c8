"""What requests say of guesses: taken as it is, or refused by name; and what usage says came of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from localllm.types import Delta, Finish, Speculative, Timings, Usage
from tests.server.conftest import Served

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
WORDS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": CHAT["messages"]},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": CHAT["messages"], "max_tokens": 5},
    "/completion": {"prompt": "Hi"},
    "/infill": {"input_prefix": "a", "input_suffix": "b"},
}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("def f():\n", "def f():\n"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ("", ""),
    ],
)
def test_a_prediction_goes_along(served: Served, content: Any, text: str) -> None:
    body = {**CHAT, "prediction": {"type": "content", "content": content}}
    response = served.http.post("/v1/chat/completions", json=body)
    assert response.status_code == 200
    assert "x-localllm-ignored" not in response.headers
    asked = served.runtime.requests[-1]
    assert asked.prediction == text


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        (None, Speculative()),
        (True, Speculative(is_named=True)),
        (False, Speculative(n_max=0)),
        ({}, Speculative(is_named=True)),
        ({"n_max": 4}, Speculative(n_max=4, is_named=True)),
        ({"sources": ["lookup"]}, Speculative(sources=("lookup",), is_named=True)),
        ({"sources": []}, Speculative(sources=(), is_named=True)),
    ],
)
@pytest.mark.parametrize("path", WORDS)
def test_a_request_says_who_may_guess_how_much(served: Served, path: str, field: Any, wanted: Speculative) -> None:
    response = served.http.post(path, json={"model": "tiny", "speculative": field, **WORDS[path]})
    assert response.status_code == 200
    asked = served.runtime.requests[-1]
    assert asked.speculative == wanted


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"speculative.n_max": 4, "speculative.n_min": 2, "speculative.p_min": 0.75}, Speculative(n_max=4)),
        ({"speculative.n_max": -1}, Speculative(n_max=0)),
        ({"speculative.n_max": 1000}, Speculative(n_max=64)),
        ({"speculative.n_max": 4, "speculative": {"n_max": 2}}, Speculative(n_max=2, is_named=True)),
        ({"speculative.n_max": 4, "speculative": False}, Speculative(n_max=0)),
        ({"speculative.n_max": 4, "speculative": {"sources": ["lookup"]}},
         Speculative(n_max=4, sources=("lookup",), is_named=True)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", WORDS)
def test_llama_servers_limit_of_guesses_is_ours(
    served: Served, path: str, fields: dict[str, Any], wanted: Speculative
) -> None:
    response = served.http.post(path, json={"model": "tiny", **WORDS[path], **fields})
    assert response.status_code == 200
    assert "x-localllm-ignored" not in response.headers
    assert served.runtime.requests[-1].speculative == wanted


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"speculative": {"n_max": -1}}, "speculative.n_max"),
        ({"speculative": {"n_max": 65}}, "speculative.n_max"),
        ({"speculative": {"n_mux": 4}}, "speculative"),
        ({"speculative": {"sources": ["oracle"]}}, "speculative.sources"),
        ({"speculative": "no"}, "speculative"),
        ({"prediction": {"type": "content"}}, "prediction"),
        ({"prediction": {"type": "patch", "content": "x"}}, "prediction.type"),
        ({"prediction": "x"}, "prediction"),
    ],
)
def test_what_is_none_is_refused_by_name(served: Served, fields: dict[str, Any], param: str) -> None:
    response = served.http.post("/v1/chat/completions", json={**CHAT, **fields})
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith(param)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/completion", {"prompt": "Hi"}),
        ("/v1/completions", {"prompt": "Hi", "timings_per_token": True}),
        ("/v1/chat/completions", {**CHAT, "timings_per_token": True}),
        ("/v1/responses", {"input": "Hi", "timings_per_token": True}),
    ],
)
def test_timings_count_guesses_as_llama_servers_do(
    served: Served, path: str, body: dict[str, Any], *, stream: bool
) -> None:
    """Only if there were any."""
    counts = []
    for guesses in ({"accepted_guesses": 20, "rejected_guesses": 5}, {}):
        usage = Usage(prompt_tokens=7, completion_tokens=30, **guesses)
        served.runtime.script = (Delta("Hello", 30, Finish("stop", usage, Timings(0.1, 0.2, 0.3))),)
        text = served.http.post(path, json={"model": "tiny", "stream": stream, **body}).text
        counts.append(set(re.findall(r'"draft_n(?:_accepted)?":[0-9]+', text)))
    assert counts == [{'"draft_n":25', '"draft_n_accepted":20'}, set()]


def test_usage_and_metrics_count_guesses(served: Served) -> None:
    usage = Usage(prompt_tokens=7, completion_tokens=30, accepted_guesses=20, rejected_guesses=5)
    served.runtime.script = (Delta("Hello", 30, Finish("stop", usage, Timings(0.1, 0.2, 0.3))),)
    details = served.http.post("/v1/chat/completions", json={**CHAT, "n": 2}).json()["usage"]
    assert details["completion_tokens_details"] == {
        "reasoning_tokens": 0,
        "accepted_prediction_tokens": 40,
        "rejected_prediction_tokens": 10,
    }
    metrics = served.http.get("/metrics").text
    assert 'localllm_computed_guesses{model="tiny",source="lookup"} 50.0' in metrics
    assert 'localllm_right_guesses{model="tiny",source="lookup"} 40.0' in metrics
