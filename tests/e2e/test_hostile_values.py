"""Values that fit into no message, through the whole house: one request fails with its reason, the next is answered."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm import LLM, SamplingParams
from localllm.client.sidecar import Sidecar
from localllm.errors import InvalidParameter

HUGE = 99999999999999999999999
HALF = "\ud800"
GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)


@pytest.fixture(scope="module")
def http(home: Path, tiny_chat_model: Path) -> Iterator[httpx.Client]:
    with (
        Sidecar.start([str(tiny_chat_model), "--threads=1", "--slots=2", "--worker-timeout-s=5"]) as sidecar,
        httpx.Client(
            base_url=sidecar.url, headers={"Authorization": f"Bearer {sidecar.token}"}, timeout=60, trust_env=False
        ) as http,
    ):
        yield http


@pytest.fixture(scope="module")
def llm(tiny_chat_model: Path) -> Iterator[LLM]:
    with LLM(tiny_chat_model, slots=2, threads=1) as llm:
        yield llm


COMPLETION = {"model": "tiny-chat", "prompt": "Hello", "max_tokens": 4, "temperature": 0}
CHAT = {"model": "tiny-chat", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}


def is_answered(http: httpx.Client) -> bool:
    return bool(http.post("/v1/completions", json=COMPLETION).json()["choices"])


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {**COMPLETION, "stop_token_ids": [HUGE]}, "stop_token_ids[...]"),
        ("/v1/completions", {**COMPLETION, "stop_token_ids": [-1]}, "stop_token_ids[...]"),
        ("/v1/completions", {**COMPLETION, "stop_token_ids": [2**31]}, "stop_token_ids[...]"),
        ("/v1/completions", {**COMPLETION, "logit_bias": {str(HUGE): 1}}, f"logit_bias.{HUGE}"),
        ("/v1/completions", {**COMPLETION, "logit_bias": {"9" * 5000: 1}}, f"logit_bias.{'9' * 40}"),
        ("/v1/completions", {**COMPLETION, "logit_bias": {"-1": 1}}, "logit_bias.-1"),
        ("/v1/completions", {**COMPLETION, "prompt": [2**64]}, "prompt[...]"),
        ("/v1/completions", {**COMPLETION, "prompt": [[1, 2**64]]}, "prompt[...][...]"),
        ("/v1/completions", {**COMPLETION, "prompt": [-1]}, "prompt[...]"),
        ("/v1/completions", {**COMPLETION, "seed": HUGE}, "seed"),
        ("/v1/completions", {**COMPLETION, "max_tokens": HUGE}, "max_tokens"),
        ("/v1/completions", {**COMPLETION, "n": HUGE}, "n"),
        ("/v1/completions", {**COMPLETION, "best_of": HUGE}, "best_of"),
        ("/v1/completions", {**COMPLETION, "top_k": HUGE}, "top_k"),
        ("/v1/completions", {**COMPLETION, "priority": HUGE}, "priority"),
        ("/v1/completions", {**COMPLETION, "timeout": 1e300}, "timeout"),
        ("/v1/completions", {**COMPLETION, "min_tokens": HUGE}, "min_tokens"),
        ("/v1/completions", {**COMPLETION, "repeat_last_n": HUGE}, "repeat_last_n"),
        ("/v1/completions", {**COMPLETION, "dry_multiplier": 1, "dry_allowed_length": HUGE}, "dry_allowed_length"),
        ("/v1/chat/completions", {**CHAT, "stop_token_ids": [HUGE]}, "stop_token_ids[...]"),
        ("/v1/chat/completions", {**CHAT, "logit_bias": {str(HUGE): 1}}, f"logit_bias.{HUGE}"),
        ("/v1/responses", {"model": "tiny-chat", "input": "x", "max_output_tokens": HUGE}, "max_output_tokens"),
        ("/v1/embeddings", {"model": "tiny-chat", "input": [HUGE]}, "input[...]"),
        ("/v1/embeddings", {"model": "tiny-chat", "input": [[1, HUGE]]}, "input[...][...]"),
        ("/v1/embeddings", {"model": "tiny-chat", "input": "x", "dimensions": HUGE}, "dimensions"),
        ("/detokenize", {"tokens": [HUGE]}, "tokens[...]"),
        ("/detokenize", {"tokens": [2**31]}, "tokens[...]"),
    ],
)
def test_a_number_that_no_field_holds_is_a_400_that_names_it(
    http: httpx.Client, path: str, body: dict[str, Any], param: str
) -> None:
    reply = http.post(path, json=body)
    error = reply.json()["error"]
    code = error.get("reason", error["code"])  # llama-server's own paths have the status for a code
    assert (reply.status_code, code) == (400, "invalid_parameter"), error
    assert error["param"] is not None
    assert error["param"].split("[")[0] == param.split("[")[0]
    assert len(error["message"]) < 300
    assert is_answered(http)


@pytest.mark.parametrize("path", ["/tokenize", "/v1/completions"])
def test_half_a_surrogate_pair_in_json_is_replaced_and_that_is_said(http: httpx.Client, path: str) -> None:
    field = "content" if path == "/tokenize" else "prompt"
    content = b'{"model": "tiny-chat", "%s": "\\ud800"}' % field.encode()
    reply = http.post(path, content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code == 200, reply.text
    assert reply.headers["x-localllm-messages"] == "surrogates-replaced"
    assert is_answered(http)


def test_a_stopped_process_is_replaced_and_nobody_notices_but_by_the_time(http: httpx.Client) -> None:
    pid = http.get("/localllm/ps").json()["models"][0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert is_answered(http)
    assert http.get("/localllm/ps").json()["models"][0]["pid"] != pid


@pytest.mark.parametrize(
    "ask",
    [
        lambda llm: llm.complete("x", params=SamplingParams(stop=(HALF,))),
        lambda llm: llm.tokenize(HALF),
        lambda llm: llm.embed([HALF]),
        lambda llm: llm.embed([[2**64]]),
        lambda llm: llm.embed([[-1]]),
        lambda llm: llm.embed(["x"], dimensions=2**64),
        lambda llm: llm.rerank(HALF, ["x"]),
        lambda llm: llm.rerank("x", [HALF]),
        lambda llm: llm.complete(5),
        lambda llm: llm.complete("x", params=SamplingParams(stop_token_ids=(2**80,))),
        lambda llm: llm.complete("x", params=SamplingParams(stop_token_ids=(1.5,))),  # type: ignore[arg-type]
        lambda llm: llm.complete("x", params=SamplingParams(logit_bias={10**5000: 1.0})),
        lambda llm: llm.complete("x", params=SamplingParams(logit_bias={1: float("nan")})),
        lambda llm: llm.complete("x", params=SamplingParams(seed=10**5000)),
        lambda llm: llm.complete("x", params=SamplingParams(temperature=float("inf"))),
        lambda llm: llm.complete("x", params=SamplingParams(max_tokens="5")),  # type: ignore[arg-type]
    ],
)
def test_python_code_that_sends_what_fits_nowhere_is_told(llm: LLM, ask: Any) -> None:
    with pytest.raises(InvalidParameter) as caught:
        ask(llm)
    assert len(str(caught.value)) < 300
    assert llm.complete("Hello", params=GREEDY).text
