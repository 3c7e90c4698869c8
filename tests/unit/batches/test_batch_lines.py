"""Lines of batch files: OpenAI's, Anthropic's, plain ones and CSV, and what is wrong with them."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest

from localllm.batches.lines import EMBEDDINGS, MESSAGES, of_batch_class, read_lines, with_model
from localllm.batches.prompted import Prompt, csv_lines, text_lines
from localllm.batches.windows import by_common_prefix
from localllm.errors import InvalidParameter

CHAT = "/v1/chat/completions"


def read(*lines: Any, max_bytes: int = 10_000) -> list[Any]:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return list(read_lines(io.BytesIO(text.encode()), max_bytes))


def openai_line(id: str = "a", **body: Any) -> dict[str, Any]:
    return {"custom_id": id, "method": "POST", "url": CHAT, "body": {"model": "m", "messages": [], **body}}


def test_lines_of_both_makers_are_requests() -> None:
    found = read(openai_line(), "", {"custom_id": "b", "params": {"model": "m", "max_tokens": 5}})
    assert [(each.number, each.id, each.url, each.problem) for each in found] == [
        (1, "a", CHAT, ""),
        (3, "b", MESSAGES, ""),
    ]
    assert json.loads(found[0].body) == {"model": "m", "messages": []}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "the line is no batch request: "),
        ('{"custom_id": "\\ud800"}', "the line is no batch request: "),
        ("[1]", "the line is no batch request: "),
        ({"url": CHAT, "body": {}}, "custom_id is missing"),
        ({**openai_line(), "method": "GET"}, "method must be POST, got 'GET'"),
        ({**openai_line(), "url": "/v1/files"}, f"url must be one of {CHAT}, "),
        ({**openai_line(), "body": [1]}, "body must be a JSON object"),
        ({"custom_id": "a", "params": "x"}, "params must be a JSON object"),
        (openai_line(stream=True), "stream: a batch has whole answers"),
        (openai_line(model=7), "body: "),
        (openai_line(text="x" * 10_000), "the line has more than 10,000 bytes (max_body_bytes)"),
    ],
)
def test_a_wrong_line_says_what_is_wrong_and_the_next_is_read(line: Any, problem: str) -> None:
    wrong, right = read(line, openai_line("next"))
    assert wrong.problem.startswith(problem)
    assert (right.number, right.id, right.problem) == (2, "next", "")


def test_another_model_takes_the_place_of_the_one_that_is_named_and_nothing_else_changes() -> None:
    (line,) = read('{"custom_id": "a", "url": "/v1/completions", "body": {"x": 1.50, "model": "gpt", "z": [1, 2]}}')
    assert with_model(line, "demo").body == b'{"x":1.50,"model":"demo","z":[1, 2]}'
    assert with_model(line, "gpt") == line


def test_a_prompt_is_asked_of_every_line() -> None:
    prompt = Prompt("Translate: {text}", "Be brief.", {"max_tokens": 3})
    first, second = text_lines(io.StringIO("one {text}\n\n two \n"), prompt)
    assert (first.id, second.id) == ("line-1", "line-3")
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Translate: one {text}"}]
    assert json.loads(first.body) == {"messages": messages, "max_tokens": 3}
    assert json.loads(second.body)["messages"][1]["content"] == "Translate: two"


def test_a_prompt_names_columns() -> None:
    table = 'name,city\nAnn,"Paris, France"\nBob,Rome,more\nCy\n'
    lines = list(csv_lines(io.StringIO(table, newline=""), Prompt("Is {name} in {city}?", None, {})))
    asked = [json.loads(line.body)["messages"][0]["content"] for line in lines]
    assert asked == ["Is Ann in Paris, France?", "Is Bob in Rome?", "Is Cy in ?"]
    assert [line.problem for line in lines] == ["", "row 2 has more values than there are columns", ""]


@pytest.mark.parametrize(
    ("template", "message"),
    [("Hi {who}", "the prompt names {who}, but the columns are name, city"), ("Hi", "put {name} into it")],
)
def test_a_prompt_of_other_columns_is_refused(template: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        list(csv_lines(io.StringIO("name,city\na,b\n"), Prompt(template, None, {})))


def test_lines_that_begin_alike_follow_each_other() -> None:
    shared = ["A" * 50, "B" * 50]
    lines = read(*(openai_line(str(number), messages=shared[number % 2] + str(number)) for number in range(10)))
    ordered = [msgspec.json.decode(line.body)["messages"][0] for line in by_common_prefix(lines)]
    assert ordered == ["A"] * 5 + ["B"] * 5


def test_lines_are_of_the_batch_class_unless_they_say_otherwise() -> None:
    texts = {"custom_id": "d", "url": EMBEDDINGS, "body": {"model": "m", "input": "x"}}
    lines = read(openai_line("a"), openai_line("b", batch=False), openai_line("c", service_tier="default"), texts)
    sent = [json.loads(of_batch_class(line)) for line in lines]
    assert sent[0] == {"model": "m", "messages": [], "batch": True}
    assert sent[1:] == [json.loads(line.body) for line in lines[1:]]
