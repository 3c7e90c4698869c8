"""What another application mounts: without a key it answers this machine alone; outside its lifespan it says so."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.types import Message, Scope

from localllm import ServerApp, Settings
from localllm.errors import InvalidParameter, LocalLLMError, ModelNotFound
from localllm.server.mounting import unmounted


async def _get(app: ServerApp, server: tuple[str, int | None] | None, *, key: str = "") -> int:
    """The status of a `GET /llm/v1/models` that came in at this address."""
    scope: Scope = {
        "type": "http", "method": "GET", "scheme": "http", "path": "/llm/v1/models", "root_path": "/llm",
        "query_string": b"", "server": server, "client": ("192.0.2.1", 1),
        "headers": [(b"host", b"localhost"), *([(b"x-api-key", key.encode())] if key else [])],
    }  # fmt: skip
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    status: int = sent[0]["status"]
    return status


@pytest.mark.parametrize(
    ("server", "settings", "status"),
    [
        (("127.0.0.1", 80), {}, 200),
        (("::1", 80), {}, 200),
        (("/run/app.sock", None), {}, 200),
        (("192.0.2.7", 80), {}, 403),
        (("elsewhere.example", 80), {}, 403),
        (None, {}, 403),
        (("192.0.2.7", 80), {"allow_remote_without_key": True}, 200),
        (("192.0.2.7", 80), {"api_keys": "sesame"}, 200),
    ],
)
def test_without_a_key_only_this_machine_is_answered(
    server: tuple[str, int | None] | None, settings: dict[str, Any], status: int
) -> None:
    async def main() -> int:
        async with ServerApp(settings=Settings(**settings)) as app:
            return await _get(app, server, key=settings.get("api_keys", ""))

    assert asyncio.run(main()) == status


def test_outside_of_its_lifespan_it_says_how_to_run_it() -> None:
    async def main() -> None:
        app = ServerApp(settings=Settings())
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            before = await client.get("/v1/models")
            async with app:
                with pytest.raises(LocalLLMError, match="already in use"):
                    await app.__aenter__()
            after = await client.get("/v1/models")
            async with app:  # again is fine
                pass
        assert before.status_code == after.status_code == 503
        assert "async with" in before.json()["error"]["message"]

    asyncio.run(main())


def test_a_model_that_cannot_be_loaded_is_an_error_as_the_host_starts() -> None:
    async def main() -> None:
        async with ServerApp("./no-such-model.gguf", settings=Settings()):
            pass

    with pytest.raises(ModelNotFound, match="no-such-model"):
        asyncio.run(main())
    with pytest.raises(InvalidParameter, match="settings"):
        ServerApp("demo", settings={"ctx": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("root_path", "path", "within"),
    [
        ("/llm", "/llm/v1/models", "/v1/models"),
        ("/llm", "/llm/", "/"),
        ("/llm", "/llm", "/"),
        ("/v1", "/v1/v1/models", "/v1/models"),
        ("/llm", "/llmore", "/llmore"),
        ("/llm", "/v1/models", "/v1/models"),
        ("", "/v1/models", "/v1/models"),
    ],
)
def test_a_mounts_prefix_is_taken_off_once(root_path: str, path: str, within: str) -> None:
    scope = unmounted({"type": "http", "path": path, "root_path": root_path, "state": {"of": "the host"}})
    assert (scope["path"], scope["root_path"], scope["state"]) == (within, "", {})
