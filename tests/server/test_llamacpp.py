"""Tokens, templates and slots, in llama-server's shapes, before a runtime whose tokens are bytes."""

from __future__ import annotations

import httpx
import pytest

from localllm.errors import DiskFull, Loading, SlotBusy
from localllm.settings.config import Settings
from tests.server.conftest import Served, running
from tests.server.fake_runtime import tiny_model


def _error(response: httpx.Response) -> tuple[int, str, str | None]:
    error = response.json()["error"]
    if response.request.url.path.startswith("/v1/"):
        return response.status_code, error["code"], error["param"]
    assert error["code"] == response.status_code
    return response.status_code, error["reason"], error["param"]


def test_text_becomes_tokens_and_tokens_become_the_text(served: Served) -> None:
    assert served.http.post("/tokenize", json={"content": "Hi ✓"}).json() == {"tokens": list("Hi ✓".encode())}
    with_bos = {"content": "Hi", "add_special": True}
    tokens = served.http.post("/tokenize", json=with_bos).json()["tokens"]
    assert tokens == [256, 72, 105]
    assert served.http.post("/detokenize", json={"tokens": tokens}).json() == {"content": "<s>Hi"}
    assert served.http.post("/detokenize", json={"tokens": tokens, "special": False}).json() == {"content": "Hi"}


def test_a_piece_that_is_no_text_by_itself_is_its_bytes(served: Served) -> None:
    body = {"content": "a✓", "with_pieces": True}
    pieces = served.http.post("/tokenize", json=body).json()["tokens"]
    assert pieces[0] == {"id": 97, "piece": "a"}
    assert pieces[1] == {"id": 0xE2, "piece": [0xE2]}


def test_a_conversation_becomes_its_prompt(served: Served) -> None:
    messages = [{"role": "developer", "content": "Be brief"}, {"role": "user", "content": "Hi"}]
    response = served.http.post("/apply-template", json={"messages": messages})
    assert response.json() == {"prompt": "<developer>Be brief<user>Hi"}


def test_the_model_may_be_left_out_while_there_is_only_one(served: Served) -> None:
    assert served.http.post("/tokenize", json={"content": "x", "model": "tiny"}).status_code == 200
    wrong = served.http.post("/tokenize", json={"content": "x", "model": "other"})
    assert _error(wrong) == (404, "model_not_found", "model")
    served.runtime.models = [tiny_model("one"), tiny_model("two")]
    several = served.http.post("/tokenize", json={"content": "x"})
    assert _error(several) == (404, "model_not_found", "model")
    assert "one, two" in several.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "content"),
        ("/tokenize", {"content": 3}, "content"),
        ("/detokenize", {"tokens": "x"}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("/apply-template", {"messages": []}, "messages"),
        ("/apply-template", {"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ],
)
def test_a_wrong_value_is_a_400_that_names_the_field(
    served: Served, path: str, body: dict[str, object], param: str
) -> None:
    assert _error(served.http.post(path, json=body)) == (400, "invalid_parameter", param)


def test_slots_say_what_they_hold_and_do(served: Served) -> None:
    slots = served.http.get("/slots").json()
    assert [slot["id"] for slot in slots] == [0, 1, 2, 3]
    assert [slot["is_processing"] for slot in slots] == [True, False, False, False]
    busy = {name: slots[0][name] for name in ("model", "n_ctx", "kv_tokens", "prompt_tokens", "cached_tokens")}
    assert busy == {"model": "tiny", "n_ctx": 512, "kv_tokens": 30, "prompt_tokens": 40, "cached_tokens": 10}
    assert slots[1]["kv_tokens"] == 5


def test_a_strict_server_refuses_what_nobody_knows() -> None:
    with running(Settings(port=0, grace_s=0.1, strict=True)) as strict:
        for path, body in {
            "/tokenize": {"content": "x", "zeal": 3},
            "/v1/completions": {"model": "tiny", "prompt": "x", "zeal": 3},
            "/v1/chat/completions": {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "zeal": 3},
        }.items():
            assert _error(strict.http.post(path, json=body)) == (400, "unknown_parameter", "zeal")
        assert strict.runtime.asked == []
        fine = {"model": "tiny", "prompt": "x", "user": "me", "stop": None}
        assert strict.http.post("/v1/completions", json=fine).status_code == 200


def test_a_slot_is_saved_restored_and_erased_in_llama_servers_words(served: Served) -> None:
    saved = served.http.post("/slots/3?action=save", json={"filename": "notes"})
    assert saved.json() == {
        "id_slot": 3, "filename": "notes", "n_saved": 3, "n_written": 3, "timings": {"save_ms": 250},
    }  # fmt: skip
    restored = served.http.post("/slots/0?action=restore&model=tiny", json={"filename": "notes"})
    assert restored.json() == {
        "id_slot": 0, "filename": "notes", "n_restored": 3, "n_read": 3, "timings": {"restore_ms": 500},
    }  # fmt: skip
    assert served.http.post("/slots/2?action=erase").json() == {"id_slot": 2, "n_erased": 2}
    assert served.http.post("/slots/2?action=erase", json={"model": "tiny"}).json() == {"id_slot": 2, "n_erased": 2}


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/slots/0", {}, (400, "invalid_parameter", "action")),
        ("/slots/0?action=burn", {}, (400, "invalid_parameter", "action")),
        ("/slots/0?action=save", {}, (400, "invalid_parameter", "filename")),
        ("/slots/0?action=save", {"filename": 3}, (400, "invalid_parameter", "filename")),
        ("/slots/0?action=restore", {"filename": "never"}, (404, "slot_not_found", "filename")),
        ("/slots/9?action=erase", {}, (404, "slot_not_found", "id_slot")),
        ("/slots/first?action=erase", {}, (404, "slot_not_found", "id_slot")),
        ("/slots/0?action=erase&model=other", {}, (404, "model_not_found", "model")),
    ],
)
def test_a_slot_action_that_cannot_be_is_refused_by_its_field(
    served: Served, path: str, body: dict[str, object], expected: tuple[int, str, str]
) -> None:
    assert _error(served.http.post(path, json=body)) == expected


@pytest.mark.parametrize(
    ("refusal", "status"), [(SlotBusy("busy", param="id_slot"), 409), (DiskFull("full"), 507), (Loading("later"), 503)]
)
def test_what_keeps_a_slot_from_being_saved_has_its_own_status(served: Served, refusal: Exception, status: int) -> None:
    served.runtime.refusal = refusal
    assert served.http.post("/slots/0?action=save", json={"filename": "x"}).status_code == status


def test_a_body_that_does_not_say_it_is_json_does_nothing_to_a_slot(served: Served) -> None:
    """A page of another site may send text without asking first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {"content-type": kind, "origin": served.url}
        refused = served.http.post("/slots/2?action=erase", content="{}", headers=headers)
        assert refused.status_code == 415
