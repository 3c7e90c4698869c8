"""Conversations begun elsewhere go on here: what no model here can read is a note, never a refusal."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from localllm.settings.config import Settings
from tests.server.conftest import Served, serving
from tests.server.foreign_histories import CHAT, HISTORIES, MESSAGES, RESPONSES, History

ALSO = {
    CHAT: (f"{CHAT}/input_tokens", "/apply-template"),
    MESSAGES: (f"{MESSAGES}/count_tokens",),
    RESPONSES: (f"{RESPONSES}/input_tokens",),
}


@pytest.fixture(scope="module")
def demo_server() -> Iterator[httpx.Client]:
    with (
        serving(Settings(port=0, grace_s=0.1), model="demo") as url,
        httpx.Client(base_url=url, timeout=60, trust_env=False) as http,
    ):
        yield http


@pytest.mark.parametrize("history", HISTORIES, ids=lambda each: f"{each.path}: {each.name}")
def test_a_conversation_begun_elsewhere_goes_on(demo_server: httpx.Client, served: Served, history: History) -> None:
    for path in (history.path, *ALSO.get(history.path, ())):
        response = demo_server.post(path, json=history.body())
        assert response.status_code == 200, response.text
    response = served.http.post(history.path, json=history.body() | {"model": "tiny"})
    assert response.status_code == 200, response.text
    messages = served.runtime.requests[-1].messages or ()
    read = "\n".join(f"{message.thought}\n{message.content}" for message in messages)
    for words in history.read:
        assert words in read
    assert "iVBOR" not in read
    headers = ", ".join(response.headers.get(f"x-localllm-{name}", "") for name in ("ignored", "messages"))
    for path in history.named:
        assert path in headers
