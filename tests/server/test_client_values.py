"""Values that llama.cpp's, vLLM's and OpenAI's clients send for fields we know: honoured as the original means them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localllm.types import SamplingParams
from localllm.worker.prompts.sampling import resolve_sampling, with_defaults
from tests.server.conftest import Served

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
TEXT: dict[str, Any] = {"model": "tiny", "prompt": "Hi"}
RESPONSE: dict[str, Any] = {"model": "tiny", "input": "Hi"}


def params_of(served: Served, path: str = "/v1/completions", **fields: Any) -> list[SamplingParams]:
    """What the runtime is asked with, one for each answer."""
    bodies: dict[str, dict[str, Any]] = {
        "/v1/completions": TEXT,
        "/v1/chat/completions": CHAT,
        "/v1/responses": RESPONSE,
    }
    body = bodies[path]
    response = served.http.post(path, json={**body, **fields})
    assert response.status_code == 200, response.text
    assert "x-localllm-ignored" not in response.headers
    return [params for _, _, params in served.runtime.asked]


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**63 - 1, -2, -(2**63)])
def test_every_seed_of_64_bits_is_a_seed_of_its_own(served: Served, seed: int) -> None:
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/responses"):
        assert params_of(served, path, seed=seed)[-1].seed == seed
    assert resolve_sampling(SamplingParams(seed=seed), {}).seed == seed % 2**64


def test_the_seed_minus_one_is_a_random_one_whatever_the_model_says(served: Served) -> None:
    asked = with_defaults(params_of(served, seed=-1)[0], SamplingParams(seed=42))
    assert len({resolve_sampling(asked, {}).seed for _ in range(8)}) > 1, "once in 2**224"
    assert resolve_sampling(with_defaults(params_of(served)[-1], SamplingParams(seed=42)), {}).seed == 42


@pytest.mark.parametrize(
    "seeds", [(7, 8, 9), (-1, -1), (-3, -2, 0, 1), (2**63 - 1, -(2**63)), (2**32 - 1, 2**32), (None, None)]
)
def test_several_answers_have_the_seeds_that_follow_and_none_becomes_random(
    served: Served, seeds: tuple[int | None, ...]
) -> None:
    asked = params_of(served, "/v1/chat/completions", seed=seeds[0], n=len(seeds))
    assert tuple(params.seed for params in asked) == seeds


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/chat/completions", "max_tokens"),
        ("/v1/chat/completions", "max_completion_tokens"),
        ("/v1/chat/completions", "n_predict"),
        ("/v1/completions", "max_tokens"),
        ("/v1/completions", "n_predict"),
        ("/v1/responses", "max_output_tokens"),
    ],
)
@pytest.mark.parametrize("limit", [-1, 0, 5])
def test_a_limit_of_minus_one_is_none_and_of_zero_is_zero(served: Served, path: str, field: str, limit: int) -> None:
    assert params_of(served, path, **{field: limit})[0].max_tokens == limit


def test_limits_that_differ_are_refused_by_name_and_equal_ones_are_one(served: Served) -> None:
    error = served.http.post("/v1/chat/completions", json={**CHAT, "n_predict": 3, "max_tokens": 4}).json()["error"]
    assert error["param"] == "max_tokens"
    assert "max_tokens and n_predict differ" in error["message"]
    asked = params_of(served, "/v1/chat/completions", n_predict=4, max_tokens=4, max_completion_tokens=4)
    assert asked[0].max_tokens == 4


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
def test_what_a_client_sends_means_what_it_means_there(
    served: Served, given: dict[str, Any], meant: dict[str, Any]
) -> None:
    assert params_of(served, **given) == [SamplingParams(**meant)]


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


@pytest.mark.parametrize(
    ("path", "body", "limit"),
    [
        ("/v1/completions", {"prompt": "x", "max_tokens": 8.0, "seed": 1e3}, 8),
        ("/v1/completions", {"prompt": [1.0, 2.0], "max_tokens": 8}, 8),
        ("/v1/chat/completions", {"messages": CHAT["messages"], "max_tokens": 8.0, "logit_bias": {"1": 2.0}}, 8),
        ("/v1/responses", {"input": "x", "max_output_tokens": 8.0}, 8),
        ("/v1/messages", {"messages": CHAT["messages"], "max_tokens": 8.0}, 8),
        ("/v1/messages", {"messages": CHAT["messages"], "max_tokens": 2e3,
                          "thinking": {"type": "enabled", "budget_tokens": 1024.0}}, 2000),
        ("/completion", {"prompt": "x", "n_predict": 8.0, "top_k": 4.0}, 8),
        ("/api/chat", {"messages": CHAT["messages"], "options": {"num_predict": 8.0, "num_ctx": 512.0}}, 8),
        ("/api/generate", {"prompt": "x", "options": {"num_predict": 8.0, "seed": -1.0}, "context": [1.0]}, 8),
    ],
)  # fmt: skip
def test_a_whole_number_may_be_written_as_a_float(served: Served, path: str, body: dict[str, Any], limit: int) -> None:
    """Of languages with one kind of number."""
    response = served.http.post(path, json={"model": "tiny", "stream": False, **body})
    assert response.status_code == 200, response.text
    assert [params.max_tokens for _, _, params in served.runtime.asked] == [limit]


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (
            "/v1/completions",
            {"prompt": "x", "max_tokens": 8.5},
            "max_tokens must be a whole number or null, got a fraction",
        ),
        ("/v1/completions", {"prompt": "x", "max_tokens": 1e400}, "max_tokens is not valid: number out of range"),
        ("/v1/completions", {"prompt": "x", "temperature": "1"}, "temperature must be a number or null, got a string"),
        ("/api/chat", {"messages": 1}, "messages must be an array or null, got a whole number"),
        (
            "/v1/messages",
            {"messages": [{"role": 1}], "max_tokens": 1},
            "messages[0].role must be a string, got a whole number",
        ),
        ("/v1/chat/completions", {"messages": [1]}, "messages[0] must be an object, got a whole number"),
        ("/v1/responses", {"input": True}, "input must be a string, an array or null, got true or false"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_in_jsons_words(
    served: Served, path: str, body: dict[str, Any], message: str
) -> None:
    content = json.dumps({"model": "tiny", **body}).replace("Infinity", "1e400").encode()
    error = served.http.post(path, content=content).json()["error"]
    assert (error if isinstance(error, str) else error["message"]) == message
