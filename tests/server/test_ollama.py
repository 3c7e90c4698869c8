"""Ollama's API, byte by byte where its clients look, before a scripted runtime."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import msgspec
import pytest

from localllm.errors import ContextLengthExceeded, QueueFull, WorkerCrashed
from localllm.settings.config import Settings
from localllm.types import CallDelta, Delta, Finish, Message, Timings, TokenLogprob, ToolCall, Usage
from localllm.types.states import PullState
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH, TEXT_ONLY

HI = [{"role": "user", "content": "Hi"}]
COSTS = {
    "total_duration": "N",
    "load_duration": "N",
    "prompt_eval_count": 7,
    "prompt_eval_duration": 200_000_000,
    "eval_count": 3,
    "eval_duration": 300_000_000,
}
HEAD = {"model": "tiny", "created_at": "T"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


def asked(served: Served, path: str, body: Any, method: str = "POST") -> httpx.Response:
    """As Ollama's own clients ask: without a type."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return served.http.request(method, f"/api/{path}", content=content)


def shape(line: dict[str, Any]) -> dict[str, Any]:
    """With placeholders for what differs each time."""
    if "created_at" in line:
        assert TIME.fullmatch(line["created_at"])
        line["created_at"] = "T"
    for name in ("total_duration", "load_duration"):
        if name in line:
            assert isinstance(line[name], int)
            assert line[name] > 0
            line[name] = "N"
    return line


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.text.endswith("\n")
    return [shape(json.loads(line)) for line in response.text.splitlines()]


def whole(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    return shape(response.json())


def error(response: httpx.Response) -> tuple[int, str]:
    assert response.json().keys() == {"error"}
    return response.status_code, response.json()["error"]


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def test_a_chat_streams_lines_and_the_last_says_what_it_cost(served: Served) -> None:
    assert lines(asked(served, "chat", {"model": "tiny", "messages": HI})) == [
        {**HEAD, "message": said("Hel"), "done": False},
        {**HEAD, "message": said("lo ✓"), "done": False},
        {**HEAD, "message": said(""), "done": True, "done_reason": "stop", **COSTS},
    ]
    assert served.runtime.answers[0].closed.wait(5)


def test_a_whole_chat_is_one_object_in_ollamas_order(served: Served) -> None:
    response = asked(served, "chat", {"model": "tiny:latest", "messages": HI, "stream": False})
    reply = whole(response)
    assert response.headers["content-type"] == "application/json"
    told = {"model": "tiny:latest", "created_at": "T", "message": said("Hello ✓"), "done": True, "done_reason": "stop"}
    assert reply == {**told, **COSTS}
    assert list(reply) == [*told, *COSTS]


def test_a_prompt_streams_and_comes_whole(served: Served) -> None:
    body = {"model": "tiny", "prompt": "Hi", "system": "Be brief."}
    context = [256, *"<system>Be brief.<user>Hi<assistant>Hello ✓".encode()]
    assert lines(asked(served, "generate", body)) == [
        {**HEAD, "response": "Hel", "done": False},
        {**HEAD, "response": "lo ✓", "done": False},
        {**HEAD, "response": "", "done": True, "done_reason": "stop", "context": context, **COSTS},
    ]
    reply = whole(asked(served, "generate", body | {"stream": False}))
    assert reply == {**HEAD, "response": "Hello ✓", "done": True, "done_reason": "stop", "context": context, **COSTS}
    assert served.runtime.asked[0][1] == [Message("system", "Be brief."), Message("user", "Hi")]


def test_raw_prompts_and_suffixes_pass_the_template_by(served: Served) -> None:
    whole(asked(served, "generate", {"model": "tiny", "prompt": "def f(", "raw": True, "stream": False}))
    whole(asked(served, "generate", {"model": "tiny", "prompt": "def f(", "suffix": "pass", "stream": False}))
    assert [(each.prompt, each.suffix) for each in served.runtime.requests] == [("def f(", None), ("def f(", "pass")]


def test_a_thought_has_a_field_and_lines_of_its_own(served: Served) -> None:
    served.runtime.scripts = [[Delta("", 1, thought="Hm"), Delta("So", 1), Delta("", 0, FINISH)]] * 4
    body = {"model": "tiny", "messages": HI}
    assert [line["message"] for line in lines(asked(served, "chat", body))] == [
        said("", thinking="Hm"), said("So"), said("")
    ]  # fmt: skip
    assert whole(asked(served, "chat", body | {"stream": False}))["message"] == said("So", thinking="Hm")
    prompt = {"model": "tiny", "prompt": "Hi"}
    assert lines(asked(served, "generate", prompt))[0] == {**HEAD, "response": "", "thinking": "Hm", "done": False}
    assert whole(asked(served, "generate", prompt | {"stream": False}))["thinking"] == "Hm"


CALLS = [
    Delta("", 1, calls=(CallDelta(0, '{"b": 1,', "f", "call_1"),)),
    Delta("", 1, calls=(CallDelta(0, ' "a": [2]}'),)),
    Delta("", 1, calls=(CallDelta(1, "{}", "g", "call_2"),)),
    Delta("", 1, FINISH),
]
F = {"id": "call_1", "function": {"index": 0, "name": "f", "arguments": {"b": 1, "a": [2]}}}
G = {"id": "call_2", "function": {"index": 1, "name": "g", "arguments": {}}}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in "fg"
]


