"""The edges of the server: ids, unknown URLs, clients that go away, starting and ending."""

from __future__ import annotations

import asyncio
import json
import logging
import socket

import pytest

from localllm.errors import Draining, Loading, LocalLLMError, ModelNotFound
from localllm.server.edge.log import LineFormatter
from localllm.server.errors import _STATUS, status_of
from localllm.server.main import serve
from localllm.server.state import ServerState
from localllm.settings.config import Settings
from localllm.types import Delta
from tests.server.conftest import Served
from tests.server.fake_runtime import HANG, FakeRuntime, make_fake


def _request(path: str, body: dict[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_cancels_its_answer(served: Served, stream: bool) -> None:
    served.runtime.script = [Delta("Hel"), HANG]
    with socket.create_connection(served.address) as connection:
        connection.sendall(_request("/v1/completions", {"model": "tiny", "prompt": "x", "stream": stream}))
        assert served.runtime.answered.wait(5)
        (answer,) = served.runtime.answers
        assert answer.hangs.wait(5)
        assert not answer.closed.is_set()
    assert answer.closed.wait(5)


def test_a_client_that_goes_away_before_its_request_is_accepted_gives_it_up(served: Served) -> None:
    served.runtime.accepts = False
    with socket.create_connection(served.address) as connection:
        connection.sendall(_request("/v1/completions", {"model": "tiny", "prompt": "x"}))
        assert served.runtime.asking.wait(5)
    assert served.runtime.gave_up.wait(5)


def test_a_client_that_goes_away_in_the_middle_of_its_body_is_no_defect(served: Served) -> None:
    with socket.create_connection(served.address) as connection:
        connection.sendall(_request("/v1/completions", {"model": "tiny", "prompt": "x"})[:-3])
    assert served.http.get("/health").status_code == 200
    assert served.runtime.asked == []


def test_every_response_has_a_request_id_and_a_clients_own_is_kept(served: Served) -> None:
    plain = [served.http.get(path).headers["x-request-id"] for path in ("/health", "/nowhere", "/v1/models/none")]
    assert len(set(plain)) == 3
    assert served.http.get("/health", headers={"host": "evil.example"}).headers["x-request-id"]
    assert served.http.get("/health", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert served.http.get("/health", headers={"x-request-id": "a b" * 99}).headers["x-request-id"] != "a b" * 99


def test_an_unknown_url_and_a_wrong_method_are_error_objects(served: Served) -> None:
    nowhere = served.http.get("/v2/chat")
    assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, "not_found")
    method = served.http.get("/v1/chat/completions")
    assert (method.status_code, method.json()["error"]["code"]) == (405, "method_not_allowed")


def test_a_defect_is_an_error_object_and_the_details_stay_in_the_log(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.runtime.refusal = ZeroDivisionError("secret")
    response = served.http.post("/v1/completions", json={"model": "tiny", "prompt": "x"})
    assert (response.status_code, response.json()["error"]["code"]) == (500, "internal")
    assert "secret" not in response.text
    assert "secret" in caplog.text
    assert response.headers["x-request-id"]


def test_every_error_code_has_a_status() -> None:
    def codes(kind: type[LocalLLMError]) -> set[str]:
        return {kind.code}.union(*map(codes, kind.__subclasses__()))

    assert codes(LocalLLMError) <= _STATUS.keys()
    assert status_of(ModelNotFound("x")) == 404


def test_while_a_model_loads_the_server_is_not_ready_and_requests_are_let_in() -> None:
    state = ServerState(FakeRuntime(), Settings(), loading="/secret/big.gguf")
    with pytest.raises(Loading, match=r"big\.gguf is still loading") as caught:
        state.check_ready()
    assert "secret" not in str(caught.value)
    state.admit()
    state.loading = None
    state.check_ready()
    state.draining = True
    with pytest.raises(Draining):
        state.admit()


class _Nobody:
    def loading(self, _: float, /) -> None:
        pass

    def ready(self, _url: str, _model_id: str | None, /) -> None:
        raise AssertionError("it must not be ready")


def test_a_model_that_does_not_load_ends_the_server_with_its_error() -> None:
    with pytest.raises(ModelNotFound):
        asyncio.run(serve(Settings(port=0), "nothing.gguf", _Nobody(), make_runtime=make_fake))


def test_a_taken_port_is_an_immediate_and_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalLLMError, match=f"port {port}.*--port 0"):
            asyncio.run(serve(Settings(port=port), (), _Nobody(), make_runtime=make_fake))


def test_a_log_line_cannot_be_forged() -> None:
    record = logging.LogRecord("localllm", logging.INFO, "", 0, "request", None, None)
    record.fields = {"path": "/x\n2026 error forged", "status": 200}
    line = LineFormatter().format(record)
    assert "\n" not in line
    assert line.endswith(r'info request path="/x\n2026 error forged" status=200')
