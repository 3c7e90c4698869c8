"""`localllm run --mcp`: a real model process that says what is written, real servers, a person or nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import terminal
from tests.e2e.conftest import TIMEOUT_S
from tests.e2e.terminal import Terminal, needs_pty
from tests.mcp.conftest import Written

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-P", "-m", "tests.mcp.scripted_run"]
TOOLS = {
    "command": "${PYTHON}",
    "args": ["-P", "-m", "tests.mcp.tool_server"],
    "env": {"PYTHONPATH": str(ROOT)},
    "autoApprove": ["add"],
}
OPTIONS = ("--ctx", "16384", "--threads", "1", "--temperature", "0", "--seed", "1")

Configured = Callable[[dict[str, Any]], Path]
Run = Callable[..., subprocess.CompletedProcess[str]]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


@pytest.fixture
def environment(home: Path) -> Iterator[dict[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("PYTHON", sys.executable)
        yield dict(os.environ)


@pytest.fixture
def run(environment: dict[str, str], calling_model: Path) -> Run:
    """A question of a program: stdin is no terminal."""

    def start(script: Path, *args: str | Path, model: Path = calling_model) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*COMMAND, str(script), "run", str(model), "How much?", *OPTIONS, *map(str, args)],
            input="",
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return start


def test_allowed_tools_are_run_and_the_answer_comes_of_their_results(
    run: Run, written: Written, configured: Configured
) -> None:
    script = written([call("tools__add", a=2, b=40), call("tools__fail"), {"text": "It is 42."}])
    done = run(script, "--mcp", configured({"tools": TOOLS}), "--mcp-allow", "tools__*")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "It is 42.\n"
    assert "calls tools__add(a=2, b=40)\ngives 42\n" in done.stderr
    assert "calls tools__fail()\nfails " in done.stderr
    assert "the disk is full" in done.stderr
    assert "server 'tools': fields without effect: autoApprove" in done.stderr


def test_where_nobody_can_be_asked_only_what_is_allowed_by_name_runs(
    run: Run, written: Written, configured: Configured
) -> None:
    steps = [call("tools__repeat", text="ran"), call("tools__add", a=1, b=1), {"text": "Two."}]
    done = run(written(steps), "--mcp", configured({"tools": TOOLS}), "--mcp-allow", "tools__add")
    assert done.returncode == 0, done.stderr
    assert "tools__repeat was not run, since there is no terminal to ask on; --mcp-allow allows it" in done.stderr
    assert "gives ran" not in done.stderr
    assert "gives 2\n" in done.stderr


def test_rounds_are_bounded_and_then_it_answers(
    run: Run, written: Written, configured: Configured, environment: dict[str, str]
) -> None:
    environment["LOCALLLM_MCP_MAX_ROUNDS"] = "3"
    script = written([call("tools__add", a=1, b=1)] * 10)
    done = run(script, "--mcp", configured({"tools": TOOLS}), "--mcp-allow", "*", "--max-tokens", "200")
    assert done.stderr.count("gives 2\n") == 3
    assert "limit of 3 rounds of calls reached; answering without further calls" in done.stderr


def test_what_a_tool_gives_reaches_the_terminal_without_orders_to_it(
    run: Run, written: Written, configured: Configured
) -> None:
    script = written([call("tools__escapes"), {"text": "Done."}])
    done = run(script, "--mcp", configured({"tools": TOOLS}), "--mcp-allow", "*")
    assert "gives " in done.stderr
    assert "red" in done.stderr
    assert "\x1b" not in done.stderr
    assert "\x07" not in done.stderr


def test_a_picture_that_a_tool_gives_is_named_and_the_chat_goes_on(
    run: Run, written: Written, configured: Configured
) -> None:
    script = written([call("tools__picture"), {"text": "Done."}])
    done = run(script, "--mcp", configured({"tools": TOOLS}), "--mcp-allow", "*")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "gives see" in done.stderr
    assert "iVBOR" not in done.stderr


def test_a_tool_that_the_models_server_refuses_is_left_out_and_the_others_stay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from localllm.cli.chat.mcp_tools import McpTools
    from localllm.errors import InvalidParameter
    from localllm.mcp.server_pool import HubTool
    from localllm.types import Delta

    class Hub:
        tools = tuple(HubTool(f"a__{name}", "a", name, "", {"type": "object"}) for name in ("x", "y", "z"))

        def refresh(self) -> bool:
            return False

        def take_notes(self) -> list[str]:
            return []

    given = McpTools(Hub(), Path("mcp.json"), [], max_rounds=3)  # type: ignore[arg-type]
    asked: list[list[str]] = []

    def ask(entries: Sequence[dict[str, Any]]) -> Generator[Delta]:
        asked.append([entry["function"]["name"] for entry in entries])
        if "a__y" in asked[-1]:
            raise InvalidParameter("too complex", param="tools[1].function.parameters.properties.p")
        yield Delta("Hi")

    assert [delta.text for delta in given.answer(ask)] == ["Hi"]
    assert [delta.text for delta in given.answer(ask)] == ["Hi"]
    assert asked == [["a__x", "a__y", "a__z"], ["a__x", "a__z"], ["a__x", "a__z"]]
    assert capsys.readouterr().err == "[a__y is dropped: too complex]\n"


def test_a_server_that_does_not_start_is_named_and_the_others_serve(
    run: Run, written: Written, configured: Configured
) -> None:
    dead = {**TOOLS, "args": ["-P", "-m", "tests.mcp.odd_server", "dies"]}
    script = written([call("tools__add", a=1, b=1), {"text": "Two."}])
    done = run(script, "--mcp", configured({"dead": dead, "tools": TOOLS}), "--mcp-allow", "*")
    assert done.returncode == 0, done.stderr
    assert "MCP server dead cannot be used: it ended with exit code 3: no key given" in done.stderr
    assert "gives 2\n" in done.stderr
    alone = run(script, "--mcp", configured({"dead": dead}))
    assert alone.returncode == 2
    assert "has usable tools" in alone.stderr


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is not JSON"),
        ('{"mcpServers": {}}', "there are no servers"),
        ('{"mcpServers": {"a": {}}}', "server 'a' has neither a command nor a url"),
        ('{"mcpServers": {"a": {"command": "x", "url": "http://x"}}}', "a command and a url"),
        ('{"mcpServers": {"a": {"command": ["x"]}}}', "command must be"),
        ('{"mcpServers": {"a": {"url": "http://x", "type": "sse"}}}', "type sse"),
        ('{"mcpServers": {"a": {"url": "ftp://x"}}}', "url must begin with http"),
        (
            '{"mcpServers": {"a": {"command": "x", "env": {"K": "${NOT_THERE}"}}}}',
            "env.K: the environment has no NOT_THERE",
        ),
        ('{"mcpServers": {"a": {"url": "http://x", "headers": {"a b": "c"}}}}', "headers.a b"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_named_before_the_model_is_looked_for(
    run: Run, tmp_path: Path, content: str, reason: str
) -> None:
    file, script = tmp_path / "mcp.json", tmp_path / "script.json"
    file.write_text(content, "utf-8")
    script.write_text("[]", "utf-8")
    done = run(script, "--mcp", file, model=tmp_path / "nothing.gguf")
    assert done.returncode == 2
    assert reason in done.stderr
    assert str(file) in done.stderr


def test_options_that_do_not_go_together_are_refused(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text("[]", "utf-8")
    assert "--mcp FILE" in run(script, "--mcp-allow", "x").stderr
    assert "leave it out" in run(script, "--mcp", "x", "--json").stderr


@needs_pty
def test_a_person_is_asked_for_each_call_until_one_is_always_allowed(
    environment: dict[str, str], calling_model: Path, written: Written, configured: Configured
) -> None:
    add = call("tools__add", a=1, b=1)
    script = written([add, add, add, call("tools__repeat", text="x"), {"text": "Enough."}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "COMMAND", [*COMMAND, str(script)])
        with Terminal(calling_model, *OPTIONS, "--mcp", configured({"tools": TOOLS})) as chat:
            chat.until(terminal.PROMPT)
            chat.type(b"How much?\r")
            chat.until(b"calls tools__add(a=1, b=1)")
            chat.until(terminal.PROMPT)
            assert b"gives" not in chat.everything
            chat.type(b"\r")
            chat.until(b"calls tools__add(a=1, b=1)")
            chat.until(terminal.PROMPT)
            chat.type(b"a\r")
            chat.until(b"gives 2")
            chat.until(b"gives 2")  # the third is not asked for
            chat.until(b"calls tools__repeat")
            chat.until(terminal.PROMPT)
            chat.type(b"y\r")
            chat.until(b"gives x")
            chat.until(b"Enough.")
            chat.until(terminal.PROMPT)
            chat.type(b"/tools\r")
            tools = chat.until(b"tools__repeat(text)")
            assert b"* tools__add(a, b)  The sum of two numbers." in tools
            chat.until(terminal.PROMPT)
            chat.type(b"/bye\r")
            assert chat.end() == 0


def test_servers_notes_of_a_configuration_are_read_as_hosts_write_it() -> None:
    from localllm.mcp.servers import HttpServer, StdioServer, parse_servers

    found = parse_servers(
        json.dumps(
            {
                "mcpServers": {
                    "a": {"command": "${HOME}/x", "args": ["${A:-none}"], "env": {"N": 1}, "cwd": "/tmp"},
                    "b": {"url": "https://x.example/${HOME}", "headers": {"Authorization": "Bearer ${env:KEY}"}},
                    "c": {"command": "x", "disabled": True},
                    "d": {"type": "streamable-http", "url": "http://127.0.0.1:1", "excludeTools": ["rm"]},
                }
            }
        ).encode(),
        {"HOME": "/me", "KEY": "k"},
    )
    assert found.servers == (
        StdioServer("a", "/me/x", ("none",), {"N": "1"}, Path("/tmp")),
        HttpServer("b", "https://x.example//me", {"Authorization": "Bearer k"}),
        HttpServer("d", "http://127.0.0.1:1", {}, None, ("rm",)),
    )
    assert found.notes == ("server 'c' is disabled",)
