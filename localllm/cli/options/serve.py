"""The options of `serve` for access, limits and timeouts: names, types and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

ApiKeyFile = Annotated[
    Path | None,
    Option("--api-key-file", metavar="FILE", help="One KEY, NAME=KEY or NAME(admin)=KEY per line; SIGHUP reloads it"),
]
AllowRemoteWithoutKey = Annotated[
    bool | None, Option("--allow-remote-without-key", help="Let anyone on the network use this server")
]
AllowedHosts = Annotated[
    str | None, Option("--allowed-hosts", metavar="NAMES", help="Additional host names of this server, comma-separated")
]
MaxTokenizeBytes = Annotated[
    int | None, Option("--max-tokenize-bytes", metavar="N", help="Largest text for /tokenize; 0: no limit")
]
MaxConcurrentPerKey = Annotated[
    int | None, Option("--max-concurrent-per-key", metavar="N", help="Concurrent answers per API key")
]
RequestsPerMinutePerKey = Annotated[
    int | None, Option("--requests-per-minute-per-key", metavar="N", help="Requests per minute and API key")
]
MinPriorityPerKey = Annotated[
    int | None,
    Option(
        "--min-priority-per-key", metavar="N", help="Most urgent priority a key may use [default: 0 with several keys]"
    ),
]
ShareCacheBetweenKeys = Annotated[
    bool | None, Option("--share-cache-between-keys", help="Reuse cached prompts across keys; timing can reveal them")
]
CorsOrigins = Annotated[
    str | None,
    Option("--cors-origins", metavar="ORIGINS", help="Web origins that may call the API, comma-separated, or *"),
]
TlsCertFile = Annotated[Path | None, Option("--tls-cert-file", metavar="FILE", help="PEM certificate; serves HTTPS")]
TlsKeyFile = Annotated[Path | None, Option("--tls-key-file", metavar="FILE", help="PEM key of the certificate")]
MaxHeaderBytes = Annotated[int | None, Option("--max-header-bytes", metavar="N", help="Largest request header")]
MaxConnections = Annotated[
    int | None,
    Option("--max-connections", metavar="N", help="Open connections; idle ones are closed first [default: 1000]"),
]
MaxBodiesMb = Annotated[
    int | None, Option("--max-bodies-mb", metavar="MB", help="Memory for all request bodies [default: 256]")
]
MaxUploadMb = Annotated[
    int | None, Option("--max-upload-mb", metavar="MB", help="Largest file for /api/blobs; 0: as disk space allows")
]
OllamaCompat = Annotated[
    bool | None, Option("--ollama-compat", help="Also listen on Ollama's port, on this machine only")
]
Ui = Annotated[bool | None, Option("--ui/--no-ui", help="Web page at / [default: ui]")]
OllamaPort = Annotated[
    int | None, Option("--ollama-port", metavar="PORT", help="Port for --ollama-compat [default: 11434]")
]
MaxPulls = Annotated[int | None, Option("--max-pulls", metavar="N", help="Concurrent downloads [default: 4]")]
MaxWaitingPulls = Annotated[
    int | None, Option("--max-waiting-pulls", metavar="N", help="Downloads that may queue [default: 16]")
]
BodyTimeout = Annotated[
    float | None, Option("--body-timeout-s", metavar="S", help="Timeout to receive a whole request; 0: none")
]
SlowReaderTimeout = Annotated[
    float | None, Option("--slow-reader-timeout-s", metavar="S", help="Timeout for clients that stop reading; 0: none")
]
KeepAlive = Annotated[
    float | None, Option("--keep-alive-s", metavar="S", help="Interval of keep-alive comments in idle streams; 0: none")
]
RequestTimeout = Annotated[
    float | None, Option("--request-timeout-s", metavar="S", help="Timeout of requests that set none")
]
QueueTimeout = Annotated[float | None, Option("--queue-timeout-s", metavar="S", help="Timeout to get a slot; 0: none")]
WorkerTimeout = Annotated[
    float | None, Option("--worker-timeout-s", metavar="S", help="Timeout for a worker process to respond; 0: none")
]
StepTimeout = Annotated[
    float | None, Option("--step-timeout-s", metavar="S", help="Timeout for one step of a model; 0: none")
]
ModelKeepAlive = Annotated[
    float | None,
    Option(
        "--model-keep-alive-s",
        metavar="S",
        help="Unload models loaded on demand after so long idle; -1: never [default: 300]",
    ),
]
MaxLoadedModels = Annotated[
    int | None,
    Option("--max-loaded-models", metavar="N", help="Maximum loaded models; 0: as memory allows [default: 0]"),
]
MaxModelsMb = Annotated[
    int | None, Option("--max-models-mb", metavar="MB", help="Memory for all models [default: 9/10 of the total]")
]
MaxGrammarBytes = Annotated[
    int | None, Option("--max-grammar-bytes", metavar="N", help="Largest schema or grammar [default: 1000000]")
]
MaxGrammarCpu = Annotated[
    int | None, Option("--max-grammar-cpu-s", metavar="S", help="CPU time to compile a schema or grammar [default: 2]")
]
MaxGrammarMb = Annotated[
    int | None, Option("--max-grammar-mb", metavar="MB", help="Memory to compile a schema or grammar [default: 512]")
]
MaxGrammarStates = Annotated[
    int | None, Option("--max-grammar-states", metavar="N", help="Lexer states of a grammar [default: 50000]")
]
MaxGrammarItems = Annotated[
    int | None, Option("--max-grammar-items", metavar="N", help="Parser items per token [default: 20000]")
]
MaxGrammarFuel = Annotated[
    int | None, Option("--max-grammar-fuel", metavar="N", help="Lexer fuel per token [default: 50000]")
]
LogLevel = Annotated[str | None, Option("--log-level", metavar="LEVEL", help="debug, info, warning or error")]
LogFormat = Annotated[
    str | None, Option("--log-format", metavar="text|json", help="Format of log lines [default: text]")
]
