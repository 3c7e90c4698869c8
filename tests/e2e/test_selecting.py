"""The likeliest of several texts: log-probabilities are those of the whole prompt, whose head is computed once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from localllm import LLM, InvalidParameter, Template
from tests.e2e.servers import Server

HEAD = "The fox found a ball. She gave it to the owl, and the owl said thank you. " * 11 + "Then"
TEXTS = [" the fox was happy.", " no", " Purple quickly seven.", " the fox"]
ASKED = [{"role": "user", "content": "Is fire cold? Answer yes or no."}]


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM("demo", slots=4, ctx=512, threads=1) as made:
        yield made


def test_scores_are_those_of_the_whole_text_and_the_prompt_is_computed_once(llm: LLM) -> None:
    alone = [llm.complete(HEAD + text, max_tokens=0, prompt_logprobs=0).prompt_logprobs for text in TEXTS]
    scores = llm.score(HEAD, TEXTS)
    for score, whole in zip(scores, alone, strict=True):
        tail = whole[len(whole) - len(score.tokens) :]
        assert [each.piece for each in score.tokens] == [each.piece for each in tail]
        assert score.logprob == pytest.approx(sum(each.logprob for each in tail), abs=0.4)
    again = llm.select(HEAD, TEXTS)
    assert again.usage.cached_tokens > 0.9 * again.usage.prompt_tokens
    assert again.usage.completion_tokens == 0
    assert (again.text, str(again)) == (TEXTS[again.index],) * 2
    assert math.fsum(again.probabilities) == pytest.approx(1)
    assert again.scores[again.index].per_token == max(each.per_token for each in again.scores)
    sums = llm.select(HEAD, TEXTS, per_token=False)
    assert sums.scores[sums.index].logprob == max(each.logprob for each in sums.scores)
    assert sums.scores[3].logprob >= sums.scores[0].logprob - 0.4, "a text is no likelier than what it begins with"


def test_texts_behind_a_conversation_have_the_tokens_of_its_answer(llm: LLM) -> None:
    answer = llm.chat(ASKED, temperature=0, max_tokens=6, logprobs=0)
    (score,) = llm.score(ASKED, [answer.text])
    told = answer.logprobs[: len(score.tokens)]
    assert [each.token for each in score.tokens] == [each.token for each in told]
    assert score.logprob == pytest.approx(sum(each.logprob for each in told), abs=0.4)
    assert llm.select(ASKED, ["xq zzz", answer.text]).index == 1


def test_what_is_wrong_is_named(llm: LLM) -> None:
    for texts, says in (([], "texts must have at least one"), (["a", ""], r"texts\[1\] is empty"), ("ab", "a list of")):
        with pytest.raises(InvalidParameter, match=says):
            llm.score("Hi", texts)
    with pytest.raises(InvalidParameter, match="each of them is a text, got 3"):
        llm.select("Hi", [3])  # type: ignore[list-item]


def test_a_template_is_filled_in_and_read(llm: LLM) -> None:
    form = Template("Age: {age}\nMood: {mood}", age=int, mood=["good", "bad"])
    parsed = llm.chat(ASKED, schema=form, max_tokens=40).parsed
    assert isinstance(parsed["age"], int)
    assert parsed["mood"] in ("good", "bad")


def test_the_endpoint_selects_and_refuses_in_words(home: Path) -> None:
    with (
        Server("demo", "--slots", "2") as server,
        httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http,
    ):
        body: dict[str, Any] = {"model": "demo", "messages": ASKED, "choices": ["Yes", "No", "Fire is hot."]}
        made = http.post("/v1/select", json={**body, "logprobs": True}).json()
        assert made["text"] == made["choices"][made["index"]]["text"]
        assert sum(each["probability"] for each in made["choices"]) == pytest.approx(1)
        for each in made["choices"]:
            assert each["num_tokens"] == len(each["tokens"])
            assert each["logprob"] == pytest.approx(sum(token["logprob"] for token in each["tokens"]))
        assert made["usage"]["completion_tokens"] == 0
        for wrong, param in (
            ({**body, "choices": []}, "choices"),
            ({**body, "choices": ["a", ""]}, "choices[1]"),
            ({**body, "prompt": "Hi"}, "prompt"),
            ({"model": "demo", "choices": ["a"]}, "messages"),
            ({**body, "choices": ["a"] * 1000}, "choices"),
        ):
            answer = http.post("/v1/select", json=wrong)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
