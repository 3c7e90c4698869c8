"""Cline and Kilo Code, VS Code extensions whose settings only they can write, so that the user must enter them.

Their server needs the same address next time, and a key of the user's own or none.
"""

from __future__ import annotations

import json

from localllm.launch.opencode import configuration
from localllm.launch.setup import NO_KEY, PROVIDER, Agent, AgentFolders, Setup, Target


def _rows(*rows: tuple[str, str]) -> str:
    width = max(len(name) for name, _ in rows)
    return "".join(f"  {name:<{width}}  {value}\n" for name, value in rows)


def _key(target: Target) -> str:
    return NO_KEY if target.key is None else "one of your server's keys"


def _cline(target: Target, _place: AgentFolders) -> Setup:
    rows = _rows(
        ("API Provider", "OpenAI Compatible"),
        ("Base URL", target.openai_url),
        ("API Key", _key(target)),
        ("Model ID", target.model),
        ("Context Window Size", str(target.ctx)),
        ("Max Output Tokens", str(target.max_output)),
        ("Supports Images", "on" if target.sees else "off"),
    )
    return Setup(panel=f"Cline in VS Code: the gear, API Configuration\n{rows}")


def _kilo(target: Target, _place: AgentFolders) -> Setup:
    """Its configuration has opencode's format (kilo.ai/docs, custom models)."""
    rows = _rows(
        ("Provider ID", PROVIDER),
        ("Display name", PROVIDER),
        ("Base URL", target.openai_url),
        ("API key", _key(target)),
        ("Model", target.model),
    )
    config = {name: value for name, value in configuration(target).items() if name != "$schema"}
    config["provider"][PROVIDER]["options"]["apiKey"] = _key(target)
    text = json.dumps(config, indent=2)
    return Setup(
        panel=f"Kilo Code in VS Code: the gear, Providers, Custom provider\n{rows}"
        f"or, including the context, in ~/.config/kilo/kilo.json (which kilo in a terminal reads too)\n{text}\n"
    )


CLINE = Agent(
    name="cline",
    title="Cline (VS Code)",
    program="",
    install="VS Code's extension saoudrizwan.claude-dev",
    uses="OpenAI chat; its settings are printed",
    set_up=_cline,
    least_ctx=32_768,
)
KILO = Agent(
    name="kilo",
    title="Kilo Code (VS Code)",
    program="",
    install="VS Code's extension kilocode.kilo-code",
    uses="OpenAI chat; its settings are printed",
    set_up=_kilo,
    least_ctx=32_768,
)
