"""Tools of MCP servers in the terminal: each call is shown, asked for unless it is allowed, and run. Knows no protocol.

What a server says is text that somebody else wrote: it reaches the terminal through `report`, which makes it printable.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from localllm.cli import report, tools
from localllm.errors import InvalidParameter, RequestError
from localllm.mcp import check_installed
from localllm.mcp.names import is_allowed
from localllm.mcp.servers import load_servers
from localllm.settings.config import Settings
from localllm.types import Delta, ToolCall

if TYPE_CHECKING:
    from localllm.mcp.blocking import BlockingHub

MAY_RUN = "run it? [y]es, [n]o, [a]lways> "
"""What is asked for each call."""
REFUSED = "The user did not allow this call."
SHOWN_LINES, SHOWN_CHARS = 5, 400
"""Of a result; the model gets all of it."""
_AT_FAULT = re.compile(r"tools\[(\d+)\]")

Ask = Callable[[str], str]
"""Given the question; raises `EOFError`, `KeyboardInterrupt`."""


class McpOptions(NamedTuple):
    """What the command line asked for."""

    file: Path
    allowed: tuple[str, ...] = ()
    """Names of tools, `SERVER__*` or `*`."""


def mcp_options(file: Path | None, allowed: Sequence[str], *, is_alone: bool) -> McpOptions | None:
    """`is_alone`: nothing else shapes the answer.

    Raises `InvalidParameter` for options that do not go together, `UnsupportedParameter` without the SDK.
    """
    if file is None:
        if allowed:
            raise InvalidParameter("--mcp-allow names tools of MCP servers, which --mcp FILE brings", param="mcp_allow")
        return None
    if not is_alone:
        raise InvalidParameter(
            "--mcp brings tools of its own: leave it out, or --tools, --schema and --json", param="mcp"
        )
    check_installed("mcp")
    return McpOptions(file, tuple(allowed))


class McpTools:
    """What the servers of a configuration have, as the tools of a chat."""

    def __init__(self, hub: BlockingHub, file: Path, allowed: Sequence[str], *, max_rounds: int) -> None:
        self.file = file
        self.max_rounds = max_rounds
        """Answers with calls that may follow each other; then one without."""
        self._hub = hub
        self._allowed = set(allowed)
        self._refused: set[str] = set()
        """Tools whose schema the model's server does not take."""

    @property
    def entries(self) -> list[dict[str, Any]]:
        """As OpenAI's `tools`."""
        return [tool.function for tool in self._hub.tools if tool.name not in self._refused]

    def asked(self, ask: Callable[[Sequence[dict[str, Any]]], Generator[Delta]]) -> Generator[Delta]:
        """An answer with these tools, as they are now. One whose schema is refused is left out, which is said."""
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
                report.say(f"[{name} is left out: {error.message}]")

    def lines(self) -> Iterator[str]:
        """One for each tool; those that run without asking are marked."""
        for entry, line in zip(self.entries, tools.Tools(self.entries, self.file).lines(), strict=True):
            yield f"{'*' if is_allowed(entry['function']['name'], self._allowed) else ' '} {line}"

    def say_notes(self) -> None:
        """What is not as one might think."""
        for note in self._hub.take_notes():
            report.say(f"localllm: {note}")

    def result(self, call: ToolCall, ask: Ask | None) -> str:
        """What the model is told. `ask`: the person; None: there is nobody. Raises what asking raises."""
        report.say(f"calls {tools.shown(call)}")
        if not self._may_run(call.name, ask):
            return REFUSED
        outcome = self._hub.call(call.name, call.arguments)
        report.say(_excerpt(outcome.text, "fails" if outcome.is_error else "gives"))
        return f"Error: {outcome.text}" if outcome.is_error else outcome.text

    def _may_run(self, name: str, ask: Ask | None) -> bool:
        if is_allowed(name, self._allowed):
            return True
        if ask is None:
            report.say(f"localllm: {name} was not run, since nobody can be asked; --mcp-allow allows it")
            return False
        word = ask(MAY_RUN).strip().lower()
        if word in ("a", "always"):
            self._allowed.add(name)
        return word in ("a", "always", "y", "yes")


@contextlib.contextmanager
def opened(options: McpOptions | None, settings: Settings) -> Iterator[McpTools | None]:
    """The tools; at the end no server is left. Raises `InvalidParameter`s, also where there is no tool at all."""
    if options is None:
        yield None
        return
    found = load_servers(options.file, os.environ, param="mcp")
    from localllm.mcp.blocking import BlockingHub

    for note in found.notes:
        report.say(f"localllm: {options.file}: {note}")
    with BlockingHub(found.servers, timeout_s=settings.mcp_timeout_s) as hub:
        given = McpTools(hub, options.file, options.allowed, max_rounds=settings.mcp_max_rounds)
        given.say_notes()
        if not given.entries:
            raise InvalidParameter(f"no MCP server of {options.file} has tools that can be used", param="mcp")
        yield given


def somebody() -> Ask | None:
    """Who can be asked where no chat is: a person at a terminal."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else None


def _ask(question: str) -> str:
    report.draw(question)
    return sys.stdin.readline()  # nothing, at Ctrl-D, is a no


def _excerpt(text: str, verb: str) -> str:
    lines = text[:SHOWN_CHARS].splitlines()[:SHOWN_LINES]
    shown = "\n  ".join(lines)
    more = len(text) - len("\n".join(lines))
    return f"{verb} {shown}" + (f" ... ({more} more characters)" if more > 1 else "")
