"""The load of `localllm bench` against servers of every kind: what is asked, what is counted, what is a failure."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.bench import request
from localllm.bench.answer import Answer, AnswerBuilder, RequestFailed, clean
from localllm.bench.levels import WARMUP_TOKENS, Plan
from localllm.bench.load import LevelRun, Load
from localllm.bench.prompts import WORDS
from localllm.bench.target import Target, base_url, discover, is_url
from localllm.client.api import ServerGone
from localllm.errors import InvalidParameter
from tests.scripted_llm import PATIENCE_S, Call, ScriptedLLM

TOKENS = 12
"""More than a warm-up's answer has, by which requests are told apart."""
assert TOKENS > WARMUP_TOKENS


def load_of(url: str, *levels: int, requests: int = 4, **plan: Any) -> Load:
    target = Target(base_url=base_url(url), model="scripted", api=plan.pop("api", "chat"))
    return Load(target, Plan(levels=levels or (1,), num_requests=requests, max_tokens=TOKENS, **plan))


def measure(url: str, *levels: int, **plan: Any) -> Load:
    load = load_of(url, *levels, **plan)
    asyncio.run(load.run())
    return load


def is_measured(call: Call) -> bool:
    return bool(call.body.get("max_tokens") == TOKENS)


def test_each_request_asks_for_a_stream_with_usage_and_a_fixed_length() -> None:
    with ScriptedLLM() as server:
        load = measure(server.url, warmup := 1, requests=3, num_warmup=warmup)
    asked = [call for call in server.calls if is_measured(call)]
    assert len(asked) == len(load.runs[0].answers) == 3
    assert {call.path for call in asked} == {"/v1/chat/completions"}
    expected = {"model": "scripted", "stream": True, "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
    assert {**asked[0].body, **expected} == asked[0].body
    assert asked[0].body["stream_options"] == {"include_usage": True}
    assert [answer.num_tokens for answer in load.runs[0].answers] == [TOKENS] * 3
    assert load.runs[0].is_whole


def test_plain_completions_are_asked_for_with_a_text() -> None:
    def script(call: Call) -> None:
        call.start()
        call.event({"choices": [{"index": 0, "text": "word"}]})
        call.event({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
        call.event("[DONE]")
        call.raw(b"")

    with ScriptedLLM(script) as server:
        load = measure(server.url, api="completions", requests=1, shared_prefix_tokens=3)
    assert server.calls[-1].path == "/v1/completions"
    assert len(server.calls[-1].body["prompt"].split()) == 64 + 3
    assert len(load.runs[0].answers) == 1


@pytest.mark.parametrize("level", [1, 3])
def test_so_many_requests_run_at_a_time_each_on_a_connection_of_its_own(level: int) -> None:
    together = threading.Barrier(level)  # nobody is answered before all are there: fewer would wait for ever
    running, most, lock = 0, 0, threading.Lock()

    def script(call: Call) -> None:
        nonlocal running, most
        if is_measured(call):
            with lock:
                running += 1
                most = max(most, running)
            together.wait(PATIENCE_S)
            with lock:
                running -= 1
        call.answer()

    with ScriptedLLM(script) as server:
        load = measure(server.url, level, requests=3 * level)
    assert len(load.runs[0].answers) == 3 * level
    assert most == level
    assert len({call.port for call in server.calls}) == level


def test_warm_up_opens_the_connections_and_is_not_counted() -> None:
    with ScriptedLLM() as server:
        load = measure(server.url, 2, requests=2, num_warmup=5)
    short = [call for call in server.calls if not is_measured(call)]
    assert len(short) == 2 + 5  # two to find out how long a word is
    assert load.runs[0].num_started == load.runs[0].num_ended == 2
    assert {call.port for call in server.calls if is_measured(call)} <= {call.port for call in short}


def test_no_two_prompts_are_alike_unless_the_seed_is_the_same() -> None:
    def prompts(seed: int) -> list[str]:
        with ScriptedLLM() as server:
            measure(server.url, 1, 2, requests=3, seed=seed)
        return sorted(call.content for call in server.calls if is_measured(call))

    first = prompts(1)
    assert len(set(first)) == 6
    assert len({prompt[:20] for prompt in first}) == 6
    assert all(word in WORDS for prompt in first for word in prompt.split())
    assert prompts(1) == first
    assert not set(prompts(2)) & set(first)


def test_a_shared_prefix_is_a_system_message_that_all_have() -> None:
    with ScriptedLLM() as server:
        measure(server.url, 1, 2, requests=2, shared_prefix_tokens=50, prompt_tokens=7)
    systems = {call.body["messages"][0]["content"] for call in server.calls if is_measured(call)}
    assert [len(system.split()) for system in systems] == [50]
    assert {len(call.content.split()) for call in server.calls if is_measured(call)} == {7}


def test_prompts_have_the_tokens_asked_for_whatever_a_word_is_and_a_template_adds() -> None:
    def script(call: Call) -> None:
        call.start()
        call.text("x")
        call.finish(prompt_tokens=100 + 2 * len(call.content.split()), completion_tokens=1)

    with ScriptedLLM(script) as server:
        load = measure(server.url, requests=1, prompt_tokens=60)
    assert load.tokens_per_word == 2
    assert len(server.calls[-1].content.split()) == 30


def test_a_small_vocabulary_and_a_small_context_still_get_prompts_that_fit() -> None:
    def script(call: Call) -> None:
        num_tokens = 10 * len(call.content.split())
        if num_tokens > 500:
            call.fail(400, {"error": {"message": "the prompt does not fit"}})
        else:
            call.start()
            call.text("x")
            call.finish(prompt_tokens=num_tokens, completion_tokens=1)

    with ScriptedLLM(script) as server:
        load = measure(server.url, requests=2, prompt_tokens=200)
    assert [answer.prompt_tokens for answer in load.runs[0].answers] == [200, 200]


def test_time_is_measured_from_the_request_to_the_first_text() -> None:
    pause, delay_s = threading.Event(), 0.05

    def script(call: Call) -> None:
        call.start()
        call.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})  # no text yet
        pause.wait(delay_s)
        call.event({"choices": [{"index": 0, "delta": {"reasoning_content": "Hm"}}]})
        pause.wait(delay_s)
        call.text("yes")
        call.finish(prompt_tokens=9, completion_tokens=2, prompt_tokens_details={"cached_tokens": 5})

    with ScriptedLLM(script) as server:
        (answer,) = measure(server.url, requests=1).runs[0].answers
    assert delay_s <= answer.ttft_s < delay_s + 2
    assert answer.tpot_s is not None
    assert delay_s * 0.9 <= answer.tpot_s < delay_s + 2
    assert 2 * delay_s * 0.9 <= answer.latency_s < 2 * delay_s + 4
    assert (answer.prompt_tokens, answer.num_tokens, answer.cached_tokens) == (9, 2, 5)


def test_a_server_without_usage_is_measured_by_its_pieces() -> None:
    def script(call: Call) -> None:
        call.start()
        for _ in range(5):
            call.text("word ")
        call.finish()

    with ScriptedLLM(script) as server:
        load = measure(server.url, requests=1)
    (answer,) = load.runs[0].answers
    assert (answer.completion_tokens, answer.num_tokens, answer.prompt_tokens) == (None, 5, None)
    assert load.tokens_per_word is None


@pytest.mark.parametrize("field", ["ignore_eos", "stream_options", "temperature"])
def test_a_field_that_the_server_refuses_by_name_is_left_out_from_then_on(field: str) -> None:
    def script(call: Call) -> None:
        if field in call.body:
            call.fail(400, {"error": {"message": f"Unrecognized request argument supplied: {field}", "param": field}})
        else:
            call.answer()

    with ScriptedLLM(script) as server:
        load = measure(server.url, 2, requests=4)
    assert load.forgone == (field,)
    assert (len(load.runs[0].answers), load.runs[0].failures) == (4, [])
    assert sum(field in call.body for call in server.calls) == 1


def test_requests_that_are_refused_at_the_same_time_all_ask_again() -> None:
    together = threading.Barrier(3)

    def script(call: Call) -> None:
        if is_measured(call) and "ignore_eos" in call.body:
            together.wait(PATIENCE_S)
            call.fail(422, {"detail": [{"loc": ["body", "ignore_eos"], "msg": "Extra inputs are not permitted"}]})
        else:
            call.answer()

    with ScriptedLLM(script) as server:
        load = measure(server.url, 3, requests=3)
    assert load.forgone == ("ignore_eos",)
    assert (len(load.runs[0].answers), load.runs[0].failures) == (3, [])


def test_a_server_that_renamed_max_tokens_is_asked_its_way() -> None:
    def script(call: Call) -> None:
        if "max_tokens" in call.body:
            call.fail(400, {"error": {"message": "'max_tokens' is unsupported. Use 'max_completion_tokens' instead."}})
        else:
            call.answer(call.body["max_completion_tokens"])

    with ScriptedLLM(script) as server:
        load = measure(server.url, requests=2)
    assert [answer.num_tokens for answer in load.runs[0].answers] == [TOKENS] * 2


def _cut(call: Call) -> None:
    call.start()
    call.text("half")
    call.hang_up()


def _ended(call: Call) -> None:
    call.start()
    call.text("half")
    call.raw(b"")


def _error(call: Call) -> None:
    call.start()
    call.text("half")
    call.event({"error": {"message": "the model's \x1b[31mprocess died", "code": "worker_crashed"}})
    call.raw(b"")


def _gibberish(call: Call) -> None:
    call.start()
    call.event("{not json")
    call.raw(b"")


def _empty(call: Call) -> None:
    call.start()
    call.finish(prompt_tokens=3, completion_tokens=0)


def _whole(call: Call) -> None:
    call.fail(200, {"choices": [{"message": {"content": "not a stream"}}]})


def _busy(call: Call) -> None:
    call.fail(429, {"error": {"message": "too many requests"}})


@pytest.mark.parametrize(
    ("kind", "words", "script"),
    [
        ("cut_short", "after 1 pieces of text", _cut),
        ("cut_short", "ended in the middle", _ended),
        ("error_in_stream", "the model's \ufffd[31mprocess died", _error),
        ("not_openai", "{not json", _gibberish),
        ("no_text", "no text", _empty),
        ("not_openai", "application/json", _whole),
        ("http_429", "too many requests", _busy),
        ("timeout", "within 0.6 s (0 pieces", Call.stay_silent),
    ],
)
def test_what_goes_wrong_is_a_failure_with_its_reason_and_no_figure(kind: str, words: str, script: Any) -> None:
    def every_second(call: Call) -> None:
        if is_measured(call) and call.number % 2:
            script(call)
        else:
            call.answer()

    with ScriptedLLM(every_second) as server:
        (run,) = measure(server.url, requests=4, timeout_s=0.6 if kind == "timeout" else 30).runs
    assert len(run.answers) == 2
    assert [failure.kind for failure in run.failures] == [kind, kind]
    assert words in run.failures[0].message
    assert run.failures[0].message.isprintable()


def test_a_response_that_stays_open_after_its_end_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "AFTER_DONE_S", 0.05)

    def script(call: Call) -> None:
        call.start()
        call.text("word")
        call.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        call.event("[DONE]")
        call.stay_silent()

    with ScriptedLLM(script) as server:
        (run,) = measure(server.url, requests=1, num_warmup=0).runs
    assert (len(run.answers), run.failures) == (1, [])


