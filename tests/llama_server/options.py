"""What the suite sets of llama-server, said as `localllm serve` says it. Pure; starts nothing.

Every attribute of the suite's `ServerProcess` is translated, without effect here (and the table says why), or refused
by name: the test that sets it then fails, and `expected.toml` says why that is right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

WITHOUT_EFFECT = {
    "debug": "a request says `verbose`: the plugin has chats say so",
    "offline": "nothing is downloaded",
    "model_hf_repo": "models.py says what stands in for it",
    "model_hf_file": "models.py says what stands in for it",
    "model_url": "models.py says what stands in for it",
    "model_file": "models.py says what stands in for it",
    "n_threads": "as many as are fastest",
    "n_gpu_layer": "the tests run on the CPU",
    "n_batch": "batches are planned by the time that they take",
    "n_ubatch": "batches are planned by the time that they take",
    "n_ga": "never set",
    "n_ga_w": "never set",
    "n_prompts": "never read",
    "id_slot": "never read",
    "cache_prompt": "never read",
    "server_continuous_batching": "always",
    "server_embeddings": "every model embeds",
    "server_reranking": "the model says that it ranks",
    "swa_full": "sliding windows have checkpoints",
    "no_cache_idle_slots": "idle slots are kept where they are",
    "jinja": "always",
    "no_ui": "there is none",
    "media_path": "no address of a file is read: clients send what is in it",
    "backend_sampling": "where tokens are drawn is no matter of the answer",
    "server_path": "it is localllm",
    "log_path": "our log is kept anyway",
    "external_server": "never set",
    "server_port": "any free one is taken, and told the test",
    "server_slots": "slots tell no prompts, so there is nothing to switch off",
}
NOT_SERVED = {
    "model_draft": "a draft model that is downloaded",
    "spec_type": "a source of guesses that is chosen at start",
    "spec_draft_n_min": "a least number of guesses",
    "spec_draft_n_max": "a largest number of guesses that is set at start",
    "spec_synth_len": "speculation with made-up acceptance",
    "spec_synth_rates": "speculation with made-up acceptance",
    "lora_files": "adapters",
    "mmproj_url": "a projector that is downloaded",
    "ui_mcp_proxy": "a proxy for the pages of a web interface",
    "gcp_compat": "Vertex AI's requests",
    "server_tools": "its own tools, which read files and run commands: those of MCP servers are",
    "server_tools_runtime": "tools that run on the server",
    "models_dir": "a folder of models",
    "no_models_autoload": "models that are not loaded when they are asked for",
    "models_preset": "models by an INI file",
    "model_tags": "tags of models",
}


TRAINED_CTX = 2048
"""Of the demo model. llama-server caps a slot's context at what its model was trained for; localllm refuses to load it
with more, and says so.
"""


class NotServedError(RuntimeError):
    """A test sets what localllm does not have."""


@dataclass(frozen=True)
class Wanted:
    """A server that a test wants."""

    model: str | None
    """The alias of its model; None: models are loaded when they are asked for."""
    options: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    """Of the model, as a Modelfile has them."""
    at_once: bool = True
    """Loaded at start, and for good; else when it is asked for."""
    mcp_servers: str | None = None
    """What their file says."""
    is_shared: bool = field(default=True, compare=False)
    """Whether another test may go on with it."""

    @property
    def api_key(self) -> str | None:
        return dict(self.environment).get("LOCALLLM_API_KEYS")


def wanted(server: Any) -> Wanted:
    """What a `ServerProcess` stands for. Raises `NotServedError`."""
    has_mcp = bool(server.mcp_servers_json or server.mcp_servers_config)
    for name, what in NOT_SERVED.items():
        if getattr(server, name, None) and not (name == "server_tools" and has_mcp):
            raise NotServedError(f"{name}: {what}: not served")
    if "," in server.server_host:
        raise NotServedError("server_host: several addresses: not served")
    sleeps = server.sleep_idle_seconds is not None
    options: list[str] = []
    if server.model_alias is not None:
        options += ["--model-aliases", f"*={server.model_alias}"] if sleeps else []
    environment: list[tuple[str, str]] = []
    num_slots = server.n_slots or 4
    options += ["--slots", str(num_slots)]
    is_unified = server.kv_unified or not server.n_slots
    if server.n_ctx:
        options += ["--ctx", str(min(TRAINED_CTX, server.n_ctx if is_unified else server.n_ctx // num_slots))]
        if is_unified:
            options += ["--kv", "unified", "--kv-cells", str(server.n_ctx)]
    for flag, name in (
        ("--pooling", "pooling"),
        ("--flash-attn", "fa"),
        ("--kv-type", "ctk"),
        ("--chat-template", "chat_template_file" if server.chat_template_file else "chat_template"),
        ("--max-loaded-models", "models_max"),
    ):
        value = getattr(server, name)
        if value is not None:
            options += [flag, str(value)]
    # What one test leaves in main memory is another's cached prompt.
    options += ["--kv-ram-mb", str(server.cache_ram or 0)]
    if server.no_mmproj:
        options += ["--projector", "off"]
    if server.enable_ctx_shift:
        options.append("--context-shift")
    if server.server_metrics:
        options += ["--metrics-names", "llamacpp"]
    if server.slot_save_path:
        options += ["--kv-disk-mb", "100"]
    if server.cors_origins:
        options += ["--cors-origins", server.cors_origins]
    if server.api_key:
        environment.append(("LOCALLLM_API_KEYS", server.api_key))
    if sleeps:
        options += ["--model-keep-alive-s", str(server.sleep_idle_seconds)]
    if server.reasoning is not None or server.chat_template_file:
        # Its "auto" tells every template to think that can; ours leaves it to the template.
        options += ["--thinking", "off" if server.reasoning == "off" else "on"]
    mcp_servers = server.mcp_servers_json
    if server.mcp_servers_config:
        options += ["--mcp-servers", server.mcp_servers_config]
    elif mcp_servers and (timeout := re.search(r'"timeout_ms": ([0-9]+)', mcp_servers)):
        options += ["--mcp-timeout-s", str(int(timeout[1]) / 1000)]  # theirs is of each server
    parameters = [("temperature", str(server.temperature)), ("seed", str(server.seed))]
    if server.n_predict:
        parameters.append(("num_predict", str(server.n_predict)))
    return Wanted(
        model=server.model_alias,
        options=tuple(options),
        environment=tuple(environment),
        parameters=tuple(parameters),
        at_once=not sleeps,
        mcp_servers=mcp_servers,
        is_shared=not (
            has_mcp or server.server_metrics or server.slot_save_path or server.sleep_idle_seconds or server.cache_ram
        )
        and server.model_alias is not None,
    )
