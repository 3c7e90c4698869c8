"""Settings of the program and its server, one declaration each. Knows neither their sources nor what they do."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from localllm.settings.keys import HIGHEST_PRIORITY, LOWEST_PRIORITY
from localllm.settings.load_settings import LoadSettings
from localllm.types import GrammarLimits
from localllm.types.declared import MAX_BYTES, MAX_COUNT, MAX_MB, MAX_SECONDS, Setting
from localllm.types.loading import KvDiskMb
from localllm.types.structures import (
    CloseAtLimit,
    GrammarBytes,
    GrammarCpu,
    GrammarFuel,
    GrammarItems,
    GrammarMemory,
    GrammarStates,
)

HIGHEST_PORT = 65535
MetricsNames = Literal["localllm", "llamacpp", "both", "vllm"]

address = partial(Setting, group="Address")
access = partial(Setting, group="Access")
models = partial(Setting, group="Several models")
requests = partial(Setting, group="Requests")
batches = partial(Setting, group="Files and batches")
responses = partial(Setting, group="Responses and MCP")
downloads = partial(Setting, group="Downloads")
program = partial(Setting, group="Program")
_LIMITS = GrammarLimits()


class ServerSettings(LoadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings, with their defaults."""

    # fmt: off
    host: Annotated[str, address(
        "Address of the server", "ADDRESS", more="Commands look there for one that runs."
    )] = "127.0.0.1"
    port: Annotated[int, address("Port of the server; 0: any free one", "N", 0, HIGHEST_PORT)] = 11435
    ollama_compat: Annotated[bool, address(
        "Also listen on Ollama's port, on this machine only",
        more="Over http, so that Ollama's clients find the server."
    )] = False
    ollama_port: Annotated[int, address("Port for --ollama-compat", "PORT", 0, HIGHEST_PORT)] = 11434
    server_name: Annotated[str | None, address(
        "Name of this server among others, in the header x-localllm-server", "NAME",
        default="made of this machine, the data folder and the port",
        more="Behind a gateway it tells which server answered, and stands in the ids of stored responses."
    )] = None
    tls_cert_file: Annotated[Path | None, address(
        "PEM certificate; serves HTTPS", "FILE", more="With the whole chain."
    )] = None
    tls_key_file: Annotated[Path | None, address(
        "PEM key of the certificate", "FILE", more="Without a password; by default in the certificate's file."
    )] = None

    api_key: Annotated[str | None, access(
        "API key: what the server requires, and commands send", "KEY",
        more="One of the server's keys, also for ps, stop, run, launch and all others that use a running server. Other "
        "users of this machine can read the command line; LOCALLLM_API_KEY hides it from them."
    )] = None
    api_keys: Annotated[str | None, access(
        "API keys, comma-separated", "KEYS", who="environment", several=True,
        more="Each KEY, NAME=KEY or NAME(PROPERTIES)=KEY. The log and the metrics use the name, else key-1, key-2 ... "
        "Keys of one name share limits, cache and stored responses. Properties, separated by blanks: admin (or user), "
        "min_priority=N, max_concurrent=N, requests_per_minute=N. Once there is an admin key, only admin keys may "
        "unload, remove, pull, set how a model is loaded or how long it stays, and save, restore or erase slots. A "
        "plain key that contains = anywhere but at its end needs a name."
    )] = None
    api_key_file: Annotated[Path | None, access(
        "API keys, one KEY, NAME=KEY or NAME(admin)=KEY per line; SIGHUP reloads it", "FILE",
        more="The same as api_keys; lines that begin with # are comments."
    )] = None
    allow_remote_without_key: Annotated[bool, access("Let anyone on the network use this server")] = False
    allowed_hosts: Annotated[str, access(
        "Additional host names of this server, comma-separated", "NAMES", several=True,
        more="That a Host header may name, besides addresses, this machine's own names, names without a domain, and "
        "those that end with .local, .localhost, .internal or .home.arpa."
    )] = ""
    max_concurrent_per_key: Annotated[int, access(
        "Concurrent answers per API key; 0: no limit", "N", 0, MAX_COUNT,
        more="Running or waiting, counting each of a request's n."
    )] = 0
    requests_per_minute_per_key: Annotated[int, access(
        "Requests per minute and API key; 0: no limit", "N", 0, MAX_COUNT, more="In a burst if need be."
    )] = 0
    min_priority_per_key: Annotated[int | None, access(
        "Most urgent priority a key may use", "N", LOWEST_PRIORITY, HIGHEST_PRIORITY, default="0 with several keys",
        more="The lowest number is the most urgent; admin keys may use any. The default lets no user jump the queue; "
        "with one key, any may be used."
    )] = None
    share_cache_between_keys: Annotated[bool, access(
        "Reuse cached prompts across keys; timing can reveal them",
        more="A common system prompt is then computed once for all, but `cached_tokens` and the time to first token "
        "reveal to one key what others have asked."
    )] = False
    cors_origins: Annotated[str, access(
        "Web origins that may call the API, comma-separated, or *", "ORIGINS", several=True,
        more="Such as https://chat.example, null, file://; localhost: servers on this machine, on any port; apps: "
        "installed programs with pages of their own (app://, tauri://, vscode-webview://, vscode-file://)."
    )] = "apps"

    kv_disk_mb: KvDiskMb = 0

    model_keep_alive_s: Annotated[float, models(
        "Unload models loaded on demand after so long idle; -1: never", "S", -1, MAX_SECONDS
    )] = 300.0
    lora: Annotated[str | None, models(
        "LoRA adapters of the first model, comma-separated", "[NAME=]FILE[:SCALE],...", several=True,
        more="Each is a model's name, too: NAME, or the file's. `localllm run` answers under all of them; "
        "`serve` under those that a request names. `localllm lora add` keeps one for good."
    )] = None
    control_vector: Annotated[str | None, models(
        "Control vectors of the first model, comma-separated", "[NAME=]FILE[:SCALE][:FIRST-LAST],...", several=True,
        more="Names and strengths are those of `lora`. FIRST-LAST are the only layers that it changes, both included; "
        "without it, all for which the file has directions."
    )] = None
    max_loaded_models: Annotated[int, models("Maximum loaded models; 0: as memory allows", "N", 0, MAX_COUNT)] = 0
    max_models_mb: Annotated[int, models("Memory for all models", "MB", 0, MAX_MB, default="9/10 of the total")] = 0
    model_aliases: Annotated[str, models(
        "Further names, comma-separated, like claude-*=MODEL; without =MODEL: the loaded model", "NAMES", several=True,
        more="Requests for a model whose name matches the pattern go to MODEL. A loaded model's own name always works."
    )] = ""
    unknown_models: Annotated[Literal["answer", "refuse"], models(
        "What to do with requests for a model that nobody knows",
        more="If the server was started with exactly one model, that one answers, for clients with a fixed name such "
        "as gpt-4o; the reply's `model` and the header x-localllm-model say so. Names of models that can be pulled are "
        "refused either way."
    )] = "answer"
    load_timeout_s: Annotated[float, models("Timeout for loading a model", "S", 0, MAX_SECONDS)] = 600.0
    worker_timeout_s: Annotated[float, models(
        "Timeout for a worker process to respond; 0: none", "S", 0, MAX_SECONDS,
        more="A model's process that does not respond for this long is killed and restarted."
    )] = 30.0
    step_timeout_s: Annotated[float, models(
        "Timeout for one step of a model; 0: none", "S", 0, MAX_SECONDS,
        more="The same for a process that responds, but takes this long for a step, or to accept or reject a request. "
        "A first step may compile a GPU's programs, and a model that does not fit into memory is read from disk at "
        "every step."
    )] = 600.0

    max_waiting: Annotated[int, requests("Maximum queued requests", "N", 0, MAX_COUNT)] = 256
    max_body_bytes: Annotated[int, requests("Largest request body", "N", 1, MAX_BYTES)] = 8 * 1024 * 1024
    media_urls: Annotated[Literal["off", "public", "any"], requests(
        "Whether pictures, sounds and documents may be fetched from http(s) addresses",
        more="off: requests bring the bytes; public: from public addresses only, checked at every connection and "
        "redirect; any: from this machine and its network, too, so that every client can make the server ask there."
    )] = "off"
    media_url_timeout_s: Annotated[float, requests(
        "Timeout for fetching a picture, sound or document", "S", 0.1, MAX_SECONDS
    )] = 10.0
    max_media_bytes: Annotated[int, requests("Largest picture or sound", "N", 1, MAX_BYTES)] = 20 * 1024 * 1024
    max_request_media_bytes: Annotated[int, requests(
        "All pictures, sounds and documents of a request", "N", 1, MAX_BYTES,
        more="Their base64 does not count for max_body_bytes."
    )] = 64 * 1024 * 1024
    max_media: Annotated[int, requests("Pictures and sounds of a request", "N", 1, MAX_COUNT)] = 100
    max_blobs: Annotated[int, requests(
        "Uploaded files kept for requests that refer to them", "N", 0, MAX_COUNT,
        more="Beyond that, the least recently used ones of the key with the most are dropped, and clients upload them "
        "again; 0: none."
    )] = 1000
    blob_ram_mb: Annotated[int, requests("Memory for uploaded files", "MB", 0, MAX_MB, more="0: none are kept.")] = 256
    max_document_bytes: Annotated[int, requests("Largest document", "N", 1, MAX_BYTES)] = 32 * 1024 * 1024
    max_document_pages: Annotated[int, requests(
        "Most pages of a document", "N", 1, MAX_COUNT,
        more="Pages, slides or sheets. A longer document is refused, unless the request chooses some of them."
    )] = 500
    max_document_chars: Annotated[int, requests(
        "Most characters of a document's text", "N", 1, MAX_BYTES, more="A longer document is refused."
    )] = 1_000_000
    max_document_s: Annotated[float, requests(
        "Most CPU time to read a document", "S", 1, MAX_SECONDS, more="Three times as much may pass."
    )] = 30.0
    max_documents: Annotated[int, requests("Documents of a request", "N", 1, MAX_COUNT)] = 50
    max_request_document_chars: Annotated[int, requests(
        "Characters of all documents of a request", "N", 1, MAX_BYTES
    )] = 4_000_000
    document_ram_mb: Annotated[int, requests(
        "Memory for texts of documents that were read", "MB", 0, MAX_MB,
        more="A document that is sent again is not read again."
    )] = 64
    max_upload_mb: Annotated[int, requests(
        "Largest file for /api/blobs; 0: as disk space allows", "MB", 0, MAX_MB,
        more="Clients upload such files to create models."
    )] = 0
    max_texts: Annotated[int, requests(
        "Most texts to embed or rank in a request", "N", 1, MAX_COUNT, more="The default is OpenAI's limit."
    )] = 2048
    max_tokenize_bytes: Annotated[int, requests(
        "Largest text for /tokenize; 0: no limit", "N", 0, MAX_BYTES,
        more="For all requests that only tokenize; without a limit, the request's size is one."
    )] = 2 * 1024 * 1024
    max_header_bytes: Annotated[int, requests(
        "Largest request header", "N", 1024, MAX_BYTES, more="With the request's first line."
    )] = 64 * 1024
    max_connections: Annotated[int, requests(
        "Open connections; idle ones are closed first", "N", 1, MAX_COUNT,
        more="Fewer if the system allows fewer files."
    )] = 1000
    max_bodies_mb: Annotated[int, requests(
        "Memory for all request bodies", "MB", 1, MAX_MB,
        more="Of requests being received or answered; small ones are not counted."
    )] = 256
    body_timeout_s: Annotated[float, requests(
        "Timeout to receive a whole request; 0: none", "S", 0, MAX_SECONDS, more="For its head, and then for its body."
    )] = 60.0
    slow_reader_timeout_s: Annotated[float, requests(
        "Timeout for clients that stop reading; 0: none", "S", 0, MAX_SECONDS
    )] = 60.0
    keep_alive_s: Annotated[float, requests(
        "Interval of keep-alive comments in idle streams; 0: none", "S", 0, MAX_SECONDS,
        more="So that no proxy closes them."
    )] = 15.0
    request_timeout_s: Annotated[float, requests(
        "Timeout of requests that set none; 0: none", "S", 0, MAX_SECONDS
    )] = 0.0
    queue_timeout_s: Annotated[float, requests(
        "Timeout to get a slot; 0: none", "S", 0, MAX_SECONDS,
        more="Or for the first text of a request to be embedded."
    )] = 0.0
    strict: Annotated[bool, requests(
        "Reject unknown request fields", more="Otherwise they are ignored, and named in a header and the log."
    )] = False
    drain_delay_s: Annotated[float, requests(
        "Time to go on serving after SIGTERM, with /ready at 503", "S", 0, MAX_SECONDS,
        more="So that load balancers, which look every few seconds, send requests elsewhere before connections are "
        "refused. Ctrl-C does not wait."
    )] = 0.0
    grace_s: Annotated[float, requests("Time for answers to finish at shutdown", "S", 0, MAX_SECONDS)] = 30.0

    max_grammar_bytes: GrammarBytes = _LIMITS.source_bytes
    max_grammar_cpu_s: GrammarCpu = _LIMITS.cpu_s
    max_grammar_mb: GrammarMemory = _LIMITS.memory_mb
    max_grammar_states: GrammarStates = _LIMITS.lexer_states
    max_grammar_items: GrammarItems = _LIMITS.step_items
    max_grammar_fuel: GrammarFuel = _LIMITS.step_fuel
    close_at_limit: CloseAtLimit = _LIMITS.close_at_limit

    max_file_mb: Annotated[int, batches(
        "Largest file for a batch", "MB", 1, MAX_MB,
        more="Of OpenAI's /v1/files, and of the requests that come with one of Anthropic's batches. A line of it may "
        "have max_body_bytes."
    )] = 200
    max_files_mb: Annotated[int, batches(
        "Disk for files and batches of each API key", "MB", 0, MAX_MB,
        more="With the results; a batch that would need more ends early, and says so. 0: no files are stored."
    )] = 2000
    max_files: Annotated[int, batches("Stored files of each API key", "N", 0, MAX_COUNT)] = 500
    max_batches: Annotated[int, batches(
        "Batches of each API key that are kept", "N", 1, MAX_COUNT,
        more="Beyond that, the oldest one that has ended is forgotten."
    )] = 200
    max_batch_lines: Annotated[int, batches("Most requests of a batch", "N", 1, MAX_COUNT)] = 100_000
    message_batch_hours: Annotated[int, batches(
        "Hours after which Anthropic's message batches expire", "N", 1, 87600,
        more="OpenAI's say it themselves, as completion_window."
    )] = 24

    max_stored_responses: Annotated[int, responses(
        "Responses kept for previous_response_id", "N", 0, MAX_COUNT,
        more="Beyond that, the least recently used ones of the key with the most are dropped; 0: none."
    )] = 1000
    max_stored_response_mb: Annotated[int, responses(
        "Memory for all stored responses", "MB", 0, MAX_MB, more="0: none are stored."
    )] = 64
    hosted_tools: Annotated[Literal["ignore", "refuse"], responses(
        "What to do with hosted tools such as web search",
        more="Tools of the Responses and the Messages API that run elsewhere are ignored and named in a header, or an "
        "error."
    )] = "ignore"
    mcp_servers: Annotated[Path | None, responses(
        "MCP servers that requests to /v1/responses may use", "FILE",
        more="JSON with `mcpServers`; their tools are also listed by `/tools`."
    )] = None
    mcp_timeout_s: Annotated[float, responses(
        "Timeout for an MCP server to start or to answer", "S", 0.001, MAX_SECONDS
    )] = 60.0
    mcp_max_rounds: Annotated[int, responses(
        "Maximum rounds of MCP calls per request", "N", 1, MAX_COUNT, more="The answer after that may not call any."
    )] = 16

    hub_endpoint: Annotated[str, downloads(
        "Mirror of Hugging Face", "URL", default="HF_ENDPOINT, or huggingface.co", more="With the same API."
    )] = "https://huggingface.co"
    hub_publishers: Annotated[str, downloads(
        "Publishers on Hugging Face whose models short names may mean, comma-separated", "NAMES", several=True,
        default="the models' makers, ggml-org, unsloth, bartowski, lmstudio-community",
        more="For names that the catalog lacks; the first that has the model is taken. Empty: only the catalog's names."
    )] = "Qwen,google,mistralai,ibm-granite,LiquidAI,nvidia,openai,microsoft,HuggingFaceTB,allenai,nomic-ai," \
        "ggml-org,unsloth,bartowski,lmstudio-community"
    catalog_url: Annotated[str | None, downloads(
        "Address of a signed catalog, which `localllm pull` refreshes", "URL",
        more="TOML of the form of localllm's own catalog; its names replace the bundled ones. At URL.minisig lies its "
        "signature, as minisign makes it. Needs catalog_key and the extra `catalog`."
    )] = None
    catalog_key: Annotated[str | None, downloads(
        "Public key of who signs the catalog", "KEY", more="As `minisign -G` prints it: RW..."
    )] = None
    catalog_refresh_s: Annotated[float, downloads(
        "Look for a newer catalog after so long", "S", 0, MAX_SECONDS, more="At a pull, never by itself."
    )] = 86400.0
    insecure_registries: Annotated[str, downloads(
        "Registries without TLS, comma-separated", "HOSTS", several=True, more="This machine itself always is one."
    )] = ""
    proxy: Annotated[str | None, downloads("Proxy for downloads", "URL", default="HTTPS_PROXY etc.")] = None
    ca_file: Annotated[Path | None, downloads(
        "PEM file with additional CA certificates", "FILE", more="To trust, besides the usual ones."
    )] = None
    download_connections: Annotated[int, downloads("Parallel connections per pull", "N", 1, 32)] = 8
    download_patience_s: Annotated[float, downloads(
        "Give up after so long without progress", "S", 1, MAX_SECONDS, more="What has arrived stays."
    )] = 600.0
    max_pulls: Annotated[int, downloads("Concurrent downloads", "N", 1, MAX_COUNT, more="By the server.")] = 4
    max_waiting_pulls: Annotated[int, downloads("Downloads that may queue", "N", 0, MAX_COUNT)] = 16
    max_download_kb_per_s: Annotated[int, downloads("Bandwidth limit per pull; 0: none", "kB", 0, MAX_COUNT)] = 0
    allow_private_downloads: Annotated[bool, downloads(
        "Allow redirects to private addresses", more="For networks whose name servers return such addresses."
    )] = False

    ui: Annotated[bool, program("Web page at /", more="For browsers: chat, models, load of the machine.")] = True
    metrics_names: Annotated[MetricsNames, program(
        "Metric names in /metrics",
        more="Ours, per model and with histograms; llama-server's totals over all models; both of these; or vLLM's, "
        "for its dashboards and for autoscalers and gateways that know them."
    )] = "localllm"
    otel_endpoint: Annotated[str | None, program(
        "OpenTelemetry collector to which spans of requests are sent", "URL",
        more="Such as http://localhost:4318; OTLP as JSON over HTTP. They have names, tokens and times, never texts. A "
        "request whose traceparent says that its trace is not recorded sends none."
    )] = None
    otel_headers: Annotated[str | None, program(
        "Headers for the collector, comma-separated NAME=VALUE", "PAIRS", who="environment", several=True,
        more="Such as authorization=Bearer KEY."
    )] = None
    home: Annotated[Path | None, program(
        "Folder for data and configuration", "FOLDER", default="per user",
        more="Moves the data directory and the configuration directory together."
    )] = None
    plugin_dir: Annotated[Path | None, Setting(
        "Folder of ggml backend plugins", "FOLDER", group="CPU and GPU", more="Vulkan, CUDA ..."
    )] = None
    log_level: Annotated[Literal["debug", "info", "warning", "error"], program(
        "What is logged: debug, info, warning or error", "LEVEL",
        more="With debug, workers also check the integrity of their KV caches whenever they are idle."
    )] = "info"
    log_format: Annotated[Literal["text", "json"], program("Format of log lines")] = "text"
    verbose: Annotated[bool, program("Show llama.cpp's log and timings on stderr")] = False
    # fmt: on
