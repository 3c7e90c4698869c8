"""`localllm embed` and the endpoints behind it: real processes, the real llama.cpp, a tiny encoder and reranker."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from localllm.client.sidecar import Sidecar
from tests.e2e.conftest import COMMAND, TIMEOUT_S, Cli, first_output
from tests.later import openai
from tests.models.families import N_EMBD, write_embedding, write_reranker

ONE_THREAD = ("--threads", "1")
LONG = "cat " * 600
"""Longer than the tiny models read."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_embedding(tmp_path_factory.mktemp("models") / "tiny-bert.gguf")


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reranker(tmp_path_factory.mktemp("models") / "tiny-reranker.gguf")


def test_texts_become_vectors_of_length_1_a_line_each(cli: Cli, encoder: Path) -> None:
    done = cli("embed", encoder, "--truncate", *ONE_THREAD, stdin=f"a b\nthe cat\na b\n{LONG}")
    assert done.returncode == 0
    assert done.stderr == "localllm: 1 of 4 texts were too long and were truncated: 4\n"
    vectors = np.array([json.loads(line) for line in done.stdout.splitlines()])
    assert vectors.shape == (4, N_EMBD)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.allclose(vectors[0], vectors[2], atol=1e-3)
    assert not np.allclose(vectors[0], vectors[1], atol=0.1)


def test_a_text_that_is_too_long_is_refused_by_its_number(cli: Cli, encoder: Path) -> None:
    done = cli("embed", encoder, "a b", LONG, *ONE_THREAD)
    assert (done.returncode, done.stdout) == (1, "")
    assert "text 2 resulted in at least " in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_query_ranks_the_texts_best_first(cli: Cli, reranker: Path) -> None:
    texts = ["a b", "the cat", "dog"]
    done = cli("embed", reranker, "--query", "cat", *texts, *ONE_THREAD)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert sorted(text for _, text in rows) == sorted(texts)
    scores = [float(score) for score, _ in rows]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_a_model_that_only_embeds_ranks_by_the_cosines_of_its_vectors(cli: Cli, encoder: Path) -> None:
    done = cli("embed", encoder, "--query", "the cat", "a b", "the cat", "dog", *ONE_THREAD)
    assert done.returncode == 0
    assert done.stderr == "localllm: tiny-bert is not a reranker: scores are cosine similarities\n"
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["1.0000", "the cat"]
    assert 1 > float(rows[1][0]) >= float(rows[2][0]) >= -1


def test_a_chat_with_an_encoder_is_refused_with_what_to_do_instead(cli: Cli, encoder: Path) -> None:
    done = cli("run", encoder, "Hi", *ONE_THREAD)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "localllm: tiny-bert does not generate text; use localllm embed\n"


def test_ctrl_c_ends_with_130(encoder: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "embed", str(encoder), "--file", "-", *ONE_THREAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"a b\n" * 256)
        process.stdin.flush()
        first_output(process)  # the first part is printed while the next is waited for
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        assert b"Traceback" not in process.stderr.read()


@pytest.fixture(scope="module")
def server(encoder: Path, home: Path) -> Iterator[Sidecar]:
    assert home.is_dir()
    with Sidecar.start([str(encoder), *ONE_THREAD]) as sidecar:
        yield sidecar


@pytest.fixture
def http(server: Sidecar) -> Iterator[httpx.Client]:
    headers = {"x-api-key": server.token}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture
def client(server: Sidecar) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token, max_retries=0, timeout=60) as client:
        yield client


def test_the_openai_client_embeds_texts_and_their_tokens_alike(client: openai.OpenAI, http: httpx.Client) -> None:
    made = client.embeddings.create(model="tiny-bert", input=["the cat", "a b"])
    as_numbers = client.embeddings.create(model="tiny-bert", input=["the cat", "a b"], encoding_format="float")
    first = np.array(made.data[0].embedding)
    assert np.allclose([item.embedding for item in made.data], [item.embedding for item in as_numbers.data], atol=1e-6)
    short = client.embeddings.create(model="tiny-bert", input="the cat", dimensions=16).data[0].embedding
    assert np.allclose(short, first[:16] / np.linalg.norm(first[:16]), atol=1e-3)
    tokens = http.post("/tokenize", json={"content": "the cat", "add_special": True}).json()["tokens"]
    by_tokens = client.embeddings.create(model="tiny-bert", input=tokens)
    assert np.allclose(by_tokens.data[0].embedding, first, atol=1e-3)
    assert by_tokens.usage.prompt_tokens == len(tokens)