def test_where_nobody_answers_it_soon_gives_up_and_tries_no_higher_level() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    load = measure(url, 1, 2, 4, requests=10_000)
    (run,) = load.runs
    assert {failure.kind for failure in run.failures} == {"connect"}
    assert run.num_started < 20


def test_what_was_measured_before_an_interruption_is_there() -> None:
    both_wait = threading.Barrier(3)

    async def interrupt(load: Load) -> None:
        running = asyncio.create_task(load.run())
        await asyncio.to_thread(both_wait.wait, PATIENCE_S)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    def script(call: Call) -> None:
        if call.number > 20:
            both_wait.wait(PATIENCE_S)
            call.stay_silent()
        else:
            call.answer()

    with ScriptedLLM(script) as server:
        load = load_of(server.url, 1, 2, requests=12)
        asyncio.run(interrupt(load))
    first, second = load.runs
    assert (first.is_whole, len(first.answers)) == (True, 12)
    assert (second.is_whole, second.ended_ns > second.started_ns) == (False, True)
    assert len(second.answers) == 4  # after two requests about words, 1 and 2 of warming up, and 12 of the first


def test_the_measuring_says_what_it_costs_and_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localllm.bench.load.TICK_S", 0.01)
    seen: list[int] = []

    def on_tick(run: LevelRun) -> None:
        if run.num_tokens_seen:
            seen.append(run.num_tokens_seen)
            ticked.set()

    ticked = threading.Event()

    def script(call: Call) -> None:
        call.start()
        call.text("word")
        if is_measured(call):
            ticked.wait(PATIENCE_S)
        call.finish(prompt_tokens=3, completion_tokens=1)

    with ScriptedLLM(script) as server:
        load = load_of(server.url, requests=1)
        asyncio.run(load.run(on_tick))
    assert set(seen) == {1}
    assert 0 < load.runs[0].cpu_s <= load.runs[0].wall_s + 0.1


