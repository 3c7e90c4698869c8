"""Codex CLI, configured by overrides of config.toml on the command line; the key stays in the environment."""

from __future__ import annotations

import json

from localllm.launch.setup import KEY_VARIABLE, PROVIDER, Agent, AgentFolders, Setup, Target

COMPACT_SHARE = 0.8
IDLE_TIMEOUT_MS = 3_600_000


def _set_up(target: Target, _place: AgentFolders) -> Setup:
    provider = f"model_providers.{PROVIDER}"
    overrides: dict[str, str | int | bool] = {
        "model": target.model,
        "model_provider": PROVIDER,
        "model_context_window": target.ctx,
        "model_auto_compact_token_limit": int(target.ctx * COMPACT_SHARE),
        "features.view_image": target.sees,
        f"{provider}.name": PROVIDER,
        f"{provider}.base_url": target.openai_url,
        f"{provider}.wire_api": "responses",
        f"{provider}.env_key": KEY_VARIABLE,
        f"{provider}.stream_idle_timeout_ms": IDLE_TIMEOUT_MS,
    }
    # JSON strings are valid TOML strings.
    arguments = [part for name, value in overrides.items() for part in ("-c", f"{name}={json.dumps(value)}")]
    return Setup(environment={KEY_VARIABLE: target.token}, arguments=tuple(arguments))


AGENT = Agent(
    name="codex",
    title="Codex CLI",
    program="codex",
    install="npm install -g @openai/codex",
    uses="OpenAI Responses, by -c options",
    set_up=_set_up,
)
