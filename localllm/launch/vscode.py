"""Cline and Kilo Code: extensions of VS Code that keep their settings where only they write, so a person types them.

Their server has to answer at the same address the next time, with the user's own key or none.
"""

from __future__ import annotations

from localllm.launch.setup import Agent, Place, Setup, Target


def _rows(target: Target, provider: str) -> str:
    rows = (
        (provider, "OpenAI Compatible"),
        ("Base URL", target.openai_url),
        ("API Key", target.token if target.key is None else "a key of your server's"),
        ("Model ID", target.model),
        ("Context Window Size", str(target.ctx)),
        ("Max Output Tokens", str(target.max_output)),
        ("Supports Images", "off"),
    )
    width = max(len(name) for name, _ in rows)
    return "".join(f"  {name:<{width}}  {value}\n" for name, value in rows)


def _cline(target: Target, _place: Place) -> Setup:
    return Setup(panel="Cline in VS Code: the gear, then API Configuration\n" + _rows(target, "API Provider"))


def _kilo(target: Target, _place: Place) -> Setup:
    return Setup(panel="Kilo Code in VS Code: the gear, then Providers\n" + _rows(target, "API Provider"))


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
