"""`/completion` and `/infill` as llama-server answers them: fields, replies, streams and errors, before a script."""

from __future__ import annotations

import gc
import json
import warnings
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.errors import ContextLengthExceeded, UnsupportedParameter, WorkerCrashed
from localllm.server.apis.llamacpp.completion_requests import AnswerFields, CompletionRequest
from localllm.server.apis.llamacpp.completion_story import CompletionStory
from localllm.server.apis.llamacpp.samplers import ORDER
from localllm.server.requests.sampling import SamplingFields
from localllm.types import (
    Delta,
    Detail,
    Extra,
    Finish,
    Infill,
    Lines,
    Making,
    PromptProgress,
    ResolvedSampling,
    Shift,
    Timings,
    TokenLogprob,
    Usage,
)
from tests.server.conftest import Served
from tests.server.fake_runtime import FakeAnswer

SCHEMA = set(
    """verbose timings_per_token stream stream_options cache_prompt return_tokens return_progress sse_ping_interval
    n_predict max_completion_tokens max_tokens n_indent n_keep n_discard n_cmpl n n_cache_reuse t_max_predict_ms
    response_fields top_k top_p min_p top_n_sigma xtc_probability xtc_threshold typical_p temperature dynatemp_range
    dynatemp_exponent repeat_last_n repeat_penalty frequency_penalty presence_penalty dry_multiplier dry_base
    dry_allowed_length dry_penalty_last_n mirostat mirostat_tau mirostat_eta adaptive_target adaptive_decay seed n_probs
    logprobs min_keep backend_sampling post_sampling_probs lora dry_sequence_breakers json_schema grammar grammar_lazy
    chat_format reasoning_format generation_prompt parse_tool_calls chat_parser continue_final_message echo
    preserved_tokens grammar_triggers reasoning_control reasoning_budget_tokens reasoning_budget_start_tag
    reasoning_budget_end_tags reasoning_budget_end_tag reasoning_budget_message logit_bias ignore_eos stop samplers
    id_slot""".split()
)
"""All fields of llama-server's own schema of completions, with their other names."""

USAGE = Usage(prompt_tokens=7, completion_tokens=3, cached_tokens=2)
FINISH = Finish("stop", USAGE, Timings(0.1, 0.01, 0.006), stop="!")
PROGRESS = (PromptProgress(7, 2, 2, 0.001, 1), PromptProgress(7, 2, 7, 0.01, 1))
LOGPROBS = (
    TokenLogprob(b"Hi", -0.5, ((b"Hi", -0.5), (b"\xe2", -2.0)), 72, (72, 300)),
    TokenLogprob(b"\n", -0.25, ((b"\n", -0.25),), 10, (10,)),
    TokenLogprob(b"!", -1.0, ((b"!", -1.0),), 33, (33,)),
)
SCRIPT = (
    Delta(progress=PROGRESS[:1]),
    Delta(progress=PROGRESS[1:]),
    Delta("Hi", 1, None, LOGPROBS[:1], tokens=(72,)),
    Delta("\n", 1, None, LOGPROBS[1:2], tokens=(10,)),
    Delta("", 1, FINISH, LOGPROBS[2:], tokens=(33,)),
)
MAKING = Making("<s>Say", ResolvedSampling(seed=5, logit_bias={2: float("-inf"), 9: 1.5}), 16)


@pytest.fixture
def asked(served: Served) -> Served:
    served.runtime.script, served.runtime.making = SCRIPT, MAKING
    return served


def post(served: Served, path: str = "/completion", **body: Any) -> Any:
    response = served.http.post(path, json={"prompt": "Say", **body})
    assert response.status_code == 200, response.text
    return response.json()


def events(response: httpx.Response) -> list[Any]:
    parts = response.text.split("\n\n")
    assert parts[-1] == ""
    assert all(part.startswith("data: ") for part in parts[:-1])
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-1]]


def refused(served: Served, path: str = "/completion", **body: Any) -> tuple[int, str, str]:
    response = served.http.post(path, json=body)
    error = response.json()["error"]
    assert error["code"] == response.status_code
    return response.status_code, error["type"], error["message"]


def test_every_field_of_the_schema_is_in_exactly_one_list() -> None:
    honoured, fates = set(AnswerFields.__struct_encode_fields__), AnswerFields.fates
    known = honoured | set(fates.refused) | set(fates.ignored)
    assert len(honoured) + len(fates.refused) + len(fates.ignored) == len(known), "a field is in two lists"
    assert not SCHEMA - known, "a field slipped through"
    assert honoured - SCHEMA == set(SamplingFields.__struct_encode_fields__) - SCHEMA | {"model"}
    assert known - honoured - SCHEMA == {"message_delimiters", "speculative.n_min", "speculative.p_min"}


