"""Our own client against our own server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localllm.client.api import Client, ServerGone
from localllm.errors import InternalError, ModelNotFound, QueueFull, WorkerCrashed
from localllm.types import Delta, Message, SamplingParams
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH, HANG


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.url) as client:
        yield client


def test_text_usage_and_timings_come_back_as_deltas(served: Served, client: Client) -> None:
    params = SamplingParams(temperature=0.0, top_k=1, stop=("x",), ignore_eos=True, max_tokens=3, seed=0, min_p=0.0)
    for deltas in (
        client.chat("tiny", [Message("user", "Hi")], params),
        client.complete("tiny", "Hi", params),
    ):
        assert list(deltas) == [Delta("Hel"), Delta("lo ✓"), Delta(finish=FINISH)]
    assert served.runtime.asked == [("tiny", [Message("user", "Hi")], params), ("tiny", "Hi", params)]


def test_models_say_whether_they_can_chat(client: Client) -> None:
    model, other = client.models()
    assert (model.id, model.loaded, model.chat_template, model.ctx) == ("tiny", True, True, 512)
    assert (other.id, other.loaded) == ("other:1b", False)


def test_errors_are_those_of_the_server(served: Served, client: Client) -> None:
    with pytest.raises(ModelNotFound, match="loaded: tiny"):
        next(client.complete("other", "Hi", SamplingParams()))
    served.runtime.refusal = QueueFull("full")
    with pytest.raises(QueueFull):
        next(client.complete("tiny", "Hi", SamplingParams()))


def test_an_error_in_the_middle_of_a_stream_is_raised_after_the_text(served: Served, client: Client) -> None:
    served.runtime.script = [Delta("Hel"), WorkerCrashed("it died")]
    deltas = client.complete("tiny", "Hi", SamplingParams())
    assert next(deltas) == Delta("Hel")
    with pytest.raises(WorkerCrashed, match="process died; the server's log"):
        next(deltas)


def test_closing_the_generator_cancels_the_answer(served: Served, client: Client) -> None:
    served.runtime.script = [Delta("Hel"), HANG]
    deltas = client.complete("tiny", "Hi", SamplingParams())
    assert next(deltas) == Delta("Hel")
    deltas.close()
    assert served.runtime.answers[0].closed.wait(5)


def test_the_token_is_sent(guarded: Served) -> None:
    with Client(guarded.url, "sesame") as client:
        assert client.models()
    with Client(guarded.url, "wrong") as client, pytest.raises(InternalError, match="API key"):
        client.models()


def test_a_server_that_is_not_there_is_said_to_be_gone() -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(ServerGone):
        client.models()


def test_vectors_and_rankings_come_back_in_order(served: Served, client: Client) -> None:
    served.runtime.truncated = (1,)
    made = client.embed("tiny", ["a", "bc"], dimensions=2, normalize=False, truncate=True)
    assert [bytes(vector) for vector in made.vectors] == [b"[0.100000001,-0.25]", b"[1.10000002,-0.25]"]
    assert (made.usage.prompt_tokens, made.truncated) == (3, [1])
    served.runtime.scores = [-1.0, 1.0]
    ranked = client.rerank("tiny", "q", ["a", "bc"], raw_scores=True)
    assert [(result.index, result.relevance_score) for result in ranked.results] == [(1, 1.0), (0, -1.0)]
    served.runtime.refusal = QueueFull("full")
    with pytest.raises(QueueFull):
        client.embed("tiny", ["a"])
