"""Answers with many log-probabilities are written down in a thread of their own: the loop goes on meanwhile."""

from __future__ import annotations

import math
import threading
from typing import Any

import msgspec
import pytest

from localllm.server.answers import choices
from localllm.types import Delta, TokenLogprob
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH

TOKEN = TokenLogprob(b"x", -0.5, ((b"x", -0.5),) * 20)
MANY = [Delta("x" * 200, 200, logprobs=(TOKEN,) * 200)] * 5 + [Delta("", 0, FINISH)]
FEW = [Delta("x", 1, logprobs=(TOKEN,)), Delta("", 0, FINISH)]

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "x"}], "logprobs": True, "top_logprobs": 20},
    ),
    ("/v1/completions", {"prompt": "x", "logprobs": 20}),
    ("/v1/responses", {"input": "x", "include": ["message.output_text.logprobs"], "top_logprobs": 20}),
]


@pytest.mark.parametrize(("path", "body"), REQUESTS)
def test_a_large_answer_is_encoded_beside_the_loop_and_a_small_one_at_once(
    served: Served, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    names: list[str] = []
    encode = msgspec.json.encode

    def noted(content: Any) -> bytes:
        names.append(threading.current_thread().name)
        return encode(content)

    for script, is_large in ((FEW, False), (MANY, True)):
        served.runtime.script = script
        with monkeypatch.context() as patch:
            patch.setattr(msgspec.json, "encode", noted)
            response = served.http.post(path, json={"model": "tiny"} | body)
        assert response.status_code == 200
        assert ("encoding" in names) == is_large
    assert response.text.count("-0.5") >= 1000


def test_what_is_large_is_told_by_the_numbers_in_it() -> None:
    assert not choices.is_large([choices.CompleteAnswer("x" * 10**6, FINISH, [])])
    assert not choices.is_large([choices.CompleteAnswer("x", FINISH, [TOKEN] * 50)])
    assert choices.is_large([choices.CompleteAnswer("x", FINISH, [TOKEN] * 50)] * 2)
    prompt = (TokenLogprob(b"<s>", math.nan), *[TOKEN] * 99)
    assert choices.is_large([choices.CompleteAnswer("x", FINISH, [], prompt)]), "an echoed prompt counts"
