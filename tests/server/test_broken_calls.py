"""What models get wrong reaches the client in every format: as text, with a warning, streamed as whole."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from localllm.chat.formats.writer import written
from localllm.runtime.answer_reader import reading_for
from localllm.types import ChatFormat, Delta, GenerationRequest, Message, ToolCall
from tests.answering import FORMATS
from tests.server.conftest import Served
from tests.server.fake_runtime import FINISH

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("look", "weather")]
ASK: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS}
CALLING = sorted(name for name, format_ in FORMATS.items() if format_.calls is not None)
LOOK = ToolCall("look", '{"at": "Ulm \\"}]", "deep": {"x": [1, 2]}}', "123456789")


def said(served: Served, format_: ChatFormat, answer: str, rng: random.Random) -> list[Delta]:
    """The deltas of an answer in this format that comes in pieces."""
    served.http.post("/v1/chat/completions", json=ASK)
    calling = served.runtime.requests[-1].calling
    request = GenerationRequest(messages=(Message("user", "Hi"),), calling=calling)
    reading = reading_for(request, format_, "either")
    assert reading is not None
    deltas = []
    while answer:
        size = rng.randint(1, 9)
        deltas.append(reading.read(Delta(answer[:size], 1)))
        answer = answer[size:]
    return [*deltas, reading.read(Delta(finish=FINISH))]


def told(served: Served, deltas: list[Delta]) -> tuple[str, list[tuple[str, str]], list[str]]:
    """Text, calls and warnings: the same, streamed and whole."""
    served.runtime.scripts = [deltas, deltas]
    response = served.http.post("/v1/chat/completions", json=ASK)
    assert response.status_code == 200, response.text
    whole = response.json()
    message = whole["choices"][0]["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]
    streamed: dict[int, list[str]] = {}
    text, warnings = "", list[str]()
    for line in served.http.post("/v1/chat/completions", json={**ASK, "stream": True}).text.split("\n"):
        if not line.startswith("data: {"):
            continue
        chunk = json.loads(line.removeprefix("data: "))
        assert "error" not in chunk, chunk
        warnings += chunk.get("localllm", {}).get("warnings", [])
        delta = chunk["choices"][0]["delta"]
        text += delta.get("content", "")
        for call in delta.get("tool_calls", ()):
            of = streamed.setdefault(call["index"], ["", ""])
            of[0] += call["function"].get("name", "")
            of[1] += call["function"].get("arguments", "")
    assert (text, [tuple(streamed[index]) for index in sorted(streamed)]) == (message["content"] or "", calls)
    assert warnings == whole.get("localllm", {}).get("warnings", [])
    return text, calls, warnings


@pytest.mark.parametrize("name", CALLING)
def test_a_call_of_nobodys_function_is_text_and_a_declared_one_is_a_call(served: Served, name: str) -> None:
    rng = random.Random(name)
    good = told(served, said(served, FORMATS[name], written(FORMATS[name], "", "", [LOOK]), rng))
    assert [(called, json.loads(arguments)) for called, arguments in good[1]] == [("look", json.loads(LOOK.arguments))]
    nobody = ToolCall("nobody", LOOK.arguments, LOOK.id)
    text, calls, warnings = told(served, said(served, FORMATS[name], written(FORMATS[name], "", "", [nobody]), rng))
    assert calls == []
    assert "nobody" in text
    described = FORMATS[name].calls
    assert described is not None
    is_marked = not described.is_bare
    assert any("nobody" in warning for warning in warnings) == is_marked, "else it is what a text may be"


@pytest.mark.parametrize("name", CALLING)
def test_an_answer_in_pieces_or_with_pieces_missing_is_never_a_fault(served: Served, name: str) -> None:
    rng = random.Random(name)
    answer = written(FORMATS[name], "", "So: ", [LOOK, ToolCall("weather", "{}", "987654321")][: rng.randint(1, 2)])
    for _ in range(12):
        start = rng.randrange(len(answer))
        end = rng.choice([len(answer), rng.randint(start, len(answer))])
        broken = answer[:start] + rng.choice(["", '"', "}", "\u2028", "<"]) + answer[end:]
        text, calls, warnings = told(served, said(served, FORMATS[name], broken, rng))
        assert text or calls or warnings or not broken.strip()
