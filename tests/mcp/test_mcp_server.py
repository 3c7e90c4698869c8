"""`localllm mcp` as the SDK's own client meets it: a process on stdin and stdout, or HTTP on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.e2e.conftest import COMMAND, TIMEOUT_S
from tests.e2e.servers import Server
from tests.mcp.test_mcp_hub import needs_proc
from tests.waiting import line_with

if TYPE_CHECKING:
    from mcp import Client, StdioServerParameters

ENVIRONMENT_VARIABLE = "LOCALLLM_HOME"


def local(home: Path, *args: str | Path) -> StdioServerParameters:
    """`localllm mcp`."""
    from mcp import StdioServerParameters

    return StdioServerParameters(
        command=sys.executable, args=[*COMMAND[1:], "mcp", *map(str, args)], env={ENVIRONMENT_VARIABLE: str(home)}
    )


@contextlib.asynccontextmanager
async def connected(server: Any, **options: Any) -> AsyncIterator[Client]:
    from mcp import Client

    async with Client(server, read_timeout_seconds=TIMEOUT_S, **options) as client:
        yield client


def text_of(result: Any) -> str:
    return str(result.content[0].text)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_model_is_asked_over_stdio_with_schema_progress_and_structured_output(home: Path, mode: str) -> None:
    async def talk() -> None:
        async with connected(local(home, "demo"), mode=mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {"chat", "embed", "rerank", "list_models"}
            assert all(tool.input_schema["type"] == "object" and tool.output_schema for tool in tools.values())

            told: list[tuple[float, float | None, str | None]] = []

            async def heard(progress: float, total: float | None, message: str | None) -> None:
                told.append((progress, total, message))

            asked = {"prompt": "Hello", "system": "Be brief.", "max_tokens": 12, "temperature": 0}
            answer = await client.call_tool("chat", asked, progress_callback=heard)
            assert not answer.is_error, answer
            found = answer.structured_content
            assert found is not None
            assert text_of(answer) == found["text"] != ""
            assert 0 < found["completion_tokens"] <= 12
            assert found["model"] == "demo"
            assert told
            assert told[0][1] == 12
            assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)

            schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
            document = await client.call_tool("chat", {"prompt": "2 and 2?", "schema": schema, "max_tokens": 200})
            assert document.structured_content is not None
            assert isinstance(document.structured_content["document"]["sum"], int)

            listed = (await client.call_tool("list_models", {})).structured_content
            assert listed is not None
            assert listed["default"] == "demo"
            assert [model["name"] for model in listed["models"] if model["loaded"]] == ["demo"]

            wrong = await client.call_tool("chat", {"prompt": "Hi", "max_token": 1})
            assert wrong.is_error
            assert "max_token" in text_of(wrong)
            missing = await client.call_tool("chat", {"prompt": "Hi", "model": "hf.co/nobody/else:Q4_0"})
            assert missing.is_error
            assert "nobody" in text_of(missing)
            refused = await client.call_tool("rerank", {"query": "?", "documents": ["a"], "model": "nobody"})
            assert refused.is_error
            from mcp import MCPError

            with pytest.raises(MCPError, match="unknown tool 'delete'"):
                await client.call_tool("delete", {})

    asyncio.run(talk())


def test_texts_are_embedded_and_ranked(home: Path, tiny_model: Path) -> None:
    async def talk() -> None:
        async with connected(local(home, tiny_model, "--ctx", "256")) as client:
            found = await client.call_tool("embed", {"texts": ["a cat", "a dog", "a cat"]})
            assert not found.is_error, found
            assert found.structured_content is not None
            vectors = found.structured_content["vectors"]
            assert len(vectors) == 3
            assert vectors[0] == vectors[2] != vectors[1]
            assert json.loads(text_of(found)) == found.structured_content
            ranked = await client.call_tool("rerank", {"query": "cat", "documents": ["a", "b"], "top_n": 1})
            if ranked.is_error:  # no model that ranks: the reason is the server's own
                assert "rank" in text_of(ranked)

    asyncio.run(talk())


@pytest.fixture(scope="module")
def endless(endless_model: Path, home: Path) -> Iterator[Server]:
    """A server whose answers end with their context only."""
    with Server(endless_model, "--ctx", "65536", "--threads", "1") as server:
        yield server


def test_a_running_server_is_used_and_a_cancelled_call_ends_its_answer_there(home: Path, endless: Server) -> None:
    port = endless.url.rpartition(":")[2]

    async def talk() -> None:
        async with connected(local(home, "--port", port), mode="legacy") as client:
            begun = asyncio.Event()

            async def heard(progress: float, total: float | None, message: str | None) -> None:
                begun.set()

            call = asyncio.create_task(
                client.call_tool("chat", {"prompt": "Go on", "temperature": 0}, progress_callback=heard)
            )
            await begun.wait()
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
            line = await asyncio.to_thread(endless.until, "request")
            while line["path"] != "/v1/chat/completions":
                line = await asyncio.to_thread(endless.until, "request")
            assert line["outcome"] == "client_gone"
            after = await client.call_tool("chat", {"prompt": "Hi", "max_tokens": 3})
            assert after.structured_content is not None
            assert after.structured_content["finish_reason"] == "length"

    asyncio.run(talk())


@contextlib.contextmanager
def over_http(*args: str | Path) -> Iterator[str]:
    """Its address."""
    process = subprocess.Popen(
        [*COMMAND, "mcp", *map(str, args), "--http", "0"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield line_with(process, "MCP at").partition("MCP at ")[2].partition(" (")[0]
    finally:
        process.terminate()
        assert process.stderr is not None
        process.stderr.read()
        process.stderr.close()
        process.wait(TIMEOUT_S)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_model_is_asked_over_http(home: Path, endless: Server, mode: str) -> None:
    async def talk(url: str) -> None:
        async with connected(url, mode=mode) as client:
            told: list[float] = []

            async def heard(progress: float, total: float | None, message: str | None) -> None:
                told.append(progress)

            answer = await client.call_tool("chat", {"prompt": "Hi", "max_tokens": 4}, progress_callback=heard)
            assert answer.structured_content is not None
            assert answer.structured_content["completion_tokens"] == 4
            assert told

    with over_http("--port", endless.url.rpartition(":")[2]) as url:
        asyncio.run(talk(url))


def test_pages_of_other_sites_and_other_names_are_refused_over_http(home: Path, endless: Server) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with over_http("--port", endless.url.rpartition(":")[2]) as url:
        for headers, code in (
            ({"host": "evil.example"}, "forbidden_host"),
            ({"origin": "https://evil.example"}, "forbidden_origin"),
            ({"sec-fetch-site": "cross-site"}, "forbidden_origin"),
            ({"origin": "null"}, "forbidden_origin"),
        ):
            refused = httpx.post(url, json=body, headers=headers, trust_env=False)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, code)


def test_with_keys_the_http_server_wants_one_too(home: Path, endless: Server, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("sk-secret\n", "utf-8")
    (tmp_path / "config.toml").write_text(f'api_key_file = "{keys}"\n', "utf-8")
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with over_http("--home", tmp_path) as url:
        assert httpx.post(url, json=body, trust_env=False).status_code == 401
        known = httpx.post(url, json=body, headers={"authorization": "Bearer sk-secret"}, trust_env=False)
        assert known.status_code != 401


def descendants(pid: int) -> set[int]:
    children = {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    return children.union(*(descendants(child) for child in children))


@needs_proc
@pytest.mark.parametrize("end", ["eof", "SIGTERM", "SIGINT"])
def test_whatever_ends_it_no_process_is_left_and_no_call_holds_it_up(home: Path, endless_model: Path, end: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "mcp", str(endless_model), "--ctx", "65536", "--threads", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def say(method: str, id: int | None = None, **params: Any) -> None:
            message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if id is None else {"id": id})}
            assert process.stdin is not None
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()

        client = {"name": "test", "version": "1"}
        say("initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        answer = json.loads(process.stdout.readline())
        assert answer["result"]["protocolVersion"] == "2025-06-18"
        say("notifications/initialized")
        token = {"progressToken": "p"}
        say("tools/call", 2, name="chat", arguments={"prompt": "Go on"}, _meta=token)
        assert json.loads(process.stdout.readline())["method"] == "notifications/progress"
        started = descendants(process.pid)
        assert len(started) >= 2, "a server, and its worker"
        if end == "eof":
            process.stdin.close()
        else:
            process.send_signal(getattr(signal, end))
        process.stdout.read()
        process.wait(TIMEOUT_S)
    for pid in started:
        ended = select.poll()
        with contextlib.suppress(ProcessLookupError):
            ended.register(os.pidfd_open(pid), select.POLLIN)
            assert ended.poll(TIMEOUT_S * 1000), pid


def test_what_cannot_be_served_is_said_before_anything_is_answered(home: Path) -> None:
    done = subprocess.run([*COMMAND, "mcp", "nobody:1b"], input="", capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 3
    assert "localllm pull nobody:1b" in done.stderr
    assert done.stdout == ""
    done = subprocess.run([*COMMAND, "mcp", "--http", "70000"], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 2
    assert "--http" in done.stderr
