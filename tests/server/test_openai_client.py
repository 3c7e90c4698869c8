"""The official `openai` client against our server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from localllm.client.api import Client
from localllm.errors import ContextLengthExceeded, QueueFull, WorkerCrashed
from localllm.types import Delta, Finish, Message, SamplingParams, Timings, TokenLogprob, Usage
from tests.later import openai
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client


def test_a_chat_is_answered_whole(served: Served, client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        temperature=0.5,
        top_p=0.9,
        seed=3,
        max_completion_tokens=20,
        stop=["\n"],
    )
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.content == "Hello ✓"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (7, 3, 10)
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 2
    assert served.runtime.asked == [
        (
            "tiny",
            [Message("system", "Be brief."), Message("user", "Hi")],
            SamplingParams(temperature=0.5, top_p=0.9, seed=3, max_tokens=20, stop=("\n",)),
        )
    ]
    assert served.runtime.answers[0].closed.wait(5)


def test_a_chat_is_streamed_with_usage_in_a_last_chunk_of_its_own(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "Hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].delta.content for chunk in chunks[:-1] if chunk.choices[0].delta.content] == [
        "Hel",
        "lo ✓",
    ]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 10
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_stream_has_no_usage_unless_asked(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], stream=True)
    )
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


def test_a_prompt_is_completed_whole_and_streamed(served: Served, client: openai.OpenAI) -> None:
    whole = client.completions.create(model="tiny", prompt="Once", max_tokens=5)
    streamed = client.completions.create(model="tiny", prompt=["Once"], stream=True)
    assert whole.choices[0].text == "".join(chunk.choices[0].text for chunk in streamed) == "Hello ✓"
    assert whole.object == "text_completion"
    assert whole.usage is not None
    assert [what for _, what, _ in served.runtime.asked] == ["Once", "Once"]


def test_a_prompt_of_tokens_arrives_as_tokens(served: Served, client: openai.OpenAI) -> None:
    client.completions.create(model="tiny", prompt=[1, 2, 3])
    client.completions.create(model="tiny", prompt=[[4, 5]])
    assert [what for _, what, _ in served.runtime.asked] == [[1, 2, 3], [4, 5]]


def test_several_answers_to_a_chat_have_seeds_and_indices_of_their_own(served: Served, client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], n=3, seed=7)
    assert [(choice.index, choice.message.content) for choice in answer.choices] == [(i, "Hello ✓") for i in range(3)]
    assert [params.seed for _, _, params in served.runtime.asked] == [7, 8, 9]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (7, 9), "the prompt counts once"
    assert all(given.closed.is_set() for given in served.runtime.answers)


def test_several_streams_come_as_one_and_each_ends(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [
        [Delta("a", 1), Delta("b", 1, FINISH)],
        [Delta("c", 1), Delta("", 0), Delta("d", 1, FINISH)],
    ]
    chunks = list(
        client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": "Hi"}],
            n=2,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    texts = {0: "", 1: ""}
    finishes = []
    for chunk in chunks[:-1]:
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
        finishes += [choice.index] if choice.finish_reason else []
    assert texts == {0: "ab", 1: "cd"}
    assert sorted(finishes) == [0, 1]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 6


def test_one_of_several_streams_that_fails_ends_them_all(served: Served, client: openai.OpenAI) -> None:
    served.runtime.scripts = [["hang"], [Delta("c", 1), WorkerCrashed("the model's process died")]]
    stream = client.completions.create(model="tiny", prompt="Hi", n=2, stream=True)
    with pytest.raises(openai.APIError, match="died"):
        list(stream)
    assert all(given.closed.wait(5) for given in served.runtime.answers)


def test_echo_puts_each_prompt_before_its_answers_streamed_as_whole(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="tiny", prompt=["one ", "two "], n=2, echo=True)
    texts = [choice.text for choice in whole.choices]
    assert texts == ["one Hello ✓", "one Hello ✓", "two Hello ✓", "two Hello ✓"]
    streamed = ["", "", "", ""]
    for chunk in client.completions.create(model="tiny", prompt=["one ", "two "], n=2, echo=True, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == texts
    tokens = client.completions.create(model="tiny", prompt=[256, 72, 105], echo=True)
    assert tokens.choices[0].text == "<s>HiHello ✓"


def test_what_comes_after_the_answer_reaches_the_model_unless_it_is_nothing(
    served: Served, client: openai.OpenAI
) -> None:
    client.completions.create(model="tiny", prompt="def f(", suffix="return x")
    client.completions.create(model="tiny", prompt=[1, 2], suffix="")
    assert [request.suffix for request in served.runtime.requests] == ["return x", None]


def test_several_prompts_are_answered_in_order(served: Served, client: openai.OpenAI) -> None:
    answer = client.completions.create(model="tiny", prompt=["one", "two"], n=2)
    assert [what for _, what, _ in served.runtime.asked] == ["one", "one", "two", "two"]
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (14, 12)


def test_the_best_of_several_is_the_one_with_the_highest_log_probability_per_token(
    served: Served, client: openai.OpenAI
) -> None:
    def script(text: str, *logprobs: float) -> list[Delta]:
        finish = Finish("stop", Usage(7, len(logprobs)), Timings(0, 0, 0))
        return [Delta(text, 1, finish, tuple(TokenLogprob(b"x", logprob) for logprob in logprobs))]

    served.runtime.scripts = [script("poor", -3.0), script("long and good", -1.0, -1.0, -1.0, -1.0), script("so", -2.0)]
    answer = client.completions.create(model="tiny", prompt="Hi", best_of=3, n=2)
    assert [choice.text for choice in answer.choices] == ["long and good", "so"]
    assert [params.logprobs for _, _, params in served.runtime.asked] == [0, 0, 0]
    assert all(choice.logprobs is None for choice in answer.choices), "they were not asked for"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6, "what was made counts, chosen or not"


@pytest.mark.parametrize(
    ("finish", "limit"),
    [
        (Finish("timeout", Usage(7, 1), Timings(0, 0, 0)), "timeout"),
        (Finish("length", Usage(7, 1), Timings(0, 0, 0), is_context_full=True), "context"),
        (Finish("length", Usage(7, 1), Timings(0, 0, 0)), None),
    ],
)
def test_what_cut_an_answer_is_told_where_its_token_limit_did_not(
    served: Served, client: openai.OpenAI, finish: Finish, limit: str | None
) -> None:
    served.runtime.script = [Delta("Hel", 1), Delta("", 0, finish)]
    answer = client.completions.create(model="tiny", prompt="Hi", extra_body={"timeout": 0.5})
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("Hel", "length")
    assert (answer.model_extra or {}).get("localllm", {}).get("limit") == limit
    with Client(served.url) as own:
        last = list(own.chat("tiny", [Message("user", "Hi")], SamplingParams()))[-1].finish
    assert last is not None
    assert (last.reason, last.is_context_full) == (finish.reason, finish.is_context_full)


def test_parts_of_text_are_one_message_and_a_developer_is_one(served: Served, client: openai.OpenAI) -> None:
    client.chat.completions.create(
        model="tiny",
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ],
    )
    assert served.runtime.asked[0][1] == [
        Message("developer", "Be brief."),
        Message("user", "a\nb", parts=("a", "b")),
    ]


def test_models_are_listed_with_what_they_can_hold(client: openai.OpenAI) -> None:
    model, other = client.models.list().data
    assert (other.id, other.object) == ("other:1b", "model"), "it is loaded when it is asked for"
    assert (model.id, model.object, model.owned_by) == ("tiny", "model", "localllm")
    assert model.model_extra is not None
    assert (model.model_extra["ctx"], model.model_extra["slots"], model.model_extra["chat_template"]) == (512, 4, True)
    assert client.models.retrieve("tiny") == model
    assert "secret" not in model.model_dump_json()


def test_an_unknown_model_is_not_found_and_the_message_says_which_there_are(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="loaded: tiny") as caught:
        client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "Hi"}])
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")


def test_errors_before_the_answer_have_their_status(served: Served, client: openai.OpenAI) -> None:
    served.runtime.refusal = ContextLengthExceeded("600 tokens do not fit in 512", param="messages")
    with pytest.raises(openai.BadRequestError, match="600 tokens") as caught:
        client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], stream=True)
    assert caught.value.code == "context_length_exceeded"
    served.runtime.refusal = QueueFull("too many wait")
    with pytest.raises(openai.RateLimitError):
        client.completions.create(model="tiny", prompt="Hi")


def test_a_crash_before_a_whole_answer_is_a_503(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = [Delta("Hel"), WorkerCrashed("the model's process died")]
    with pytest.raises(openai.InternalServerError, match="died") as caught:
        client.completions.create(model="tiny", prompt="Hi")
    assert caught.value.status_code == 503
    assert served.runtime.answers[0].closed.wait(5)


@pytest.mark.parametrize("error", [WorkerCrashed("the model's process died"), ZeroDivisionError("a defect")])
def test_a_stream_that_fails_ends_with_an_error_and_not_in_silence(
    served: Served, client: openai.OpenAI, error: Exception
) -> None:
    served.runtime.script = [Delta("Hel"), error]
    stream = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], stream=True)
    pieces: list[str] = []
    with pytest.raises(openai.APIError) as caught:
        pieces.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert caught.value.code == ("worker_crashed" if isinstance(error, WorkerCrashed) else "internal")
    assert "a defect" not in caught.value.message
    assert served.runtime.answers[0].closed.wait(5)


def test_an_answer_without_an_end_is_an_error(served: Served, client: openai.OpenAI) -> None:
    served.runtime.script = [Delta("Hel")]
    with pytest.raises(openai.InternalServerError):
        client.completions.create(model="tiny", prompt="Hi")


def test_timings_are_an_extension(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="tiny", prompt="Hi", extra_body={"timings": True})
    assert answer.model_extra == {"timings": {"queue_s": 0.1, "prefill_s": 0.2, "decode_s": 0.3, "ttft_s": 0.3}}
    *_, last = client.completions.create(model="tiny", prompt="Hi", stream=True, extra_body={"timings": True})
    assert last.model_extra is not None
    assert last.model_extra["timings"]["decode_s"] == FINISH.timings.decode_s


def test_a_wrong_key_is_an_authentication_error(guarded: Served) -> None:
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            client.models.list()
        assert caught.value.code == "invalid_api_key"
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="sesame", max_retries=0) as client:
        assert client.models.list().data[0].id == "tiny"


def test_the_prompt_as_the_model_reads_it_is_told_where_it_is_asked_for(served: Served) -> None:
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
    for path, body, prompt in (
        ("/v1/chat/completions", chat, "<user>Hi"),
        ("/v1/completions", {"prompt": "Hi"}, "Hi"),
        ("/v1/completions", {"prompt": [256, 72]}, "<s>H"),
    ):
        assert served.http.post(path, json=body | {"verbose": True}).json()["__verbose"] == {"prompt": prompt}
        assert "__verbose" not in served.http.post(path, json=body | {"verbose": False}).json()
        with served.http.stream("POST", path, json=body | {"verbose": True, "stream": True}) as response:
            told = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
        assert [chunk["__verbose"] for chunk in told if "__verbose" in chunk] == [{"prompt": prompt}]


def test_llama_servers_clients_know_the_server_by_how_its_fingerprint_begins(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}])
    assert answer.system_fingerprint is not None
    assert answer.system_fingerprint.startswith("b")