def test_tokens_of_a_text_that_names_its_own_first_one_are_those_of_any_other(http: httpx.Client) -> None:
    asked = {"add_special": True}
    plain = http.post("/tokenize", json={**asked, "content": "the cat"}).json()["tokens"]
    assert http.post("/tokenize", json={**asked, "content": "[CLS] the cat"}).json()["tokens"] == plain
    assert http.post("/tokenize", json={**asked, "content": "[CLS] the cat [SEP]"}).json()["tokens"] == plain


def test_a_text_has_one_vector_in_every_api_and_in_every_form(client: openai.OpenAI, http: httpx.Client) -> None:
    expected = np.array(client.embeddings.create(model="tiny-bert", input="the cat").data[0].embedding)
    content = {"content": [{"type": "text", "text": "the "}, {"type": "text", "text": "cat"}]}
    tokens = http.post("/tokenize", json={"content": "the cat", "add_special": True}).json()["tokens"]
    forms = ["the cat", {"prompt_string": "the cat"}, content, tokens]
    for item in http.post("/embeddings", json={"input": forms}).json():
        assert np.allclose(item["embedding"], [expected], atol=1e-3)
    for path, field in (("/embedding", "content"), ("/embed", "inputs")):
        made = http.post(path, json={field: ["a b", "the cat"]}).json()
        last = made[1]["embedding"][0] if field == "content" else made[1]
        assert np.allclose(last, expected, atol=1e-3)
    near = http.post("/similarity", json={"inputs": {"source_sentence": "the cat", "sentences": ["the cat", "a b"]}})
    assert near.json()[0] == pytest.approx(1, abs=1e-3)
    assert near.json()[1] < 0.99


def test_an_encoder_tells_teis_clients_what_it_reads_and_what_is_too_long(http: httpx.Client) -> None:
    longest = http.get("/info").json()["max_input_length"]
    assert longest == http.get("/v1/models").json()["data"][0]["embedding_ctx"]
    refused = http.post("/embed", json={"inputs": LONG})
    assert (refused.status_code, refused.json()["error_type"]) == (413, "Validation")
    assert f"{longest} tokens" in refused.json()["error"]
    assert http.post("/embed", json={"inputs": LONG, "truncate": True}).headers["x-localllm-truncated"] == "1"


def test_what_an_encoder_cannot_do_is_refused_by_name(client: openai.OpenAI, http: httpx.Client) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model="tiny-bert", input=["a", LONG])
    assert (refused.value.param, refused.value.code) == ("input[1]", "context_length_exceeded")
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model="tiny-bert", input=[[5, 1_000_000]])
    assert refused.value.param == "input[0]"
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model="tiny-bert", input="a", dimensions=N_EMBD + 1)
    assert refused.value.param == "dimensions"
    with pytest.raises(openai.BadRequestError, match="embed"):
        client.chat.completions.create(model="tiny-bert", messages=[{"role": "user", "content": "Hi"}])
    response = http.post("/v1/rerank", json={"query": "a", "documents": ["b"]})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "model")


def test_texts_of_a_client_that_has_gone_away_hold_nobody_up(client: openai.OpenAI, http: httpx.Client) -> None:
    many = {"model": "tiny-bert", "input": ["a b " * 200] * 2048}
    with pytest.raises(httpx.ReadTimeout):
        http.post("/v1/embeddings", json=many, timeout=httpx.Timeout(60, read=0.3))
    assert client.embeddings.create(model="tiny-bert", input="a b").usage.prompt_tokens == 4
    assert 'localllm_requests_total{end="cancelled",model="tiny-bert"} 1.0' in http.get("/metrics").text


def test_what_was_embedded_is_in_the_metrics(client: openai.OpenAI, http: httpx.Client) -> None:
    client.embeddings.create(model="tiny-bert", input=["the cat", "a b"])
    metrics = http.get("/metrics").text
    assert 'localllm_requests_total{end="embedded",model="tiny-bert"}' in metrics
    assert 'localllm_embedded_texts_total{model="tiny-bert"}' in metrics