def test_a_whole_reply_has_llama_servers_fields_in_its_order(asked: Served) -> None:
    reply = post(asked, n_probs=2, return_tokens=True, stop=["!"], temperature=0.5)
    assert list(reply) == [
        "index", "content", "tokens", "id_slot", "stop", "model", "tokens_predicted", "tokens_evaluated",
        "generation_settings", "prompt", "has_new_line", "truncated", "stop_type", "stopping_word", "tokens_cached",
        "timings", "completion_probabilities",
    ]  # fmt: skip
    settings = reply.pop("generation_settings")
    assert reply == {
        "index": 0,
        "content": "Hi\n",
        "tokens": [72, 10, 33],
        "id_slot": 1,
        "stop": True,
        "model": "tiny",
        "tokens_predicted": 3,
        "tokens_evaluated": 7,
        "prompt": "<s>Say",
        "has_new_line": True,
        "truncated": False,
        "stop_type": "word",
        "stopping_word": "!",
        "tokens_cached": 9,
        "timings": {
            "cache_n": 2,
            "prompt_n": 5,
            "prompt_ms": 10.0,
            "prompt_per_token_ms": 2.0,
            "prompt_per_second": 500.0,
            "predicted_n": 3,
            "predicted_ms": 6.0,
            "predicted_per_token_ms": 3.0,  # the first of them took no step of its own
            "predicted_per_second": pytest.approx(1000 / 3),
        },
        "completion_probabilities": [
            {
                "id": 72,
                "token": "Hi",
                "bytes": [72, 105],
                "logprob": -0.5,
                "top_logprobs": [
                    {"id": 72, "token": "Hi", "bytes": [72, 105], "logprob": -0.5},
                    {"id": 300, "token": "\ufffd", "bytes": [226], "logprob": -2.0},
                ],
            },
            {
                "id": 10,
                "token": "\n",
                "bytes": [10],
                "logprob": -0.25,
                "top_logprobs": [{"id": 10, "token": "\n", "bytes": [10], "logprob": -0.25}],
            },
        ],
    }, "the stop string's own token is none of the content, and has no probabilities"
    told = {name: settings[name] for name in ("seed", "logit_bias", "n_predict", "max_tokens", "stop", "samplers")}
    assert told == {
        "seed": 5,
        "logit_bias": [{"bias": None, "token": 2}, {"bias": 1.5, "token": 9}],
        "n_predict": 16,
        "max_tokens": 16,
        "stop": ["!"],
        "samplers": list(ORDER),
    }
    assert settings["speculative.types"] == "none"


def test_a_stream_is_these_bytes(asked: Served) -> None:
    response = asked.http.post("/completion", json={"prompt": "Say", "stream": True, "return_progress": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    last = events(response)[-1]
    assert response.text.startswith(
        'data: {"index":0,"content":"","tokens":[],"stop":false,"id_slot":1,"tokens_predicted":0,"tokens_evaluated":7,'
        '"prompt_progress":{"total":7,"cache":2,"processed":2,"time_ms":1}}\n\n'
        'data: {"index":0,"content":"","tokens":[],"stop":false,"id_slot":1,"tokens_predicted":0,"tokens_evaluated":7,'
        '"prompt_progress":{"total":7,"cache":2,"processed":7,"time_ms":10}}\n\n'
        'data: {"index":0,"content":"Hi","tokens":[72],"stop":false,"id_slot":1,"tokens_predicted":1,'
        '"tokens_evaluated":7,"completion_probabilities":[{"id":72,"token":"Hi","bytes":[72,105],"logprob":-0.5,'
    )
    assert response.text.count("data: ") == 6, "and no [DONE]"
    assert (last["stop"], last["content"], last["tokens"], last["stop_type"]) == (True, "", [], "word")
    assert "completion_probabilities" not in last


def test_an_answer_with_every_detail_is_told_in_its_place(asked: Served) -> None:
    told = post(asked, post_sampling_probs=True, n_probs=1)["completion_probabilities"][0]
    assert told["prob"] == pytest.approx(0.60653, abs=1e-4)
    assert told["top_probs"][0]["prob"] == told["prob"]
    assert "logprob" not in told
    body = {"prompt": "Say", "stream": True, "timings_per_token": True}
    parts = events(asked.http.post("/completion", json=body))
    assert [part["timings"]["predicted_n"] for part in parts] == [1, 2, 3, 3]
    assert {part["timings"]["prompt_n"] for part in parts} == {5}
    assert all("prompt_progress" not in part for part in parts)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_streams_events_add_up_to_the_whole_reply(data: st.DataObject) -> None:
    """However its deltas are merged on the way."""
    body = CompletionRequest(prompt="Say", n_probs=2, return_tokens=True, stream=True)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(SCRIPT) - 1))))
    merged = []
    for start, end in zip([0, *cuts], [*cuts, len(SCRIPT)], strict=True):
        some = SCRIPT[start:end]
        merged.append(
            Delta(
                "".join(each.text for each in some),
                sum(each.num_tokens for each in some),
                some[-1].finish,
                tuple(item for each in some for item in each.logprobs),
                tokens=tuple(token for each in some for token in each.tokens),
                progress=tuple(item for each in some for item in each.progress),
            )
        )
    answer = FakeAnswer(merged)
    answer.making = MAKING
    story = CompletionStory(body, 0, "tiny")
    story.begin(answer)
    parts = [part for delta in merged for part in story.feed(delta)]
    whole = story.end(FINISH)
    assert "".join(part.content for part in parts) == whole.content == "Hi\n"
    assert [token for part in parts for token in part.tokens] == whole.tokens
    told = [part.completion_probabilities for part in parts if part.completion_probabilities]
    assert all(len(each) == 1 for each in told), "one token an event, as llama-server has it"
    assert len(told) == 3
    assert story.last(FINISH).content == ""


