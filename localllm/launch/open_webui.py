"""Open WebUI, configured by its environment for this run only (docs.openwebui.com, env-configuration)."""

from __future__ import annotations

from localllm.launch.setup import Agent, AgentFolders, Setup, Target


def _set_up(target: Target, _place: AgentFolders) -> Setup:
    return Setup(
        environment={
            "ENABLE_OPENAI_API": "True",
            "OPENAI_API_BASE_URL": target.openai_url,
            "OPENAI_API_BASE_URLS": target.openai_url,
            "OPENAI_API_KEY": target.token,
            "OPENAI_API_KEYS": target.token,
            # With Ollama's API enabled, its list would show the same models twice.
            "ENABLE_OLLAMA_API": "False",
            "OLLAMA_BASE_URL": target.url,
            "DEFAULT_MODELS": target.model,
            # Otherwise its database stores addresses from one run to the next.
            "ENABLE_PERSISTENT_CONFIG": "False",
        },
        arguments=("serve",),
    )


AGENT = Agent(
    name="open-webui",
    title="Open WebUI",
    program="open-webui",
    install="pip install open-webui",
    uses="OpenAI chat, by its environment",
    set_up=_set_up,
    places=(".local/bin",),
    least_ctx=4096,
)
