"""The options that commands share, each written once. A setting's option has the setting's name; None: not given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

_LOADING = "How the model is loaded"
_SAMPLING = "How tokens are chosen"

MODEL = Argument(metavar="MODEL", help="A name (see list and search), a path, or demo: the tiny model localllm carries")
MODELS = Argument(metavar="MODEL...", help="Loaded at once; requests that name none go to the first")
Model = Annotated[str, MODEL]
Host = Annotated[str | None, Option("--host", metavar="ADDRESS", help="[default: 127.0.0.1]")]
Port = Annotated[int | None, Option("--port", metavar="N", help="0: any free one [default: 11435]")]
Ctx = Annotated[
    int | None, Option("--ctx", metavar="TOKENS", help="Context of each slot [default: the model's, by memory]")
]
Slots = Annotated[int | None, Option("--slots", metavar="N", help="Answers at the same time [default: 4]")]
Threads = Annotated[int | None, Option("--threads", metavar="N", help="CPU threads at most [default: physical cores]")]
ThreadsBatch = Annotated[
    int | None, Option("--threads-batch", metavar="N", help="For prompts, at most [default: as --threads]")
]
Ubatch = Annotated[
    int | None, Option("--ubatch", metavar="TOKENS", help="Of a prompt, computed at once [default: 512]")
]
GpuLayers = Annotated[
    str | None, Option("--gpu-layers", metavar="auto|N|all", help="Layers on the GPU [default: auto]")
]
Device = Annotated[
    str | None,
    Option("--device", metavar="NAMES", help="As doctor lists them: vulkan0, cuda0,cuda1, metal, cpu [default: auto]"),
]
KvRamMb = Annotated[
    int | None, Option("--kv-ram-mb", metavar="MIB", help="Memory for idle chats without a slot [default: 2048]")
]
Checkpoints = Annotated[
    int | None,
    Option("--checkpoints", metavar="N", help="Per chat, for models that cannot take back tokens [default: 8]"),
]
Kv = Annotated[
    str | None, Option("--kv", metavar="auto|partitioned|unified", help="KV cache per slot, or one [default: auto]")
]
KvType = Annotated[str | None, Option("--kv-type", metavar="f16|q8_0|q4_0", help="[default: f16]")]
FlashAttn = Annotated[
    str | None, Option("--flash-attn", metavar="auto|on|off", help="How attention is computed [default: auto]")
]
Repack = Annotated[
    str | None, Option("--repack", metavar="auto|on|off", help="Weights laid out anew for this CPU [default: auto]")
]
KvCells = Annotated[
    int | None, Option("--kv-cells", metavar="TOKENS", help="In a unified cache, for all slots together")
]
KvDiskMb = Annotated[
    int | None, Option("--kv-disk-mb", metavar="MIB", help="Disk for chats, to go on after a restart [default: 0]")
]
ContextShift = Annotated[
    bool | None, Option("--context-shift", help="Answers go on at the end of the context, without the oldest tokens")
]
MaxStepMs = Annotated[
    int | None,
    Option(
        "--max-step-ms",
        metavar="MS",
        help="Longest step that nothing can interrupt, so longest wait of others [default: 300]",
    ),
]
PrefillStepMs = Annotated[
    int | None,
    Option("--prefill-step-ms", metavar="MS", help="Longest step with prompts while answers stream [default: 100]"),
]
Pooling = Annotated[
    str | None,
    Option("--pooling", metavar="none|mean|cls|last|rank", help="How embeddings are made [default: the model's own]"),
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
        help="Jinja, or chatml, command-r, gemma, llama2, llama3, phi3 [default: its own]",
    ),
]
Thinking = Annotated[
    str | None,
    Option("--thinking", metavar="auto|on|off", help="Of requests that do not say [default: auto, as the template]"),
]
MetricsNames = Annotated[
    str | None,
    Option("--metrics-names", metavar="localllm|llamacpp|both", help="In /metrics [default: localllm]"),
]
Speculation = Annotated[
    str | None,
    Option("--speculation", metavar="auto|off", help="Guess tokens, check several at a time [default: auto]"),
]
Draft = Annotated[
    str | None,
    Option("--draft", metavar="MODEL|auto", help="A smaller model of its vocabulary that guesses [default: none]"),
]
MaxStoredResponses = Annotated[
    int | None,
    Option("--max-stored-responses", metavar="N", help="Responses kept for previous_response_id [default: 1000]"),
]
MaxStoredResponseMb = Annotated[
    int | None, Option("--max-stored-response-mb", metavar="MIB", help="Memory for all of them [default: 64]")
]
HostedTools = Annotated[
    str | None,
    Option("--hosted-tools", metavar="ignore|refuse", help="Of agents, such as web search [default: ignore]"),
]
McpServers = Annotated[
    Path | None, Option("--mcp-servers", metavar="FILE", help="MCP servers that requests for responses may name")
]
McpTimeout = Annotated[
    float | None, Option("--mcp-timeout-s", metavar="S", help="For an MCP server to start, or to answer [default: 60]")
]
McpMaxRounds = Annotated[
    int | None,
    Option("--mcp-max-rounds", metavar="N", help="Answers in a row that call MCP servers' tools [default: 16]"),
]
ModelAliases = Annotated[
    str | None,
    Option("--model-aliases", metavar="NAMES", help="As claude-*=MODEL, comma-separated; claude-* alone: the loaded"),
]
Runtime = Annotated[
    str | None, Option("--runtime", metavar="NAME", help="Which llama.cpp, as `localllm runtime list` names them")
]
PluginDir = Annotated[Path | None, Option("--plugin-dir", metavar="FOLDER", help="Folder of ggml backend plugins")]
Rpc = Annotated[
    str | None,
    Option("--rpc", metavar="HOST:PORT,...", help="Use devices of other machines, where `localllm worker` serves them"),
]
RopeScaling = Annotated[
    str | None,
    Option("--rope-scaling", metavar="none|linear|yarn", help="Stretch positions for more ctx [default: as trained]"),
]
RopeScale = Annotated[
    float | None, Option("--rope-scale", metavar="X", help="ctx may be X times the trained one, with --rope-scaling")
]
YarnOrigCtx = Annotated[
    int | None, Option("--yarn-orig-ctx", metavar="TOKENS", help="Trained context of YaRN [default: as the model says]")
]
Home = Annotated[Path | None, Option("--home", metavar="FOLDER", help="Data and config folder [default: the user's]")]
Verbose = Annotated[bool | None, Option("--verbose", help="Show llama.cpp's log and timings on stderr")]

Temperature = Annotated[float | None, Option("--temperature", metavar="T", help="0: always the likeliest token")]
TopK = Annotated[int | None, Option("--top-k", metavar="N", help="Choose among the N likeliest; 0: all")]
TopP = Annotated[
    float | None, Option("--top-p", metavar="P", help="Choose among the likeliest that sum up to P; 1: all")
]
MinP = Annotated[
    float | None, Option("--min-p", metavar="P", help="Only tokens at least P times as likely as the best; 0: all")
]
Seed = Annotated[int | None, Option("--seed", metavar="N", help="The same seed gives the same answer; -1: a new one")]
MaxTokens = Annotated[int | None, Option("--max-tokens", metavar="N", help="Stop after N tokens; -1: no limit")]

AsJson = Annotated[bool, Option("--json", help="Print JSON")]


def as_arguments(given: Mapping[str, Any]) -> list[str]:
    """The same options for a child's command line, those that were given only."""
    arguments: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            arguments.append(f"{option}={value}")
    return arguments
