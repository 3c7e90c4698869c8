"""What went wrong in other local servers, as far as it can be asked over HTTP: one test or more for every case.

The cases of model files are in `tests/unit/gguf/`, those of templates in `tests/unit/chat/test_template.py` and
`tests/worker/test_template_child.py`, under the same names: `pytest -k cve`.
"""

from __future__ import annotations

import logging
import types
import typing
from typing import Any

import httpx
import msgspec
import pytest

from localllm.errors import InternalError, InvalidModelFile, InvalidParameter, LoadFailed, LocalLLMError, WorkerCrashed
from localllm.server.apis.openai.requests import ChatRequest, CompletionRequest
from localllm.server.listening import bind
from localllm.settings.config import Settings
from localllm.types import Delta
from tests.server.conftest import Served, running

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
TEXT = {"model": "tiny", "prompt": "x"}


def _code(response: httpx.Response) -> str:
    code: str = response.json()["error"]["code"]
    return code


@pytest.mark.parametrize("host", ["evil.example", "evil.example:11435", "localhost.evil.example", "127.0.0.1.nip.io"])
def test_cve_2024_28224_dns_rebinding_a_foreign_host_header_is_refused_on_loopback(served: Served, host: str) -> None:
    response = served.http.get("/v1/models", headers={"host": host})
    assert response.status_code == 403
    assert _code(response) == "forbidden_host"


def test_cve_2024_28224_dns_rebinding_a_foreign_host_header_is_refused_on_every_address() -> None:
    settings = Settings(host="0.0.0.0", port=0, api_keys="k", grace_s=0.1)
    with running(settings) as served:
        headers = {"host": "evil.example", "authorization": "Bearer k"}
        assert _code(served.http.get("/v1/models", headers=headers)) == "forbidden_host"
        assert served.http.get("/v1/models", headers={"authorization": "Bearer k"}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "file://", "app://", "http://localhost:3000"])
def test_csrf_a_foreign_origin_is_refused(served: Served, origin: str) -> None:
    response = served.http.post("/v1/chat/completions", json=CHAT, headers={"origin": origin})
    assert response.status_code == 403
    assert _code(response) == "forbidden_origin"
    assert served.runtime.asked == []


def test_csrf_a_cross_site_fetch_is_refused(served: Served) -> None:
    response = served.http.get("/v1/models", headers={"sec-fetch-site": "cross-site"})
    assert _code(response) == "forbidden_origin"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_csrf_a_pages_simple_post_without_json_type_is_refused(served: Served, kind: str) -> None:
    headers = {"content-type": kind, "origin": served.url}
    response = served.http.post("/v1/chat/completions", content=b'{"model":"tiny"}', headers=headers)
    assert response.status_code == 415
    assert _code(response) == "unsupported_media_type"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_cve_2025_63389_a_non_loopback_bind_without_a_key_refuses_to_start(host: str) -> None:
    with pytest.raises(InvalidParameter, match="--allow-remote-without-key"):
        bind(Settings(host=host, port=0), has_key=False)


def test_cve_2025_63389_with_keys_every_url_but_the_probes_wants_one(guarded: Served) -> None:
    for method, path in (
        ("GET", "/v1/models"),
        ("GET", "/v1/models/tiny"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/completions"),
        ("POST", "/v1/responses"),
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/tokenize"),
        ("POST", "/detokenize"),
        ("POST", "/apply-template"),
        ("GET", "/slots"),
        ("GET", "/metrics"),
        ("GET", "/v1//models"),
        ("GET", "/health/../v1/models"),
        ("GET", "/health%2f..%2fv1/models"),
        ("GET", "/nowhere"),
        ("OPTIONS", "/v1/models"),
    ):
        assert guarded.http.request(method, path, json={}).status_code == 401, path


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer sesame2"},
        {"authorization": "Basic sesame"},
        {"authorization": "sesame"},
        {"x-api-key": "wrong"},
        {"x-api-key": ""},
        {"x-api-key": "sésame"},
    ],
)
def test_cve_2026_45339_no_key_and_wrong_keys_are_refused_by_both_headers(
    guarded: Served, headers: dict[str, str]
) -> None:
    encoded = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    for path in ("/v1/models", "/v1/models/tiny", "/nowhere"):
        response = guarded.http.get(path, headers=encoded)
        assert response.status_code == 401
        assert _code(response) == "invalid_api_key"
    assert guarded.http.post("/v1/chat/completions", json=CHAT, headers=encoded).status_code == 401


def test_cve_2024_39719_errors_tell_nothing_of_the_servers_files(served: Served) -> None:
    sentences = set()
    for name in ("/etc/passwd", "/etc/nothing-here"):
        response = served.http.post("/v1/completions", json={"model": name, "prompt": "x"})
        assert response.status_code == 404
        sentences.add(response.json()["error"]["message"].replace(name, "NAME"))
    assert len(sentences) == 1


LAST_WORDS = "error: /home/anna/models/secret.gguf: cannot map tensor data"

FAILURES = [
    pytest.param(
        WorkerCrashed(
            f"the model's process ended with signal SIGABRT; it last said: {LAST_WORDS}",
            exit_code=-6,
            signal="SIGABRT",
            stderr=LAST_WORDS,
        ),
        "the model's process died (signal SIGABRT); see the server's log",
        id="worker died",
    ),
    pytest.param(LoadFailed(LAST_WORDS), "the model could not be loaded; see the server's log", id="load"),
    pytest.param(
        InvalidModelFile(LAST_WORDS, path="/home/anna/models/secret.gguf"),
        "the model could not be loaded; see the server's log",
        id="model file",
    ),
    pytest.param(
        LoadFailed(LAST_WORDS, public="llama.cpp could not load the model's file"),
        "llama.cpp could not load the model's file",
        id="load, with a sentence for clients",
    ),
    pytest.param(
        InternalError("preparing the request failed with OSError", reason=LAST_WORDS),
        "preparing the request failed with OSError",
        id="defect in the worker",
    ),
]