def test_calls_are_objects_and_come_before_the_last_line(served: Served) -> None:
    served.runtime.scripts = [CALLS, CALLS]
    body = {"model": "tiny", "messages": HI, "tools": TOOLS}
    told = lines(asked(served, "chat", body))
    assert [(line["message"], line["done"]) for line in told] == [
        (said("", tool_calls=[F]), False),
        (said("", tool_calls=[G]), False),
        (said(""), True),
    ]
    reply = whole(asked(served, "chat", body | {"stream": False}))
    assert reply["message"] == said("", tool_calls=[F, G])
    assert list(reply["message"]["tool_calls"][0]["function"]["arguments"]) == ["b", "a"]
    calling = served.runtime.requests[0].calling
    assert calling is not None
    assert [function.name for function in calling.functions] == ["f", "g"]


def test_a_call_that_was_cut_is_text_and_nothing_is_lost(served: Served) -> None:
    cut = [Delta("", 1, calls=(CallDelta(0, '{"b": ', "f", "call_1"),)), Delta("", 1, FINISH)]
    served.runtime.scripts = [cut, cut]
    body = {"model": "tiny", "messages": HI, "tools": TOOLS}
    assert whole(asked(served, "chat", body | {"stream": False}))["message"] == said('f {"b": ')
    assert lines(asked(served, "chat", body))[0]["message"] == said('f {"b": ')


def test_results_find_their_calls_by_the_tools_name(served: Served) -> None:
    call = {"function": {"name": "f", "arguments": {"x": 1}}}
    answered = {"role": "tool", "content": "42", "tool_name": "f"}
    body = {"model": "tiny", "messages": [*HI, {"role": "Assistant", "tool_calls": [call]}, answered]}
    lines(asked(served, "chat", body))
    messages = served.runtime.requests[0].messages
    assert messages is not None
    _, made, result = messages
    assert made.tool_calls == (ToolCall("f", '{"x": 1}', made.tool_calls[0].id),)
    assert result.tool_call_id == made.tool_calls[0].id != ""


def test_options_are_honoured_and_what_is_not_is_named(served: Served) -> None:
    options = {
        "temperature": 0.5, "top_k": 3, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.7, "repeat_penalty": 1.1,
        "repeat_last_n": 5, "presence_penalty": 0.2, "frequency_penalty": 0.3, "mirostat": 1, "mirostat_tau": 2.0,
        "mirostat_eta": 0.2, "seed": 7, "num_predict": 9, "stop": ["x", "y"],
    }  # fmt: skip
    body = {"model": "tiny", "messages": HI, "options": {**options, "num_ctx": 512, "num_gpu": 3, "numa": True}}
    response = asked(served, "chat", body | {"nobody": 1, "truncate": True, "shift": True})
    params = served.runtime.asked[0][2]
    for name in options.keys() - {"num_predict", "stop"}:
        assert getattr(params, name) == options[name], name
    assert (params.max_tokens, params.stop) == (9, ("x", "y"))
    told = set(response.headers["x-localllm-ignored"].split(", "))
    assert told == {"nobody", "shift", "options.num_gpu", "options.numa"}, "the context is as large as that"
    larger = asked(served, "chat", {"model": "tiny", "messages": HI, "options": {"num_ctx": 5000, "num_predict": -2}})
    assert larger.headers["x-localllm-ignored"] == "options.num_ctx", "it can be had with 4096"
    assert served.runtime.asked[1][2].max_tokens == -1


