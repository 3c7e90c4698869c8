"""Models that think before they answer: the thought is bounded, and no part of the text or of the document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gguf import TokenType

from localllm import LLM, SamplingParams
from localllm.errors import IncompleteDocument
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe, with_user_defined

TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if messages[0].content == 'Think' %}OPENING\n{% endif %}{# CLOSING #}"
)
THINK, ANSWER = [{"role": "user", "content": "Think"}], [{"role": "user", "content": "Answer"}]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["</think>", "[/THINK]"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
WILD = SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, seed=7, max_tokens=200)


@pytest.fixture(scope="module", params=["<think>", "[THINK]"])
def llm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    """Random models whose tags are tokens: user-defined ones as most models', control tokens as Mistral's."""
    opening = request.param
    closing = opening[0] + "/" + opening[1:]
    tokenizer = with_user_defined(bpe(), [opening, closing])
    if opening == "[THINK]":
        control = int(TokenType.CONTROL)
        tokenizer = replace(tokenizer, types=[*tokenizer.types[:-2], control, control])
    path = tmp_path_factory.mktemp("models") / "thinker.gguf"
    template = TEMPLATE.replace("OPENING", opening).replace("CLOSING", closing)
    with LLM(write_llama(path, tokenizer=tokenizer, chat_template=template), slots=4, threads=1) as llm:
        yield llm


def is_a_document(text: str) -> bool:
    document = json.loads(text)
    return set(document) == {"a", "b"} and isinstance(document["a"], int) and document["b"] in ("</think>", "[/THINK]")


@pytest.mark.parametrize("budget", [0, 1, 12])
def test_a_thought_that_the_prompt_began_ends_within_its_budget(llm: LLM, budget: int) -> None:
    whole = llm.chat(THINK, schema=SCHEMA, thinking_budget=budget, params=WILD)
    assert is_a_document(whole.text)
    assert bool(whole.thought) == (budget > 0)
    streamed = list(llm.chat(THINK, schema=SCHEMA, thinking_budget=budget, params=WILD, stream=True))
    assert "".join(delta.thought for delta in streamed) == whole.thought
    assert "".join(delta.text for delta in streamed) == whole.text
    assert whole.finish.usage.completion_tokens > budget


@pytest.mark.parametrize("likes_to", [True, False])
def test_a_model_may_begin_a_thought_or_leave_it(llm: LLM, *, likes_to: bool) -> None:
    (opening,) = llm.tokenize(llm.info.format.thought.opening if llm.info.format.thought else "", add_special=False)
    params = SamplingParams(temperature=0, max_tokens=200, logit_bias={opening: 100.0 if likes_to else -100.0})
    answer = llm.chat(ANSWER, schema=SCHEMA, thinking_budget=5, params=params)
    assert is_a_document(answer.text)
    assert bool(answer.thought) == likes_to


def test_a_thought_that_is_cut_is_no_document(llm: LLM) -> None:
    answer = llm.chat(THINK, schema=SCHEMA, params=SamplingParams(temperature=0, max_tokens=3))
    assert (answer.text, answer.finish.reason) == ("", "length")
    assert answer.thought
    with pytest.raises(IncompleteDocument):
        _ = answer.parsed


def test_tags_in_several_tokens_close_a_thought_within_its_budget(tmp_path: Path) -> None:
    template = TEMPLATE.replace("OPENING", "<think>").replace("CLOSING", "</think>")
    path = write_llama(tmp_path / "speller.gguf", chat_template=template)
    with LLM(path, slots=1, threads=1) as llm:
        for budget in (0, 5):
            answer = llm.chat(THINK, schema=SCHEMA, thinking_budget=budget, params=WILD)
            assert is_a_document(answer.text)
            assert bool(answer.thought) == (budget > 0)
            assert answer.finish.usage.reasoning_tokens <= budget + 2 * len("</think>\n\n")
