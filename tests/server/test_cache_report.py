"""Why a prompt was not in the cache, said on request and in a debug log; never where several keys share a server."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm.settings.config import Settings
from tests.server.conftest import RequestLog, running, serving

TIMEOUT_S = 60
MONDAY, TUESDAY = "You help. Today is Monday.", "You help. Today is Tuesday."


@pytest.fixture(scope="module")
def client(home: Path, tiny_chat_model: Path) -> Iterator[httpx.Client]:
    settings = Settings(home=home, port=0, slots=1)
    with serving(settings, model=str(tiny_chat_model)) as url, httpx.Client(base_url=url, timeout=TIMEOUT_S) as client:
        yield client


def chat(system: str, *turns: str, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": turn} for number, turn in enumerate(turns)]
    asked = [{"role": "system", "content": system}, *messages]
    return {"model": "tiny-chat", "messages": asked, "guided_choice": ["So it goes."]} | fields


def ask(client: httpx.Client, body: dict[str, Any], id: str = "any") -> dict[str, Any]:
    response = client.post("/v1/chat/completions", json=body, headers={"x-request-id": id})
    assert response.status_code == 200, response.text
    reply: dict[str, Any] = response.json()
    return reply


def test_a_prompt_that_changed_says_where_if_it_is_asked(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    first = ask(client, chat(MONDAY, "Hello", cache_report=True))
    assert first["localllm"] == {"cache_miss": None}
    assert "localllm" not in ask(client, chat(MONDAY, "Hello"))
    grown = ask(client, chat(MONDAY, "Hello", "So it goes. ", "Go on", cache_report=True))
    assert grown["localllm"] == {"cache_miss": None}
    assert grown["usage"]["prompt_tokens_details"]["cached_tokens"] >= first["usage"]["prompt_tokens"]
    edited = ask(client, chat(MONDAY, "Hello", "So it went.", "Go on", cache_report=True))
    assert edited["localllm"] == {"cache_miss": "differs in message 2, character 6: 'goes.' -> 'went.'"}
    told = "differs in message 0, character 19: 'Monday.' -> 'Tuesday.'"
    assert ask(client, chat(TUESDAY, "Hello", cache_report=True))["localllm"] == {"cache_miss": told}
    stream = client.post("/v1/chat/completions", json=chat(MONDAY, "Bye", cache_report=True, stream=True)).text
    assert stream.count("differs in message 1, character 0: 'Hello' -> 'Bye'") == 1
    shown = [record for record in caplog.records if "cache_miss" in vars(record).get("fields", {})]
    assert not [record for record in shown if vars(record)["fields"]["cache_miss"]]


def test_the_responses_api_says_it_too(client: httpx.Client) -> None:
    body = {"model": "tiny-chat", "max_output_tokens": 16, "cache_report": True, "cache_salt": "responses"}
    misses = []
    for text in ("Hello there", "Hello you"):
        for stream in (False, True):
            response = client.post("/v1/responses", json=body | {"input": text, "stream": stream})
            last = response.json() if not stream else json.loads(response.text.rsplit("data: ", 1)[1])["response"]
            misses.append(last["localllm"]["cache_miss"])
    assert misses == [None, None, "differs in message 0, character 6: 'there' -> 'you'", None]


def test_a_debug_log_says_it_unasked(
    client: httpx.Client, caplog: pytest.LogCaptureFixture, request_log: RequestLog
) -> None:
    caplog.set_level(logging.DEBUG, "localllm")
    assert "localllm" not in ask(client, chat("One.", "Hello", cache_salt="log"), "unasked")
    ask(client, chat("Two.", "Hello", cache_salt="log"), "unasked")
    lines = request_log.lines(2, "unasked")
    assert [line["cache_miss"] for line in lines] == [None, "differs in message 0, character 0: 'One.' -> 'Two.'"]


def test_other_salts_prompts_are_not_compared(client: httpx.Client) -> None:
    ask(client, chat(MONDAY, "A secret", cache_salt="mine"))
    assert ask(client, chat(TUESDAY, "A guess", cache_salt="yours", cache_report=True))["localllm"] == {
        "cache_miss": None
    }


def test_with_several_keys_nobody_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "localllm")
    with running(Settings(port=0, api_keys="ann=a,bob=b")) as served:
        key = {"authorization": "Bearer a"}
        refused = served.http.post("/v1/chat/completions", json=chat(MONDAY, "Hi", cache_report=True), headers=key)
        assert refused.status_code == 403
        assert refused.json()["error"]["param"] == "cache_report"
        body = chat(MONDAY, "Hi") | {"model": "tiny"}
        assert served.http.post("/v1/chat/completions", json=body, headers=key).status_code == 200
        assert not served.runtime.requests[-1].explains_cache
