"""Models that Ollama's own client makes, widens, goes on with and lets go of, on a real server."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localllm.client.sidecar import Sidecar
from tests.conftest import CHATML
from tests.homes import share_findings
from tests.later import ollama
from tests.models.maker import write_llama
from tests.models.tokenizers import bpe
from tests.waiting import until

GREEDY = {"temperature": 0.0, "num_predict": 40, "seed": 1}
SHORT = {"temperature": 0.0, "num_predict": 2}


@pytest.fixture(scope="module")
def client(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ollama.Client]:
    folder = tmp_path_factory.mktemp("ollama")
    share_findings(home, folder)
    with (
        Sidecar.start(["--slots=1"], home=folder) as sidecar,
        ollama.Client(sidecar.url, headers={"authorization": f"Bearer {sidecar.token}"}, trust_env=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def large(client: ollama.Client, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Trained for 16,384 tokens, with tokens for filling in the middle."""
    words = bpe()
    special = {**words.special, "fim_pre": 300, "fim_suf": 301, "fim_mid": 302}
    path = write_llama(
        tmp_path_factory.mktemp("models") / "large.gguf",
        ctx=20480,
        chat_template=CHATML,
        tokenizer=dataclasses.replace(words, special=special),
    )
    digest = client.create_blob(path)
    assert digest == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    statuses = [line.status for line in client.create("Large", files={"large.gguf": digest}, stream=True)]
    assert statuses[-1] == "success"
    return "large"


def context_of(client: ollama.Client) -> int | None:
    (running,) = client.ps().models
    return running.context_length


def test_a_model_is_made_asked_shown_copied_and_deleted(client: ollama.Client) -> None:
    made = client.create("Pirate:v1", from_="demo", system="Say ARR.", parameters={"num_predict": 8, "stop": ["zzz"]})
    assert made.status == "success"
    assert client.show("pirate:v1").parameters is not None
    answer = client.chat("pirate:v1", [{"role": "user", "content": "Hello!"}], options={"temperature": 0})
    assert (answer.done_reason, answer.eval_count) == ("length", 8)
    client.create("pirate:v1", from_="demo", parameters={"num_predict": 5})
    again = client.chat("pirate:v1", [{"role": "user", "content": "Hello!"}], options={"temperature": 0})
    assert again.eval_count == 5, "what is made again is loaded anew"
    client.copy("pirate:v1", "other")
    client.delete("pirate:v1")
    names = [model.model for model in client.list().models]
    assert ("other:latest" in names, "pirate:v1" in names) == (True, False)
    client.delete("other")


def test_num_ctx_loads_a_model_anew_with_a_larger_context(client: ollama.Client, large: str) -> None:
    client.generate(large, "Hi", options=SHORT)
    assert context_of(client) == 16384, "what a part of memory is enough for"
    client.generate(large, "Hi", options={**SHORT, "num_ctx": 17408})
    assert context_of(client) == 17408
    client.generate(large, "Hi", options={**SHORT, "num_ctx": 1024})
    assert context_of(client) == 17408, "others may need it"
    client.generate(large, "Hi", options={**SHORT, "num_ctx": 100_000})
    assert context_of(client) == 20480, "it was not trained for more"
    client.generate(large, keep_alive=0)
    client.generate(large, "Hi", options={**SHORT, "num_ctx": 18432})
    assert context_of(client) == 18432, "at once, where it was not loaded"
    client.generate(large, keep_alive=0)


def test_a_model_fills_in_the_middle_if_it_can(client: ollama.Client, large: str) -> None:
    assert "insert" in (client.show(large).capabilities or ())
    answer = client.generate(large, "def add(", suffix="return a + b", options=SHORT)
    assert answer.eval_count == 2
    assert "insert" not in (client.show("demo").capabilities or ())
    with pytest.raises(ollama.ResponseError, match='"demo" does not support insert') as refused:
        client.generate("demo", "def add(", suffix="return a + b")
    assert refused.value.status_code == 400


def test_a_prompt_goes_on_where_an_earlier_answer_ended(client: ollama.Client) -> None:
    """As a chat does: the tokens of a reply are those of its turn."""
    first = client.generate("demo", "Hello!", options=GREEDY, think=False)
    assert first.context
    second = client.generate("demo", "Who are you?", context=first.context, options=GREEDY, think=False)
    messages: list[Any] = [
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": first.response},
        {"role": "user", "content": "Who are you?"},
    ]
    chat = client.chat("demo", messages, options=GREEDY, think=False)
    assert second.prompt_eval_count == chat.prompt_eval_count
    assert second.response == chat.message.content
    assert second.context is not None
    assert list(second.context[: len(first.context)]) == list(first.context)


def test_a_chat_that_outgrows_its_context_goes_on_without_its_oldest_messages(client: ollama.Client) -> None:
    turns: list[Any] = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n} " * 100} for n in range(41)]
    answer = client.chat("demo", [{"role": "system", "content": "Be brief."}, *turns], options=SHORT)
    assert answer.done
    assert 1000 < (answer.prompt_eval_count or 0) < 2048


@pytest.mark.parametrize(
    ("keep_alive", "stays", "for_ever"),
    [
        (0, False, False), ("0s", False, False), (-1, True, True), ("-1m", True, True), ("5m", True, False),
        (60, True, False),
    ],
)  # fmt: skip
def test_a_model_stays_as_keep_alive_says(
    client: ollama.Client, keep_alive: float | str, stays: bool, for_ever: bool
) -> None:
    for name in [model.model for model in client.ps().models]:
        client.generate(name or "", keep_alive=0)
    client.generate("demo", "Hi", options=SHORT, keep_alive=keep_alive)
    if not stays:  # it leaves when the answer has ended
        until(lambda: not client.ps().models)
    running = client.ps().models
    assert [model.model for model in running] == ["demo:latest"] * stays
    if stays:
        assert running[0].expires_at is not None
        assert (running[0].expires_at.year > 2300) is for_ever
