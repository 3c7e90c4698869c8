"""The options that several commands share. A setting's option is named like the setting; None: not given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

MODEL = Argument(metavar="MODEL", help="A name (see list and search), a path, or demo: the tiny bundled model")
MODELS = Argument(metavar="MODEL...", help="Loaded at startup; the first is the default for requests without a model")
Model = Annotated[str, MODEL]
Host = Annotated[str | None, Option("--host", metavar="ADDRESS", help="[default: 127.0.0.1]")]
Port = Annotated[int | None, Option("--port", metavar="N", help="0: any free port [default: 11435]")]
Ctx = Annotated[
    int | None, Option("--ctx", metavar="TOKENS", help="Context per slot [default: the model's, as memory allows]")
]
Slots = Annotated[int | None, Option("--slots", metavar="N", help="Concurrent answers [default: 4]")]
Threads = Annotated[int | None, Option("--threads", metavar="N", help="Maximum CPU threads [default: physical cores]")]
ThreadsBatch = Annotated[
    int | None, Option("--threads-batch", metavar="N", help="Maximum CPU threads for prefill [default: --threads]")
]
Ubatch = Annotated[
    int | None, Option("--ubatch", metavar="TOKENS", help="Prompt tokens computed per batch [default: 512]")
]
GpuLayers = Annotated[
    str | None, Option("--gpu-layers", metavar="auto|N|all", help="Layers on the GPU [default: auto]")
]
Device = Annotated[
    str | None,
    Option(
        "--device", metavar="NAMES", help="Devices listed by doctor: vulkan0, cuda0,cuda1, metal, cpu [default: auto]"
    ),
]
KvRamMb = Annotated[
    int | None, Option("--kv-ram-mb", metavar="MB", help="RAM for the KV cache of idle chats [default: 2048]")
]
Checkpoints = Annotated[
    int | None,
    Option("--checkpoints", metavar="N", help="Per chat, for models that cannot roll back tokens [default: 8]"),
]
Kv = Annotated[
    str | None,
    Option("--kv", metavar="auto|partitioned|unified", help="One KV cache per slot, or one for all [default: auto]"),
]
KvType = Annotated[str | None, Option("--kv-type", metavar="f16|q8_0|q4_0", help="Type of the KV cache [default: f16]")]
FlashAttn = Annotated[str | None, Option("--flash-attn", metavar="auto|on|off", help="Flash attention [default: auto]")]
Repack = Annotated[
    str | None, Option("--repack", metavar="auto|on|off", help="Repack weights for this CPU [default: auto]")
]
KvCells = Annotated[
    int | None, Option("--kv-cells", metavar="TOKENS", help="Size of a unified KV cache, shared by all slots")
]
KvDiskMb = Annotated[
    int | None,
    Option("--kv-disk-mb", metavar="MB", help="Disk space to keep the KV cache of chats across restarts [default: 0]"),
]
ContextShift = Annotated[
    bool | None, Option("--context-shift", help="When the context is full, drop the oldest tokens and continue")
]
MaxStepMs = Annotated[
    int | None,
    Option(
        "--max-step-ms",
        metavar="MS",
        help="Longest uninterruptible step, so the longest others may wait [default: 300]",
    ),
]
PrefillStepMs = Annotated[
    int | None,
    Option("--prefill-step-ms", metavar="MS", help="Longest step with prefill while answers stream [default: 100]"),
]
StreamIntervalMs = Annotated[
    int | None,
    Option("--stream-interval-ms", metavar="MS", help="Shortest time between parts of a stream [default: 33]"),
]
Pooling = Annotated[
    str | None,
    Option(
        "--pooling", metavar="none|mean|cls|last|rank", help="How token embeddings are pooled [default: the model's]"
    ),
]
EmbeddingCtx = Annotated[
    int | None,
    Option("--embedding-ctx", metavar="TOKENS", help="Longest text to embed [default: the model's, at most 2048]"),
]
ChatTemplate = Annotated[
    str | None,
    Option(
        "--chat-template",
        metavar="FILE|NAME",
        help="Jinja file, or chatml, command-r, gemma, llama2, llama3, phi3 [default: the model's]",
    ),
]
Thinking = Annotated[
    str | None,
    Option(
        "--thinking", metavar="auto|on|off", help="For requests that do not set it [default: auto, by the template]"
    ),
]
MetricsNames = Annotated[
    str | None,
    Option("--metrics-names", metavar="localllm|llamacpp|both", help="Metric names in /metrics [default: localllm]"),
]
Speculation = Annotated[
    str | None,
    Option("--speculation", metavar="auto|off", help="Speculative decoding [default: auto]"),
]
Mtp = Annotated[
    str | None,
    Option("--mtp", metavar="auto|off", help="Guesses by the model's own NextN layers, if it has any [default: auto]"),
]
Draft = Annotated[
    str | None,
    Option("--draft", metavar="MODEL|auto", help="Draft model: smaller, with the same vocabulary [default: none]"),
]
MaxStoredResponses = Annotated[
    int | None,
    Option("--max-stored-responses", metavar="N", help="Responses kept for previous_response_id [default: 1000]"),
]
MaxStoredResponseMb = Annotated[
    int | None, Option("--max-stored-response-mb", metavar="MB", help="Memory for all stored responses [default: 64]")
]
HostedTools = Annotated[
    str | None,
    Option(
        "--hosted-tools",
        metavar="ignore|refuse",
        help="What to do with hosted tools such as web search [default: ignore]",
    ),
]
McpServers = Annotated[
    Path | None, Option("--mcp-servers", metavar="FILE", help="MCP servers that requests to /v1/responses may use")
]
McpTimeout = Annotated[
    float | None,
    Option("--mcp-timeout-s", metavar="S", help="Timeout for an MCP server to start or to answer [default: 60]"),
]
McpMaxRounds = Annotated[
    int | None,
    Option("--mcp-max-rounds", metavar="N", help="Maximum rounds of MCP calls per request [default: 16]"),
]
ModelAliases = Annotated[
    str | None,
    Option(
        "--model-aliases",
        metavar="NAMES",
        help="Comma-separated, like claude-*=MODEL; without =MODEL: the loaded model",
    ),
]
Runtime = Annotated[
    str | None, Option("--runtime", metavar="NAME", help="llama.cpp build to use, from `localllm runtime list`")
]
PluginDir = Annotated[Path | None, Option("--plugin-dir", metavar="FOLDER", help="Folder of ggml backend plugins")]
Rpc = Annotated[
    str | None,
    Option("--rpc", metavar="HOST:PORT,...", help="Use devices of other machines that run `localllm worker`"),
]
RopeScaling = Annotated[
    str | None,
    Option(
        "--rope-scaling", metavar="none|linear|yarn", help="RoPE scaling for a longer context [default: the model's]"
    ),
]
RopeScale = Annotated[
    float | None,
    Option("--rope-scale", metavar="X", help="Context as a multiple of the trained one, with --rope-scaling"),
]
YarnOrigCtx = Annotated[
    int | None, Option("--yarn-orig-ctx", metavar="TOKENS", help="Trained context for YaRN [default: the model's]")
]
Home = Annotated[
    Path | None, Option("--home", metavar="FOLDER", help="Folder for data and configuration [default: per user]")
]
Verbose = Annotated[bool | None, Option("--verbose", help="Show llama.cpp's log and timings on stderr")]

Temperature = Annotated[float | None, Option("--temperature", metavar="T", help="0: always the most likely token")]
TopK = Annotated[int | None, Option("--top-k", metavar="N", help="Sample from the N most likely tokens; 0: all")]
TopP = Annotated[
    float | None, Option("--top-p", metavar="P", help="Sample from the most likely tokens that sum up to P; 1: all")
]
MinP = Annotated[
    float | None,
    Option("--min-p", metavar="P", help="Sample from tokens at least P times as likely as the best; 0: all"),
]
Seed = Annotated[int | None, Option("--seed", metavar="N", help="The same seed gives the same answer; -1: random")]
MaxTokens = Annotated[int | None, Option("--max-tokens", metavar="N", help="Stop after N tokens; -1: no limit")]

AsJson = Annotated[bool, Option("--json", help="Print JSON")]


def as_arguments(given: Mapping[str, Any]) -> list[str]:
    """The given options, as arguments for a child process."""
    arguments: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            arguments.append(f"{option}={value}")
    return arguments
