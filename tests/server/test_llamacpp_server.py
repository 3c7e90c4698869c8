"""What llama-server tells of itself and of its models, and how these come and go: by a client's eyes."""

from __future__ import annotations

import httpx
import pytest

from localllm.server.watching.llama_metrics import Totals
from localllm.settings.config import Settings
from localllm.types import Finish, Timings, Usage
from localllm.types.states import EngineStatus, SlotStatus
from tests.server.conftest import Served, running
from tests.server.fake_runtime import tiny_model


def test_props_tell_what_requests_have_by_default(served: Served) -> None:
    props = served.http.get("/props").json()
    params = props["default_generation_settings"]["params"]
    assert (params["seed"], params["temperature"], params["n_predict"]) == (-1, 0.8, -1)
    assert props["default_generation_settings"]["n_ctx"] == 512
    assert (props["total_slots"], props["model_alias"], props["is_sleeping"]) == (4, "tiny", False)
    assert props["model_path"] == "tiny.gguf", "where it lies is nobody's business"


def test_props_of_a_model_that_was_never_loaded_tell_what_its_file_says(served: Served) -> None:
    served.runtime.models = [tiny_model("other:1b")]
    loaded = served.http.get("/props?model=other:1b").json()
    served.runtime.models = []
    props = served.http.get("/props?model=other:1b").json()
    assert (loaded["is_sleeping"], props["is_sleeping"]) == (False, True)
    assert props["default_generation_settings"] == {"params": {}, "n_ctx": 0}
    assert (props["total_slots"], props["bos_token"]) == (0, "")
    assert {props[key] == loaded[key] for key in ("model_alias", "model_ftype", "chat_template")} == {True}
    served.runtime.others = []
    gone = served.http.get("/props?model=other:1b")
    assert (gone.status_code, gone.json()["error"]["type"]) == (404, "not_found_error")


def test_without_a_model_props_are_those_of_a_router(served: Served) -> None:
    served.runtime.models = []
    assert served.http.get("/props").json()["role"] == "router"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("POST", "/props", {}, 501, "not_supported_error"),
        ("POST", "/lora-adapters", [{"id": 0, "scale": 1.0}], 400, "invalid_request_error"),
        ("POST", "/lora-adapters", {}, 400, "invalid_request_error"),
        ("GET", "/tools", None, 403, "permission_error"),
        ("POST", "/cors-proxy?url=http://10.0.0.1/", {}, 403, "permission_error"),
        ("POST", "/models/unload", {"model": "nobody"}, 404, "invalid_request_error"),
    ],
)
def test_what_is_not_served_is_refused_in_llama_servers_words(
    served: Served, method: str, path: str, body: object, status: int, kind: str
) -> None:
    response = served.http.request(method, path, json=body)
    assert response.status_code == status
    assert response.json()["error"]["type"] in (kind, "not_found_error")


def test_a_model_may_have_no_adapters(served: Served) -> None:
    assert served.http.get("/lora-adapters").json() == []
    assert served.http.post("/lora-adapters", json=[]).json() == {"success": True}
    for path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"):
        assert served.http.post(path, json={"lora_name": "style"}).status_code == 404
    refused = served.http.post("/v1/load_lora_adapter", json={"lora_name": "x", "lora_path": "/etc/passwd"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "lora_path")


@pytest.mark.parametrize("path", ["/v1/models", "/models"])
def test_a_list_of_models_says_which_are_loaded(served: Served, path: str) -> None:
    told = served.http.get(path).json()
    assert {model["id"]: model["status"]["value"] for model in told["data"]} == {
        "tiny": "loaded",
        "other:1b": "unloaded",
    }
    assert [model["name"] for model in told["models"]] == ["tiny", "other:1b"]


def test_a_conversation_has_as_many_tokens_with_and_without_v1(served: Served) -> None:
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
    counts = [served.http.post(f"{prefix}/chat/completions/input_tokens", json=chat).json() for prefix in ("", "/v1")]
    counts.append(served.http.post("/responses/input_tokens", json={"model": "tiny", "input": "Hi"}).json())
    assert len({count["input_tokens"] for count in counts}) == 1
    assert counts[0]["input_tokens"] > 0


def _page(headers: dict[str, str], settings: Settings) -> httpx.Response:
    with running(settings) as page:
        return page.http.get("/v1/models", headers=headers)


@pytest.mark.parametrize("origin", ["http://localhost", "http://127.0.0.1:3000", "https://[::1]:8443"])
def test_pages_of_this_machine_may_ask_where_localhost_is_allowed(origin: str) -> None:
    settings = Settings(port=0, grace_s=0.1, cors_origins="localhost")
    assert _page({"origin": origin}, settings).headers["access-control-allow-origin"] == origin


@pytest.mark.parametrize("origin", ["http://localhost.evil.com", "http://evil.com", "http://notlocalhost", "null"])
def test_no_other_page_may(origin: str) -> None:
    settings = Settings(port=0, grace_s=0.1, cors_origins="localhost")
    assert _page({"origin": origin}, settings).status_code == 403


def _metrics(totals: Totals, statuses: dict[str, EngineStatus]) -> dict[str, float]:
    lines = totals.render(statuses).decode().splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines if not line.startswith("#"))}


def test_totals_count_tokens_once_and_rates_since_the_last_scrape() -> None:
    totals = Totals()
    status = EngineStatus((SlotStatus(1, 10), SlotStatus(None, 0)), 2, 7, 0, 0)
    usage = Usage(30, 11, cached_tokens=10, accepted_guesses=3, rejected_guesses=4)
    totals.finished(Finish("stop", usage, Timings(0.0, 0.5, 2.0)))
    first = _metrics(totals, {"a": status})
    assert (first["llamacpp:prompt_tokens_total"], first["llamacpp:prompt_tokens_cached_total"]) == (20, 10)
    assert (first["llamacpp:tokens_predicted_total"], first["llamacpp:n_tokens_max"]) == (11, 41)
    assert first["llamacpp:predicted_tokens_seconds"] == 5, "ten steps in two seconds: the first token takes none"
    guesses = (first[f"llamacpp:spec_decode_num_{kind}_tokens_total"] for kind in ("draft", "accepted"))
    assert tuple(guesses) == (7, 3)
    assert (first["llamacpp:requests_processing"], first["llamacpp:requests_deferred"]) == (1, 2)
    second = _metrics(totals, {"a": status})
    assert second["llamacpp:predicted_tokens_seconds"] == 0
    assert second["llamacpp:tokens_predicted_total"] == 11


def test_the_batches_of_a_process_that_is_gone_still_count() -> None:
    totals = Totals()
    for steps, expected in ((7, 7), (9, 9), (2, 11)):
        found = _metrics(totals, {"a": EngineStatus((), 0, steps, 0, 0)})
        assert found["llamacpp:n_decode_total"] == expected
