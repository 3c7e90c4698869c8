"""`echo` with `logprobs`, in OpenAI's legacy shape: the prompt's tokens and the answer's in one list."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from localllm.server.answers.logprobs import echo_logprobs, text_logprobs
from localllm.server.apis.openai import streaming
from localllm.types import Delta, Finish, Timings, TokenLogprob, Usage
from tests.later import openai
from tests.server.conftest import Served

FINISH = Finish("length", Usage(7, 1), Timings(0.1, 0.2, 0.3))
PROMPT = (
    TokenLogprob(b"<s>", math.nan),
    TokenLogprob(b" One", -1.5, ((b" A", -0.5),)),
    TokenLogprob(b"\xe2\x9c", -2.5, ((b"\xe2\x9c", -2.5),)),
    TokenLogprob(b"\x93", -math.inf, ((b"\x93", -0.25),)),
    TokenLogprob(b"a", -0.5, ((b"a", -0.5),)),
    TokenLogprob(b"b", -0.5, ((b"a", -0.25),)),
    TokenLogprob(b"c", -3.0, ((b"c", -3.0),)),
)
"""Of seven tokens, as many as a prompt of the scripted runtime has; `One✓abc` behind what tokenizing put before it."""
ANSWER = TokenLogprob(b"!", -0.125, ((b"!", -0.125),))
SCRIPT = [Delta(prompt_logprobs=PROMPT[:3]), Delta(prompt_logprobs=PROMPT[3:]), Delta("!", 1, FINISH, (ANSWER,))]
ECHO = "One✓abc"
TOKENS = ["<s>", " One", "�", "�", "a", "b", "c", "!"]
LOGPROBS = [None, -1.5, -2.5, -9999.0, -0.5, -0.5, -3.0, -0.125]
OFFSETS = [0, 0, 3, 3, 4, 5, 6, 7]


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_the_prompt_and_the_answer_are_one_list(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = SCRIPT
    answer: Any = client.completions.create(model="tiny", prompt=ECHO, echo=True, logprobs=1, max_tokens=1)
    (choice,) = answer.choices
    assert choice.text == ECHO + "!"
    logprobs = choice.logprobs
    assert (logprobs.tokens, logprobs.token_logprobs, logprobs.text_offset) == (TOKENS, LOGPROBS, OFFSETS)
    assert logprobs.top_logprobs[0] is None
    assert logprobs.top_logprobs[1] == {" A": -0.5, " One": -1.5}, "the token itself is always there"
    asked = served.runtime.asked[0][2]
    assert (asked.prompt_logprobs, asked.logprobs, asked.max_tokens) == (1, 1, 1)


@pytest.mark.parametrize("prompts", [["One✓abc"], ["One✓abc", "One✓abc"]])
def test_streamed_it_adds_up_to_the_same(served: Served, client: openai.OpenAI, prompts: list[str]) -> None:
    served.runtime.script = SCRIPT
    chunks: Any = client.completions.create(
        model="tiny", prompt=prompts, n=2, echo=True, logprobs=1, max_tokens=1, stream=True
    )
    texts, parts = [""] * 2 * len(prompts), [[] for _ in range(2 * len(prompts))]  # type: list[str], list[list[Any]]
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            if choice.logprobs is not None:
                parts[choice.index].append(choice.logprobs)
    assert set(texts) == {ECHO + "!"}
    for each in parts:
        assert [token for part in each for token in part.tokens] == TOKENS
        assert [logprob for part in each for logprob in part.token_logprobs] == LOGPROBS
        assert [offset for part in each for offset in part.text_offset] == OFFSETS


def test_echo_without_logprobs_and_logprobs_without_echo_score_no_prompt(served: Served, client: openai.OpenAI) -> None:
    client.completions.create(model="tiny", prompt=ECHO, echo=True)
    client.completions.create(model="tiny", prompt=ECHO, logprobs=3)
    client.completions.create(model="tiny", prompt=ECHO, echo=True, best_of=2)
    assert [params.prompt_logprobs for _, _, params in served.runtime.asked] == [None] * 4


def test_the_best_of_several_is_found_by_what_was_generated(served: Served, client: openai.OpenAI) -> None:
    def script(text: str, logprob: float) -> list[Delta]:
        return [Delta(prompt_logprobs=PROMPT), Delta(text, 1, FINISH, (TokenLogprob(text.encode(), logprob),))]

    served.runtime.scripts = [script("poor", -3.0), script("good", -1.0)]
    answer: Any = client.completions.create(model="tiny", prompt=ECHO, echo=True, logprobs=0, best_of=2)
    (choice,) = answer.choices
    assert choice.text == ECHO + "good"
    assert choice.logprobs.token_logprobs == [*LOGPROBS[:-1], -1.0]


def test_more_than_memory_is_meant_for_is_refused_and_nothing_goes_on(
    served: Served, client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MAX_PROMPT_LOGPROBS", 2 * 7 * 6 - 1)
    with pytest.raises(openai.BadRequestError, match="84 prompt log-probabilities, the limit is 83") as caught:
        client.completions.create(model="tiny", prompt=["a", "b"], echo=True, logprobs=5, stream=True)
    assert caught.value.param == "logprobs"
    assert all(answer.closed.is_set() for answer in served.runtime.answers)
    served.runtime.script = SCRIPT
    client.completions.create(model="tiny", prompt=["a", "b"], echo=True, logprobs=4)


def test_of_tokens_that_are_spelled_alike_the_likeliest_is_meant() -> None:
    item = TokenLogprob(b"\x80", -4.0, ((b"\xff", -0.5), (b"\xfe", -1.0), (b"a", -2.0)))
    (top,) = text_logprobs([item]).top_logprobs
    assert top == {"�": -0.5, "a": -2.0}


@pytest.mark.parametrize("echo", ["", "One", "abc", "something else that is longer"])
def test_offsets_stay_within_the_text_whatever_a_tokenizer_made_of_it(echo: str) -> None:
    offsets = echo_logprobs(PROMPT, echo).text_offset
    assert offsets == sorted(offsets)
    assert 0 <= offsets[0] <= offsets[-1] <= len(echo)
