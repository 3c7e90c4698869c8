"""Bodies made to be slow to read: each is refused by counting, or read in a time that nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from localllm.chat.surrogates import whole_json
from localllm.errors import InvalidParameter, RequestError
from localllm.server.apis.embeddings.requests import parse_embeddings, parse_rerank
from localllm.server.apis.openai.requests import parse_chat, parse_completion
from localllm.server.apis.responses.requests import ResponseRequest, parse_response
from localllm.server.main import serve
from localllm.server.requests.parse import MAX_NESTED, MAX_VALUES, check_size
from localllm.settings.config import Settings
from tests.server.conftest import running

SIZE = 8 * 1024 * 1024
MOST_S = 1.0
"""Of one thread's CPU time. It is below 0.1 s on any idle machine of today; 8 MB of `[]` took 1.1 s before."""

Parse = Callable[..., Any]


def _filled(start: bytes, item: bytes, end: bytes, size: int = SIZE) -> bytes:
    return start + b",".join([item] * ((size - len(start) - len(end)) // (len(item) + 1))) + end


def _keys(start: bytes, end: bytes, value: bytes = b"1") -> bytes:
    return start + b",".join(b'"%d":%b' % (number, value) for number in range(600_000)) + end


PROMPT = b'{"model":"x","prompt":"x","y":'
BOMBS: dict[str, tuple[Parse, Callable[[], bytes]]] = {
    "arrays for messages": (parse_chat, lambda: _filled(b'{"model":"x","messages":[', b"[]", b"]}")),
    "objects for messages": (parse_chat, lambda: _filled(b'{"model":"x","messages":[', b"{}", b"]}")),
    "messages": (parse_chat, lambda: _filled(b'{"model":"x","messages":[', b'{"role":"user","content":"x"}', b"]}")),
    "parts": (
        parse_chat,
        lambda: _filled(b'{"model":"x","messages":[{"role":"user","content":[', b'{"type":"text","text":""}', b"]}]}"),
    ),
    "items": (
        partial(parse_response, kind=ResponseRequest),
        lambda: _filled(b'{"model":"x","input":[', b'{"role":"user","content":"x"}', b"]}"),
    ),
    "arrays for a prompt": (parse_completion, lambda: _filled(b'{"model":"x","prompt":[', b"[]", b"]}")),
    "texts for a prompt": (parse_completion, lambda: _filled(b'{"model":"x","prompt":[', b'""', b"]}")),
    "tokens for a prompt": (parse_completion, lambda: _filled(b'{"model":"x","prompt":[', b"1", b"]}")),
    "arrays that nobody knows": (parse_completion, lambda: _filled(PROMPT + b"[", b"[]", b"]}")),
    "objects that nobody knows": (parse_completion, lambda: _filled(PROMPT + b"[", b'{"a":{}}', b"]}")),
    "fields that nobody knows": (parse_completion, lambda: _keys(b'{"model":"x","prompt":"x",', b"}")),
    "one field again and again": (parse_completion, lambda: _filled(b'{"model":"x",', b'"prompt":"x"', b"}")),
    "biases": (parse_completion, lambda: _keys(PROMPT + b'1,"logit_bias":{', b"}}")),
    "metadata": (
        partial(parse_response, kind=ResponseRequest),
        lambda: _keys(b'{"model":"x","input":"x","metadata":{', b"}}", b'""'),
    ),
    "a format": (
        partial(parse_response, kind=ResponseRequest),
        lambda: _keys(b'{"model":"x","input":"x","text":{"format":{', b"}}}"),
    ),
    "tools": (parse_chat, lambda: _filled(b'{"model":"x","messages":[],"tools":[', b"[]", b"]}")),
    "deep arrays": (parse_completion, lambda: PROMPT + b"[" * (SIZE // 2) + b"]" * (SIZE // 2) + b"}"),
    "deep objects": (parse_completion, lambda: PROMPT + b'{"a":' * (SIZE // 6) + b"1" + b"}" * (SIZE // 6) + b"}"),
    "brackets without an end": (parse_completion, lambda: b"[" * SIZE),
    "an integer": (parse_completion, lambda: b'{"model":"x","prompt":"x","seed":' + b"9" * SIZE + b"}"),
    "long integers": (parse_completion, lambda: _filled(PROMPT + b"[", b"9" * 4300, b"]}")),
    "long integers for tokens": (parse_completion, lambda: _filled(b'{"model":"x","prompt":[', b"9" * 4300, b"]}")),
    "numbers too large": (parse_completion, lambda: _filled(PROMPT + b"[", b"1e999999", b"]}")),
    "fractions": (parse_completion, lambda: _filled(PROMPT + b"[", b"0." + b"123456789" * 3, b"]}")),
    "a number with many digits": (
        parse_completion,
        lambda: b'{"model":"x","prompt":"x","top_p":0.' + b"1" * SIZE + b"}",
    ),
    "escapes": (parse_completion, lambda: b'{"model":"x","prompt":"' + b"\\u00e9" * (SIZE // 6) + b'"}'),
    "backslashes": (parse_completion, lambda: b'{"model":"x","prompt":"' + b"\\\\" * (SIZE // 2) + b'"}'),
    "quotes": (parse_completion, lambda: b'{"model":"x","prompt":"' + b'\\"' * (SIZE // 2) + b'"}'),
    "half a surrogate": (parse_completion, lambda: b'{"model":"x","prompt":"' + b"\\ud83d" * (SIZE // 6) + b'"}'),
    "surrogates": (parse_completion, lambda: b'{"model":"x","prompt":"' + b"\\ud83d\\ude00" * (SIZE // 12) + b'"}'),
    "JSON in a string": (
        parse_completion,
        lambda: b'{"model":"x","prompt":"' + b'{\\"a\\":[1,{}]},' * (SIZE // 15) + b'"}',
    ),
    "spaces": (parse_completion, lambda: b" " * SIZE),
    "texts": (parse_embeddings, lambda: _filled(b'{"model":"x","input":[', b'"a"', b"]}")),
    "token arrays": (parse_embeddings, lambda: _filled(b'{"model":"x","input":[', b"[1]", b"]}")),
    "documents": (parse_rerank, lambda: _filled(b'{"query":"x","documents":[', b'{"text":"a"}', b"]}")),
    "texts to rank": (parse_rerank, lambda: _filled(b'{"query":"x","texts":[', b'"a"', b"]}")),
}
"""Made when a test asks: together they take a quarter of a gigabyte."""


def _taken_up(parse: Parse, body: bytes) -> None:
    """As a handler does it. Raises `RequestError`s."""
    request, _ = parse(whole_json(body))
    if hasattr(request, "generations"):
        request.generations(most=260)
    elif hasattr(request, "asked"):
        request.asked(None, None)
    else:
        request.items()


@pytest.mark.parametrize("name", BOMBS)
def test_no_body_holds_the_loop(name: str) -> None:
    parse, make = BOMBS[name]
    body = make()
    assert len(body) < SIZE + 200
    began_s = time.thread_time()
    with contextlib.suppress(RequestError):
        _taken_up(parse, body)
    assert time.thread_time() - began_s < MOST_S


def _begun(address: tuple[str, int], size: int) -> socket.socket:
    """A connection whose request lacks its last byte, once the server has taken the rest."""
    connection = socket.create_connection(address)
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {size}"
    )
    connection.sendall(f"{head}\r\n\r\n".encode() + b" " * (size - 1))
    return connection


def test_bodies_that_are_half_there_hold_a_bounded_memory_and_small_requests_are_answered_beside_them() -> None:
    settings = Settings(port=0, grace_s=0.1, max_bodies_mb=2, max_body_bytes=1_000_000)
    small = {"model": "tiny", "prompt": "x"}
    large = small | {"prompt": "x" * 900_000}
    with running(settings) as served, contextlib.ExitStack() as stack:
        assert served.http.post("/v1/completions", json=large).status_code == 200
        begun = [stack.enter_context(_begun(served.address, 900_000)) for _ in range(20)]
        refused = [connection for connection in begun if _answer_of(connection)]
        assert len(refused) == 18
        answer = refused[0].recv(65536)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in answer
        refusal = served.http.post("/v1/completions", json=large)
        assert (refusal.status_code, refusal.json()["error"]["code"]) == (503, "overloaded")
        assert "--max-bodies-mb" in refusal.json()["error"]["message"]
        assert served.http.post("/v1/completions", json=small).status_code == 200
        for connection in begun:
            connection.close()
        while served.http.post("/v1/completions", json=large).status_code == 503:
            pass  # until the server has seen that they are gone


def _answer_of(connection: socket.socket) -> bool:
    """Whether the server has something to say, within a second; those that it waits for stay silent."""
    return bool(select.select([connection], [], [], 1)[0])


def test_a_server_whose_bodies_have_less_room_than_one_may_have_does_not_start() -> None:
    settings = Settings(port=0, max_bodies_mb=1, max_body_bytes=10**6 + 1)
    with pytest.raises(InvalidParameter, match="max_body_bytes"):
        asyncio.run(serve(settings, [], None))  # type: ignore[arg-type]


def test_what_is_in_strings_is_not_counted() -> None:
    text = b"[{,:" * MAX_NESTED
    check_size(b'{"prompt":"' + text + b'"}')
    check_size(b'{"prompt":"' + b'\\"[{' * MAX_NESTED + b'"}')
    check_size(b'{"prompt":"\\\\","other":"' + text + b'"}')
    with pytest.raises(RequestError, match=f"more than {MAX_NESTED} arrays, objects and keys"):
        check_size(b'{"prompt":"\\\\",' + b"[" * (MAX_NESTED + 1))
    with pytest.raises(RequestError, match="arrays, objects and keys"):
        check_size(b'{"prompt":"\\\\\\"","x":' + b"[" * (MAX_NESTED + 1))


def test_the_longest_prompts_are_read() -> None:
    tokens = b",".join([b"1"] * 1_000_000)
    request, _ = parse_completion(b'{"model":"x","prompt":[' + tokens + b"]}")
    assert isinstance(request.prompt, list)
    assert len(request.prompt) == 1_000_000
    with pytest.raises(RequestError, match=f"more than {MAX_VALUES} values"):
        parse_completion(b'{"model":"x","prompt":[' + b"1," * (MAX_VALUES + 1) + b"1]}")
    prose = 'She said: "[no]", and {left}, at 5:30.\n' * 100_000
    chat, _ = parse_chat(msgspec.json.encode({"model": "x", "messages": [{"role": "user", "content": prose}]}))
    assert chat.messages[0].content == prose


@pytest.mark.parametrize("digits", [20, 400, 4300, 4301, 100_000])
@pytest.mark.parametrize("field", ["seed", "max_tokens", "top_k", "n", "temperature", "priority", "best_of"])
def test_a_number_of_many_digits_is_refused_by_name(field: str, digits: int) -> None:
    body = b'{"model":"x","prompt":"x","%b":%b}' % (field.encode(), b"9" * digits)
    with pytest.raises(RequestError) as caught:
        _taken_up(parse_completion, body)
    assert caught.value.param == field
    assert len(caught.value.message) < 400