@pytest.mark.parametrize(
    ("format", "kind", "source"),
    [("json", "json_object", ""), ({}, "json_object", ""), ({"type": "array"}, "json_schema", '{"type": "array"}')],
)
def test_a_format_is_a_structure(served: Served, format: Any, kind: str, source: str) -> None:
    whole(asked(served, "chat", {"model": "tiny", "messages": HI, "format": format, "stream": False}))
    structure = served.runtime.requests[0].structure
    assert structure is not None
    assert (structure.kind, structure.source) == (kind, source)


@pytest.mark.parametrize(
    ("think", "variables"),
    [(None, {}), (False, {"enable_thinking": False, "thinking": False}), ("", {})],
)
def test_think_switches_the_template(served: Served, think: Any, variables: dict[str, Any]) -> None:
    whole(asked(served, "chat", {"model": "tiny", "messages": HI, "think": think, "stream": False}))
    assert json.loads(served.runtime.requests[0].rendering.variables) == variables


def test_thoughts_of_a_model_that_thinks_have_a_level(served: Served) -> None:
    (tiny,) = served.runtime.models
    served.runtime.models = [
        msgspec.structs.replace(tiny, format=msgspec.structs.replace(tiny.format, thinking="switchable"))
    ]
    whole(asked(served, "chat", {"model": "tiny", "messages": HI, "think": "high", "stream": False}))
    variables = json.loads(served.runtime.requests[0].rendering.variables)
    assert variables == {"reasoning_effort": "high", "enable_thinking": True, "thinking": True}


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("chat", b"", 400, "missing request body"),
        ("chat", b"{", 400, "the body is not valid JSON: Input data was truncated"),
        ("chat", {"messages": HI}, 400, "model is required"),
        ("chat", {"model": "nope", "messages": HI}, 404, "model 'nope' not found"),
        ("generate", {"model": "nope", "prompt": "x"}, 404, "model 'nope' not found"),
        ("show", {"model": "nope"}, 404, "model 'nope' not found"),
        ("embed", {"model": "nope", "input": "x"}, 404, "model 'nope' not found"),
        ("copy", {"source": "nope", "destination": "x"}, 404, "model 'nope' not found"),
        ("show", {"model": "a b"}, 400, "invalid model name"),
        ("chat", {"model": "tiny", "messages": HI, "think": True}, 400, '"tiny" does not support thinking'),
        ("chat", {"model": "tiny", "messages": HI, "format": "xml"}, 400,
         'invalid format: "xml"; expected "json" or a valid JSON Schema object'),
        ("chat", {"model": "tiny", "messages": HI, "options": {"top_k": "a"}}, 400,
         "options.top_k must be a whole number or null, got a string"),
        ("chat", {"model": "tiny", "messages": [{"role": "user", "content": "x", "images": ["AAAA"]}]}, 400,
         f"messages[0].images[0]: tiny cannot see images: {TEXT_ONLY}"),
        ("generate", {"model": "tiny", "prompt": "x", "images": ["AAAA"]}, 400,
         f"images[0]: tiny cannot see images: {TEXT_ONLY}"),
        ("generate", {"model": "tiny", "prompt": "x", "images": ["AAAA"], "suffix": "y"}, 400,
         "images and suffix are mutually exclusive; send one of them"),
        ("generate", {"model": "tiny", "prompt": "x", "raw": True, "system": "y"}, 400,
         "raw mode does not support template, system, or context"),
        ("generate", {"model": "tiny", "prompt": "x", "suffix": "y", "context": [1]}, 400,
         "suffix and context are mutually exclusive; send one of them"),
        ("generate", {"model": "tiny", "prompt": "x", "template": "{{ .Prompt }}"}, 400,
         'template is not supported: `raw: true` uses the prompt without a template; leave it out or send ""'),
    ],
)  # fmt: skip
def test_errors_are_one_sentence(served: Served, path: str, body: Any, status: int, words: str) -> None:
    assert error(asked(served, path, body)) == (status, words)


