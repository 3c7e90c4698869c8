"""Tools of MCP servers in the terminal: each call is shown, approved and run. Knows no protocol.

Text from a server is untrusted: it reaches the terminal through `report`, which makes it printable.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from localllm.cli.chat import tools
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, RequestError
from localllm.mcp import check_installed
from localllm.mcp.names import is_allowed
from localllm.mcp.servers import Servers, load_servers
from localllm.settings.config import Settings
from localllm.types import Delta, ToolCall

if TYPE_CHECKING:
    from localllm.mcp.blocking import BlockingHub

MAY_RUN = "run it? [y]es, [n]o, [a]lways> "
"""The prompt for each call."""
REFUSED = "The user did not allow this call."
SHOWN_LINES, SHOWN_CHARS = 5, 400
"""How much of a result is shown; the model gets all of it."""
_AT_FAULT = re.compile(r"tools\[(\d+)\]")

Ask = Callable[[str], str]
"""Takes the prompt; raises `EOFError`, `KeyboardInterrupt`."""


class McpOptions(NamedTuple):
    """The options of the command line."""

    file: Path
    servers: Servers
    """What the file says."""
    allowed: tuple[str, ...] = ()
    """Names of tools, `SERVER__*` or `*`."""


def mcp_options(file: Path | None, allowed: Sequence[str], *, is_alone: bool) -> McpOptions | None:
    """`is_alone`: neither --tools nor --schema nor --json is given.

    Reads the file, so that a mistake in it costs no download and no load. Raises `InvalidParameter` for conflicting
    options or a wrong file, `UnsupportedParameter` without the SDK.
    """
    if file is None:
        if allowed:
            raise InvalidParameter("--mcp-allow needs --mcp FILE, which names the MCP servers", param="mcp_allow")
        return None
    if not is_alone:
        raise InvalidParameter("--mcp cannot be combined with --tools, --schema or --json; leave it out", param="mcp")
    check_installed("mcp")
    return McpOptions(file, load_servers(file, os.environ, param="mcp"), tuple(allowed))


class McpTools:
    """The tools of configured MCP servers, for a chat."""

    def __init__(self, hub: BlockingHub, file: Path, allowed: Sequence[str], *, max_rounds: int) -> None:
        self.file = file
        self.max_rounds = max_rounds
        """How many answers in a row may call tools before one that may not."""
        self._hub = hub
        self._allowed = set(allowed)
        self._refused: set[str] = set()
        """Tools whose schema the model's server rejects."""

    @property
    def entries(self) -> list[dict[str, Any]]:
        """In the form of OpenAI's `tools`."""
        return [tool.function for tool in self._hub.tools if tool.name not in self._refused]

    def answer(self, ask: Callable[[Sequence[dict[str, Any]]], Generator[Delta]]) -> Generator[Delta]:
        """An answer with the servers' current tools. Tools whose schema is rejected are dropped, with a message."""
        self._hub.refresh()
        self.say_notes()
        while True:
            entries = self.entries
            try:
                yield from ask(entries)
                return
            except RequestError as error:
                match = _AT_FAULT.match(error.param or "")
                if match is None or int(match[1]) >= len(entries):
                    raise
                name = entries[int(match[1])]["function"]["name"]
                self._refused.add(name)
                report.say(f"[{name} is dropped: {error.message}]")

    def lines(self) -> Iterator[str]:
        """One per tool; those that run without asking are marked."""
        for entry, line in zip(self.entries, tools.Tools(self.entries, self.file).lines(), strict=True):
            yield f"{'*' if is_allowed(entry['function']['name'], self._allowed) else ' '} {line}"

    def say_notes(self) -> None:
        """Print what the servers reported."""
        for note in self._hub.take_notes():
            report.say(f"localllm: {note}")

    def result(self, call: ToolCall, ask: Ask | None) -> str:
        """Run a call; returns the result for the model. `ask`: None without a terminal. Raises what it raises."""
        report.say(f"calls {tools.shown(call)}")
        if not self._may_run(call.name, ask):
            return REFUSED
        outcome = self._hub.call(call.name, call.arguments)
        report.say(_excerpt(outcome.text, "fails" if outcome.is_error else "gives"))
        return f"Error: {outcome.text}" if outcome.is_error else outcome.whole

    def _may_run(self, name: str, ask: Ask | None) -> bool:
        if is_allowed(name, self._allowed):
            return True
        if ask is None:
            report.say(f"localllm: {name} was not run, since there is no terminal to ask on; --mcp-allow allows it")
            return False
        reply = ask(MAY_RUN).strip().lower()
        if reply in ("a", "always"):
            self._allowed.add(name)
        return reply in ("a", "always", "y", "yes")


@contextlib.contextmanager
def opened(options: McpOptions | None, settings: Settings) -> Iterator[McpTools | None]:
    """The tools, whose servers end with the block. Raises `InvalidParameter`s, also if there is no tool at all."""
    if options is None:
        yield None
        return
    from localllm.mcp.blocking import BlockingHub

    for note in options.servers.notes:
        report.say(f"localllm: {options.file}: {note}")
    with BlockingHub(options.servers.servers, timeout_s=settings.mcp_timeout_s) as hub:
        mcp_tools = McpTools(hub, options.file, options.allowed, max_rounds=settings.mcp_max_rounds)
        mcp_tools.say_notes()
        if not mcp_tools.entries:
            raise InvalidParameter(f"no MCP server in {options.file} has usable tools", param="mcp")
        yield mcp_tools


def terminal_user() -> Ask | None:
    """How to ask the user outside a chat; None without a terminal."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else None


def _ask(question: str) -> str:
    report.draw(question)
    return sys.stdin.readline()  # Ctrl-D gives nothing, which means no


def _excerpt(text: str, verb: str) -> str:
    lines = text[:SHOWN_CHARS].splitlines()[:SHOWN_LINES]
    shown = "\n  ".join(lines)
    more = len(text) - len("\n".join(lines))
    return f"{verb} {shown}" + (f" ... ({more} more characters)" if more > 1 else "")
