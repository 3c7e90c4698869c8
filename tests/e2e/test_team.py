"""Several people with keys of their own at one real server: an admin, and others who only ask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.servers import Server


@pytest.fixture(scope="module")
def team(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its admin is ann; bob and carol may ask."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("ann(admin)=a\nbob(max_concurrent=4)=b\ncarol=c\n")
    with Server(tiny_model, "--threads", "1", "--slots", "2", "--api-key-file", keys) as server:
        yield server


def _post(team: Server, key: str, path: str, **body: Any) -> httpx.Response:
    headers = {"x-api-key": key, "x-request-id": f"of-{key}"}
    return httpx.post(team.url + path, json={"model": "tiny"} | body, headers=headers, trust_env=False, timeout=60)


def _complete(team: Server, key: str, **body: Any) -> httpx.Response:
    asked = {"prompt": [9, 8, 7, 6, 5, 4, 3, 2], "max_tokens": 2, "ignore_eos": True}
    return _post(team, key, "/v1/completions", **asked | body)


def test_the_log_line_has_the_key_the_model_and_its_tokens(team: Server) -> None:
    assert _complete(team, "b", n=2, cache_prompt=False).status_code == 200
    while (line := team.until("request"))["id"] != "of-b":
        pass
    told = {name: line[name] for name in ("key", "model", "prompt_tokens", "cached_tokens", "completion_tokens")}
    assert told == {"key": "bob", "model": "tiny", "prompt_tokens": 8, "cached_tokens": 0, "completion_tokens": 4}
    assert 0 <= line["queue_ms"] <= line["duration_ms"]


def test_more_answers_than_the_key_may_have_and_a_priority_before_others_are_refused(team: Server) -> None:
    for fields, param in (({"n": 5}, "n"), ({"priority": -1}, "priority"), ({"keep_alive": 0}, "keep_alive")):
        refused = _complete(team, "b", **fields)
        assert refused.status_code in (400, 403)
        assert refused.json()["error"]["param"] == param
    assert _complete(team, "a", n=5, priority=-1).status_code == 200


def _cached(team: Server, key: str, **fields: Any) -> int:
    usage = _complete(team, key, prompt=[*range(20, 60)], max_tokens=1, **fields).json()["usage"]
    cached: int = usage["prompt_tokens_details"]["cached_tokens"]
    return cached


def test_what_one_key_has_asked_shows_in_no_other_keys_cached_tokens(team: Server) -> None:
    assert _cached(team, "b") == 0
    assert _cached(team, "b") > 30
    assert _cached(team, "c") == 0
    assert _cached(team, "b", cache_salt="of one user of bob's") == 0


def test_an_unload_is_for_the_admin_and_takes_the_models_gauges_with_it(team: Server) -> None:
    def models_with_gauges() -> list[str]:
        text = httpx.get(f"{team.url}/metrics", headers={"x-api-key": "c"}, trust_env=False).text
        return re.findall(r'^localllm_slots{model="(.*)"}', text, re.MULTILINE)

    assert models_with_gauges() == ["tiny"]
    refused = _post(team, "c", "/localllm/unload")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")
    assert models_with_gauges() == ["tiny"]
    assert _post(team, "a", "/localllm/unload").status_code == 200
    assert models_with_gauges() == []
