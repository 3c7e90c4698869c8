"""What one key may have: answers at a time, requests a minute, and what everybody else is told meanwhile."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import partial

import httpx
import pytest

from localllm.errors import InvalidParameter, QueueFull
from localllm.server.edge.callers import Caller
from localllm.server.edge.limits import KeyLimits
from localllm.server.errors import RateLimited
from localllm.server.state import ServerState
from localllm.settings.config import Settings
from localllm.types import Delta, GenerationRequest
from tests.server.conftest import Served, running
from tests.server.fake_runtime import HANG, HELLO, FakeRuntime

PROMPT = {"model": "tiny", "prompt": "x"}


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def _caller(name: str = "alice", *, max_concurrent: int = 0, per_minute: int = 0) -> Caller:
    return Caller(name=name, owner=name, max_concurrent=max_concurrent, requests_per_minute=per_minute)


def _ask(limits: KeyLimits, caller: Caller) -> None:
    with limits.request(caller):
        pass


def _bucket(per_minute: int) -> tuple[Callable[[], None], Clock]:
    """What takes from it, and its clock."""
    clock = Clock()
    return partial(_ask, KeyLimits(clock), _caller(per_minute=per_minute)), clock


def test_a_minutes_requests_may_come_at_once_and_then_one_each_time_the_bucket_has_one() -> None:
    ask, clock = _bucket(per_minute=20)
    for _ in range(20):
        ask()
    with pytest.raises(RateLimited, match=r"20 requests a minute \(requests_per_minute_per_key\).* in 3\.0 s"):
        ask()
    clock.now_s += 3
    ask()
    with pytest.raises(RateLimited):
        ask()


@pytest.mark.parametrize("per_minute", [1, 7, 13, 60, 997])
def test_who_waits_exactly_as_long_as_told_is_let_in(per_minute: int) -> None:
    ask, clock = _bucket(per_minute)
    for _ in range(per_minute):
        ask()
    for _ in range(200):
        with pytest.raises(RateLimited) as caught:
            ask()
        wait_s = caught.value.details["retry_after_s"]
        assert isinstance(wait_s, float)
        clock.now_s += wait_s
        ask()


def test_a_bucket_holds_no_more_than_a_minutes_requests() -> None:
    ask, clock = _bucket(per_minute=2)
    clock.now_s += 3600
    for _ in range(2):
        ask()
    with pytest.raises(RateLimited):
        ask()


def test_refused_requests_cost_nothing() -> None:
    ask, clock = _bucket(per_minute=1)
    ask()
    for _ in range(10):
        with pytest.raises(RateLimited):
            ask()
    clock.now_s += 60
    ask()


def test_only_so_many_answers_at_a_time_and_each_key_for_itself() -> None:
    limits, alice, bob = KeyLimits(Clock()), _caller(max_concurrent=2), _caller("bob", max_concurrent=2)
    with limits.request(alice):
        with limits.request(alice):
            with pytest.raises(RateLimited, match="max_concurrent_per_key"):
                _ask(limits, alice)
            _ask(limits, bob)
        _ask(limits, alice)


def test_a_request_for_several_answers_holds_a_place_for_each_until_its_end() -> None:
    limits, alice = KeyLimits(Clock()), _caller(max_concurrent=4)
    with limits.request(alice) as places:
        places.hold(3)
        with limits.request(alice) as others:
            with pytest.raises(RateLimited, match=r"3 answers are running .* and 2 more .* limit of 4"):
                others.hold(2)
            with pytest.raises(RateLimited):
                _ask(limits, alice)
        _ask(limits, alice)
    with limits.request(alice) as places:
        places.hold(4)


def test_more_answers_than_a_key_may_ever_have_are_no_reason_to_come_back() -> None:
    with (
        KeyLimits(Clock()).request(_caller(max_concurrent=4)) as places,
        pytest.raises(InvalidParameter, match=r"best_of asks for 5 .* may have 4 \(max_concurrent_per_key\)") as caught,
    ):
        places.hold(5, "best_of")
    assert caught.value.param == "best_of"


def test_a_limit_that_comes_later_begins_with_a_full_bucket_and_counts_what_runs() -> None:
    """As when the keys are read again."""
    limits = KeyLimits(Clock())
    with limits.request(_caller()):
        bounded = _caller(max_concurrent=1, per_minute=2)
        with pytest.raises(RateLimited, match="max_concurrent_per_key"):
            _ask(limits, bounded)
    for _ in range(2):
        _ask(limits, bounded)
    with pytest.raises(RateLimited, match="requests_per_minute_per_key"):
        _ask(limits, bounded)


def test_an_answer_that_fails_gives_its_place_back() -> None:
    limits, alice = KeyLimits(Clock()), _caller(max_concurrent=3)
    for _ in range(3):
        with contextlib.suppress(ZeroDivisionError), limits.request(alice) as places:
            places.hold(3)
            raise ZeroDivisionError


@pytest.fixture(scope="module")
def limited_server() -> Iterator[Served]:
    settings = Settings(port=0, grace_s=0.1, api_keys="alice=a,bob=b,c", max_concurrent_per_key=1)
    with running(settings) as served:
        yield served


@pytest.fixture
def limited(limited_server: Served) -> Served:
    limited_server.runtime.reset()
    return limited_server


def _post(served: Served, key: str, **fields: object) -> httpx.Response:
    return served.http.post("/v1/completions", json=PROMPT | fields, headers={"x-api-key": key})


def test_a_key_at_its_limit_gets_429_while_others_and_other_urls_answer(limited: Served) -> None:
    limited.runtime.script = [Delta("Hel"), HANG]
    stream = limited.http.stream(
        "POST", "/v1/completions", json=PROMPT | {"stream": True}, headers={"authorization": "Bearer a"}
    )
    with stream:
        limited.runtime.script = HELLO
        refused = _post(limited, "a")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert refused.headers["retry-after"] == "1"
        assert _post(limited, "b").status_code == _post(limited, "c").status_code == 200
        assert limited.http.get("/v1/models", headers={"x-api-key": "a"}).status_code == 200
        assert limited.http.get("/health").status_code == 200
    assert limited.runtime.answers[0].closed.wait(5), "the client has gone away"
    assert _post(limited, "a").status_code == 200


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize", "/apply-template", "/v1/responses", "/rerank"])
def test_everything_that_costs_the_model_something_is_counted(limited: Served, path: str) -> None:
    limited.runtime.script = [Delta("Hel"), HANG]
    with limited.http.stream("POST", "/v1/completions", json=PROMPT | {"stream": True}, headers={"x-api-key": "b"}):
        assert limited.http.post(path, json={}, headers={"x-api-key": "b"}).status_code == 429
        assert limited.http.post(path, json={}, headers={"x-api-key": "a"}).status_code == 400
    assert limited.runtime.answers[0].closed.wait(5)


def test_the_answers_of_one_request_count_each_against_the_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "localllm")
    settings = Settings(port=0, grace_s=0.1, api_keys="alice=a,wide(max_concurrent=9)=w", max_concurrent_per_key=3)
    with running(settings) as served:
        for fields, param in (({"n": 4}, "n"), ({"best_of": 4}, "best_of"), ({"prompt": ["x"] * 4}, "prompt")):
            refused = _post(served, "a", **fields)
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
            assert "max_concurrent_per_key" in refused.json()["error"]["message"]
        assert served.runtime.requests == []
        served.runtime.script = [Delta("Hel"), HANG]
        streamed = PROMPT | {"stream": True, "n": 2}
        with served.http.stream("POST", "/v1/completions", json=streamed, headers={"x-api-key": "a"}):
            served.runtime.script = HELLO
            assert [_post(served, "a", n=count).status_code for count in (1, 2)] == [200, 429]
            assert _post(served, "w", n=9).status_code == 200
        assert all(answer.closed.wait(5) for answer in served.runtime.answers[:2])
        assert _post(served, "a", n=3).status_code == 200


def test_a_request_that_is_refused_later_gives_its_place_back(limited: Served) -> None:
    for _ in range(3):
        assert _post(limited, "a", temperature=-1).status_code == 400


def test_the_time_until_the_next_request_is_in_the_header_and_the_sentence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "localllm")
    settings = Settings(port=0, grace_s=0.1, api_keys="dora=hush-hush,shhh", requests_per_minute_per_key=1)
    with running(settings) as served:
        assert _post(served, "hush-hush").status_code == 200
        refused = _post(served, "hush-hush")
        assert refused.status_code == 429
        assert 30 <= int(refused.headers["retry-after"]) <= 60
        assert "requests_per_minute_per_key" in refused.json()["error"]["message"]
        assert _post(served, "shhh").status_code == 200
        assert _post(served, "shhhh").status_code == 401
    keys = [fields.get("key") for fields in _request_lines(caplog)]
    # A line is written after its answer: the last one of the server that the tests before share may come late.
    assert [key for key in keys if key != "alice"] == ["dora", "dora", "key-2", None]
    assert not [word for word in ("hush", "shh") if word in str([vars(record) for record in caplog.records])]


def test_without_keys_everybody_is_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "localllm")
    with running(Settings(port=0, grace_s=0.1, requests_per_minute_per_key=1)) as served:
        assert _post(served, "x").status_code == 200
        assert _post(served, "y").status_code == 429
    assert [fields.get("key") for fields in _request_lines(caplog)] == ["anonymous", "anonymous"]


def _request_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [vars(record)["fields"] for record in caplog.records if record.getMessage() == "request"]


def test_a_full_queue_says_how_long_it_is_and_when_to_come_back(served: Served) -> None:
    served.runtime.refusal = QueueFull("3 requests wait already", waiting=3, limit=3, retry_after_s=4.2)
    response = served.http.post("/v1/completions", json=PROMPT)
    assert (response.status_code, response.headers["retry-after"]) == (429, "5")
    served.runtime.refusal = QueueFull("3 requests wait already", waiting=3, limit=3)
    assert served.http.post("/v1/completions", json=PROMPT).headers["retry-after"] == "1"


def test_a_request_without_limits_of_its_own_gets_the_servers() -> None:
    state = ServerState(FakeRuntime(), Settings(request_timeout_s=30, queue_timeout_s=5))
    plain, own = state.timed([GenerationRequest(prompt="x"), GenerationRequest(prompt="x", timeout_s=2)])
    assert (plain.timeout_s, plain.queue_timeout_s) == (30, 5)
    assert (own.timeout_s, own.queue_timeout_s) == (2, 5)
    (none,) = ServerState(FakeRuntime(), Settings()).timed([GenerationRequest(prompt="x")])
    assert (none.timeout_s, none.queue_timeout_s) == (None, None)


def test_the_servers_time_limits_reach_the_runtime() -> None:
    with running(Settings(port=0, grace_s=0.1, request_timeout_s=30, queue_timeout_s=5)) as served:
        assert _post(served, "").status_code == 200
        assert _post(served, "", timeout=2).status_code == 200
        limits = [(request.timeout_s, request.queue_timeout_s) for request in served.runtime.requests]
    assert limits == [(30, 5), (2, 5)]
