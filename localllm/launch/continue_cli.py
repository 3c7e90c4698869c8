"""Continue's command line, configured by a temporary file; the key stays in the environment
(docs.continue.dev/reference)."""

from __future__ import annotations

import json

from localllm.launch.setup import KEY_VARIABLE, PROVIDER, Agent, AgentFolders, Setup, Target

CONFIG = "continue.yaml"


def _set_up(target: Target, place: AgentFolders) -> Setup:
    model = {
        "name": f"{target.model} ({PROVIDER})",
        "provider": "openai",
        "model": target.model,
        "apiBase": target.openai_url,
        "apiKey": f"${{{{ secrets.{KEY_VARIABLE} }}}}",
        "roles": ["chat", "edit", "apply", "summarize"],
        "capabilities": ["tool_use", *["image_input"] * target.sees],
        "defaultCompletionOptions": {"contextLength": target.ctx, "maxTokens": target.max_output},
        "requestOptions": {"timeout": 3600},
    }
    config = {"name": PROVIDER, "version": "1.0.0", "schema": "v1", "models": [model]}
    return Setup(
        environment={KEY_VARIABLE: target.token},
        arguments=("--config", str(place.files / CONFIG)),
        files={CONFIG: json.dumps(config, indent=2) + "\n"},
        notes=("Continue in an editor reads the same from ~/.continue/config.yaml; --print shows it",),
    )


AGENT = Agent(
    name="continue",
    title="Continue (cn)",
    program="cn",
    install="npm install -g @continuedev/cli",
    uses="OpenAI chat, by a temporary --config file",
    set_up=_set_up,
)
