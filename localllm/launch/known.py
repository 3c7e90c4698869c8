"""The agents that can be launched, and lookup by name."""

from __future__ import annotations

import difflib

from localllm.errors import InvalidParameter
from localllm.launch import aider, claude, codex, continue_cli, open_webui, opencode, vscode, zed
from localllm.launch.setup import Agent

AGENTS: dict[str, Agent] = {
    agent.name: agent
    for agent in (
        claude.AGENT,
        codex.AGENT,
        opencode.AGENT,
        aider.AGENT,
        continue_cli.AGENT,
        zed.AGENT,
        open_webui.AGENT,
        vscode.CLINE,
        vscode.KILO,
    )
}
ALIASES = {
    "claude-code": "claude",
    "cn": "continue",
    "openwebui": "open-webui",
    "kilocode": "kilo",
    "kilo-code": "kilo",
}


def agent_named(name: str) -> Agent:
    """The agent of this name. Raises `InvalidParameter`, which lists all agents."""
    wanted = ALIASES.get(name.lower(), name.lower())
    if wanted in AGENTS:
        return AGENTS[wanted]
    near = difflib.get_close_matches(wanted, [*AGENTS, *ALIASES], n=1)
    meant = f"did you mean {near[0]}? Available:" if near else "available:"
    raise InvalidParameter(f"unknown agent {name!r}; {meant} {', '.join(AGENTS)}", param="agent")
