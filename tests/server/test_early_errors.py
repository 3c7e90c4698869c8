"""What fails before a stream's first token has a status, so that proxies and clients can repeat it; later, an event."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from localllm.errors import RequestTimeout, WorkerCrashed
from localllm.settings.config import Settings
from localllm.types import Delta
from tests.server.conftest import Served, running
from tests.server.fake_runtime import HANG
from tests.waiting import until

Json = dict[str, Any]
MESSAGES: Json = {"messages": [{"role": "user", "content": "Hi"}]}
STREAMS: dict[str, Json] = {
    "/v1/chat/completions": MESSAGES,
    "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"max_tokens": 9, **MESSAGES},
    "/completion": {"prompt": "Hi"},
    "/api/chat": MESSAGES,
    "/api/generate": {"prompt": "Hi"},
}


@pytest.mark.parametrize("path", STREAMS)
def test_a_stream_that_fails_before_its_first_token_is_a_status_as_a_whole_answer_would_be(
    served: Served, path: str
) -> None:
    for error, said in ((RequestTimeout("waited long"), "waited long"), (WorkerCrashed("signal 9"), "process died")):
        served.runtime.script = (error,)
        streamed = served.http.post(path, json={"model": "tiny", "stream": True, **STREAMS[path]})
        served.runtime.script = (error,)
        whole = served.http.post(path, json={"model": "tiny", "stream": False, **STREAMS[path]})
        assert streamed.status_code == whole.status_code >= 408
        assert streamed.headers["content-type"] == whole.headers["content-type"]
        assert said in streamed.text


@pytest.mark.parametrize("path", STREAMS)
def test_a_stream_begins_with_the_first_word_of_the_engine(served: Served, path: str) -> None:
    served.runtime.script = (HANG, Delta("Hi", 1), RequestTimeout("too slow"))
    received: list[bytes] = []
    has_begun = threading.Event()

    def ask() -> None:
        body = {"model": "tiny", "stream": True, **STREAMS[path]}
        with served.http.stream("POST", path, json=body) as response:
            has_begun.set()
            assert response.status_code == 200
            received.append(response.read())

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: bool(served.runtime.answers))
    (answer,) = served.runtime.answers
    assert answer.hangs.wait(10)
    assert not has_begun.is_set(), "neither headers nor a role before the engine says anything"
    answer.go_on()
    asking.join(10)
    assert b"too slow" in received[0], "after the first token an error is an event"


def test_silence_begins_a_stream_whose_errors_are_events_from_then_on() -> None:
    with running(Settings(port=0, grace_s=0.1, keep_alive_s=0.02)) as served:
        served.runtime.script = (0.2, RequestTimeout("waited too long"))
        response = served.http.post("/v1/chat/completions", json={"model": "tiny", "stream": True, **MESSAGES})
        assert response.status_code == 200
        assert response.text.startswith(": keep-alive")
        assert '"role"' not in response.text
        assert "waited too long" in response.text
