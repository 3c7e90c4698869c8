"""llama-server's completions with the real llama.cpp: slots, probabilities, endings and the middle of a text."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm.client.sidecar import Sidecar
from tests.homes import share_findings
from tests.models.maker import write_llama
from tests.models.tokenizers import CHATML, bpe

FIM = {"fim_pre": 300, "fim_suf": 301, "fim_mid": 302}
LONG = "One two three four five six seven eight nine ten. " * 8


@pytest.fixture(scope="module")
def http(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A model of random weights that knows how to fill in the middle; two slots."""
    folder = tmp_path_factory.mktemp("completions")
    share_findings(home, folder)
    vocabulary = bpe()
    tokenizer = dataclasses.replace(vocabulary, special={**vocabulary.special, **FIM})
    model = write_llama(folder / "fim.gguf", tokenizer=tokenizer, chat_template=CHATML)
    args = [str(model), "--home", str(folder), "--slots", "2", "--threads", "1"]
    with Sidecar.start(args) as sidecar:
        headers = {"x-api-key": sidecar.token}
        with httpx.Client(base_url=sidecar.url, headers=headers, timeout=60, trust_env=False) as client:
            yield client


def post(http: httpx.Client, path: str = "/completion", **body: Any) -> Any:
    response = http.post(path, json={"n_predict": 8, "temperature": 0, **body})
    assert response.status_code == 200, response.text
    return response.json()


def stream(http: httpx.Client, **body: Any) -> list[Any]:
    text = http.post("/completion", json={"n_predict": 8, "temperature": 0, "stream": True, **body}).text
    return [json.loads(part.removeprefix("data: ")) for part in text.split("\n\n")[:-1]]


def test_a_stream_adds_up_to_the_whole_reply_and_says_how_far_the_prompt_was(http: httpx.Client) -> None:
    body: dict[str, Any] = {"prompt": LONG, "cache_prompt": False, "return_tokens": True, "ignore_eos": True}
    whole = post(http, **body)
    parts = stream(http, **body, return_progress=True)
    assert "".join(part["content"] for part in parts) == whole["content"]
    assert [token for part in parts for token in part["tokens"]] == whole["tokens"]
    told = [part["prompt_progress"] for part in parts if "prompt_progress" in part]
    assert told[0]["processed"] == told[0]["cache"] == 0
    assert told[-1]["processed"] == told[-1]["total"] == whole["tokens_evaluated"]
    assert whole["prompt"].endswith(LONG)
    assert whole["timings"]["predicted_n"] == 8
    assert (whole["stop_type"], parts[-1]["stop_type"]) == ("limit", "limit")


def test_a_wanted_slot_is_the_one_and_keeps_what_it_computed(http: httpx.Client) -> None:
    for slot in (1, 0, 1):
        assert post(http, prompt=f"Slot {slot}. {LONG}", id_slot=slot)["id_slot"] == slot
    assert post(http, prompt=f"Slot 1. {LONG}", id_slot=1)["timings"]["cache_n"] > 20
    refused = http.post("/completion", json={"prompt": "x", "id_slot": 2})
    assert refused.status_code == 400
    assert "id_slot" in refused.json()["error"]["message"]


def test_probabilities_behind_the_filters_are_those_of_what_they_leave(http: httpx.Client) -> None:
    body: dict[str, Any] = {
        "prompt": "Hello",
        "n_probs": 5,
        "n_predict": 4,
        "seed": 3,
        "temperature": 1,
        "top_k": 3,
        "min_p": 0,
    }
    before = post(http, **body, top_p=1)["completion_probabilities"]
    behind = post(http, **body, top_p=1, post_sampling_probs=True)["completion_probabilities"]
    assert [each["id"] for each in before] == [each["id"] for each in behind]
    for one, other in zip(before, behind, strict=True):
        assert len(one["top_logprobs"]) == 5
        assert len(other["top_probs"]) == 3
        assert sum(each["prob"] for each in other["top_probs"]) == pytest.approx(1)
        kept = [math.exp(each["logprob"]) for each in one["top_logprobs"][:3]]
        expected = [each / sum(kept) for each in kept]
        assert [each["prob"] for each in other["top_probs"]] == pytest.approx(expected, rel=1e-3)


def test_with_ignore_eos_no_end_token_ever_comes(http: httpx.Client) -> None:
    reply = post(http, prompt="Hello", ignore_eos=True, n_predict=200, temperature=5, return_tokens=True, seed=1)
    never = {bias["token"] for bias in reply["generation_settings"]["logit_bias"] if bias["bias"] is None}
    assert never
    assert not never & set(reply["tokens"])
    assert len(reply["tokens"]) == 200


def test_an_indentation_that_is_too_small_ends_the_answer(http: httpx.Client) -> None:
    """The grammar makes it write lines; the second is not indented."""
    grammar = 'root ::= "a\\n" "  b\\n" "c\\n" "  d"'
    assert post(http, prompt="x", grammar=grammar, n_predict=30)["content"] == "a\n  b\nc\n  d"
    cut = post(http, prompt="x", grammar=grammar, n_predict=30, n_indent=2)
    assert (cut["content"], cut["stop_type"], cut["has_new_line"]) == ("a\n  b\n", "limit", True)


def test_infill_puts_the_texts_between_the_models_marks(http: httpx.Client) -> None:
    files = [{"filename": "f.h", "text": "int f();"}]
    reply = post(http, "/infill", input_prefix="int a;\n", prompt="int ", input_suffix="\n}", input_extra=files)
    begins = http.post("/tokenize", json={"content": "", "add_special": True}).json()["tokens"]
    bos, pre, suf, mid = (
        http.post("/detokenize", json={"tokens": tokens}).json()["content"]
        for tokens in (begins, *([token] for token in FIM.values()))
    )
    assert reply["prompt"] == f"\n\n--- snippet ---\n\nint f();{bos}{pre}int a;\nint {suf}\n}}{mid}"
    long = post(http, "/infill", input_prefix=LONG * 5, prompt="here", input_suffix=LONG * 5)
    assert long["prompt"].count("here") == 1
    assert long["tokens_evaluated"] < 512, "what is far from the gap was cut"
    assert long["localllm"]["warnings"] == ["input_extra: it and the texts around the gap were cut to fit"]
