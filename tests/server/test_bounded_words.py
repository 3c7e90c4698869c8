"""What is sent comes back, in errors and in the log, with a bound on its length."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from localllm.errors import MAX_ECHO_CHARS, InvalidParameter
from localllm.server.edge.log import MAX_TRACEBACK_CHARS, MAX_VALUE_CHARS, JsonFormatter, LineFormatter
from localllm.server.errors import MAX_MESSAGE_CHARS, error_object
from tests.server.conftest import Served

LONG = "A" * 50_000
CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
TEXT: dict[str, Any] = {"model": "tiny", "prompt": "x"}
EMBED: dict[str, Any] = {"model": "tiny", "input": "x"}
ANSWER: dict[str, Any] = {"model": "tiny", "input": "x"}
MESSAGE: dict[str, Any] = {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
RANK: dict[str, Any] = {"model": "tiny", "query": "x", "documents": ["y"]}

ECHOES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/completions", TEXT | {"model": LONG}),
    ("/v1/completions", TEXT | {"model": "hf.co/" + LONG}),
    ("/v1/completions", TEXT | {"model": "./" + LONG}),
    ("/v1/completions", TEXT | {"model": "qwen:" + LONG}),
    ("/v1/completions", TEXT | {LONG: 1, "temperature": "x"}),
    ("/v1/completions", TEXT | {"logit_bias": {LONG: 1}}),
    ("/v1/completions", TEXT | {"logit_bias": {"1": LONG}}),
    ("/v1/completions", TEXT | {"keep_alive": LONG}),
    ("/v1/completions", TEXT | {"stop": [LONG]}),
    ("/v1/completions", TEXT | {"grammar_type": LONG}),
    ("/v1/chat/completions", CHAT | {"messages": [{"role": LONG, "content": "x"}]}),
    ("/v1/chat/completions", CHAT | {"messages": [{"role": "user", "content": [{"type": LONG}]}]}),
    ("/v1/chat/completions", CHAT | {"messages": [{"role": "assistant", "tool_calls": [{"type": LONG}]}]}),
    ("/v1/chat/completions", CHAT | {"tools": [{LONG: LONG}]}),
    ("/v1/chat/completions", CHAT | {"response_format": {"type": LONG}}),
    ("/v1/responses", ANSWER | {"model": LONG}),
    ("/v1/responses", ANSWER | {"input": [{"type": LONG}]}),
    ("/v1/responses", ANSWER | {"input": [{"role": LONG, "content": "x"}]}),
    ("/v1/responses", ANSWER | {"input": [{"role": "user", "content": [{"type": LONG, "text": "x"}]}]}),
    ("/v1/responses", ANSWER | {"include": [LONG]}),
    ("/v1/responses", ANSWER | {"previous_response_id": LONG}),
    ("/v1/responses", ANSWER | {"metadata": {LONG: "x"}}),
    ("/v1/responses", ANSWER | {"text": {"format": {"type": LONG}}}),
    ("/v1/responses", ANSWER | {"text": {LONG: 1, "verbosity": LONG}}),
    ("/v1/messages", MESSAGE | {"model": LONG}),
    ("/v1/messages", MESSAGE | {"messages": [{"role": LONG, "content": "x"}]}),
    ("/v1/messages", MESSAGE | {"messages": [{"role": "user", "content": [{"type": LONG}]}]}),
    ("/v1/messages", MESSAGE | {"tools": [{"name": "f", "type": LONG, LONG: 1}], "tool_choice": {"type": LONG}}),
    ("/v1/messages/count_tokens", MESSAGE | {"model": LONG}),
    ("/v1/embeddings", EMBED | {"model": LONG}),
    ("/v1/embeddings", EMBED | {"encoding_format": LONG}),
    ("/v1/embeddings", EMBED | {"keep_alive": LONG}),
    ("/v1/rerank", RANK | {"model": LONG}),
    ("/tokenize", {"content": "x", "model": LONG}),
    ("/detokenize", {"tokens": [1], "model": LONG}),
    ("/apply-template", {"messages": [{"role": LONG, "content": "x"}]}),
    ("/slots/0?action=restore", {"filename": LONG}),
    ("/localllm/load", {"model": LONG}),
    ("/localllm/load", {"model": "tiny", "keep_alive": LONG}),
    ("/localllm/unload", {"model": LONG}),
    ("/localllm/pull", {"model": LONG}),
    ("/localllm/remove", {"model": LONG}),
]


@pytest.mark.parametrize(("path", "body"), ECHOES)
def test_an_error_repeats_at_most_200_characters_of_what_was_sent(
    served: Served, path: str, body: dict[str, Any]
) -> None:
    served.runtime.saved_slots.clear()
    response = served.http.post(path, json=body)
    assert 400 <= response.status_code < 500, response.text[:500]
    assert "A" * (MAX_ECHO_CHARS + 1) not in response.text
    assert "1" * (MAX_ECHO_CHARS + 1) not in response.text
    assert len(response.content) < 2000


@pytest.mark.parametrize("header", ["host", "origin", "x-request-id", "authorization", "content-type"])
def test_nor_of_a_header(served: Served, header: str) -> None:
    response = served.http.post("/v1/completions", content=b"{}", headers={header: LONG})
    assert response.status_code >= 400
    assert len(response.content) < 2000
    assert LONG[: MAX_ECHO_CHARS + 1] not in response.text + str(response.headers)


@pytest.mark.parametrize(
    "path", ["/", "/v1/", "/v1/models/", "/v1/responses/", "/slots/", "/v1/models?x=", "/slots/0?action="]
)
def test_nor_of_a_path(served: Served, path: str) -> None:
    for method in ("GET", "POST", "PATCH"):
        response = served.http.request(method, path + LONG)
        assert LONG[: MAX_ECHO_CHARS + 1] not in response.text + str(response.headers)


def test_whoever_forgets_to_clip_is_clipped_at_the_seam() -> None:
    shown = error_object(InvalidParameter(LONG * 3, param=LONG))
    assert len(shown.message) <= MAX_MESSAGE_CHARS + 3
    assert shown.param is not None
    assert len(shown.param) <= MAX_ECHO_CHARS + 3


def _record(name: str, exc_info: Any = None, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord("localllm", logging.INFO, "here.py", 1, name, (), exc_info)
    record.fields = fields
    return record


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_a_log_line_is_bounded_whatever_is_in_it(formatter: logging.Formatter) -> None:
    for value in (LONG * 20, [LONG] * 20, {LONG: LONG}, LONG.encode()):
        assert len(formatter.format(_record("request", path=value))) < 2 * MAX_VALUE_CHARS
    assert len(formatter.format(_record("request", path="\x00" * 10**6))) < 7 * MAX_VALUE_CHARS
    assert len(formatter.format(_record(LONG * 20))) < 2 * MAX_VALUE_CHARS
    try:
        raise ValueError(LONG * 20)
    except ValueError:
        line = formatter.format(_record("defect", sys.exc_info()))
    assert len(line) < MAX_TRACEBACK_CHARS + 2 * MAX_VALUE_CHARS


def test_numbers_stay_numbers_in_json() -> None:
    line = json.loads(JsonFormatter().format(_record("request", status=200, is_new=True, duration_ms=1.5, key="anna")))
    assert [line[name] for name in ("status", "is_new", "duration_ms", "key")] == [200, True, 1.5, "anna"]


def test_the_fields_that_nobody_knows_are_named_by_the_first_of_them(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "localllm")
    unknown = {f"unknown-{number:04}-{'x' * 10}": 1 for number in range(900)}
    response = served.http.post("/v1/completions", json=TEXT | unknown)
    assert response.status_code == 200
    assert len(response.headers["x-localllm-ignored"]) < 3000
    (line,) = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "fields_ignored"]
    assert line["num"] == 900
    assert len(line["names"]) < 3000