def test_an_unknown_path_and_a_wrong_method_are_errors_of_the_same_shape(served: Served) -> None:
    assert error(served.http.get("/api/nothing"))[0] == 404
    response = served.http.get("/api/chat")
    assert (error(response)[0], response.headers["allow"]) == (405, "POST")


def test_what_a_model_refuses_has_a_status_even_of_a_stream(served: Served) -> None:
    served.runtime.refusal = ContextLengthExceeded("too long")
    assert error(asked(served, "chat", {"model": "tiny", "messages": HI})) == (400, "too long")
    served.runtime.refusal = QueueFull("full")
    assert error(asked(served, "chat", {"model": "tiny", "messages": HI}))[0] == 503


def test_what_goes_wrong_in_a_stream_is_its_last_line(served: Served) -> None:
    served.runtime.scripts = [[Delta("Hel", 1), WorkerCrashed("gone")]]
    told = lines(asked(served, "chat", {"model": "tiny", "messages": HI}))
    assert told[0]["message"] == said("Hel")
    assert told[-1] == {"error": "the model's process died; see the server's log"}


@pytest.mark.parametrize(("reason", "told"), [("length", "length"), ("timeout", "length")])
def test_an_answer_that_was_cut_says_so(served: Served, reason: Any, told: str) -> None:
    served.runtime.scripts = [[Delta("x", 1, Finish(reason, Usage(1, 1), Timings(0, 0, 0)))]]
    assert whole(asked(served, "generate", {"model": "tiny", "prompt": "x", "stream": False}))["done_reason"] == told


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("5m", 300.0), (-1, -1.0), ("-1m", -1.0), (0, 0.0), ("0", 0.0), (90, 90.0), ("1h30m", 5400.0)],
)
def test_keep_alive_is_taken_as_ollama_writes_it(served: Served, given: Any, seconds: float) -> None:
    whole(asked(served, "chat", {"model": "tiny", "messages": HI, "keep_alive": given, "stream": False}))
    assert served.runtime.keep_alives == [seconds]


def test_without_anything_to_answer_a_model_is_loaded_or_leaves(served: Served) -> None:
    assert lines(asked(served, "generate", {"model": "other:1b", "keep_alive": "5m"})) == [
        {"model": "other:1b", "created_at": "T", "response": "", "done": True, "done_reason": "load"}
    ]
    assert [model.id for model in served.runtime.models] == ["tiny", "other:1b"]
    assert served.runtime.keep_alives == [300.0]
    body = {"model": "tiny", "messages": [], "keep_alive": 0, "stream": False}
    assert whole(asked(served, "chat", body)) == {**HEAD, "message": said(""), "done": True, "done_reason": "unload"}
    assert served.runtime.keep_alives[1:] == [0.0], "it goes when the answer that it makes has ended"


def test_vectors_of_several_texts(served: Served) -> None:
    reply = whole(asked(served, "embed", {"model": "tiny", "input": ["ab", "c"], "dimensions": 2}))
    assert reply == {
        "model": "tiny",
        "embeddings": [[0.100000001, -0.25], [1.10000002, -0.25]],
        "total_duration": "N",
        "load_duration": "N",
        "prompt_eval_count": 3,
    }
    (request,) = served.runtime.embedded
    assert (request.normalize, request.truncate, request.dimensions) == (True, True, 2)
    assert whole(asked(served, "embed", {"model": "tiny", "input": []})) == {"model": "tiny", "embeddings": []}


def test_a_text_that_is_too_long_to_embed_is_refused_in_ollamas_words(served: Served) -> None:
    served.runtime.refusal = ContextLengthExceeded("input 0 has 9 tokens")
    response = asked(served, "embed", {"model": "tiny", "input": "x", "truncate": False})
    assert error(response) == (400, "the input length exceeds the context length")
    assert not served.runtime.embedded[0].truncate


def test_the_old_endpoint_gives_one_vector_as_it_is(served: Served) -> None:
    reply = whole(asked(served, "embeddings", {"model": "tiny", "prompt": "ab"}))
    assert reply == {"embedding": [0.100000001, -0.25, 3.00000011e-07, 0.0]}
    assert not served.runtime.embedded[0].normalize
    assert whole(asked(served, "embeddings", {"model": "tiny"})) == {"embedding": []}