EVENTS = [
    {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"delta": {"reasoning": "Hm"}}]},
    {"choices": [{"delta": {"content": "é"}}]},
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 4}, "timings": {"cache_n": 3}},
]
STREAM = (
    "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in EVENTS).encode() + b"data: [DONE]\n\n"
)


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=8))
def test_an_answer_is_the_same_wherever_its_bytes_are_split(cuts: list[int]) -> None:
    edges = [0, *sorted(set(cuts)), len(STREAM)]
    builder = AnswerBuilder(0)
    pieces = sum(builder.feed(STREAM[a:b], b) for a, b in itertools.pairwise(edges))
    answer = builder.flush(len(STREAM) + 1)
    assert (pieces, answer.num_deltas, answer.num_tokens) == (2, 2, 4)
    assert (answer.prompt_tokens, answer.cached_tokens) == (7, 3)
    assert list(answer.arrivals_ns) == sorted(set(answer.arrivals_ns))
    assert set(answer.arrivals_ns) <= set(edges)
    assert answer.ended_ns == len(STREAM)


def test_hidden_tokens_at_the_end_count_for_the_time_per_token() -> None:
    """A token without text (an end-of-turn under `ignore_eos`) shows in the finish reason only."""
    builder = AnswerBuilder(0)
    for at_ns, event in zip((10, 20, 30, 500, 510), EVENTS, strict=True):
        builder.feed(f"data: {json.dumps(event)}\n\n".encode(), at_ns)
    answer: Answer = builder.flush(600)
    assert answer.ttft_s == pytest.approx(20e-9)
    assert answer.tpot_s == pytest.approx((500 - 20) / 3 * 1e-9)