@pytest.mark.parametrize(
    ("prompt", "sources"),
    [
        ("Hi", ["Hi"]),
        ([1, 2, 3], [(1, 2, 3)]),
        ([1, "ab", 2, "c"], [(1, 97, 98, 2, 99)]),
        (["a", "b"], ["a", "b"]),
        (["a", [1, 2]], ["a", (1, 2)]),
        ([["ab", 7], {"prompt_string": "x"}], [(256, 97, 98, 7), "x"]),
        ({"prompt_string": "x", "multimodal_data": []}, ["x"]),
        ({"prompt_string": ["a", 5]}, [(256, 97, 5)]),
    ],
)
def test_a_prompt_may_be_text_tokens_both_or_several(asked: Served, prompt: Any, sources: list[Any]) -> None:
    """The runtime's tokens are bytes, and 256 begins a text: only the first of a mixture."""
    reply = post(asked, prompt=prompt)
    made = [
        request.prompt if request.prompt is not None else request.prompt_tokens for request in asked.runtime.requests
    ]
    assert made == sources
    if len(sources) > 1:
        assert [each["index"] for each in reply] == list(range(len(sources)))
    else:
        assert reply["index"] == 0


def test_a_prompt_that_cannot_be_tokenized_leaves_none_of_the_others_behind(served: Served) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        response = served.http.post("/completion", json={"model": "missing", "prompt": [["a", 1], ["b", 2]]})
        gc.collect()
    assert response.status_code == 404
    assert not [each.message for each in caught if "never awaited" in str(each.message)]


def test_what_is_asked_for_reaches_the_engine(asked: Served) -> None:
    post(
        asked,
        n_predict=9,
        id_slot=2,
        n_keep=-1,
        n_discard=4,
        n_indent=2,
        t_max_predict_ms=1500,
        n_probs=3,
        post_sampling_probs=True,
        cache_prompt=False,
        seed=4294967295,
        top_n_sigma=-1,
        top_p=1.5,
        dry_base=0.5,
    )
    request = asked.runtime.requests[-1]
    assert (request.slot, request.shift, request.cache_prompt) == (2, Shift(keep=-1, discard=4), False)
    assert request.lines == Lines(min_indent=2, max_s=1.5)
    assert request.detail == Detail(making=True, draws=True)
    params = request.params
    assert (params.max_tokens, params.logprobs, params.seed) == (9, 3, -1)
    assert (params.top_n_sigma, params.top_p, params.dry_base) == (0, 1, None), (
        "moved into the range, as llama-server does"
    )


def test_samplers_that_are_left_out_are_off(asked: Served) -> None:
    reply = post(asked, samplers="kt", temperature=0.5, top_k=7, top_p=0.5, repeat_penalty=1.5)
    params = asked.runtime.requests[-1].params
    assert (params.temperature, params.top_k, params.top_p, params.min_p, params.repeat_penalty) == (0.5, 7, 1, 0, 1)
    assert reply["generation_settings"]["samplers"] == ["top_k", "temperature"]
    post(asked, samplers=["penalties", "typical_p", "top-p"])
    assert asked.runtime.requests[-1].params.temperature == 1


