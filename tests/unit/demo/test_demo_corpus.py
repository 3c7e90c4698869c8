"""The demo model's corpus: reproducible, right by its own checks, and examined with questions never taught."""

from __future__ import annotations

import itertools
import json
import random
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from corpus import data, mix
from corpus.grammar import Example, Phrasings, say

from tests.each import each

EXAMPLES, TAUGHT = 80, 600


def examples(kind: str, split: str, count: int = EXAMPLES) -> list[Example]:
    return _examples(kind, split)[:count]


@cache
def _examples(kind: str, split: str) -> list[Example]:
    """Made once for all tests."""
    rng = random.Random(f"{kind} {split}")
    if split == "train":
        return [mix.KINDS[kind](rng, "train") for _ in range(TAUGHT)]
    return [mix.KINDS[kind](rng, "held_out") for _ in range(EXAMPLES)]


def answer_in(example: Example) -> str:
    """The last answer as the model would write it: what rendering adds to the prompt."""
    added: str = mix.render(example).removeprefix(mix.prompt(example))
    return added.removesuffix("\n").removesuffix("<|im_end|>").split("</think>")[-1].strip()


def test_the_same_seed_gives_the_same_text() -> None:
    assert list(mix.texts(7, 50)) == list(mix.texts(7, 50))
    assert list(mix.texts(7, 50)) != list(mix.texts(8, 50))


def _phrasings(values: Any, path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    if isinstance(values, dict):
        if {"train", "held_out"} <= set(values):
            yield path, values["train"], values["held_out"]
        for key, value in values.items():
            yield from _phrasings(value, f"{path}.{key}")
    elif isinstance(values, list):
        for number, value in enumerate(values):
            yield from _phrasings(value, f"{path}[{number}]")


@each("name", sorted(path.stem for path in data.FOLDER.glob("*.toml")))
def test_a_data_file_has_phrasings_to_teach_and_others_to_examine_with(name: str) -> None:
    for path, train, held_out in _phrasings(tomllib.loads((data.FOLDER / f"{name}.toml").read_text("utf-8")), name):
        assert train, path
        assert held_out, path
        assert set(train) & set(held_out) <= {"{x}"}, path
        for phrase in (*train, *held_out):
            assert phrase.count("[") == phrase.count("]"), (path, phrase)


def test_every_kind_is_taught() -> None:
    assert set(mix.WEIGHTS) == set(mix.KINDS)


@each("kind, split", itertools.product(mix.KINDS, ["train", "held_out"]))
def test_every_answer_passes_its_own_check_and_is_clean(kind: str, split: str) -> None:
    for example in examples(kind, split):
        text = answer_in(example)
        assert example.kind == kind
        assert example.check(text), (mix.prompt(example), text)
        assert mix.render(example).startswith(mix.prompt(example))
        for message in example.messages:
            content = message["content"]
            assert content.isascii()
            assert content == content.strip()
            assert "<|" not in content
            # what a template's slots and alternatives leave behind when one is forgotten
            if "json" not in kind and not kind.startswith("tool"):
                assert not re.search(r"[{}\[\]]|\S\||\|\S|  ", content), content


@each("kind", mix.KINDS)
def test_the_examination_asks_what_was_never_taught(kind: str) -> None:

    def prompts(split: str, count: int) -> list[str]:
        return [json.dumps(example.messages[:-1]) for example in examples(kind, split, count)]

    assert not set(prompts("train", TAUGHT)) & set(prompts("held_out", EXAMPLES))


@pytest.mark.parametrize("kind", ["tool_call", "product", "system_name", "json", "sums", "reference"])
def test_a_wrong_answer_fails(kind: str) -> None:
    """The answer to another question of the kind is nearly always wrong."""
    first, second = examples(kind, "train"), examples(kind, "train", EXAMPLES + 50)[50:]
    wrong = sum(not a.check(answer_in(b)) for a, b in zip(first, second, strict=True))
    assert wrong > 0.85 * EXAMPLES


def test_tools_are_called_as_they_are_defined() -> None:
    for example in examples("tool_call", "train"):
        call = example.messages[-1]["tool_calls"][0]["function"]
        (tool,) = [tool["function"] for tool in example.tools if tool["function"]["name"] == call["name"]]
        assert set(tool["parameters"]["required"]) <= set(call["arguments"]) <= set(tool["parameters"]["properties"])
        assert json.loads(answer_in(example).removeprefix("<tool_call>").removesuffix("</tool_call>"))["name"]


def test_alternatives_are_chosen_innermost_first_and_fillers_stay_as_they_are() -> None:
    said = {say(random.Random(seed), "[a[b|c]|d] {x}", x="[{y}|z]") for seed in range(40)}
    assert said == {"ab [{y}|z]", "ac [{y}|z]", "d [{y}|z]"}


def test_phrasings_of_an_examination_are_their_own() -> None:
    phrasings = Phrasings(train=("What is {x}?",), held_out=("Tell me about {x}.",))
    assert phrasings.say(random.Random(1), "train", x="rain") == "What is rain?"
    assert phrasings.say(random.Random(1), "held_out", x="rain") == "Tell me about rain."
