"""One request that asks for many answers: its cost is known before any of them is made."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from localllm.errors import QueueFull
from localllm.runtime.runtime import Runtime
from localllm.server.apis.openai.requests import CompletionRequest, parse_completion
from localllm.settings.config import Settings
from localllm.types import GenerationRequest, SamplingParams
from localllm.types.load_options import LoadOptions
from tests.server.conftest import Served, running

BIASES = {str(token): 1.0 for token in range(1024)}


def _parsed(**fields: object) -> CompletionRequest:
    return parse_completion(msgspec.json.encode({"model": "tiny", "prompt": "x"} | fields))[0]


@pytest.mark.parametrize(
    ("fields", "param", "number"),
    [
        ({"prompt": ["x"] * 2048, "n": 128}, "n", 262_144),
        ({"prompt": ["x"] * 2048, "n": 128, "logit_bias": BIASES}, "n", 262_144),
        ({"prompt": [[1]] * 2048}, "prompt", 2048),
        ({"prompt": ["x"] * 3, "n": 1, "best_of": 128}, "best_of", 384),
        ({"prompt": ["x"] * 2048, "n": 128, "stream": True, "echo": True}, "n", 262_144),
    ],
)
def test_more_answers_than_an_empty_queue_has_room_for_are_refused_before_any_is_made(
    served: Served, fields: dict[str, object], param: str, number: int
) -> None:
    response = served.http.post("/v1/completions", json={"model": "tiny", "prompt": "x"} | fields)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, "invalid_parameter", param)
    assert f"are {number} answers, and this model takes at most 260 at a time" in error["message"]
    assert "--max-waiting" in error["message"]
    assert served.runtime.requests == []


def test_a_model_that_is_not_loaded_yet_has_the_slots_of_the_settings() -> None:
    with running(Settings(port=0, grace_s=0.1, slots=2, max_waiting=3)) as served:
        body = {"model": "elsewhere", "prompt": ["x"] * 6}
        assert "at most 5 at a time" in served.http.post("/v1/completions", json=body).json()["error"]["message"]
        assert served.http.post("/v1/completions", json=body | {"prompt": ["x"] * 5}).status_code == 404
        assert served.http.post("/v1/completions", json=body | {"model": "tiny"}).status_code == 200, "4 slots"


def test_answers_share_their_parameters_and_what_differs_is_the_seed() -> None:
    plain = _parsed(prompt=["x", "y"], n=3, logit_bias=BIASES).generations(most=6)
    assert len({id(request.params) for request in plain}) == 1
    seeded = _parsed(prompt=["x", "y"], n=3, seed=7, logit_bias=BIASES).generations(most=6)
    assert [request.params.seed for request in seeded] == [7, 8, 9] * 2
    assert len({id(request.params.logit_bias) for request in seeded}) == 1
    assert [request.params for request in seeded] == [
        msgspec.structs.replace(seeded[0].params, seed=seed) for seed in [7, 8, 9] * 2
    ]


def test_several_requests_find_room_together_or_nothing_is_sent(tiny_model: Path) -> None:
    async def scenario() -> None:
        runtime = Runtime(Settings(max_waiting=2))
        try:
            model = await runtime.load(tiny_model, LoadOptions(ctx=64, slots=1))
            one = GenerationRequest(prompt="x", params=SamplingParams(max_tokens=1))
            with pytest.raises(QueueFull, match=r"0 requests are waiting already, of 2 that may .* no room for 4 more"):
                await runtime.submit(model.id, [one] * 4)
            assert runtime.running()[0].num_requests == 0
            for answer in await runtime.submit(model.id, [one] * 3):
                await answer.aclose()
        finally:
            await runtime.aclose()

    asyncio.run(scenario())
