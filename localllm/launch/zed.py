"""Zed, configured by a provider in settings.json, with the key in the environment (zed.dev/docs/ai/use-api-access).

Zed reads no other file, so settings.json is changed while Zed runs.
"""

from __future__ import annotations

from pathlib import Path

from localllm.launch.setup import KEY_VARIABLE, PROVIDER, Agent, AgentFolders, Change, Key, Setup, Target


def settings_file(place: AgentFolders) -> Path:
    """Zed's settings file on this system."""
    if roaming := place.environ.get("APPDATA"):
        return Path(roaming) / "Zed" / "settings.json"
    config = place.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else place.home / ".config") / "zed" / "settings.json"


def _set_up(target: Target, place: AgentFolders) -> Setup:
    model = {
        "name": target.model,
        "display_name": f"{target.model} ({PROVIDER})",
        "max_tokens": target.ctx,
        "max_output_tokens": target.max_output,
        "capabilities": {
            "tools": True,
            "images": target.sees,
            "parallel_tool_calls": True,
            "prompt_cache_key": False,
            "interleaved_reasoning": target.thinks,
        },
    }
    provider = {"api_url": target.openai_url, "available_models": [model]}
    keys = (
        Key(("language_models", "openai_compatible", PROVIDER), provider),
        Key(("agent", "default_model"), {"provider": PROVIDER, "model": target.model}),
    )
    return Setup(
        environment={KEY_VARIABLE: target.token},  # Zed derives the name from the provider's
        arguments=("--foreground",),
        change=Change(settings_file(place), keys),
        notes=("a Zed that is already running does not receive the key; quit it first",),
    )


AGENT = Agent(
    name="zed",
    title="Zed",
    program="zed",
    install="see https://zed.dev/download",
    uses="OpenAI chat, by its settings.json (restored afterwards)",
    set_up=_set_up,
    places=(".local/bin",),
)