def test_biases_may_be_of_tokens_and_of_texts(asked: Served) -> None:
    post(asked, logit_bias=[["ab", -2], [97, -1], [5, False], ["b", -99]])
    assert asked.runtime.requests[-1].params.logit_bias == {97: -3, 98: -100, 5: -100}
    post(asked, logit_bias={"7": 1.5, "a": False})
    assert asked.runtime.requests[-1].params.logit_bias == {7: 1.5, 97: -100}


def test_a_reply_may_be_cut_down_to_the_fields_that_were_asked_for(asked: Served) -> None:
    wanted = ["content", "generation_settings/n_predict", "timings/cache_n", "no/such", "content/x"]
    assert post(asked, response_fields=wanted) == {
        "content": "Hi\n",
        "generation_settings/n_predict": 16,
        "timings/cache_n": 2,
    }
    parts = events(asked.http.post("/completion", json={"prompt": "x", "stream": True, "response_fields": ["stop"]}))
    assert parts[-1] == {"stop": True}
    assert len(parts[0]) > 1, "the events before the last are whole"


def test_several_completions_of_one_prompt_have_seeds_of_their_own(asked: Served) -> None:
    replies = post(asked, n_cmpl=3, seed=10)
    assert [reply["index"] for reply in replies] == [0, 1, 2]
    assert [request.params.seed for request in asked.runtime.requests] == [10, 11, 12]
    parts = events(asked.http.post("/completions", json={"prompt": "x", "n": 2, "stream": True}))
    assert [part["index"] for part in parts if part["stop"]] in ([0, 1], [1, 0])


@pytest.mark.parametrize(
    ("finish", "stop_type", "is_truncated"),
    [
        (Finish("stop", USAGE, Timings(0, 0, 0)), "eos", False),
        (Finish("length", USAGE, Timings(0, 0, 0)), "limit", False),
        (Finish("length", USAGE, Timings(0, 0, 0), is_context_full=True), "limit", True),
        (Finish("stop", Usage(500, 40, 0, 60), Timings(0, 0, 0)), "eos", True),
        (Finish("timeout", USAGE, Timings(0, 0, 0)), "limit", False),
    ],
)
def test_how_an_answer_ended_is_told_in_its_words(
    served: Served, finish: Finish, stop_type: str, is_truncated: bool
) -> None:
    served.runtime.script = [Delta("x", 1, finish)]
    reply = post(served)
    assert (reply["stop_type"], reply["truncated"], reply["stopping_word"]) == (stop_type, is_truncated, "")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "prompt is missing"),
        ({"prompt": []}, "prompt"),
        ({"prompt": "x", "n_predict": -2}, "n_predict must be"),
        ({"prompt": "x", "id_slot": 999}, "id_slot"),
        ({"prompt": "x", "n_cmpl": 0}, "n_cmpl"),
        ({"prompt": "x", "n_probs": 50}, "n_probs"),
        ({"prompt": "x", "samplers": "tk"}, "a fixed order"),
        ({"prompt": "x", "samplers": ["magic"]}, "'magic'"),
        ({"prompt": "x", "min_keep": 5}, "min_keep is not supported"),
        ({"prompt": "x", "lora": [{"id": 0, "scale": 1e9}]}, "scale must be"),
        ({"prompt": "x", "grammar_lazy": True}, "grammar_lazy"),
        ({"prompt": "x", "adaptive_target": 0.5}, "adaptive_target"),
        ({"prompt": "x", "reasoning_budget_tokens": 5}, "reasoning_budget_tokens"),
        (
            {"prompt": {"prompt_string": "x", "multimodal_data": ["aGk="]}},
            "prompt.multimodal_data 1 files",
        ),
        ({"prompt": [1, ["x"]]}, "prompt[1]"),
        ({"prompt": "x", "grammar": "root ::= x", "json_schema": {}}, "send one of them"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name_in_its_shape(served: Served, body: dict[str, Any], words: str) -> None:
    status, kind, message = refused(served, **body)
    assert (status, kind) == (400, "invalid_request_error")
    assert words in message
    assert served.runtime.requests == []


def test_what_has_no_effect_is_taken_and_what_nobody_knows_is_named(asked: Served) -> None:
    body = {"prompt": "x", "verbose": True, "echo": False, "n_cache_reuse": 256, "lora": [], "min_keep": 0, "zeal": 3}
    response = asked.http.post("/completion", json=body)
    assert response.status_code == 200
    assert response.headers["x-localllm-ignored"] == "zeal"


def test_a_prompt_that_is_too_long_has_the_words_that_its_clients_look_for(served: Served) -> None:
    served.runtime.refusal = ContextLengthExceeded("long", prompt_tokens=600, context_length=512)
    response = served.http.post("/completion", json={"prompt": "x", "stream": True})
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "exceed_context_size_error")
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (600, 512)
    assert "request (600 tokens) exceeds the available context size (512 tokens)" in error["message"]