def test_what_a_server_says_is_safe_for_a_terminal() -> None:
    assert clean("a\x1b[2J\nb\x00  c") == "a\ufffd[2J b\ufffd c"
    assert len(clean("x" * 10_000)) == 300
    assert str(RequestFailed("k", "m").failure.kind) == "k"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1"),
        ("http://h/v1/", "http://h/v1"),
        ("HTTP://h/v1/chat/completions", "http://h/v1"),
        ("https://h/api/v1", "https://h/api/v1"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai"),
        ("http://h/llm", "http://h/llm/v1"),
    ],
)
def test_a_servers_url_may_be_written_as_people_do(typed: str, expected: str) -> None:
    assert is_url(typed)
    assert base_url(typed) == expected


@pytest.mark.parametrize("wrong", ["http://", "http://user:secret@h", "http://h:99999", "http://h/v1?key=1"])
def test_a_url_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        base_url(wrong)
    assert "secret" not in str(caught.value)


def test_an_address_without_http_is_explained_and_a_model_is_no_url() -> None:
    with pytest.raises(InvalidParameter, match="write http://localhost:11434"):
        is_url("localhost:11434")
    assert not any(map(is_url, ("demo", "qwen3:0.6b", "./model.gguf", "hf.co/a/b")))


def find(server: ScriptedLLM, **asked: Any) -> Target:
    return discover(base_url(server.url), **{"api_key": None, "model": None, "api": None, **asked})


def test_the_only_model_is_taken_and_another_one_when_named() -> None:
    with ScriptedLLM() as server:
        target = find(server)
        assert (target.model, target.api, target.base_url) == ("scripted", "chat", f"{server.url}/v1")
        assert find(server, model="alias").model == "alias"
    listed = {"data": [{"id": "plain", "chat_template": False}]}
    with ScriptedLLM(models=listed) as server:
        assert find(server).api == "completions"
        assert find(server, api="chat").api == "chat"


def test_several_models_or_none_need_a_choice() -> None:
    with (
        ScriptedLLM(models={"data": [{"id": f"m{number}"} for number in range(9)]}) as server,
        pytest.raises(InvalidParameter, match=r"9 models.*--model: m0, m1"),
    ):
        find(server)
    with ScriptedLLM(models={"data": [{"id": "a", "loaded": False}, {"id": "b", "loaded": True}]}) as server:
        assert find(server).model == "b"
    with ScriptedLLM(models=404) as server:
        with pytest.raises(InvalidParameter, match=r"404: no list for you.*--model"):
            find(server)
        assert find(server, model="m").entry is None


def test_a_key_that_is_wanted_or_a_server_that_is_not_there_is_said() -> None:
    with ScriptedLLM(models=401) as server, pytest.raises(InvalidParameter, match="--api-key-env"):
        find(server)
    with pytest.raises(ServerGone, match="no server answers"):
        find(server)


def test_the_key_travels_in_the_header_only() -> None:
    with ScriptedLLM() as server:
        target = find(server, api_key="sesame")
        load = Load(target, Plan(levels=(1,), num_requests=1, max_tokens=TOKENS), "sesame")
        started = time.monotonic()
        asyncio.run(load.run())
    assert time.monotonic() - started < 20
    assert {call.headers["authorization"] for call in server.calls} == {"Bearer sesame"}
    assert "sesame" not in repr(target)
