"""Our own client against our own server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from localllm import Cancel, Cancelled, DiskFull, Loading
from localllm.client.api import Client, KeyRequired, ServerGone
from localllm.errors import InternalError, ModelNotFound, QueueFull, WorkerCrashed
from localllm.types import CallDelta, Delta, Message, SamplingParams, ToolCall, whole_calls
from localllm.types.states import PullState
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
        assert list(deltas) == [Delta("Hel", 1), Delta("lo ✓", 1), Delta(finish=FINISH)]
    assert served.runtime.asked == [("tiny", [Message("user", "Hi")], params), ("tiny", "Hi", params)]


def test_half_a_surrogate_pair_arrives_as_a_replacement_character(served: Served, client: Client) -> None:
    for path in ("chat", "complete"):
        prompt: Any = [Message("user", "a\ud83d")] if path == "chat" else "a\ud83d"
        assert "".join(delta.text for delta in getattr(client, path)("tiny", prompt)) == "Hello ✓"
    assert [what for _, what, _ in served.runtime.asked] == [[Message("user", "a\ufffd")], "a\ufffd"]


def test_models_say_whether_they_can_chat(client: Client) -> None:
    model, other = client.models()
    assert (model.id, model.loaded, model.chat_template, model.ctx) == ("tiny", True, True, 512)
    assert (other.id, other.loaded) == ("other:1b", False)


def test_calls_thoughts_and_notes_come_back_as_deltas_and_go_into_the_next_turn(served: Served, client: Client) -> None:
    finish = msgspec.structs.replace(FINISH, usage=msgspec.structs.replace(FINISH.usage, reasoning_tokens=1))
    calls = (CallDelta(0, '{"x"', "f", "c1"), CallDelta(0, ": 1}"), CallDelta(1, "{}", "g", "c2"))
    served.runtime.script = [
        Delta("", 1, thought="Hm."),
        Delta("So:", 1),
        Delta("", 1, finish, calls=calls, notes=("odd",)),
    ]
    tools = [{"type": "function", "function": {"name": name}} for name in "fg"]
    deltas = list(
        client.chat(
            "tiny",
            [Message("user", "Hi")],
            tools=tools,
            tool_choice="auto",
            enable_thinking=True,
            thinking_budget=9,
        )
    )
    assert deltas[:2] == [Delta("", 1, thought="Hm."), Delta("So:", 1)]
    made = whole_calls(call for delta in deltas for call in delta.calls)
    assert made == (ToolCall("f", '{"x": 1}', "c1"), ToolCall("g", "{}", "c2"))
    assert [note for delta in deltas for note in delta.notes] == ["odd"]
    assert deltas[-1] == Delta(finish=finish)
    request = served.runtime.requests[-1]
    assert request.calling is not None
    assert [function.name for function in request.calling.functions] == ["f", "g"]
    assert (request.calling.choice, request.thinking_budget) == ("auto", 9)
    turns = [
        Message("user", "Hi", parts=("H", "i")),
        Message("assistant", "So:", thought="Hm.", tool_calls=made),
        Message("tool", "5", tool_call_id="c1", name="f"),
    ]
    list(client.chat("tiny", turns))
    assert served.runtime.requests[-1].messages == (msgspec.structs.replace(turns[0], content="H\ni"), *turns[1:])


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
    with pytest.raises(WorkerCrashed, match="process died; see the server's log"):
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
    with Client(guarded.url, "wrong") as client, pytest.raises(KeyRequired, match="--api-key"):
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


def test_health_readiness_and_what_is_on_the_machine_are_told(served: Served, client: Client) -> None:
    assert client.health()
    assert client.ready() == ["tiny"]
    served.runtime.restarts = ["tiny"]
    with pytest.raises(Loading):
        client.ready()
    assert [model.id for model in client.available()] == ["other:1b"]
    with Client("http://127.0.0.1:1") as nobody:
        assert not nobody.health()


def test_models_are_loaded_pulled_and_removed(served: Served, client: Client) -> None:
    fractions: list[float] = []
    assert client.load("other:1b", fractions.append, ctx=64, slots=2, keep_alive="5m") == "other:1b"
    assert fractions[-1] == 1.0
    ((_, options, keep_alive_s),) = served.runtime.loads
    assert options is not None
    assert (options.ctx, options.slots, keep_alive_s) == (64, 2, 300.0)
    assert {process.model for process in client.processes()} == {"tiny", "other:1b"}
    client.unload("other:1b")
    client.remove("other:1b")
    assert client.available() == []
    with pytest.raises(ModelNotFound):
        client.remove("other:1b")
    states: list[PullState] = []
    served.runtime.pull_script = [
        PullState(phase="downloading", id="new:1b", done_bytes=5),
        PullState(phase="done", id="new:1b", done_bytes=7),
    ]
    assert client.pull("new:1b", states.append).size_bytes == 7
    assert [state.done_bytes for state in states][-1] == 7
    with pytest.raises(ModelNotFound):
        client.pull("nothing")
    served.runtime.pull_script = [PullState(phase="downloading", id="new:1b"), DiskFull("no room")]
    with pytest.raises(DiskFull):
        client.pull("new:1b")


def test_tokens_are_made_counted_and_spelled(client: Client) -> None:
    assert client.tokenize("tiny", "ab") == [256, 97, 98]
    assert client.detokenize("tiny", [256, 97], special=False) == "a"
    assert client.count_tokens("tiny", "ab") == 3
    assert client.count_tokens("tiny", [Message("user", "Hi")]) == 1 + len("<user>Hi")


def test_how_a_request_waits_is_passed_on(served: Served, client: Client) -> None:
    list(client.chat("tiny", [Message("user", "Hi")], timeout=5, priority=3, cache_prompt=False))
    list(client.complete("tiny", "Hi"))
    asked, plain = served.runtime.requests
    assert (asked.timeout_s, asked.priority, asked.cache_prompt) == (5, 3, False)
    assert (plain.timeout_s, plain.priority, plain.cache_prompt) == (None, 0, True)


def test_an_answer_is_cancelled_from_another_thread_wherever_it_is(served: Served, client: Client) -> None:
    cancel = Cancel()
    served.runtime.script = [Delta("Hel"), HANG]
    deltas = client.chat("tiny", [Message("user", "Hi")], cancel=cancel)
    assert next(deltas) == Delta("Hel")
    threading.Timer(0.1, cancel.cancel).start()
    (last,) = deltas  # blocks until then
    assert last.finish is not None
    assert last.finish.reason == "cancelled"
    assert served.runtime.answers[0].closed.wait(5)
    (late,) = client.complete("tiny", "Hi", cancel=cancel)
    assert late.finish is not None
    served.runtime.accepts = False  # no response has begun
    cancel = Cancel()

    def stop() -> None:
        served.runtime.asking.wait(5)
        cancel.cancel()

    threading.Thread(target=stop).start()
    (last,) = client.complete("tiny", "Hi", cancel=cancel)
    assert last.finish is not None
    assert served.runtime.gave_up.wait(5)
    assert cancel._stops == {}


def test_a_pull_is_cancelled_from_another_thread(served: Served, client: Client) -> None:
    cancel = Cancel()
    served.runtime.pull_script = [PullState(phase="downloading", id="new:1b", done_bytes=5)]
    with pytest.raises(Cancelled):
        client.pull("new:1b", lambda _: cancel.cancel(), cancel=cancel)
    assert served.runtime.pull_stopped.wait(5)


def test_another_program_at_the_address_is_said_to_be_no_localllm_server() -> None:
    class Stranger(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"data: hello\n\n")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with Client(f"http://127.0.0.1:{server.server_port}") as client:
            with pytest.raises(InternalError, match="not a localllm server"):
                client.load("tiny")
            with pytest.raises(InternalError, match="not a localllm server"):
                list(client.chat("tiny", [Message("user", "Hi")]))
        server.shutdown()