def test_what_goes_wrong_in_a_stream_ends_it_with_an_error_event(served: Served) -> None:
    served.runtime.script = [Delta("Hi", 1), WorkerCrashed("gone")]
    parts = events(served.http.post("/completion", json={"prompt": "x", "stream": True}))
    assert parts[0]["content"] == "Hi"
    assert parts[-1]["error"]["type"] == "unavailable_error"
    assert parts[-1]["error"]["code"] == 503


def test_infill_asks_for_what_stands_in_the_middle(asked: Served) -> None:
    files = [{"text": "int f();", "filename": "f.h"}, {"text": "x"}]
    reply = post(asked, "/infill", prompt="  ret", input_prefix="int a", input_suffix="}", input_extra=files)
    assert reply["content"] == "Hi\n"
    extras = (Extra("int f();", "f.h"), Extra("x", "tmp"))
    assert asked.runtime.requests[-1].infill == Infill(prefix="int a", suffix="}", prompt="  ret", extras=extras)


def test_infill_says_what_is_missing_in_the_request_or_in_the_model(served: Served) -> None:
    assert refused(served, "/infill", input_prefix="a")[0] == 400
    for extra in ({}, {"filename": "ok"}, {"filename": 123, "text": "abc"}, {"text": 456}):
        status, kind, _ = refused(served, "/infill", input_prefix="a", input_suffix="b", input_extra=[extra])
        assert (status, kind) == (400, "invalid_request_error")
    served.runtime.refusal = UnsupportedParameter("Infill is not supported by this model", param="input_suffix")
    assert refused(served, "/infill", input_prefix="a", input_suffix="b") == (
        501,
        "not_supported_error",
        "Infill is not supported by this model",
    )


def test_chats_and_completions_say_how_far_and_how_fast_they_are(asked: Served) -> None:
    for path, question in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
        ("/v1/completions", {"prompt": "Hi"}),
    ):
        body = {"model": "tiny", "stream": True, "return_progress": True, "timings_per_token": True, **question}
        body["stream_options"] = {"include_usage": True}
        text = asked.http.post(path, json=body).text.removesuffix("data: [DONE]\n\n")
        parts = [json.loads(part.removeprefix("data: ")) for part in text.split("\n\n")[:-1]]
        told = [part["prompt_progress"] for part in parts if "prompt_progress" in part]
        assert told[0] == {"total": 7, "cache": 2, "processed": 2, "time_ms": 1}
        assert [each["processed"] for each in told] == [2, 7]
        assert parts[-1]["choices"] == []
        assert parts[-1]["timings"]["predicted_n"] == 3
        assert asked.runtime.requests[-1].detail == Detail(progress=True)
        plain = asked.http.post(path, json={**body, "return_progress": False, "timings_per_token": None}).text
        assert "prompt_progress" not in plain
        assert "timings" not in plain
        assert asked.runtime.requests[-1].detail is None, "who does not ask costs nothing"


def test_a_response_says_how_far_its_prompt_is_while_it_is_in_progress(asked: Served) -> None:
    body = {"model": "tiny", "input": "Hi", "stream": True, "return_progress": True, "timings_per_token": True}
    text = asked.http.post("/v1/responses", json=body).text
    parts = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    told = [part for part in parts if "prompt_progress" in part]
    assert [(part["type"], part["prompt_progress"]["processed"]) for part in told] == [
        ("response.in_progress", 2),
        ("response.in_progress", 7),
    ]
    assert [part["sequence_number"] for part in parts] == list(range(len(parts)))
    deltas = [part for part in parts if part["type"] == "response.output_text.delta"]
    assert deltas
    assert all("predicted_per_second" in part["timings"] for part in deltas)
    assert parts[-1]["timings"]["predicted_n"] == 3
