"""What Ollama does with a model beside asking it: its context grows, conversations are shortened, prompts go on."""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest

from localllm.errors import ContextLengthExceeded, UnsupportedParameter
from localllm.settings.config import Settings
from localllm.types import CallDelta, Delta, GenerationRequest
from localllm.types.states import PullState
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH
from tests.server.test_ollama import HI, TIME, asked, error, lines, whole


def test_a_larger_num_ctx_loads_the_model_anew(served: Served) -> None:
    body = {"model": "tiny", "messages": HI, "stream": False, "options": {"num_ctx": 2048}}
    response = asked(served, "chat", body)
    assert response.status_code == 200
    assert "x-localllm-ignored" not in response.headers
    assert served.runtime.widened == [("tiny", 2048)]
    (loaded,) = served.http.get("/api/ps").json()["models"]
    assert loaded["context_length"] == 2048
    whole(asked(served, "chat", body | {"options": {"num_ctx": 1024}}))
    assert len(served.runtime.widened) == 1, "what is large enough stays"
    whole(asked(served, "generate", {"model": "tiny", "options": {"num_ctx": 3000}, "stream": False}))
    assert served.runtime.widened[1:] == [("tiny", 3000)], "also where it is only to be loaded"


def test_keys_that_may_not_say_how_a_model_is_loaded_are_answered_all_the_same() -> None:
    with running(Settings(port=0, grace_s=0.1, api_keys="boss(admin)=sesame,guest=another")) as served:
        served.http.headers["authorization"] = "Bearer another"
        options = {"options": {"num_ctx": 2048}, "keep_alive": 1800}
        response = asked(served, "chat", {"model": "tiny", "messages": HI, "stream": False, **options})
        assert whole(response)["message"]["content"] == "Hello ✓"
        assert response.headers["x-localllm-ignored"] == "options.num_ctx, keep_alive"
        embedded = asked(served, "embed", {"model": "tiny", "input": "x", **options})
        assert (embedded.status_code, served.runtime.widened, served.runtime.keep_alives) == (200, [], [None, None])
        assert "keep_alive" in embedded.headers["x-localllm-ignored"]


class Short:
    """Takes so many messages of a conversation, and refuses more."""

    def __init__(self, served: Served, most: int) -> None:
        self.taken: list[GenerationRequest] = []
        submit = served.runtime.submit

        async def short(model_id: str, requests: Any, *, keep_alive_s: float | None = None) -> Any:
            (request,) = requests
            if len(request.messages or ()) > most:
                raise ContextLengthExceeded(
                    "too long", param="messages", prompt_tokens=100 * len(request.messages), context_length=100 * most
                )
            self.taken.append(request)
            return await submit(model_id, requests, keep_alive_s=keep_alive_s)

        served.runtime.submit = short  # type: ignore[method-assign]


def test_a_conversation_that_is_too_long_loses_its_oldest_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Settings(port=0, grace_s=0.1)) as served:
        short = Short(served, 8)
        turns = [{"role": "assistant" if index % 2 else "user", "content": f"turn {index}"} for index in range(31)]
        messages = [{"role": "system", "content": "Be brief."}, *turns]
        response = asked(served, "chat", {"model": "tiny", "messages": messages})
        assert lines(response)[-1]["done"]
        assert response.headers["x-localllm-messages"] == "oldest-left-out"
        (request,) = short.taken
        kept = [message.content for message in request.messages or ()]
        assert kept[0] == "Be brief."
        assert kept[1:] == [f"turn {index}" for index in range(31 - len(kept[1:]), 31)]
        assert 5 <= len(kept) <= 8, "a fourth is left for the answer, and no more goes than has to"
        refused = asked(served, "chat", {"model": "tiny", "messages": messages, "truncate": False})
        assert error(refused) == (400, "too long")


def test_a_message_that_is_too_long_by_itself_is_refused() -> None:
    with running(Settings(port=0, grace_s=0.1)) as served:
        Short(served, 0)
        assert error(asked(served, "chat", {"model": "tiny", "messages": HI})) == (400, "too long")
        assert error(asked(served, "generate", {"model": "tiny", "prompt": "x"})) == (400, "too long")


def test_a_prompt_goes_on_from_the_tokens_of_an_earlier_reply(served: Served) -> None:
    first = whole(asked(served, "generate", {"model": "tiny", "prompt": "Hi", "stream": False}))
    assert first["context"] == [256, *"<user>Hi<assistant>Hello ✓".encode()]
    body = {"model": "tiny", "prompt": "And?", "context": first["context"]}
    told = lines(asked(served, "generate", body))
    assert served.runtime.requests[1].prompt_tokens == (*first["context"], *b"<user>And?")
    assert told[-1]["context"] == [*first["context"], *"<user>And?<assistant>Hello ✓".encode()]
    assert "context" not in whole(
        asked(served, "generate", {"model": "tiny", "prompt": "x", "raw": True, "stream": False})
    )


def test_what_a_model_cannot_do_at_all_is_said_in_ollamas_words(served: Served) -> None:
    served.runtime.refusal = UnsupportedParameter("no tokens for filling in the middle", param="suffix")
    body = {"model": "tiny", "prompt": "def f(", "suffix": "pass"}
    assert error(asked(served, "generate", body)) == (400, '"tiny" does not support insert')
    (tiny,) = served.runtime.models
    served.runtime.models = [msgspec.structs.replace(tiny, info=msgspec.structs.replace(tiny.info, causal=False))]
    served.runtime.refusal = UnsupportedParameter("it is an embedding model", param="model")
    assert error(asked(served, "chat", {"model": "tiny", "messages": HI})) == (400, '"tiny" does not support chat')
    raw = {"model": "tiny", "prompt": "x", "raw": True}
    assert error(asked(served, "generate", raw)) == (400, '"tiny" does not support generate')


