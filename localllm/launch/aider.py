"""Aider, configured by options and by two files that describe the model (aider.chat/docs/config)."""

from __future__ import annotations

import json

from localllm.launch.setup import Agent, AgentFolders, Setup, Target

METADATA, SETTINGS = "aider-model-metadata.json", "aider-model-settings.yml"
TIMEOUT_S = 3600


def _set_up(target: Target, place: AgentFolders) -> Setup:
    name = f"openai/{target.model}"
    metadata = {
        name: {
            "max_input_tokens": target.ctx,
            "max_output_tokens": target.max_output,
            "max_tokens": target.max_output,
            "input_cost_per_token": 0.0,
            "output_cost_per_token": 0.0,
            "litellm_provider": "openai",
            "mode": "chat",
            "supports_vision": target.sees,
            "supports_audio_input": target.hears,
        }
    }
    settings = [{"name": name, "weak_model_name": name, "use_repo_map": True}]
    return Setup(
        environment={"AIDER_OPENAI_API_KEY": target.token},  # a .env file of the project may set OPENAI_API_KEY
        arguments=(
            f"--model={name}",
            f"--weak-model={name}",
            f"--openai-api-base={target.openai_url}",
            f"--model-metadata-file={place.files / METADATA}",
            f"--model-settings-file={place.files / SETTINGS}",
            f"--timeout={TIMEOUT_S}",
            "--no-show-model-warnings",
        ),
        # JSON is YAML.
        files={METADATA: json.dumps(metadata, indent=2) + "\n", SETTINGS: json.dumps(settings, indent=2) + "\n"},
    )


AGENT = Agent(
    name="aider",
    title="Aider",
    program="aider",
    install="python -m pip install aider-install && aider-install",
    uses="OpenAI chat, by options and temporary files",
    set_up=_set_up,
    places=(".local/bin",),
    least_ctx=8192,
)