@pytest.mark.parametrize(("error", "sentence"), FAILURES)
def test_cve_2024_39719_what_a_dying_worker_says_is_for_the_log_and_not_for_clients(
    served: Served, caplog: pytest.LogCaptureFixture, error: LocalLLMError, sentence: str
) -> None:
    served.runtime.refusal = error
    before = served.http.post("/v1/completions", json=TEXT)
    served.runtime.refusal = None
    served.runtime.script = [Delta("Hel"), error]
    whole = served.http.post("/v1/chat/completions", json=CHAT)
    streamed = served.http.post("/v1/chat/completions", json=CHAT | {"stream": True})
    response = served.http.post("/v1/responses", json={"model": "tiny", "input": "x", "stream": True})
    for answer in (before, whole, streamed, response):
        assert sentence in answer.text
        assert "anna" not in answer.text
    logged = [vars(record)["fields"] for record in caplog.records if record.levelno >= logging.WARNING]
    assert sum("anna" in str(fields) for fields in logged) >= 2


def test_cve_2024_39719_no_answer_tells_where_a_model_lies(served: Served) -> None:
    (model,) = served.runtime.models
    assert model.path.startswith("/secret/place")
    for path in ("/v1/models", "/v1/models/tiny", "/v1/models/none", "/health", "/ready", "/slots", "/metrics"):
        assert "secret" not in served.http.get(path).text, path


NUMBERS = [
    (kind, field.encode_name)
    for kind in (ChatRequest, CompletionRequest)
    for hints in [typing.get_type_hints(kind)]
    for field in msgspec.structs.fields(kind)
    if isinstance(hint := hints[field.name], types.UnionType)
    and {int, float} & set(typing.get_args(hint))
    and field.name not in ("keep_alive", "speculative_n_max")
]
"""`keep_alive` is a time for a timer of ours; any number makes sense there. llama-server's
`speculative.n_max` is clamped as it does."""


@pytest.mark.parametrize(("kind", "name"), NUMBERS, ids=[f"{kind.__name__}.{name}" for kind, name in NUMBERS])
def test_cve_2026_21869_no_number_reaches_native_code_unchecked(
    served: Served, kind: type[msgspec.Struct], name: str
) -> None:
    path, body = ("/v1/chat/completions", CHAT) if kind is ChatRequest else ("/v1/completions", TEXT)
    numbers = ["-9223372036854775809", "-9223372036854775808", "18446744073709551616", "-1e300", "1e300", "1e999"]
    if name == "seed":
        numbers.remove("-9223372036854775808")  # any number of 64 bits is a seed
    for number in numbers:
        content = msgspec.json.encode(body)[:-1] + f',"{name}":{number}}}'.encode()
        response = served.http.post(path, content=content, headers={"content-type": "application/json"})
        assert (response.status_code, _code(response)) == (400, "invalid_parameter"), number
    assert served.runtime.asked == []


def test_cve_2026_21869_an_option_of_llama_cpp_that_we_do_not_know_goes_nowhere(served: Served) -> None:
    odd: dict[str, Any] = {"n_discard": -1, "n_keep": -1, "id_slot": 99, "cache_reuse": -1}
    plain = served.http.post("/v1/chat/completions", json=CHAT)
    response = served.http.post("/v1/chat/completions", json=CHAT | odd)
    assert plain.status_code == response.status_code == 200
    assert response.headers["x-localllm-ignored"] == "cache_reuse, id_slot, n_discard, n_keep"
    assert served.runtime.requests[0] == served.runtime.requests[1]


@pytest.mark.parametrize("path", ["/debug/pprof/", "/debug/vars", "/redoc", "/rpc"])
def test_pprof_there_are_no_debug_routes_and_no_others_that_nobody_asked_for(served: Served, path: str) -> None:
    assert served.http.get(path).status_code == 404
    assert served.http.post(path, json={}).status_code == 404


def test_a_body_of_deep_brackets_is_refused_and_the_server_lives(served: Served) -> None:
    """Depth was a segmentation fault in llama.cpp's grammars (#26600); here it is met by the JSON reader first."""
    deep = b"[" * 40_000 + b"]" * 40_000
    body = b'{"model":"tiny","prompt":"x","metadata":' + deep + b"}"
    response = served.http.post("/v1/completions", content=body, headers={"content-type": "application/json"})
    assert (response.status_code, _code(response)) == (400, "invalid_parameter")
    assert served.http.get("/health").status_code == 200


@pytest.mark.parametrize(
    "field", [{"response_format": {"type": "json_object"}}, {"grammar": "root ::= ("}, {"guided_regex": "(?<=x)*"}]
)
def test_llama_cpp_19051_a_constraint_never_gets_lost(served: Served, field: dict[str, Any]) -> None:
    """The worker applies it or refuses the request (tests/worker/test_structures.py)."""
    served.http.post("/v1/chat/completions", json=CHAT | field)
    assert [request.structure is not None for request in served.runtime.requests] == [True]


def test_llama_cpp_19051_a_constraint_that_nobody_knows_is_never_a_200(served: Served) -> None:
    field = {"grammar_triggers": [{"type": "word", "value": "x"}]}
    assert served.http.post("/v1/chat/completions", json=CHAT | field).status_code == 400
    assert served.runtime.asked == []
