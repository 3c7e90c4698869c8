"""What a gateway in front of several servers asks, passes and reads."""

from __future__ import annotations

import socket

import msgspec
import pytest

from localllm.errors import InvalidParameter
from localllm.server.naming import server_name
from localllm.settings.config import Settings
from tests.server.conftest import RequestLog, Served, running
from tests.server.fake_runtime import tiny_model

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


def test_the_load_is_told_under_the_names_that_gateways_know(served: Served) -> None:
    told = served.http.get("/v1/loads?include=core,disagg,queues,memory").json()
    assert served.http.get("/loads").json() == told
    assert told["dp_rank_count"] == 1
    (load,) = told["loads"]
    del load["cache_hit_rate"]  # of all tests before
    assert load == {
        "model": "tiny", "dp_rank": 0, "num_running_reqs": 1, "num_waiting_reqs": 2, "num_total_reqs": 3,
        "num_used_tokens": 30, "max_total_num_tokens": 4 * 512, "token_usage": 30 / (4 * 512), "utilization": 0.25,
        "max_running_requests": 4,
    }  # fmt: skip


def test_a_model_that_does_not_respond_and_an_encoder_have_no_wrong_load(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.runtime.models = [msgspec.structs.replace(tiny_model(), slots=0)]
    (load,) = served.http.get("/loads").json()["loads"]
    assert (load["token_usage"], load["utilization"]) == (0.0, 0.0)
    monkeypatch.setattr("localllm.server.apis.gateways.STATUS_TIMEOUT_S", 0.01)
    served.runtime.is_stuck = True
    assert served.http.get("/loads").json()["loads"] == []


def test_one_model_is_asked_for_by_name(served: Served) -> None:
    assert [load["model"] for load in served.http.get("/loads?model=tiny").json()["loads"]] == ["tiny"]
    assert served.http.get("/loads?model=nobody").status_code == 404
    told = served.http.get("/get_model_info").json()
    assert told == served.http.get("/model_info?model=tiny").json()
    assert (told["served_model_name"], told["is_generation"], told["context_length"]) == ("tiny", True, 512)
    assert "/" not in told["model_path"]


@pytest.mark.parametrize(("path", "instead"), [("/version", "/api/version"), ("/server_info", "/model_info")])
def test_what_would_let_gateways_take_it_for_another_server_is_not_served(
    served: Served, path: str, instead: str
) -> None:
    refused = served.http.get(path)
    assert refused.status_code == 404
    assert instead in refused.json()["error"]["message"]


def test_every_reply_names_the_server_and_the_clients_session(served: Served) -> None:
    for path in ("/v1/models", "/health", "/nothing"):
        told = served.http.get(path, headers={"x-session-id": "chat-7"}).headers
        assert told["x-localllm-server"] == server_name(Settings(), served.address[1])
        assert told["x-session-id"] == "chat-7"
    for session in ("x" * 65, "a b", "ä"):
        headers = [(b"x-session-id", session.encode())]
        assert "x-session-id" not in served.http.get("/health", headers=headers).headers


def test_the_log_has_the_session_and_the_key_of_the_prefix(served: Served, request_log: RequestLog) -> None:
    headers = {"x-session-id": "chat-7", "x-request-id": "session-logged"}
    response = served.http.post("/v1/chat/completions", json={**CHAT, "prompt_cache_key": "k" * 500}, headers=headers)
    assert "x-localllm-ignored" not in response.headers
    (line,) = request_log.lines(1, "session-logged")
    assert (line["session"], line["cache_key"]) == ("chat-7", "k" * 64)


def test_a_servers_name_is_the_same_after_a_restart_and_its_own() -> None:
    assert server_name(Settings(), 1) == server_name(Settings(), 1) != server_name(Settings(), 2)
    assert socket.gethostname() not in server_name(Settings(), 1)
    with running(Settings(port=0, grace_s=0.1, server_name="gpu-1.lan")) as served:
        assert served.http.get("/health").headers["x-localllm-server"] == "gpu-1.lan"


@pytest.mark.parametrize("name", ["", "a_b", "-a", "a b", "x" * 65, "ä", "a\r\nb: c"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidParameter, match="server_name"):
        server_name(Settings(server_name=name), 1)


def test_a_stored_response_names_its_server_and_another_one_says_where_it_is(served: Served) -> None:
    with running(Settings(port=0, grace_s=0.1, server_name="gpu-1.lan")) as other:
        first = other.http.post("/v1/responses", json={"model": "tiny", "input": "Hi"}).json()["id"]
        assert first.startswith("resp_gpu-1.lan_")
        continued = {"model": "tiny", "input": "More", "previous_response_id": first}
        assert other.http.post("/v1/responses", json=continued).status_code == 200
        refused = served.http.post("/v1/responses", json=continued)
        missing = served.http.get(f"/v1/responses/{first}")
    own = server_name(Settings(), served.address[1])
    for response, status in ((refused, 400), (missing, 404)):
        assert response.status_code == status
        said = response.json()["error"]["message"]
        assert f"the server 'gpu-1.lan' stored it, and this is '{own}'" in said


def test_what_is_not_stored_or_was_dropped_names_no_other_server(served: Served) -> None:
    asked = {"model": "tiny", "input": "Hi"}
    unstored = served.http.post("/v1/responses", json={**asked, "store": False}).json()["id"]
    assert unstored.count("_") == 1
    stored = served.http.post("/v1/responses", json=asked).json()["id"]
    assert served.http.delete(f"/v1/responses/{stored}").status_code == 200
    for gone in (unstored, stored, "resp_1", "resp_a_b_c"):
        refused = served.http.post("/v1/responses", json={**asked, "previous_response_id": gone})
        assert refused.status_code == 400
        assert "the server" not in refused.json()["error"]["message"]
