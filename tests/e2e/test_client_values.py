"""What clients of OpenAI's API send, on a real server with the carried model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from localllm import LLM, SamplingParams
from localllm.client.sidecar import Sidecar
from tests.later import openai

QUESTION = "<|im_start|>user\nWhat is GGUF?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[openai.OpenAI]:
    with (
        Sidecar.start(["demo", "--slots=4", "--ctx=512"]) as sidecar,
        openai.OpenAI(base_url=f"{sidecar.url}/v1", api_key=sidecar.token, max_retries=0) as client,
    ):
        yield client


def complete(client: openai.OpenAI, prompt: Any, **fields: Any) -> Any:
    given = {"max_tokens": 12, "temperature": 0, **fields}
    return client.completions.create(model="demo", prompt=prompt, **given)


def tokens_of(client: openai.OpenAI, text: str, *, add_special: bool = False) -> list[int]:
    reply: Any = client.post(
        str(client.base_url).replace("/v1/", "/tokenize"),
        body={"model": "demo", "content": text, "add_special": add_special},
        cast_to=object,
    )
    tokens: list[int] = reply["tokens"]
    return tokens


def as_lm_eval_parses(answer: dict[str, Any], context_lengths: list[int]) -> list[tuple[float, bool]]:
    """What lm-evaluation-harness makes of an answer (`parse_logprobs` of its local-completions): of the tokens after
    the context, but for the one that was generated, the sum, and whether each was the likeliest.
    """
    results = []
    for choice, context in zip(sorted(answer["choices"], key=itemgetter("index")), context_lengths, strict=True):
        logprobs = choice["logprobs"]["token_logprobs"][context:-1]
        tops = choice["logprobs"]["top_logprobs"][context:-1]
        greedy = all(logprob == max(top.values()) for logprob, top in zip(logprobs, tops, strict=True))
        results.append((sum(logprobs), greedy))
    return results


@pytest.mark.parametrize("as_tokens", [True, False], ids=["tokens", "text"])
def test_continuations_are_scored_as_lm_eval_asks_for_it(client: openai.OpenAI, *, as_tokens: bool) -> None:
    """The model's own greedy answer is the likeliest continuation; a batch gives what each gives alone."""
    greedy = complete(client, QUESTION).choices[0].text
    continuations = [greedy, " Bananas are yellow.", greedy + "\n\nxyzzy"]
    context = len(tokens_of(client, QUESTION, add_special=not as_tokens))
    prompts: list[Any] = [QUESTION + text for text in continuations]
    if as_tokens:
        prompts = [tokens_of(client, prompt) for prompt in prompts]
    asked = {"max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
    whole = complete(client, prompts, **asked)
    scores = as_lm_eval_parses(whole.to_dict(), [context] * len(prompts))
    assert scores[0][1], "greedy"
    assert not scores[1][1]
    assert not scores[2][1]
    assert scores[0][0] > scores[2][0]
    assert scores[0][0] > scores[1][0]
    assert whole.usage.prompt_tokens_details.cached_tokens == 0
    for prompt, (score, is_greedy) in zip(prompts, scores, strict=True):
        alone = complete(client, [prompt], **asked).to_dict()
        ((again, still_greedy),) = as_lm_eval_parses(alone, [context])
        assert again == pytest.approx(score, abs=0.3)
        assert still_greedy == is_greedy


def test_a_prompt_whose_next_token_ends_the_answer_is_scored_to_its_last_token(client: openai.OpenAI) -> None:
    """lm_eval drops the last entry, which it takes for the generated token's: so that one must be there."""
    answer = complete(client, QUESTION, max_tokens=100)
    assert answer.choices[0].finish_reason == "stop"
    prompt = QUESTION + answer.choices[0].text
    scored = complete(client, prompt, max_tokens=1, echo=True, logprobs=1)
    (choice,) = scored.choices
    assert (choice.finish_reason, scored.usage.completion_tokens, choice.text) == ("stop", 0, prompt)
    assert len(choice.logprobs.tokens) == scored.usage.prompt_tokens + 1
    assert choice.logprobs.text_offset[-1] == len(prompt)


def test_an_echo_whole_and_streamed_tells_the_same_with_offsets_into_its_text(client: openai.OpenAI) -> None:
    text = "The fox é漢🙂 found <|im_end|> a ball. " * 20
    asked: dict[str, Any] = {"prompt": text, "max_tokens": 5, "echo": True, "logprobs": 3}
    whole = complete(client, **asked)
    (choice,) = whole.choices
    assert choice.text.startswith(text)
    logprobs = choice.logprobs
    count = whole.usage.prompt_tokens
    assert logprobs.token_logprobs[0] is None
    assert logprobs.top_logprobs[0] is None
    assert len(logprobs.tokens) == count + whole.usage.completion_tokens
    assert logprobs.text_offset == sorted(logprobs.text_offset)
    assert logprobs.text_offset[count] == len(text)
    ends = [*logprobs.text_offset[1:], len(choice.text)]
    for token, start, end in itertools.islice(zip(logprobs.tokens, logprobs.text_offset, ends, strict=True), 1, count):
        assert choice.text[start:end].strip() == token.strip() or "�" in token
    for logprob, top in itertools.islice(zip(logprobs.token_logprobs, logprobs.top_logprobs, strict=True), 1, None):
        assert logprob <= max(top.values()) <= 0
        assert sum(map(math.exp, top.values())) < 1.001
    streamed = [choice for chunk in complete(client, **asked, stream=True) for choice in chunk.choices]
    assert "".join(choice.text for choice in streamed) == choice.text
    parts = [choice.logprobs for choice in streamed if choice.logprobs is not None]
    assert [token for part in parts for token in part.tokens] == logprobs.tokens
    assert [offset for part in parts for offset in part.text_offset] == logprobs.text_offset


def test_an_answer_of_no_tokens_warms_the_cache_and_echoes(client: openai.OpenAI) -> None:
    prompt = "A prompt that nobody has sent before. " * 8
    warm = complete(client, prompt, max_tokens=0)
    assert (warm.choices[0].text, warm.choices[0].finish_reason) == ("", "length")
    assert (warm.usage.completion_tokens, warm.usage.total_tokens) == (0, warm.usage.prompt_tokens)
    echoed = complete(client, prompt, max_tokens=0, echo=True)
    assert echoed.choices[0].text == prompt
    assert echoed.usage.prompt_tokens_details.cached_tokens == warm.usage.prompt_tokens - 1
    scored = complete(client, prompt, max_tokens=0, echo=True, logprobs=0).choices[0].logprobs
    assert len(scored.tokens) == warm.usage.prompt_tokens
    messages: Any = [{"role": "user", "content": "Hi"}]
    chat = client.chat.completions.create(model="demo", messages=messages, max_completion_tokens=0)
    assert (chat.choices[0].message.content, chat.choices[0].finish_reason) == ("", "length")
    chunks = list(client.chat.completions.create(model="demo", messages=messages, max_tokens=0, stream=True))
    assert chunks[-1].choices[0].finish_reason == "length"
    response = client.responses.create(model="demo", input="Hi", extra_body={"max_output_tokens": 0})
    assert (response.status, response.output_text) == ("incomplete", "")


def test_a_limit_of_minus_one_lets_the_model_end_by_itself(client: openai.OpenAI) -> None:
    cut = complete(client, QUESTION, max_tokens=3)
    whole = complete(client, QUESTION, max_tokens=-1)
    assert (cut.choices[0].finish_reason, whole.choices[0].finish_reason) == ("length", "stop")
    assert whole.choices[0].text.startswith(cut.choices[0].text)


def test_a_seed_gives_its_text_again_and_minus_one_another_each_time(client: openai.OpenAI) -> None:
    def text(seed: int | None) -> str:
        anything = {"top_k": 0, "top_p": 1, "min_p": 0, "ignore_eos": True}
        made = complete(client, "Once", temperature=3, seed=seed, max_tokens=16, extra_body=anything)
        return str(made.choices[0].text)

    assert text(None) != text(None), "once in far more than 2**64"
    for seed in (5, 2**63 - 1, -(2**63), -2):
        assert text(seed) == text(seed)
    assert len({text(seed) for seed in (5, 5 + 2**32, -5, -2)}) == 4
    assert text(-1) != text(-1)


@pytest.mark.parametrize("path", ["chat", "completions", "responses", "embeddings"])
def test_a_prompt_that_is_too_long_is_refused_in_openais_words(client: openai.OpenAI, path: str) -> None:
    """LiteLLM looks for "this model's maximum context length is" in lower case, LangChain for the code, LangChain.js
    for "exceeds the context window", CrewAI for "maximum context length".
    """
    text = "word " * 3000
    ask: dict[str, Any] = {
        "chat": lambda: client.chat.completions.create(model="demo", messages=[{"role": "user", "content": text}]),
        "completions": lambda: client.completions.create(model="demo", prompt=text),
        "responses": lambda: client.responses.create(model="demo", input=text),
        "embeddings": lambda: client.embeddings.create(model="demo", input=text),
    }
    with pytest.raises(openai.BadRequestError) as caught:
        ask[path]()
    error = caught.value
    assert error.code == "context_length_exceeded"
    assert "context_length_exceeded" in str(error)
    assert "this model's maximum context length is" in str(error).lower()
    assert "exceeds the context window" in error.message
    assert "Please reduce the length of" in error.message
    assert ("a larger ctx" in error.message) or path == "embeddings"


def test_a_python_program_scores_a_text(demo: LLM) -> None:
    text = "The capital of France is Paris."
    chat = demo.complete(text, params=SamplingParams(prompt_logprobs=2, max_tokens=0))
    assert (chat.text, chat.finish.reason) == ("", "length")
    assert b"".join(each.piece for each in chat.prompt_logprobs).decode().endswith(text)
    first, *others = chat.prompt_logprobs
    assert math.isnan(first.logprob)
    assert all(each.logprob <= each.top[0][1] <= 0 and len(each.top) == 2 for each in others)
    deltas = list(demo.complete(text, stream=True, params=SamplingParams(prompt_logprobs=2, max_tokens=0)))
    assert [each.piece for delta in deltas for each in delta.prompt_logprobs] == [
        each.piece for each in chat.prompt_logprobs
    ]
