"""MCP servers behind `/tools`, in llama-server's shapes: real servers, named by the settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from localllm.settings.config import Settings
from tests.mcp.test_responses_mcp import TOOL_SERVER
from tests.server.conftest import Served, running

KEYS = "boss(admin)=boss-secret,guest=guest-secret"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("mcp") / "mcp.json"
    dead = {**TOOL_SERVER, "args": ["-P", "-m", "tests.mcp.odd_server", "dies"]}
    file.write_text(json.dumps({"mcpServers": {"tools": TOOL_SERVER, "dead": dead}}), "utf-8")
    return file


@pytest.fixture(scope="module")
def served(servers: Path) -> Iterator[Served]:
    with running(Settings(port=0, grace_s=0.1, mcp_servers=servers)) as served:
        yield served


def test_the_tools_of_servers_that_work_are_listed_as_a_chat_has_them(served: Served) -> None:
    listed = {tool["tool"]: tool for tool in served.http.get("/tools").json()}
    add = listed["tools_add"]
    assert all(name.startswith("tools_") for name in listed)
    assert (add["display_name"], add["type"], add["uses_cwd"]) == ("tools_add", "mcp", False)
    assert add["permissions"] == {"write": True}
    function = add["definition"]["function"]
    assert (add["definition"]["type"], function["name"]) == ("function", "tools_add")
    assert function["parameters"]["properties"].keys() == {"a", "b"}


def test_a_tool_is_called_and_one_that_fails_says_so(served: Served) -> None:
    called = served.http.post("/tools", json={"tool": "tools_add", "params": {"a": 2, "b": 3}})
    assert (called.status_code, called.json()) == (200, {"plain_text_response": "5"})
    seen = served.http.post("/tools", json={"tool": "tools_picture"}).json()
    assert seen["plain_text_response"].startswith("see\n[an image")
    assert seen["content"][1] == {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
    failed = served.http.post("/tools", json={"tool": "tools_fail"})
    assert failed.status_code == 200
    assert "the disk is full" in failed.json()["error"]


@pytest.mark.parametrize(
    ("body", "headers", "status", "word"),
    [
        ({"tool": "exec_shell_command", "params": {"command": "id"}}, {}, 403, "runs no commands"),
        ({"tool": "tools_nothing"}, {}, 404, "GET /tools"),
        ({"tool": "tools_add", "stream": True}, {}, 400, "stream"),
        ({"tool": "tools_add"}, {"x-tool-cwd": "/"}, 400, "x-tool-cwd"),
        ({"params": {}}, {}, 400, "tool is missing"),
    ],
)
def test_what_cannot_be_called_is_refused_by_name(
    served: Served, body: object, headers: dict[str, str], status: int, word: str
) -> None:
    refused = served.http.post("/tools", json=body, headers=headers)
    assert refused.status_code == status
    assert word in refused.json()["error"]["message"]


def test_where_there_are_keys_only_an_admins_runs_tools(servers: Path) -> None:
    with running(Settings(port=0, grace_s=0.1, mcp_servers=servers, api_keys=KEYS)) as served:
        for key, status in (("boss-secret", 200), ("guest-secret", 403)):
            headers = {"authorization": f"Bearer {key}"}
            with httpx.Client(base_url=served.url, headers=headers, timeout=60) as client:
                assert client.get("/tools").status_code == status
                assert (
                    client.post("/tools", json={"tool": "tools_add", "params": {"a": 1, "b": 1}}).status_code == status
                )
