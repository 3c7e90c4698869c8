"""What the key of a request decides: what it may do, how urgent it may be, whose cache and whose numbers those are."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from localllm.client.api import KeyRequired
from localllm.client.discovery import find_server, server_of
from localllm.errors import InvalidParameter, QueueFull, WorkerCrashed
from localllm.server.edge.callers import KeyRing
from localllm.settings.config import Settings, load
from localllm.types import Delta
from tests.server.conftest import RequestLog, Served, running
from tests.server.fake_runtime import HANG

TEXT: dict[str, Any] = {"model": "tiny", "prompt": "x"}
CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
KEYS = "ann(admin)=a,bob=b,slow(min_priority=50)=s,quick(min_priority=-10)=q"
MODEL: dict[str, Any] = {"model": "tiny"}
MANAGING: list[tuple[str, dict[str, Any]]] = [
    ("/localllm/unload", MODEL),
    ("/localllm/remove", {"model": "other:1b"}),
    ("/localllm/pull", {"model": "new:1b"}),
    ("/localllm/kv/save", MODEL),
    ("/localllm/load", {"model": "other:1b", "ctx": 512}),
    ("/localllm/load", {"model": "other:1b", "slots": 2}),
    ("/localllm/load", {"model": "other:1b", "keep_alive": -1}),
    ("/slots/1?action=save", MODEL | {"filename": "x"}),
    ("/slots/1?action=restore", MODEL | {"filename": "x"}),
    ("/slots/1?action=erase", MODEL),
]


@pytest.fixture(scope="module")
def team_server() -> Iterator[Served]:
    with running(Settings(port=0, grace_s=0.1, api_keys=KEYS)) as served:
        yield served


@pytest.fixture
def team(team_server: Served) -> Served:
    """A server with an admin and three others."""
    team_server.runtime.reset()
    return team_server


def _post(served: Served, key: str, path: str = "/v1/completions", id: str = "any", **fields: object) -> httpx.Response:
    body = {"/v1/completions": TEXT, "/v1/chat/completions": CHAT}.get(path, MODEL)
    return served.http.post(path, json=body | fields, headers={"x-api-key": key, "x-request-id": id})


def _error(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    return error


@pytest.mark.parametrize(("path", "body"), MANAGING)
def test_what_changes_things_for_everybody_needs_an_admin_key_where_there_is_one(
    team: Served, path: str, body: dict[str, Any]
) -> None:
    refused = team.http.post(path, json=body, headers={"x-api-key": "b"})
    error = _error(refused)
    code = error.get("reason", error["code"])  # llama-server's own paths have the status for a code
    assert (refused.status_code, code, error["type"]) == (403, "permission_denied", "permission_error")
    assert "'bob'" in error["message"]
    assert "NAME(admin)=KEY" in error["message"]
    assert (len(team.runtime.models), len(team.runtime.others), team.runtime.loads) == (1, 1, [])


@pytest.mark.parametrize(("path", "body"), [case for case in MANAGING if case[0] != "/localllm/pull"])
def test_an_admin_key_may_and_without_one_every_key_may(
    team: Served, guarded: Served, path: str, body: dict[str, Any]
) -> None:
    guarded.runtime.reset()
    for served, key in ((team, "a"), (guarded, "sesame")):
        served.runtime.saved_slots["x"] = 1
        assert served.http.post(path, json=body, headers={"x-api-key": key}).status_code == 200


def test_every_key_may_load_a_model_as_a_request_for_it_would_and_look_at_the_numbers(team: Served) -> None:
    headers = {"x-api-key": "b"}
    assert team.http.post("/localllm/load", json={"model": "other:1b"}, headers=headers).status_code == 200
    assert team.runtime.loads[0][2] is None, "how long it stays is not for this key to say"
    for path in ("/metrics", "/slots", "/localllm/ps", "/localllm/models", "/v1/models"):
        assert team.http.get(path, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/rerank"]
)
def test_a_keep_alive_is_for_who_may_unload_the_model(team: Served, path: str) -> None:
    given = {"input": "x"} if path in ("/v1/responses", "/v1/embeddings") else {"query": "q", "documents": ["d"]}
    body = {**(TEXT if path == "/v1/completions" else CHAT if "chat" in path else MODEL | given)}
    for keep_alive in (0, "10m", -1):
        sent = body | {"keep_alive": keep_alive}
        refused = team.http.post(path, json=sent, headers={"x-api-key": "b"})
        assert (refused.status_code, _error(refused)["param"]) == (403, "keep_alive")
        assert team.http.post(path, json=sent, headers={"x-api-key": "a"}).status_code == 200
    assert team.http.post(path, json=body | {"keep_alive": None}, headers={"x-api-key": "b"}).status_code == 200


def test_a_priority_that_a_key_may_not_have_is_refused_with_the_one_it_may(team: Served) -> None:
    refused = _post(team, "b", priority=-1)
    assert (refused.status_code, _error(refused)["param"]) == (400, "priority")
    assert "from 0 to 1000" in _error(refused)["message"]
    assert "--min-priority-per-key" in _error(refused)["message"]
    assert _error(_post(team, "s", priority=0))["message"].startswith("priority must be from 50 to 1000")
    assert team.runtime.requests == []
    allowed = [("b", 0), ("b", 7), ("b", None), ("s", 50), ("s", None), ("q", -10), ("q", None), ("a", -1000)]
    for key, priority in allowed:
        assert _post(team, key, priority=priority).status_code == 200
    assert [request.priority for request in team.runtime.requests] == [0, 7, 0, 50, 50, -10, 0, -1000]


def test_texts_have_the_same_bound(team: Served) -> None:
    for path, fields in (("/v1/embeddings", {"input": "x"}), ("/v1/rerank", {"query": "q", "documents": ["d"]})):
        assert (
            team.http.post(path, json=MODEL | fields | {"priority": -1}, headers={"x-api-key": "b"}).status_code == 400
        )
        assert team.http.post(path, json=MODEL | fields, headers={"x-api-key": "s"}).status_code == 200
    assert (team.runtime.embedded[0].priority, team.runtime.ranked[0].priority) == (50, 50)


def _bounds(**settings: Any) -> list[int]:
    ring = KeyRing(Settings(**settings))
    return [caller.min_priority for caller, _ in ring.pairs] or [ring.anybody.min_priority]


def test_the_bound_is_the_keys_own_then_the_settings_then_what_keeps_keys_apart() -> None:
    assert _bounds() == [-1000]
    assert _bounds(min_priority_per_key=5) == [5]
    assert _bounds(api_keys="a") == [-1000]
    assert _bounds(api_keys="ann=a,ann=b") == [-1000, -1000], "two keys of one person"
    assert _bounds(api_keys="ann=a,bob=b") == [0, 0]
    assert _bounds(api_keys="ann=a,bob=b", min_priority_per_key=-20) == [-20, -20]
    assert _bounds(api_keys="ann(admin)=a,bob(min_priority=3)=b,c", min_priority_per_key=-20) == [-1000, 3, -20]


def _salts(**settings: Any) -> list[str]:
    return [caller.cache_salt for caller, _ in KeyRing(Settings(**settings)).pairs]


def test_keys_of_different_people_share_nothing_of_the_cache() -> None:
    ann, bob, ann_again = _salts(api_keys="ann=1,bob=2,ann=3")
    assert ann == ann_again != bob
    assert [ann, bob] == _salts(api_keys="ann=9,bob=8"), "as after a restart, with new keys"
    assert _salts(api_keys="ann=1") == _salts(api_keys="ann=1,ann=2")[:1] == [""]
    assert _salts(api_keys="ann=1,bob=2", share_cache_between_keys=True) == ["", ""]


def test_a_key_without_a_name_keeps_its_salt_and_its_responses_when_lines_before_it_go() -> None:
    first, second = _salts(api_keys="one,two")
    assert _salts(api_keys="two,three")[0] == second != first
    owners = [caller.owner for caller, _ in KeyRing(Settings(api_keys="one,two")).pairs]
    assert not [secret for secret in ("one", "two") if secret in str(owners) + first + second]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses"])
def test_the_salt_is_the_keys_and_the_clients_own_beside_it(team: Served, path: str) -> None:
    def salt_of(key: str, **fields: object) -> str:
        body = MODEL | {"input": "x"} if path == "/v1/responses" else CHAT if "chat" in path else TEXT
        assert team.http.post(path, json=body | fields, headers={"x-api-key": key}).status_code == 200
        return team.runtime.requests[-1].cache_salt

    assert salt_of("a") == salt_of("a") != salt_of("b")
    salts = [salt_of(key, cache_salt=salt) for key in "ab" for salt in ("x", "y", salt_of("a"))]
    assert len({*salts, salt_of("a"), salt_of("b")}) == 8
    assert salt_of("a", cache_salt="x") == salts[0]


def test_without_keys_a_client_may_still_part_its_prompts(served: Served) -> None:
    for salt in (None, "x"):
        assert served.http.post("/v1/completions", json=TEXT | {"cache_salt": salt}).status_code == 200
    plain, salted = (request.cache_salt for request in served.runtime.requests)
    assert plain == ""
    assert salted not in ("", "x")
    for bad in ("", "x" * 257, 7):
        refused = served.http.post("/v1/completions", json=TEXT | {"cache_salt": bad})
        assert (refused.status_code, _error(refused)["param"]) == (400, "cache_salt")


def test_commands_use_the_admin_key_among_those_of_this_user(team: Served) -> None:
    with server_of(Settings(port=team.address[1], api_keys="bob=b,ann(admin)=a")) as client:
        client.unload("tiny")
    assert team.runtime.models == []


def test_where_every_key_may_manage_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "localllm")
    for keys in ("a", "ann(admin)=a,bob=b", "ann=a,ann=b"):
        with running(Settings(port=0, api_keys=keys), token="parent"):
            pass
    assert not [record for record in caplog.records if record.getMessage() == "every_key_may_manage_models"]
    with running(Settings(port=0, api_keys="ann=a,bob=b")):
        pass
    (warning,) = [record for record in caplog.records if record.getMessage() == "every_key_may_manage_models"]
    assert "NAME(admin)=KEY" in vars(warning)["fields"]["remedy"]


def test_the_process_that_started_the_server_is_an_admin_and_makes_nobody_else_less() -> None:
    for keys, may in (("ann=a", [True, True]), ("ann(admin)=a,bob=b", [True, False, True]), (None, [True])):
        pairs = KeyRing(Settings(api_keys=keys), "token").pairs
        assert [caller.may_manage for caller, _ in pairs] == may
        assert pairs[-1][0].min_priority == -1000


def test_keys_that_are_read_again_and_cannot_be_used_leave_the_old_ones(tmp_path: Any) -> None:
    path = tmp_path / "keys"
    path.write_text("ann=a\n")
    ring = KeyRing(Settings(api_key_file=path))
    for broken in ("bob=b\nbob(admin)=c\n", "", "# ann=a\n", "ann(boss)=a\n", "ann(admin=a\n"):
        path.write_text(broken)
        with pytest.raises(InvalidParameter):
            ring.reload()
        assert [(caller.name, secret) for caller, secret in ring.pairs] == [("ann", b"a")]
    path.write_text("bob=b\n")
    ring.reload()
    assert [(caller.name, secret) for caller, secret in ring.pairs] == [("bob", b"b")]


def test_a_log_line_says_who_asked_which_model_and_what_it_cost(team: Served, request_log: RequestLog) -> None:
    _post(team, "b", n=2, id="costs")
    _post(team, "b", "/v1/chat/completions", stream=True, id="costs")
    _post(team, "b", "/v1/responses", input="x", id="costs")
    _post(team, "a", "/v1/embeddings", input=["ab", "c"], id="costs")
    _post(team, "b", "/tokenize", content="x", id="costs")
    names = ("key", "model", "prompt_tokens", "cached_tokens", "completion_tokens", "queue_ms", "outcome")
    logged = request_log.lines(5, "costs")
    assert [tuple(line[name] for name in names) for line in logged] == [
        ("bob", "tiny", 7, 2, 6, 100.0, None),
        ("bob", "tiny", 7, 2, 3, 100.0, None),
        ("bob", "tiny", 7, 2, 3, 100.0, None),
        ("ann", "tiny", 3, 0, 0, None, None),
        ("bob", "tiny", None, None, None, None, None),
    ]
    assert logged[0]["duration_ms"] >= 0


def test_what_fails_is_logged_as_far_as_it_came(team: Served, request_log: RequestLog) -> None:
    team.runtime.script = [Delta("Hel", 1), Delta("lo", 2), WorkerCrashed("it died")]
    _post(team, "b", stream=True, id="fails")
    _post(team, "b", id="fails")
    team.runtime.refusal = QueueFull("full")
    _post(team, "b", id="fails")
    _post(team, "b", model="x" * 1000, id="fails")
    _post(team, "b", temperature=-1, id="fails")
    names = ("model", "prompt_tokens", "completion_tokens", "outcome")
    logged = request_log.lines(5, "fails")
    assert [tuple(line[name] for name in names) for line in logged] == [
        ("tiny", 7, 3, "worker_crashed"),
        ("tiny", 7, 3, "worker_crashed"),
        ("tiny", None, None, "queue_full"),
        ("x" * 200, None, None, "model_not_found"),
        ("tiny", None, None, "invalid_parameter"),
    ]


def _by_key(served: Served) -> dict[tuple[str, ...], float]:
    text = served.http.get("/metrics", headers={"x-api-key": "a"}).text
    return {
        (
            sample.name.removeprefix("localllm_key_"),
            *(sample.labels[label] for label in ("key", "model", "end") if label in sample.labels),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("localllm_key_") and sample.name.endswith("_total")
    }


def test_metrics_tie_requests_and_tokens_to_the_keys_name_and_the_model(team: Served) -> None:
    before = _by_key(team)
    for _ in range(2):
        _post(team, "q")
    _post(team, "q", model="nobody")
    team.runtime.script = [Delta("Hel", 1), HANG]
    with team.http.stream(
        "POST", "/v1/completions", json=TEXT | {"stream": True}, headers={"x-api-key": "q"}
    ) as response:
        next(response.iter_bytes())
    assert team.runtime.answers[-1].closed.wait(5)
    grown = {key: value - before.get(key, 0) for key, value in _by_key(team).items() if "quick" in key}
    assert grown == {
        ("requests_total", "quick", "tiny", "ok"): 2,
        ("requests_total", "quick", "tiny", "client_gone"): 1,
        ("prompt_tokens_total", "quick", "tiny"): 21,
        ("cached_tokens_total", "quick", "tiny"): 4,
        ("completion_tokens_total", "quick", "tiny"): 7,
    }


def test_without_keys_the_metrics_name_nobody(served: Served) -> None:
    served.http.post("/v1/completions", json=TEXT)
    assert ("requests_total", "anonymous", "tiny", "ok") in _by_key(served)


def test_a_response_stays_its_keys_after_the_keys_before_it_are_gone(team: Served) -> None:
    made = _post(team, "b", "/v1/responses", input="x").json()["id"]
    for key, status in (("b", 200), ("a", 404), ("q", 404)):
        assert team.http.get(f"/v1/responses/{made}", headers={"x-api-key": key}).status_code == status


def test_one_key_is_the_servers_and_the_commands_and_a_wrong_one_is_named_in_their_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCALLLM_API_KEY", "sesame")
    settings = load({"port": 0, "grace_s": 0.1})
    with running(settings) as served:
        assert served.http.get("/v1/models").status_code == 401
        port = {"port": served.address[1]}
        with server_of(load(port)) as client:
            client.unload("tiny")
        assert served.runtime.models == []
        for other in ("", "wrong"):
            refusals: list[str] = []
            monkeypatch.setenv("LOCALLLM_API_KEY", other)
            with server_of(load(port)) as client, pytest.raises(KeyRequired, match=r"LOCALLLM_API_KEY.*--api-key"):
                client.processes()
            assert find_server(load(port), refusals.append) is None
            assert len(refusals) == 1
    keys = Settings(api_key="a", api_keys="ann=a,bob=b").keys()
    assert [key.secret for key in keys] == ["a", "b"]
    assert Settings(api_key="b", api_keys="ann(admin)=a,bob=b").client_key() == "b"
