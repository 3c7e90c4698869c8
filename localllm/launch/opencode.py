"""opencode: configuration in the environment, which is merged over its files (opencode.ai/docs/config)."""

from __future__ import annotations

import json
from typing import Any

from localllm.launch.setup import KEY_VARIABLE, PROVIDER, Agent, Place, Setup, Target


def configuration(target: Target) -> dict[str, Any]:
    """The configuration to merge."""
    name = f"{PROVIDER}/{target.model}"
    model = {
        "name": target.model,
        "tool_call": True,
        "reasoning": target.thinks,
        "limit": {"context": target.ctx, "output": target.max_output},
    }
    # A prompt may take longer than its timeout of five minutes; the server's comments keep the connection open.
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


def _set_up(target: Target, _place: Place) -> Setup:
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
