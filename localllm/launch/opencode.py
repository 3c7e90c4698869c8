"""opencode, configured in the environment, which overrides its files (opencode.ai/docs/config)."""

from __future__ import annotations

import json
from typing import Any

from localllm.launch.setup import KEY_VARIABLE, PROVIDER, Agent, AgentFolders, Setup, Target


def configuration(target: Target) -> dict[str, Any]:
    """The configuration to merge over its files."""
    name = f"{PROVIDER}/{target.model}"
    model = {
        "name": target.model,
        "tool_call": True,
        "reasoning": target.thinks,
        "limit": {"context": target.ctx, "output": target.max_output},
    }
    if target.reads:
        inputs = ["text", *(kind for kind in ("image", "audio") if kind in target.reads)]
        model |= {"attachment": True, "modalities": {"input": inputs, "output": ["text"]}}
    # Without its timeout of five minutes, which long prompts exceed; comments from the server keep the connection open.
    options = {"baseURL": target.openai_url, "apiKey": f"{{env:{KEY_VARIABLE}}}", "timeout": False}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": PROVIDER,
        "options": options,
        "models": {target.model: model},
    }
    return {
        "$schema": "https://opencode.ai/config.json",
        "provider": {PROVIDER: provider},
        "model": name,
        "small_model": name,
    }


def _set_up(target: Target, _place: AgentFolders) -> Setup:
    content = json.dumps(configuration(target), separators=(",", ":"))
    return Setup(environment={"OPENCODE_CONFIG_CONTENT": content, KEY_VARIABLE: target.token})


AGENT = Agent(
    name="opencode",
    title="opencode",
    program="opencode",
    install="npm install -g opencode-ai",
    uses="OpenAI chat, by its environment",
    set_up=_set_up,
    places=(".opencode/bin",),
)
