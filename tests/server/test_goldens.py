"""The bytes of one stream of every dialect: a thought, a text and a call, as they were when somebody last looked.

A change that is meant is written anew by `python -m tests.server.test_goldens`, and read in the diff. Ids are numbered
in the order in which they come; times are those of nobody's clock.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from localllm import __version__
from localllm.settings.config import Settings
from localllm.types import CallDelta, Delta, TokenLogprob
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH, Step

FOLDER = Path(__file__).parent / "data" / "streams"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
TOOLS = [{"type": "function", "function": FUNCTION}]
TOLD = (
    Delta(thought="Let me ", num_tokens=1),
    Delta(thought="see.", num_tokens=1),
    Delta("In Ulm", 1),
    Delta(" ✓\n", 1),
)
CALL = (
    Delta(calls=(CallDelta(0, "", "weather", "call_1"),)),
    Delta(calls=(CallDelta(0, '{"city": '),), num_tokens=1),
    Delta(calls=(CallDelta(0, '"Ulm"}'),), num_tokens=1),
)
LIKELY = Delta("In Ulm", 1, logprobs=(TokenLogprob(b"In Ulm", -0.5, ((b"In Ulm", -0.5), (b"\xff", -1.25))),))
END = Delta("", 1, FINISH)
STREAMS: dict[str, tuple[str, dict[str, Any], tuple[Step, ...]]] = {
    "chat": (
        "/v1/chat/completions",
        {**CHAT, "tools": TOOLS, "stream_options": {"include_usage": True}},
        (*TOLD, *CALL, END),
    ),
    "chat-logprobs": ("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 2}, (LIKELY, END)),
    "completions": ("/v1/completions", {"model": "tiny", "prompt": "Hi", "stream": True}, (*TOLD[2:], END)),
    "llama-completion": ("/completion", {"prompt": "Hi", "stream": True}, (*TOLD[2:], END)),
    "responses": (
        "/v1/responses",
        {"model": "tiny", "input": "Hi", "stream": True, "tools": [{"type": "function", **FUNCTION}]},
        (*TOLD, *CALL, END),
    ),
    "messages": (
        "/v1/messages",
        {**CHAT, "max_tokens": 50, "tools": [{"name": "weather", "input_schema": SCHEMA}]},
        (*TOLD, *CALL, END),
    ),
    "ollama-chat": ("/api/chat", {**CHAT, "tools": TOOLS}, (*TOLD, *CALL, END)),
    "ollama-generate": ("/api/generate", {"model": "tiny", "prompt": "Hi"}, (*TOLD, END)),
}
"""File -> path, request, what the model makes."""

_ID = re.compile(r"\b(chatcmpl|cmpl|resp|msg|rs|fc)([-_])(?:[0-9a-f]{12}_)?[0-9a-f]{16,}")
_TIME = re.compile(r'("(?:created|created_at|completed_at|total_duration|load_duration)":)(?:"[^"]*"|[0-9.]+)')


def normalized(stream: str) -> str:
    """Without what another run would say otherwise."""
    numbers: dict[str, int] = {}

    def numbered(id: re.Match[str]) -> str:
        return f"{id[1]}{id[2]}{numbers.setdefault(id[0], len(numbers) + 1)}"

    return _TIME.sub(r"\1TIME", _ID.sub(numbered, stream)).replace(__version__, "VERSION")


def streamed(served: Served, name: str) -> str:
    path, body, script = STREAMS[name]
    served.runtime.script = script
    response = served.http.post(path, json=body)
    assert response.status_code == 200, response.text
    return normalized(response.content.decode("utf-8"))


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_has_the_bytes_that_it_had(served: Served, name: str) -> None:
    assert streamed(served, name) == (FOLDER / f"{name}.txt").read_bytes().decode("utf-8")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    with running(Settings(port=0, grace_s=0.1)) as served:
        for name in STREAMS:
            (FOLDER / f"{name}.txt").write_bytes(streamed(served, name).encode("utf-8"))
