"""`localllm serve` as people, process managers and desktop apps use it."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm.client.api import Client
from localllm.client.sidecar import Sidecar
from localllm.errors import ContextLengthExceeded, ModelNotFound
from localllm.types import Message, SamplingParams
from tests.later import openai

GREEDY = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)


@pytest.fixture(scope="module")
def sidecar(home: Path, tiny_chat_model: Path) -> Iterator[Sidecar]:
    with Sidecar.start([str(tiny_chat_model), "--threads=1", "--slots=2", "--log-level=debug"]) as sidecar:
        yield sidecar
    assert sidecar.process.returncode == 0


def test_a_sidecar_answers_the_official_client_streamed_and_whole(sidecar: Sidecar) -> None:
    with openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client:
        model = client.models.list().data[0]
        assert model.id == sidecar.ready.model == "tiny-chat"
        whole = client.chat.completions.create(
            model=model.id, messages=[{"role": "user", "content": "Hi"}], temperature=0, max_tokens=8
        )
        chunks = client.chat.completions.create(
            model=model.id,
            messages=[{"role": "user", "content": "Hi"}],
            temperature=0,
            max_tokens=8,
            stream=True,
            stream_options={"include_usage": True},
        )
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert whole.choices[0].message.content == "".join(pieces) != ""
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 8
    assert whole.choices[0].finish_reason == "length"


def test_a_sidecar_wants_its_token(sidecar: Sidecar) -> None:
    assert httpx.get(f"{sidecar.url}/health").status_code == 200
    assert httpx.get(f"{sidecar.url}/v1/models").status_code == 401


def test_errors_of_the_worker_reach_the_client_as_themselves(sidecar: Sidecar) -> None:
    with Client(sidecar.url, sidecar.token) as client:
        with pytest.raises(ContextLengthExceeded, match="512"):
            list(client.complete("tiny-chat", "word " * 2000, GREEDY))
        with pytest.raises(ModelNotFound):
            list(client.chat("hf.co/someone/other:Q4_0", [Message("user", "Hi")], GREEDY))
        assert sum(1 for _ in client.complete("tiny-chat", "Hi", GREEDY)) > 1


def test_a_prompt_of_tokens_is_completed(sidecar: Sidecar) -> None:
    with openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client:
        answer = client.completions.create(model="tiny-chat", prompt=[5, 6, 7], max_tokens=3, temperature=0)
        with pytest.raises(openai.BadRequestError):
            client.completions.create(model="tiny-chat", prompt=[5, 99_999], max_tokens=3)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 3


def test_biases_and_penalties_of_the_official_client_reach_the_sampler(sidecar: Sidecar) -> None:
    with openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client:

        def complete(**params: Any) -> str:
            answer: Any = client.completions.create(
                model="tiny-chat", prompt=[5, 6, 7], max_tokens=6, temperature=0, **params
            )
            return str(answer.choices[0].text)

        only = complete(logit_bias={"80": 100})
        assert only == only[0] * len(only) != ""
        other = complete(logit_bias={"80": 100, "81": 99}, frequency_penalty=2)
        assert other.replace(only[0], "") != "", "a repeated token lets the next one pass"
        with pytest.raises(openai.BadRequestError, match=r"logit_bias names token 99999"):
            complete(logit_bias={"99999": 1})


def test_log_probabilities_stream_as_they_come_whole_in_both_apis(sidecar: Sidecar) -> None:
    with openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client:
        chat: Any = partial(
            client.chat.completions.create,
            model="tiny-chat",
            messages=[{"role": "user", "content": "Hi"}],
            temperature=0,
            max_tokens=6,
            logprobs=True,
            top_logprobs=3,
        )
        chat()  # so that both find as much of the prompt in the cache: chunks of other sizes change last digits
        whole = chat().choices[0]
        streamed = [choice.logprobs for chunk in chat(stream=True) for choice in chunk.choices if choice.logprobs]
        content = whole.logprobs.content
        assert [token for part in streamed for token in part.content] == content
        assert len(content) == 6
        assert b"".join(bytes(token.bytes) for token in content).decode("utf-8", "replace") == whole.message.content
        for token in content:
            assert len(token.top_logprobs) == 3
            assert token.top_logprobs[0].token == token.token, "greedy takes the likeliest"
            assert sum(math.exp(top.logprob) for top in token.top_logprobs) < 1

        complete: Any = partial(
            client.completions.create, model="tiny-chat", prompt=[5, 6], temperature=0, max_tokens=6
        )
        text = complete(logprobs=2).choices[0]
        assert len(text.logprobs.tokens) == len(text.logprobs.token_logprobs) == 6
        parts = [choice for chunk in complete(logprobs=2, stream=True) for choice in chunk.choices if choice.logprobs]
        offsets = [offset for part in parts for offset in part.logprobs.text_offset]
        assert offsets == text.logprobs.text_offset
        assert complete().choices[0].logprobs is None


def test_several_answers_to_one_prompt_are_those_of_their_seeds(sidecar: Sidecar) -> None:
    with openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client:
        complete: Any = partial(client.completions.create, model="tiny-chat", prompt=[5, 6, 7] * 60, max_tokens=8)
        several = complete(n=3, seed=40)
        alone = [complete(seed=seed).choices[0].text for seed in (40, 41, 42)]
        assert [choice.text for choice in several.choices] == alone
        assert len(set(alone)) == 3
        assert several.usage.prompt_tokens == 180
        assert several.usage.completion_tokens == 24
        chosen = complete(best_of=3, seed=40, logprobs=0).choices[0]
        every = complete(n=3, seed=40, logprobs=0).choices
        assert chosen.text == max(every, key=lambda choice: sum(choice.logprobs.token_logprobs)).text


def test_the_ways_to_end_an_answer_and_to_avoid_repeats_reach_the_engine(sidecar: Sidecar) -> None:
    with openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client:

        def tokens(**extra: Any) -> list[str]:
            answer = client.completions.create(
                model="tiny-chat", prompt=[5, 6], temperature=0, max_tokens=12, logprobs=0, extra_body=extra
            )
            assert answer.choices[0].logprobs is not None
            return answer.choices[0].logprobs.tokens or []

        plain = tokens()
        favoured = tokens(logit_bias={"40": 100})
        assert len(set(favoured)) == 1
        assert tokens(logit_bias={"40": 100}, stop_token_ids=[40]) == []
        assert len(tokens(logit_bias={"40": 100}, stop_token_ids=[40], min_tokens=5)) == 5, "until then it is not drawn"
        assert len(set(tokens(logit_bias={"40": 5}, dry_multiplier=100))) > 1
        assert tokens(mirostat=2, seed=1) == plain, "a temperature of 0 is greedy whatever else is asked for"
        with pytest.raises(openai.BadRequestError, match="stop_token_ids names token 99999"):
            tokens(stop_token_ids=[99999])


def test_a_request_that_is_not_begun_in_its_time_is_a_504(sidecar: Sidecar) -> None:
    with openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client:
        with pytest.raises(openai.InternalServerError, match="timeout") as caught:
            client.completions.create(
                model="tiny-chat", prompt=[5] * 200, n=40, max_tokens=200, extra_body={"timeout": 0.001}
            )
        assert (caught.value.status_code, caught.value.code) == (504, "timeout")
        client.completions.create(model="tiny-chat", prompt=[5], max_tokens=2, extra_body={"timeout": 60})


def test_the_next_turn_of_a_chat_is_mostly_cached_and_says_so(sidecar: Sidecar) -> None:
    with openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client:

        def turn(prompt: list[int]) -> tuple[str, int]:
            answer = client.completions.create(model="tiny-chat", prompt=prompt, max_tokens=8, temperature=0)
            assert answer.usage is not None
            assert answer.usage.prompt_tokens_details is not None
            return answer.choices[0].text, answer.usage.prompt_tokens_details.cached_tokens or 0

        prompt = [20 + number % 60 for number in range(100)]
        first, cached = turn(prompt)
        assert cached < 3
        assert turn(prompt) == (first, 99)
        assert turn([*prompt, 30, 31])[1] >= 100


def test_tokens_and_templates_over_http_are_what_a_chat_is_made_of(sidecar: Sidecar) -> None:
    headers = {"authorization": f"Bearer {sidecar.token}"}
    with httpx.Client(base_url=sidecar.url, headers=headers) as http:

        def post(path: str, **body: Any) -> Any:
            response = http.post(path, json=body)
            assert response.status_code == 200, response.text
            return response.json()

        for text in ("Hi there", "naïve ✓ 日本", "a\nb\t", "<|im_end|>"):
            assert post("/detokenize", tokens=post("/tokenize", content=text)["tokens"])["content"] == text
        messages = [{"role": "user", "content": "Hi"}]
        prompt = post("/apply-template", messages=messages)["prompt"]
        assert prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        tokens = post("/tokenize", content=prompt, add_special=True)["tokens"]
        chat = post("/v1/chat/completions", model="tiny-chat", messages=messages, max_tokens=2)
        assert chat["usage"]["prompt_tokens"] == len(tokens)
        plain = post("/v1/completions", model="tiny-chat", prompt=tokens, max_tokens=2, echo=True, cache_prompt=False)
        assert plain["choices"][0]["text"].startswith(post("/detokenize", tokens=tokens)["content"])
        assert plain["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        again = post("/v1/completions", model="tiny-chat", prompt=tokens, max_tokens=2)
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == len(tokens) - 1


def test_a_model_without_the_tokens_for_it_refuses_to_fill_in_the_middle(sidecar: Sidecar) -> None:
    with (
        openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client,
        pytest.raises(openai.BadRequestError) as caught,
    ):
        client.completions.create(model="tiny-chat", prompt="a", suffix="b", max_tokens=2)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "suffix")


def test_slots_and_metrics_tell_what_was_really_computed(sidecar: Sidecar) -> None:
    headers = {"authorization": f"Bearer {sidecar.token}"}
    with httpx.Client(base_url=sidecar.url, headers=headers) as http:

        def counted(name: str) -> float:
            series = rf'^localllm_{name}{{(?:key="sidecar",)?model="tiny-chat"}} (\S+)$'
            found = re.search(series, http.get("/metrics").text, re.MULTILINE)
            return float(found[1]) if found else 0.0

        names = ["prompt_tokens_total", "completion_tokens_total", "time_to_first_token_seconds_count"]
        names += ["key_prompt_tokens_total", "key_completion_tokens_total"]
        before = [counted(name) for name in names]
        body = {"model": "tiny-chat", "prompt": [9, 8, 7, 6], "max_tokens": 3, "ignore_eos": True}
        assert http.post("/v1/completions", json=body).status_code == 200
        assert [counted(name) - was for name, was in zip(names, before, strict=True)] == [4, 3, 1, 4, 3]
        slots = http.get("/slots").json()
        assert [slot["is_processing"] for slot in slots] == [False, False]
        assert 6 in [slot["kv_tokens"] for slot in slots], "the last token drawn is never computed"
        assert counted("kv_tokens") == sum(slot["kv_tokens"] for slot in slots)


def test_the_official_client_for_node_covers_each_endpoint(sidecar: Sidecar) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    if subprocess.run([node, "-e", 'require("openai")'], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the openai package of npm; NODE_PATH names the folder that holds it")
    script = Path(__file__).with_name("node_client.js")
    done = subprocess.run(
        [node, str(script), f"{sidecar.url}/v1", sidecar.token, "tiny-chat"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "all is well\n", done.stderr