DETAILS = {
    "parent_model": "", "format": "gguf", "family": "llama", "families": ["llama"], "parameter_size": "1K",
    "quantization_level": "Q8_0", "context_length": 512, "embedding_length": 64,
}  # fmt: skip


def test_the_list_of_models_is_ollamas(served: Served) -> None:
    tiny, other = served.http.get("/api/tags").json()["models"]
    assert re.fullmatch(r"[0-9a-f]{64}", other.pop("digest"))
    assert other == {
        "name": "other:1b",
        "model": "other:1b",
        "modified_at": "2020-09-13T12:26:40Z",
        "size": 99,
        "details": DETAILS,
        "capabilities": ["completion", "tools"],
    }
    assert tiny["name"] == "tiny:latest"


def test_what_is_loaded_is_told_with_its_context(served: Served) -> None:
    (tiny,) = served.http.get("/api/ps").json()["models"]
    listed = served.http.get("/api/tags").json()["models"][0]
    assert tiny == {
        "name": "tiny:latest",
        "model": "tiny:latest",
        "size": 1000,
        "digest": listed["digest"],
        "details": DETAILS,
        "expires_at": "2318-01-01T00:00:00Z",
        "size_vram": 0,
        "context_length": 512,
    }


def test_show_tells_what_clients_choose_by(served: Served) -> None:
    reply = asked(served, "show", {"name": "Tiny", "verbose": False}).json()
    assert reply["details"] == DETAILS
    assert reply["capabilities"] == ["completion", "tools"]
    assert reply["template"] == "{{ messages }}"
    assert reply["modelfile"].startswith('# Modelfile generated by "ollama show"\nFROM tiny\n')
    assert reply["model_info"]["general.architecture"] == "llama"
    assert reply["model_info"]["llama.context_length"] == 512
    assert reply["model_info"]["llama.embedding_length"] == 64
    assert "secret" not in json.dumps(reply), "where its file lies is nobody's business"


def test_models_are_copied_and_deleted(served: Served) -> None:
    copied = asked(served, "copy", {"source": "other:1b", "destination": "Mine"})
    assert (copied.status_code, copied.content) == (200, b"")
    assert [model.id for model in served.runtime.others] == ["other:1b", "mine"]
    deleted = asked(served, "delete", {"model": "mine:latest"}, "DELETE")
    assert (deleted.status_code, deleted.content) == (200, b"")
    assert error(asked(served, "delete", {"model": "mine"}, "DELETE")) == (404, "model 'mine' not found")


def test_a_pull_tells_how_far_it_is(served: Served) -> None:
    half = PullState(phase="downloading", id="new:1b", done_bytes=50, total_bytes=100)
    served.runtime.pull_script = [half, PullState(phase="done", id="new:1b", done_bytes=100, total_bytes=100)]
    told = lines(asked(served, "pull", {"model": "New:1b"}))
    assert told[0] == {"status": "pulling manifest"}
    assert [line["status"] for line in told[-3:]] == ["verifying sha256 digest", "writing manifest", "success"]
    (progress,) = [line for line in told if "total" in line]
    assert (progress["total"], progress["completed"]) == (100, 50)
    assert progress["status"] == f"pulling {progress['digest'].removeprefix('sha256:')[:12]}"
    served.runtime.pull_script = served.runtime.pull_script[1:]
    assert whole(asked(served, "pull", {"model": "new:1b", "stream": False})) == {"status": "success"}


def test_a_pull_tells_for_whom_it_waits(served: Served) -> None:
    waiting = [
        PullState(phase="looking", id="new:1b", waiting_for="hub.example", waiting_s=2.0),
        PullState(phase="downloading", id="new:1b", waiting_for="hub.example", waiting_s=3.0),
    ]
    served.runtime.pull_script = [*waiting, PullState(phase="done", id="new:1b", done_bytes=100, total_bytes=100)]
    told = [line["status"] for line in lines(asked(served, "pull", {"model": "new:1b"}))]
    assert "waiting for hub.example" in told
    assert told[-1] == "success"


def test_a_pull_of_nothing_ends_with_ollamas_sentence(served: Served) -> None:
    told = lines(asked(served, "pull", {"model": "nothing"}))
    assert told == [{"status": "pulling manifest"}, {"error": "pull model manifest: file does not exist"}]
    assert error(asked(served, "pull", {"model": "nothing", "stream": False}))[0] == 404


