"""Values that llama.cpp's, vLLM's and OpenAI's clients send for fields we know: honoured as the original means them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localllm.errors import InvalidParameter
from localllm.server.openai.requests import parse_chat, parse_completion
from localllm.server.responses.requests import parse_response
from localllm.types import SamplingParams
from localllm.worker.prepare import resolve_sampling, with_defaults
from tests.server.conftest import Served

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
TEXT = {"model": "tiny", "prompt": "Hi"}


def params_of(**fields: Any) -> SamplingParams:
    (first, *_) = parse_completion(json.dumps({**TEXT, **fields}).encode())[0].generations()
    return first.params


def seeds_of(seed: int, n: int) -> list[int | None]:
    made = parse_chat(json.dumps({**CHAT, "seed": seed, "n": n}).encode())[0].generations()
    return [request.params.seed for request in made]


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**63 - 1, -2, -(2**63)])
def test_every_seed_of_64_bits_is_a_seed_of_its_own(served: Served, seed: int) -> None:
    assert served.http.post("/v1/chat/completions", json={**CHAT, "seed": seed}).status_code == 200
    assert served.http.post("/v1/responses", json={"model": "tiny", "input": "Hi", "seed": seed}).status_code == 200
    assert [params.seed for _, _, params in served.runtime.asked] == [seed, seed]
    assert resolve_sampling(SamplingParams(seed=seed), {}).seed == seed % 2**64


def test_the_seed_minus_one_is_a_random_one_whatever_the_model_says() -> None:
    asked = with_defaults(params_of(seed=-1), SamplingParams(seed=42))
    assert len({resolve_sampling(asked, {}).seed for _ in range(8)}) > 1, "once in 2**224"
    assert resolve_sampling(with_defaults(params_of(), SamplingParams(seed=42)), {}).seed == 42


def test_several_answers_have_the_seeds_that_follow_and_none_becomes_random() -> None:
    assert seeds_of(7, 3) == [7, 8, 9]
    assert seeds_of(-1, 2) == [-1, -1]
    assert seeds_of(-3, 4) == [-3, -2, 0, 1]
    assert seeds_of(2**63 - 1, 2) == [2**63 - 1, -(2**63)]
    assert seeds_of(2**32 - 1, 2) == [2**32 - 1, 2**32]


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens", "n_predict"])
@pytest.mark.parametrize("limit", [-1, 0, 5])
def test_a_limit_of_minus_one_is_none_and_of_zero_is_zero(field: str, limit: int) -> None:
    (request,) = parse_chat(json.dumps({**CHAT, field: limit}).encode())[0].generations()
    assert request.params.max_tokens == limit


def test_the_responses_api_takes_the_same_limits() -> None:
    for limit in (-1, 0, 5):
        body = parse_response(json.dumps({"model": "m", "input": "x", "max_output_tokens": limit}).encode())[0]
        assert body.generation(body.items()).params.max_tokens == limit


def test_limits_that_differ_are_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="differ") as caught:
        parse_chat(json.dumps({**CHAT, "n_predict": 3, "max_tokens": 4}).encode())[0].generations()
    assert caught.value.param == "max_tokens"
    parse_chat(json.dumps({**CHAT, "n_predict": 4, "max_tokens": 4, "max_completion_tokens": 4}).encode())


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"top_k": -1}, {"top_k": -1}),
        ({"top_k": 0}, {"top_k": 0}),
        ({"stop": ""}, {}),
        ({"stop": []}, {}),
        ({"stop": ["", "END"]}, {"stop": ("END",)}),
        ({"logit_bias": [[15, -2.5], [3, False]]}, {"logit_bias": {15: -2.5, 3: -100.0}}),
        ({"logit_bias": {"15": False}}, {"logit_bias": {15: -100.0}}),
        ({"logit_bias": []}, {"logit_bias": {}}),
        ({"logit_bias": None, "stop": None, "temperature": None, "max_tokens": None, "best_of": None}, {}),
        ({"stream": None, "n": None, "echo": None, "suffix": None, "logprobs": None, "min_tokens": None}, {}),
        (
            {"top_p": 1, "min_p": 0, "presence_penalty": 0, "repeat_penalty": 1, "repeat_last_n": 0, "user": "me"},
            {"top_p": 1.0, "min_p": 0.0, "presence_penalty": 0.0, "repeat_penalty": 1.0, "repeat_last_n": 0},
        ),
        ({"logprobs": 0}, {"logprobs": 0}),
        ({"n_probs": 0}, {}),
    ],
)
def test_what_a_client_sends_means_what_it_means_there(given: dict[str, Any], meant: dict[str, Any]) -> None:
    assert params_of(**given) == SamplingParams(**meant)


def test_a_top_k_of_minus_one_is_off() -> None:
    assert resolve_sampling(SamplingParams(top_k=-1), {"top_k": 40}).top_k == 0


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"n_probs": 3}, "n_probs"),
        ({"prompt_logprobs": 3}, "prompt_logprobs"),
        ({"logit_bias": [["word", 1]]}, "logit_bias"),
        ({"logit_bias": [[3, True]]}, "logit_bias.3"),
        ({"logit_bias": {"3": True}}, "logit_bias.3"),
        ({"logit_bias": [[-3, 1]]}, "logit_bias"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(served: Served, given: dict[str, Any], param: str) -> None:
    response = served.http.post("/v1/completions", json={**TEXT, **given})
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith(param)
