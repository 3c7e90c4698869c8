"""The options of `serve` that bound who asks, how much, and for how long: their names, types and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

ApiKeyFile = Annotated[
    Path | None,
    Option("--api-key-file", metavar="FILE", help="KEY, NAME=KEY or NAME(admin)=KEY a line; SIGHUP reads it again"),
]
AllowRemoteWithoutKey = Annotated[
    bool | None, Option("--allow-remote-without-key", help="Let anyone on the network use this server")
]
AllowedHosts = Annotated[
    str | None, Option("--allowed-hosts", metavar="NAMES", help="More names for this server, comma-separated")
]
MaxTokenizeBytes = Annotated[
    int | None, Option("--max-tokenize-bytes", metavar="N", help="Largest text for /tokenize; 0: any")
]
MaxConcurrentPerKey = Annotated[
    int | None, Option("--max-concurrent-per-key", metavar="N", help="Answers at a time for one API key")
]
RequestsPerMinutePerKey = Annotated[
    int | None, Option("--requests-per-minute-per-key", metavar="N", help="Requests a minute for one API key")
]
MinPriorityPerKey = Annotated[
    int | None,
    Option("--min-priority-per-key", metavar="N", help="Most urgent priority of a key [default: 0 with several]"),
]
ShareCacheBetweenKeys = Annotated[
    bool | None, Option("--share-cache-between-keys", help="One key's prompts speed up, and show up in, another's")
]
CorsOrigins = Annotated[
    str | None, Option("--cors-origins", metavar="ORIGINS", help="Web pages that may ask, comma-separated, or *")
]
TlsCertFile = Annotated[
    Path | None, Option("--tls-cert-file", metavar="FILE", help="PEM certificate: answer over https")
]
TlsKeyFile = Annotated[Path | None, Option("--tls-key-file", metavar="FILE", help="Its PEM key")]
MaxHeaderBytes = Annotated[int | None, Option("--max-header-bytes", metavar="N", help="Largest head of a request")]
MaxConnections = Annotated[
    int | None, Option("--max-connections", metavar="N", help="Open at a time; idle ones go first [default: 1000]")
]
MaxBodiesMb = Annotated[
    int | None, Option("--max-bodies-mb", metavar="MIB", help="Memory for all requests' bodies [default: 256]")
]
MaxUploadMb = Annotated[
    int | None, Option("--max-upload-mb", metavar="MIB", help="Largest file for /api/blobs; 0: as the disk has room")
]
OllamaCompat = Annotated[
    bool | None, Option("--ollama-compat", help="Answer on Ollama's port too, of this machine alone")
]
Ui = Annotated[bool | None, Option("--ui/--no-ui", help="A page for browsers at / [default: ui]")]
OllamaPort = Annotated[int | None, Option("--ollama-port", metavar="PORT", help="Which port that is [default: 11434]")]
MaxPulls = Annotated[int | None, Option("--max-pulls", metavar="N", help="Downloads at a time [default: 4]")]
MaxWaitingPulls = Annotated[
    int | None, Option("--max-waiting-pulls", metavar="N", help="Downloads that may queue [default: 16]")
]
BodyTimeout = Annotated[
    float | None, Option("--body-timeout-s", metavar="S", help="For a request to arrive whole; 0: any time")
]
SlowReaderTimeout = Annotated[
    float | None, Option("--slow-reader-timeout-s", metavar="S", help="For clients that take nothing; 0: any time")
]
KeepAlive = Annotated[
    float | None, Option("--keep-alive-s", metavar="S", help="Silence before a stream gets a comment; 0: none")
]
RequestTimeout = Annotated[
    float | None, Option("--request-timeout-s", metavar="S", help="For answers to requests without a timeout")
]
QueueTimeout = Annotated[
    float | None, Option("--queue-timeout-s", metavar="S", help="For a request to get a slot; 0: any time")
]
WorkerTimeout = Annotated[
    float | None, Option("--worker-timeout-s", metavar="S", help="For a model's process to answer; 0: any time")
]
StepTimeout = Annotated[
    float | None, Option("--step-timeout-s", metavar="S", help="For one step of a model; 0: any time")
]
ModelKeepAlive = Annotated[
    float | None,
    Option("--model-keep-alive-s", metavar="S", help="Models loaded on demand stay idle; -1: for ever [default: 300]"),
]
MaxLoadedModels = Annotated[
    int | None, Option("--max-loaded-models", metavar="N", help="At a time; 0: as memory allows [default: 0]")
]
MaxModelsMb = Annotated[
    int | None, Option("--max-models-mb", metavar="MIB", help="Memory for all models [default: 9/10 of all]")
]
MaxGrammarBytes = Annotated[
    int | None, Option("--max-grammar-bytes", metavar="N", help="Largest schema or grammar [default: 1000000]")
]
MaxGrammarCpu = Annotated[
    int | None, Option("--max-grammar-cpu-s", metavar="S", help="CPU time to compile one [default: 2]")
]
MaxGrammarMb = Annotated[
    int | None, Option("--max-grammar-mb", metavar="MIB", help="Memory to compile one [default: 512]")
]
MaxGrammarStates = Annotated[
    int | None, Option("--max-grammar-states", metavar="N", help="Of its lexer [default: 50000]")
]
MaxGrammarItems = Annotated[
    int | None, Option("--max-grammar-items", metavar="N", help="Of its parser, a token [default: 20000]")
]
MaxGrammarFuel = Annotated[
    int | None, Option("--max-grammar-fuel", metavar="N", help="Work of its lexer, a token [default: 50000]")
]
LogLevel = Annotated[str | None, Option("--log-level", metavar="LEVEL", help="debug, info, warning or error")]
LogFormat = Annotated[
    str | None, Option("--log-format", metavar="text|json", help="How log lines look [default: text]")
]
