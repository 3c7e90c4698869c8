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
            **_retrieval(target),
        },
        arguments=("serve",),
    )


def _retrieval(target: Target) -> dict[str, str]:
    """For documents in chats. Without these, it downloads an embedding model of its own."""
    found: dict[str, str] = {}
    if target.embedder is not None:
        found |= {
            "RAG_EMBEDDING_ENGINE": "openai",
            "RAG_EMBEDDING_MODEL": target.embedder,
            "RAG_OPENAI_API_BASE_URL": target.openai_url,
            "RAG_OPENAI_API_KEY": target.token,
        }
    if target.reranker is not None:
        found |= {
            "ENABLE_RAG_HYBRID_SEARCH": "True",  # only hybrid search ranks
            "RAG_RERANKING_ENGINE": "external",
            "RAG_RERANKING_MODEL": target.reranker,
            "RAG_EXTERNAL_RERANKER_URL": f"{target.openai_url}/rerank",  # the whole address: it appends nothing
            "RAG_EXTERNAL_RERANKER_API_KEY": target.token,
        }
    return found


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