def test_options_of_an_embedding_that_change_nothing_are_named(served: Served) -> None:
    body = {"model": "tiny", "input": "x", "options": {"temperature": 1, "num_ctx": None, "num_thread": 2}}
    assert asked(served, "embed", body).headers["x-localllm-ignored"] == "options.num_thread, options.temperature"


def test_a_strict_server_knows_ollamas_own_options() -> None:
    with running(Settings(port=0, grace_s=0.1, strict=True)) as served:
        body = {"model": "tiny", "messages": HI, "stream": False}
        for name in ("num_gpu", "num_thread", "use_mmap", "num_batch", "num_keep"):
            response = asked(served, "chat", body | {"options": {name: 1}})
            assert (response.status_code, response.headers["x-localllm-ignored"]) == (200, f"options.{name}")


def bytes_of(response: httpx.Response) -> str:
    """With a placeholder for each time and for each duration that a clock measures."""
    text = TIME.sub("T", response.text)
    for line in text.splitlines():
        for name in ("total_duration", "load_duration"):
            if name in line:
                text = text.replace(f'"{name}":{json.loads(line)[name]}', f'"{name}":N')
    return text


def test_a_stream_of_a_chat_has_these_bytes(served: Served) -> None:
    served.runtime.script = [
        Delta("", 1, thought="Hm"),
        Delta("So ✓", 1),
        Delta("", 1, calls=(CallDelta(0, '{"b":1,"a":[2]}', "f", "call_1"),)),
        Delta("", 1, FINISH),
    ]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    response = asked(served, "chat", {"model": "tiny", "messages": HI, "tools": tools})
    head = '{"model":"tiny","created_at":"T","message":{"role":"assistant","content":'
    assert bytes_of(response).splitlines() == [
        head + '"","thinking":"Hm"},"done":false}',
        head + '"So ✓"},"done":false}',
        head + '"","tool_calls":[{"id":"call_1","function":{"index":0,"name":"f","arguments":{"b":1,"a":[2]}}}]},'
        '"done":false}',
        head + '""},"done":true,"done_reason":"stop","total_duration":N,"load_duration":N,"prompt_eval_count":7,'
        '"prompt_eval_duration":200000000,"eval_count":3,"eval_duration":300000000}',
    ]


def test_a_stream_of_a_raw_prompt_has_these_bytes(served: Served) -> None:
    response = asked(served, "generate", {"model": "tiny", "prompt": "Hi", "raw": True})
    head = '{"model":"tiny","created_at":"T","response":'
    assert bytes_of(response).splitlines() == [
        head + '"Hel","done":false}',
        head + '"lo ✓","done":false}',
        head + '"","done":true,"done_reason":"stop","total_duration":N,"load_duration":N,"prompt_eval_count":7,'
        '"prompt_eval_duration":200000000,"eval_count":3,"eval_duration":300000000}',
    ]
    failed = asked(served, "chat", {"model": "nope", "messages": HI})
    assert (failed.status_code, failed.content) == (404, b"""{"error":"model 'nope' not found"}""")
    assert asked(served, "chat", b"").content == b'{"error":"missing request body"}'


def test_models_that_fill_in_the_middle_say_so_where_clients_look(served: Served) -> None:
    (other,) = served.runtime.others
    described = served.runtime.described

    async def filling(model: Any) -> Any:
        found = await described(model)
        return found._replace(info=msgspec.structs.replace(found.info, fills_in_middle=True))

    served.runtime.described = filling  # type: ignore[method-assign]
    try:
        shown = asked(served, "show", {"model": other.id}).json()
    finally:
        del served.runtime.described
    assert shown["capabilities"] == ["completion", "tools", "insert"]
    assert ".Suffix" in shown["template"], "Continue looks for the word"


def test_a_model_to_build_on_that_is_not_here_is_pulled_first(served: Served) -> None:
    served.runtime.pull_script = [
        PullState(phase="downloading", id="new:1b", done_bytes=50, total_bytes=100),
        PullState(phase="done", id="new:1b", done_bytes=100, total_bytes=100),
    ]
    told = lines(asked(served, "create", {"model": "Mine", "from": "New:1b", "system": "Hm."}))
    statuses = [line["status"] for line in told]
    assert statuses[0] == "pulling manifest"
    assert any(line.get("completed") == 50 for line in told)
    assert statuses[-2:] == ["writing manifest", "success"]
    (made,) = served.runtime.made
    assert (made.name, made.base, made.system) == ("mine", "new:1b", "Hm.")
    failed = lines(asked(served, "create", {"model": "mine", "from": "nothing"}))
    assert failed[-1] == {"error": "pull model manifest: file does not exist"}
    whole_failed = asked(served, "create", {"model": "mine", "from": "nothing", "stream": False})
    assert error(whole_failed) == (404, "pull model manifest: file does not exist")


@pytest.mark.parametrize("num_ctx", [0, -1, 2**62])
def test_no_num_ctx_is_too_strange(served: Served, num_ctx: int) -> None:
    body = {"model": "tiny", "messages": HI, "stream": False, "options": {"num_ctx": num_ctx}}
    assert whole(asked(served, "chat", body))["done"]
