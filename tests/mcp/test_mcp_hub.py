"""MCP servers as a hub keeps them: the SDK's own over stdio and HTTP, and servers that are not as they should be."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from localllm.mcp.outcome import Outcome
from localllm.mcp.servers import HttpServer, McpServer, StdioServer
from tests.mcp.escapes import ESCAPES

if TYPE_CHECKING:
    from localllm.mcp.server_pool import Hub

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0
SHORT_S = 2.0
"""For servers that never answer."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


def program(module: str, *args: str, name: str = "tools") -> StdioServer:
    return StdioServer(name, sys.executable, ("-P", "-m", f"tests.mcp.{module}", *args), {"PYTHONPATH": str(ROOT)})


def odd(kind: str) -> StdioServer:
    return program("odd_server", kind, name=kind)


@contextlib.asynccontextmanager
async def opened(*servers: McpServer, timeout_s: float = PATIENCE_S) -> AsyncIterator[Hub]:
    from localllm.mcp.server_pool import Hub

    hub = Hub(servers, timeout_s=timeout_s)
    try:
        await hub.open()
        yield hub
    finally:
        await hub.close()


def is_running(pid: int) -> bool:
    """Not as a zombie, which nobody waits for here."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children() -> set[int]:
    return {int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


@pytest.fixture(scope="module")
def http_server() -> Iterator[HttpServer]:
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.mcp.tool_server", "http"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield HttpServer("tools", process.stdout.readline().strip())
        process.kill()


@pytest.fixture(params=["stdio", "http"])
def server(request: pytest.FixtureRequest) -> McpServer:
    """The same tools over both transports."""
    if request.param == "stdio":
        return program("tool_server")
    http: HttpServer = request.getfixturevalue("http_server")
    return http


def test_tools_are_offered_by_server_and_name_and_give_texts(server: McpServer) -> None:
    async def talk() -> None:
        async with opened(server) as hub:
            assert hub.take_notes() == []
            add = {tool.name: tool for tool in hub.tools}["tools__add"]
            assert add.function["function"]["description"] == "The sum of two numbers."
            assert set(add.parameters["properties"]) == {"a", "b"}
            assert await hub.call("tools__add", '{"a": 2, "b": 3}') == Outcome("5")
            assert await hub.call("tools__repeat", '{"text": "\u2713 \\ud83d\\ude00"}') == Outcome("\u2713 \U0001f600")
            assert (await hub.call("tools__escapes", "{}")).text == ESCAPES
            picture = await hub.call("tools__picture", "{}")
            assert picture.text == "see\n[an image of type image/png: not supported, omitted]"
            parts = json.loads(picture.whole)
            assert [part["type"] for part in parts] == ["text", "image"]
            assert parts[1] == {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}

    asyncio.run(talk())


def test_whatever_goes_wrong_with_a_call_is_its_result(server: McpServer) -> None:
    async def talk() -> None:
        async with opened(server) as hub:
            failed = await hub.call("tools__fail", "{}")
            assert failed.is_error
            assert "the disk is full" in failed.text
            for arguments, words in (('{"a": 1}', "b"), ("[1]", "JSON object"), ('{"a": ', "JSON object")):
                wrong = await hub.call("tools__add", arguments)
                assert wrong.is_error
                assert words in wrong.text
            unknown = await hub.call("tools__subtract", "{}")
            assert unknown == Outcome("unknown tool tools__subtract", is_error=True)
            assert await hub.call("tools__add", '{"a": 1, "b": 1}') == Outcome("2")

    asyncio.run(talk())


def test_a_list_that_changes_is_looked_at_again(server: McpServer) -> None:
    async def talk() -> None:
        async with opened(server) as hub:
            assert not await hub.refresh()
            if "tools__grown" not in {tool.name for tool in hub.tools}:  # over HTTP the server outlives a test
                assert await hub.call("tools__grow", "{}") == Outcome("grown")
                async with asyncio.timeout(PATIENCE_S):
                    await hub._connections["tools"].changed.wait()  # the notification has a way of its own
                assert await hub.refresh()
            assert await hub.call("tools__grown", "{}") == Outcome("new")

    asyncio.run(talk())


def test_a_cancelled_call_is_cancelled_at_the_server_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk() -> None:
        async with opened(program("tool_server")) as hub:
            logged: asyncio.Queue[bytes] = asyncio.Queue()
            monkeypatch.setattr(hub._connections["tools"]._child, "logged", logged.put_nowait)
            call = asyncio.create_task(hub.call("tools__wait", "{}"))
            async with asyncio.timeout(PATIENCE_S):
                while b"waits" not in await logged.get():
                    pass
                call.cancel()
                while b"was cancelled" not in await logged.get():
                    pass
            assert await hub.call("tools__add", '{"a": 1, "b": 1}') == Outcome("2")

    asyncio.run(talk())


def test_a_result_that_arrives_as_a_wait_times_out_is_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(concurrent.futures.Future[bool]):
        def result(self, timeout: float | None = None) -> bool:
            if not self.done():
                self.set_result(True)
                raise TimeoutError
            return super().result(timeout)

    from localllm.mcp.blocking import BlockingHub

    with BlockingHub([], timeout_s=PATIENCE_S) as hub, monkeypatch.context() as patch:
        patch.setattr(asyncio, "run_coroutine_threadsafe", lambda work, _: work.close() or Late())
        assert hub.refresh() is True


@needs_proc
def test_no_process_is_left_not_even_one_that_a_server_started() -> None:
    from localllm.mcp.blocking import BlockingHub

    before = children()
    with BlockingHub([program("tool_server")], timeout_s=PATIENCE_S) as hub:
        (own,) = children() - before
        started = int(hub.call("tools__start", "{}").text)
        assert is_running(own)
        assert is_running(started)
    assert not is_running(own)
    deadline_s = time.monotonic() + PATIENCE_S
    while is_running(started):  # nobody here may wait for it: it is killed with its group, and ends when it has the CPU
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert children() == before


def test_a_server_that_ends_in_a_call_is_told_with_its_last_words_and_others_go_on() -> None:
    async def talk() -> None:
        async with opened(program("tool_server"), program("tool_server", name="other")) as hub:
            left = await hub.call("tools__leave", "{}")
            assert left == Outcome("the call failed: it ended with exit code 3: no more memory", is_error=True)
            again = await hub.call("tools__add", '{"a": 1, "b": 1}')
            assert again == Outcome("tools cannot be used: it ended with exit code 3: no more memory", is_error=True)
            assert await hub.call("other__add", '{"a": 1, "b": 1}') == Outcome("2")

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (odd("dies"), "it ended with exit code 3: no key given"),
        (odd("silent"), f"it did not answer within {SHORT_S:g} s"),
        (odd("line"), "it wrote a line of more than 16777216 bytes"),
        (StdioServer("gone", "/no/such/program"), "/no/such/program cannot be run: No such file or directory"),
        (StdioServer("here", sys.executable, cwd=Path("/no/such/folder")), "cannot be run"),
        (HttpServer("nobody", "http://127.0.0.1:9/mcp"), "failed"),
    ],
    ids=lambda value: value.name if isinstance(value, StdioServer | HttpServer) else "",
)
def test_a_server_that_does_not_start_is_named_and_others_go_on(server: McpServer, reason: str) -> None:
    async def talk() -> None:
        async with opened(server, odd("plain"), timeout_s=SHORT_S) as hub:
            (note,) = hub.take_notes()
            assert note.startswith(f"MCP server {server.name} cannot be used: ")
            assert reason in note
            assert hub.take_notes() == []
            assert await hub.call("plain__ping", "{}") == Outcome("pong")

    asyncio.run(talk())


def test_what_a_program_prints_besides_messages_is_passed_over() -> None:
    async def talk() -> None:
        async with opened(odd("greets"), odd("halves")) as hub:
            assert await hub.call("greets__ping", "{}") == Outcome("pong")
            assert await hub.call("halves__ping", '{"x": "\\ud83d"}') == Outcome("\ufffdpong")

    asyncio.run(talk())


def test_a_call_without_an_answer_ends_in_time_and_one_with_nonsense_says_so() -> None:
    async def talk() -> None:
        async with opened(odd("deaf"), odd("nonsense"), timeout_s=SHORT_S) as hub:
            deaf = await hub.call("deaf__ping", "{}")
            assert deaf == Outcome(f"the call failed: it did not answer within {SHORT_S:g} s", is_error=True)
            nonsense = await hub.call("nonsense__ping", "{}")
            assert nonsense.is_error
            assert "the call failed" in nonsense.text

    asyncio.run(talk())


def test_a_server_that_answers_with_an_error_of_its_own_stays_connected() -> None:
    """With -32000, which the SDK uses for a connection that is over."""

    async def talk() -> None:
        async with opened(odd("refuses")) as hub:
            for _ in range(2):
                assert await hub.call("refuses__ping", "{}") == Outcome("the call failed: not now", is_error=True)
            assert hub.failure("refuses") is None

    asyncio.run(talk())


def test_a_thousand_tools_are_cut_to_what_a_model_may_be_told_of_and_that_is_said() -> None:
    from localllm.mcp.server_pool import MAX_TOOLS

    async def talk() -> None:
        async with opened(odd("many")) as hub:
            assert len(hub.tools) == MAX_TOOLS
            (note,) = hub.take_notes()
            assert "have 1000 tools" in note
            assert "includeTools" in note
        async with opened(odd("many")._replace(include=("ping7", "ping999"), exclude=("ping7",))) as hub:
            assert [tool.name for tool in hub.tools] == ["many__ping999"]
        async with opened(odd("endless")) as hub:
            assert len(hub.tools) == 100

    asyncio.run(talk())


def test_names_are_what_apis_take_each_of_one_tool() -> None:
    async def talk() -> None:
        async with opened(odd("names")) as hub:
            names = [tool.name for tool in hub.tools]
            assert len(set(names)) == 5
            assert names[0] == "names__a_b"
            assert all(len(name) <= 64 for name in names)
            assert {tool.tool for tool in hub.tools} == {"a.b", "a_b", "x" * 100, "x" * 99 + "y", "ping"}
            assert await hub.call(names[1], "") == Outcome("pong")

    asyncio.run(talk())


def test_large_schemas_are_left_out_and_long_results_cut() -> None:
    async def talk() -> None:
        async with opened(odd("large"), odd("long")) as hub:
            assert [tool.name for tool in hub.tools] == ["large__ping", "long__ping"]
            assert "large__large is omitted" in hub.take_notes()[0]
            result = await hub.call("long__ping", "{}")
            assert result.text.endswith("x\n[10000 more characters omitted]")

    asyncio.run(talk())


def test_a_program_sees_what_it_was_given_of_the_environment_and_nothing_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCALLLM_API_KEYS", "sk-secret")
    code = "import json, os, sys; print(json.dumps(dict(os.environ)), file=sys.stderr); raise SystemExit(1)"
    server = StdioServer("env", sys.executable, ("-c", code), {"GIVEN": "yes"})

    async def talk() -> None:
        async with opened(server) as hub:
            connection = hub._connections["env"]
            assert connection.failure is not None
            seen = json.loads(connection._child.last_words)
            assert seen["GIVEN"] == "yes"
            assert "LOCALLLM_API_KEYS" not in seen

    asyncio.run(talk())