def test_a_client_that_hangs_up_stops_its_pull(served: Served) -> None:
    with served.http.stream("POST", "/api/pull", content=b'{"model": "new:1b"}') as response:
        next(response.iter_bytes())
    assert served.runtime.pull_stopped.wait(5)


def test_log_probabilities_are_in_the_lines_of_their_tokens(served: Served) -> None:
    item = TokenLogprob(b"a", -0.5, ((b"a", -0.5), (b"b", -1.5)))
    served.runtime.scripts = [[Delta("a", 1, logprobs=(item,)), Delta("", 0, FINISH)]]
    body = {"model": "tiny", "messages": HI, "logprobs": True, "top_logprobs": 2}
    told = lines(asked(served, "chat", body))
    top = [{"token": "a", "logprob": -0.5, "bytes": [97]}, {"token": "b", "logprob": -1.5, "bytes": [98]}]
    assert told[0]["logprobs"] == [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": top}]
    assert "logprobs" not in told[1]
    assert served.runtime.asked[0][2].logprobs == 2


def test_the_root_says_what_ollamas_clients_look_for(served: Served) -> None:
    assert served.http.get("/").text == "Ollama is running"
    assert served.http.get("/v1", headers={"accept": "text/html"}).headers["location"] == "./"
    assert "GET /v1/models" in served.http.get("/v1").json()["error"]["message"]
    assert served.http.head("/").status_code == 200
    assert re.fullmatch(r"\d+\.\d+\.\d+", served.http.get("/api/version").json()["version"])


def test_a_key_is_needed_here_too_and_the_error_is_ollamas(guarded: Served) -> None:
    response = guarded.http.post("/api/chat", content=b'{"model": "tiny"}')
    assert error(response)[0] == 401
    assert guarded.http.get("/").status_code == 200  # it says no more than that somebody is there
    key = {"authorization": "Bearer sesame"}
    assert guarded.http.get("/api/tags", headers=key).status_code == 200


def test_a_page_of_another_site_cannot_post_text_instead_of_json(served: Served) -> None:
    headers = {"origin": "https://evil.example", "content-type": "text/plain"}
    response = served.http.post("/api/delete", content=b'{"model": "other:1b"}', headers=headers)
    assert error(response)[0] == 403
    assert [model.id for model in served.runtime.others] == ["other:1b"]


def test_only_an_admin_manages_models_here() -> None:
    key = {"authorization": "Bearer another"}
    with running(Settings(port=0, grace_s=0.1, api_keys="boss(admin)=sesame,guest=another")) as served:
        for method, path, body in (
            ("DELETE", "delete", {"model": "other:1b"}),
            ("POST", "pull", {"model": "new:1b"}),
            ("POST", "copy", {"source": "other:1b", "destination": "x"}),
            ("POST", "chat", {"model": "tiny", "messages": [], "keep_alive": 0}),
        ):
            response = served.http.request(method, f"/api/{path}", content=json.dumps(body), headers=key)
            assert error(response)[0] == 403, path
        assert [model.id for model in served.runtime.others] == ["other:1b"]
        assert [model.id for model in served.runtime.models] == ["tiny"]


def test_a_strict_server_refuses_fields_and_options_that_are_nobodys() -> None:
    with running(Settings(port=0, grace_s=0.1, strict=True)) as served:
        body = {"model": "tiny", "messages": HI, "stream": False}
        status, words = error(asked(served, "chat", body | {"options": {"nobody": 1}}))
        assert (status, "'options.nobody'" in words) == (400, True)
        assert whole(asked(served, "chat", body | {"options": {"num_ctx": 4096}}))["done"]
        of_ollama = {"num_gpu": 3, "use_mmap": True, "penalize_newline": False}
        assert whole(asked(served, "chat", body | {"options": of_ollama, "truncate": True}))["done"]


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_a_wrong_option_is_refused_also_where_nothing_is_asked(served: Served, path: str) -> None:
    response = served.http.post(path, json={"model": "tiny", "options": {"repeat_penalty": 0}})
    assert response.status_code == 400
    assert "repeat_penalty" in response.json()["error"]
