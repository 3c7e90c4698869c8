"""The Responses API through the official `openai` client, and its events against that package's types."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from localllm.errors import ContextLengthExceeded, QueueFull, WorkerCrashed
from localllm.types import Delta, Finish, Message, SamplingParams, Timings, TokenLogprob, Usage
from tests.later import openai, response_event
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH, HANG
from tests.sockets import received_until

LENGTH = Finish("length", Usage(7, 3), Timings(0, 0, 0))
BODY = {"model": "tiny", "input": "Hi"}


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream, each with its name checked."""
    blocks = response.text.split("\n\n")
    assert blocks.pop() == "", "the last event has its empty line"
    events = []
    for block in blocks:
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def test_a_text_is_answered_whole(served: Served, client: openai.OpenAI) -> None:
    response = client.responses.create(
        model="tiny",
        input="Hi",
        instructions="Be brief.",
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=20,
        metadata={"a": "b"},
        extra_body={"seed": 3, "stop": "\n"},
    )
    assert (response.object, response.status, response.output_text) == ("response", "completed", "Hello ✓")
    (message,) = response.output
    assert message.type == "message"
    assert (message.role, message.status) == ("assistant", "completed")
    assert response.id.startswith("resp_")
    assert message.id.startswith("msg_")
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (7, 3, 10)
    assert response.usage.input_tokens_details.cached_tokens == 2
    assert response.usage.output_tokens_details.reasoning_tokens == 0
    assert (response.instructions, response.metadata, response.model) == ("Be brief.", {"a": "b"}, "tiny")
    assert (response.temperature, response.top_p, response.max_output_tokens) == (0.5, 0.9, 20)
    assert response.completed_at is not None
    assert response.completed_at >= response.created_at
    assert served.runtime.asked == [
        (
            "tiny",
            [Message("system", "Be brief."), Message("user", "Hi")],
            SamplingParams(temperature=0.5, top_p=0.9, seed=3, max_tokens=20, stop=("\n",)),
        )
    ]
    assert served.runtime.answers[0].closed.wait(5)


def test_a_response_is_what_the_package_says_one_is(served: Served) -> None:
    given = served.http.post("/v1/responses", json={**BODY, "include": ["message.output_text.logprobs"]}).json()
    response = openai.types.responses.Response.model_validate(given, strict=False)
    assert response.to_dict(exclude_unset=True, exclude_none=False) | {"created_at": 0, "completed_at": 0} == given | {
        "created_at": 0,
        "completed_at": 0,
    }
    assert (response.tools, response.tool_choice, response.truncation, response.background) == (
        [], "auto", "disabled", False,
    )  # fmt: skip


def test_messages_come_easy_typed_and_in_parts(served: Served, client: openai.OpenAI) -> None:
    client.responses.create(
        model="tiny",
        input=[
            {"role": "developer", "content": "Be brief."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "b", "annotations": []}],
            },
            {"role": "user", "content": [{"type": "input_text", "text": "c"}, {"type": "input_text", "text": "d"}]},
        ],
    )
    assert served.runtime.asked[0][1] == [
        Message("developer", "Be brief."),
        Message("user", "a"),
        Message("assistant", "b"),
        Message("user", "c\nd", parts=("c", "d")),
    ]


def test_a_responses_output_can_be_sent_back_as_it_came(served: Served, client: openai.OpenAI) -> None:
    first = client.responses.create(model="tiny", input="Hi", store=False)
    history: Any = [{"role": "user", "content": "Hi"}, *first.output, {"role": "user", "content": "And?"}]
    client.responses.create(model="tiny", input=history, store=False)
    assert served.runtime.asked[1][1] == [
        Message("user", "Hi"), Message("assistant", "Hello ✓"), Message("user", "And?"),
    ]  # fmt: skip


def test_a_stream_tells_the_response_from_its_beginning_to_its_end(served: Served, client: openai.OpenAI) -> None:
    events = list(client.responses.create(model="tiny", input="Hi", stream=True))
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(10))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Hello ✓"
    last = events[-1]
    assert last.type == "response.completed"
    assert (last.response.status, last.response.output_text) == ("completed", "Hello ✓")
    assert last.response.usage is not None
    assert last.response.usage.total_tokens == 10
    assert served.runtime.answers[0].closed.wait(5)


def test_the_clients_own_stream_helper_puts_the_response_together(client: openai.OpenAI) -> None:
    with client.responses.stream(model="tiny", input="Hi") as stream:
        assert stream.get_final_response().output_text == "Hello ✓"


@pytest.mark.parametrize("finish", [FINISH, LENGTH])
def test_every_event_is_what_the_package_says_it_is(served: Served, finish: Finish) -> None:
    logprobs = (TokenLogprob(b"Hel", -0.5, ((b"Hel", -0.5), (b"\xff", -2.0))),)
    served.runtime.script = [Delta("Hel", 1, None, logprobs), Delta("lo", 1, finish, logprobs)]
    include = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    response = served.http.post("/v1/responses", json={**BODY, **include, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    for event in events_of(response):
        assert response_event().validate_python(event).type == event["type"]
    assert "[DONE]" not in response.text


@pytest.mark.parametrize("reason", ["length", "timeout"])
def test_an_answer_that_was_cut_by_a_limit_is_incomplete(served: Served, client: openai.OpenAI, reason: Any) -> None:
    served.runtime.script = [Delta("Hel", 1), Delta("", 0, Finish(reason, Usage(7, 1), Timings(0, 0, 0)))]
    whole = client.responses.create(model="tiny", input="Hi", max_output_tokens=1)
    *_, last = client.responses.create(model="tiny", input="Hi", max_output_tokens=1, stream=True)
    assert last.type == "response.incomplete"
    for response in (whole, last.response):
        assert (response.status, response.output_text) == ("incomplete", "Hel")
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == "max_output_tokens"
        assert response.output[0].type == "message"
        assert response.output[0].status == "incomplete"
        assert response.completed_at is None


def test_log_probabilities_come_when_they_are_included_whole_and_streamed(
    served: Served, client: openai.OpenAI
) -> None:
    served.runtime.script = [Delta("Hi", 1, FINISH, (TokenLogprob(b"Hi", -0.5, ((b"Hi", -0.5), (b"Ho", -1.5))),))]
    whole = client.responses.create(model="tiny", input="Hi", include=["message.output_text.logprobs"], top_logprobs=2)
    assert served.runtime.asked[0][2].logprobs == 2
    assert whole.output[0].type == "message"
    assert whole.output[0].content[0].type == "output_text"
    logprobs = whole.output[0].content[0].logprobs
    assert logprobs is not None
    assert [(each.token, each.logprob, each.bytes) for each in logprobs] == [("Hi", -0.5, [72, 105])]
    assert [(top.token, top.logprob) for top in logprobs[0].top_logprobs] == [("Hi", -0.5), ("Ho", -1.5)]
    stream = client.responses.create(
        model="tiny", input="Hi", include=["message.output_text.logprobs"], top_logprobs=2, stream=True
    )
    (delta,) = (event for event in stream if event.type == "response.output_text.delta")
    assert [(each.token, each.logprob) for each in delta.logprobs] == [("Hi", -0.5)]
    client.responses.create(model="tiny", input="Hi")
    assert served.runtime.asked[-1][2].logprobs is None


def test_errors_before_the_answer_have_their_status(served: Served, client: openai.OpenAI) -> None:
    served.runtime.refusal = ContextLengthExceeded("600 tokens do not fit in 512", param="input")
    with pytest.raises(openai.BadRequestError, match="600 tokens") as caught:
        client.responses.create(model="tiny", input="Hi", stream=True)
    assert caught.value.code == "context_length_exceeded"
    served.runtime.refusal = QueueFull("too many wait")
    with pytest.raises(openai.RateLimitError):
        client.responses.create(model="tiny", input="Hi")
    served.runtime.refusal = None
    with pytest.raises(openai.NotFoundError, match="loaded: tiny"):
        client.responses.create(model="gpt-9", input="Hi")


def test_a_crash_before_a_whole_answer_is_a_503(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = [Delta("Hel"), WorkerCrashed("the model's process died")]
    with pytest.raises(openai.InternalServerError) as caught:
        client.responses.create(model="tiny", input="Hi")
    assert (caught.value.status_code, caught.value.code) == (503, "worker_crashed")
    assert served.runtime.answers[0].closed.wait(5)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([Delta("Hel"), WorkerCrashed("the model's process died")], "worker_crashed"),
        ([Delta("Hel"), ZeroDivisionError("a secret")], "internal"),
        ([Delta("Hel")], "internal"),
        ([Delta("Hel"), Delta("", 0, Finish("cancelled", Usage(7, 1), Timings(0, 0, 0)))], "draining"),
    ],
)
def test_a_stream_that_fails_says_so_and_is_not_kept(served: Served, script: Any, code: str) -> None:
    served.runtime.script = script
    response = served.http.post("/v1/responses", json={**BODY, "stream": True})
    events = events_of(response)
    assert [event["type"] for event in events[-3:]] == ["response.output_text.delta", "error", "response.failed"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        assert response_event().validate_python(event).type == event["type"]
    assert events[-2]["code"] == code
    failed = events[-1]["response"]
    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
    assert failed["error"]["message"] == events[-2]["message"] != ""
    assert failed["id"] == events[0]["response"]["id"]
    assert "secret" not in response.text
    assert served.http.get(f"/v1/responses/{failed['id']}").status_code == 404
    assert served.runtime.answers[0].closed.wait(5)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_cancels_its_answer_and_nothing_is_kept(served: Served, stream: bool) -> None:
    served.runtime.script = [Delta("Hel"), HANG]
    content = json.dumps({**BODY, "stream": stream}).encode()
    head = "POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with socket.create_connection(served.address) as connection:
        connection.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        assert served.runtime.answered.wait(5)
        (answer,) = served.runtime.answers
        assert answer.hangs.wait(5)
        got = received_until(connection, b"response.output_text.delta") if stream else b""
        assert not answer.closed.is_set()
    assert answer.closed.wait(5)
    if stream:
        id = got.partition(b'"id":"resp_')[2].partition(b'"')[0].decode()
        assert served.http.get(f"/v1/responses/resp_{id}").status_code == 404


def test_timings_are_an_extension(client: openai.OpenAI) -> None:
    response = client.responses.create(model="tiny", input="Hi", extra_body={"timings": True})
    assert response.model_extra is not None
    assert response.model_extra["timings"] == {"queue_s": 0.1, "prefill_s": 0.2, "decode_s": 0.3, "ttft_s": 0.3}
    *_, last = client.responses.create(model="tiny", input="Hi", stream=True, extra_body={"timings": True})
    assert last.type == "response.completed"
    assert last.response.model_extra is not None
    assert last.response.model_extra["timings"]["decode_s"] == FINISH.timings.decode_s


def test_a_wrong_method_is_told_which_there_are(served: Served) -> None:
    response = served.http.put("/v1/responses/resp_1", json={})
    assert response.status_code == 405
    assert "DELETE" in response.json()["error"]["message"]
    assert "GET" in response.json()["error"]["message"]


def test_a_thought_is_an_item_before_the_answer_and_goes_back_to_the_template_with_the_next_turn(
    served: Served, client: openai.OpenAI
) -> None:
    served.runtime.script = [Delta("", 1, thought="Hm. "), Delta("", 1, thought="Yes."), Delta("[1]", 1, FINISH)]
    response = client.responses.create(model="tiny", input="Hi", text={"format": {"type": "json_object"}})
    thought, message = response.output
    assert thought.type == "reasoning"
    assert thought.content is not None
    assert [part.text for part in thought.content] == ["Hm. Yes."]
    assert message.type == "message"
    assert response.output_text == "[1]"
    assert response.text is not None
    assert response.text.format is not None
    assert response.text.format.type == "json_object"
    client.responses.create(model="tiny", input="More", previous_response_id=response.id)
    answer = Message("assistant", "[1]", thought="Hm. Yes.")
    assert served.runtime.asked[-1][1] == [Message("user", "Hi"), answer, Message("user", "More")]
    client.responses.create(model="tiny", input=[*response.output, {"role": "user", "content": "x"}])  # type: ignore[list-item]
    assert served.runtime.asked[-1][1] == [answer, Message("user", "x")]


def test_a_thought_is_its_own_summary_where_one_is_asked_for(served: Served, client: openai.OpenAI) -> None:
    """Codex and Zed show summaries, and nothing else of a thought unless they are told to."""
    served.runtime.script = [Delta("", 1, thought="Hm. "), Delta("", 1, thought="Yes."), Delta("So.", 1, FINISH)]
    asked: dict[str, Any] = {"model": "tiny", "input": "Hi", "reasoning": {"summary": "auto"}}
    thought = client.responses.create(**asked).output[0]
    assert thought.type == "reasoning"
    assert [part.text for part in thought.summary] == ["Hm. Yes."]
    events = list(client.responses.create(**asked, stream=True))
    told = [event.delta for event in events if event.type == "response.reasoning_summary_text.delta"]
    assert told == ["Hm. ", "Yes."]
    kinds = [event.type.removeprefix("response.reasoning_summary_") for event in events if "summary" in event.type]
    assert kinds == ["part.added", "text.delta", "text.delta", "text.done", "part.done"]
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm. Yes."}]}
    said = {"role": "assistant", "content": "So."}
    client.responses.create(model="tiny", input=[summary, said, {"role": "user", "content": "x"}])  # type: ignore[list-item]
    assert served.runtime.asked[-1][1] == [Message("assistant", "So.", thought="Hm. Yes."), Message("user", "x")]


def test_a_structure_is_sent_back_as_it_was_asked_for(served: Served) -> None:
    shape = {"type": "json_schema", "name": "n", "schema": {"type": "object", "b": 1, "a": 2}, "strict": True}
    given = served.http.post("/v1/responses", json={**BODY, "text": {"format": shape}}).json()
    assert given["text"] == {"format": shape}
    openai.types.responses.Response.model_validate(given, strict=False)
    assert served.http.get(f"/v1/responses/{given['id']}").json()["text"] == {"format": shape}
