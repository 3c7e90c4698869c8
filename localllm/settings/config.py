"""Settings: defaults < config.toml < LOCALLLM_<NAME> in the environment < a model's section < the command line.

Errors name the bad value and its source. Knows nothing of what the settings do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from localllm.errors import InvalidParameter, sentence_of
from localllm.settings import sections
from localllm.settings.keys import HIGHEST_PRIORITY, LOWEST_PRIORITY, ApiKey, parse_keys
from localllm.settings.load_settings import LOADING, LoadSettings
from localllm.settings.sections import NO_SECTIONS, Section, Sections
from localllm.settings.values import comma_list, converted, origin_of, read_toml
from localllm.settings.values import parse_gpu_layers as parse_gpu_layers
from localllm.system import folders
from localllm.types import GrammarLimits
from localllm.types import RopeScaling as RopeScaling
from localllm.types import ThinkingDefault as ThinkingDefault
from localllm.types.load_options import LoadOptions

ENV_PREFIX = "LOCALLLM_"
MODELS = "models"
"""The table of `config.toml` that has a section for each model."""

Count = Annotated[int, msgspec.Meta(ge=0)]
MetricsNames = Literal["localllm", "llamacpp", "both"]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Settings(LoadSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting with its default. Field `x_y` is `LOCALLLM_X_Y` in the environment, `--x-y` on the command line."""

    home: Path | None = None
    """Moves the data directory and the config directory together."""
    host: str = "127.0.0.1"
    port: int = 11435
    ollama_compat: bool = False
    """Also answer on Ollama's own port, on this machine only and over http, so that its clients find the server."""
    ollama_port: int = 11434
    kv_disk_mb: Count = 0
    """Disk, in MB, for conversations of all models, so that they survive an unload or a restart, and for slots saved
    by clients, which take precedence; 0: none.

    They are stored unencrypted in the data directory, readable by its owner only.
    """
    max_grammar_bytes: int = 1_000_000
    """Maximum size of a schema or grammar of a structured answer."""
    max_grammar_cpu_s: int = 2
    """CPU time limit for checking and compiling a schema or grammar."""
    max_grammar_mb: int = 512
    """Main memory limit, in MB, of the process that tries a schema or grammar."""
    max_grammar_states: int = 50_000
    """Maximum number of lexer states, some 2 KB each."""
    max_grammar_items: int = 20_000
    """Maximum number of parser items per token of the answer."""
    max_grammar_fuel: int = 50_000
    """Limit on the lexer's work per token of the answer."""
    plugin_dir: Path | None = None
    """Folder of ggml backend plugins (Vulkan, CUDA ...) to load."""
    api_keys: str | None = None
    """Comma-separated, each `KEY`, `NAME=KEY` or `NAME(PROPERTIES)=KEY`. The log and the metrics use the name, else
    `key-1`, `key-2` ... Keys of one name share limits, cache and stored responses.

    Properties, separated by blanks: `admin` (or `user`), `min_priority=N`, `max_concurrent=N`,
    `requests_per_minute=N`. Once there is an admin key, only admin keys may unload, remove, pull, set how a model is
    loaded or how long it stays, and save, restore or erase slots. A plain key that contains `=` anywhere but at its
    end needs a name.
    """
    api_key_file: Path | None = None
    """The same, one per line; lines that begin with `#` are comments. Reread on SIGHUP."""
    max_concurrent_per_key: Count = 0
    """Maximum answers running or waiting per key, counting each of a request's `n`; 0: no limit."""
    requests_per_minute_per_key: Count = 0
    """Requests that one key may start per minute, in a burst if need be; 0: no limit."""
    min_priority_per_key: Annotated[int, msgspec.Meta(ge=LOWEST_PRIORITY, le=HIGHEST_PRIORITY)] | None = None
    """The most urgent `priority` (the lowest number) for requests of one key; admin keys may use any.

    None: 0 if there are several keys, so that no user can jump the queue; else any.
    """
    share_cache_between_keys: bool = False
    """Prompts of one key may start from what was computed for another's: a common system prompt is then computed once
    for all, but `cached_tokens` and the time to first token reveal to one key what others have asked."""
    allow_remote_without_key: bool = False
    allowed_hosts: str = ""
    """Comma-separated host names that a Host header may name, besides this machine's own."""
    cors_origins: str = ""
    """Comma-separated origins (`https://chat.example`, `null`, `file://`) of web pages that may send requests;
    `localhost`: those of servers on this machine, on any port; `*`: all."""
    tls_cert_file: Path | None = None
    """PEM file with the whole chain; enables https."""
    tls_key_file: Path | None = None
    """PEM file without a password; None: the key is in the certificate's file."""
    max_waiting: int = 256
    max_body_bytes: int = 8 * 1024 * 1024
    max_upload_mb: Count = 0
    """Largest file, in MB, that a client may upload to create a model; 0: limited by the disk."""
    max_tokenize_bytes: Count = 2 * 1024 * 1024
    """Largest text for requests that only tokenize, such as `POST /tokenize`; 0: limited by the request's size."""
    max_header_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 64 * 1024
    """Limit on a request's first line and headers."""
    max_connections: Annotated[int, msgspec.Meta(ge=1)] = 1000
    """Maximum open connections, fewer if the system allows fewer files; beyond that, the longest idle one is closed."""
    max_bodies_mb: Annotated[int, msgspec.Meta(ge=1)] = 256
    """Main memory, in MB, for the bodies of all requests being received or answered; small ones are not counted."""
    body_timeout_s: Seconds = 60.0
    """Time for a request's head to arrive, and then for its body; 0: no limit."""
    slow_reader_timeout_s: Seconds = 60.0
    """A client that reads nothing for this long while data is waiting is disconnected; 0: never."""
    keep_alive_s: Seconds = 15.0
    """A stream that is silent for this long sends a comment, so that no proxy closes it; 0: never."""
    request_timeout_s: Seconds = 0.0
    """Timeout for requests without their own `timeout`; 0: none."""
    queue_timeout_s: Seconds = 0.0
    """A request that waits longer for a slot, or for its first text to be embedded, is refused; 0: never."""
    max_stored_responses: Count = 1000
    """Responses of the Responses API kept for `previous_response_id`; beyond that, the least recently used ones of the
    key with the most are dropped. 0: none."""
    max_stored_response_mb: Count = 64
    """Main memory, in MB, for all stored responses together; 0: none are stored."""
    hosted_tools: Literal["ignore", "refuse"] = "ignore"
    """Tools of the Responses and the Messages API that run elsewhere (web search, image generation ...): ignored and
    named in a header, or an error."""
    mcp_servers: Path | None = None
    """A file of MCP servers (`mcpServers` in JSON), whose tools are available to requests of the Responses API and
    to `/tools`; None: none."""
    mcp_timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    """Timeout for an MCP server to start, and for a call to one of its tools."""
    mcp_max_rounds: Annotated[int, msgspec.Meta(ge=1)] = 16
    """Maximum consecutive answers that call tools of MCP servers; the next one may not call any."""
    model_aliases: str = ""
    """Comma-separated, each `PATTERN=MODEL`: requests for a model whose name matches go to MODEL. `*` in a pattern
    matches anything; without `=MODEL`, they go to the loaded model. A loaded model's own name always works."""
    metrics_names: MetricsNames = "localllm"
    """The metrics in `/metrics`: ours, per model and with histograms, or llama-server's totals over all models."""
    ui: bool = True
    """Serves a page for browsers at `/`: chat, models, load of the machine."""
    strict: bool = False
    """An unknown request field is an error; otherwise it is ignored, and named in a header and the log."""
    model_keep_alive_s: Annotated[float, msgspec.Meta(ge=-1)] = 300.0
    """How long a model loaded on demand stays loaded without requests; -1: until it is unloaded."""
    max_loaded_models: Count = 0
    """Maximum models loaded at the same time; 0: as many as memory allows."""
    max_models_mb: Count = 0
    """Main memory, in MB, for all loaded models together; 0: nine tenths of what the machine has."""
    hub_endpoint: str = "https://huggingface.co"
    """Hugging Face, or a mirror with its API; `HF_ENDPOINT` in the environment also counts."""
    insecure_registries: str = ""
    """Comma-separated hosts of registries that are contacted without TLS; this machine itself always is."""
    proxy: str | None = None
    """Proxy for downloads, instead of `HTTPS_PROXY` and similar variables."""
    ca_file: Path | None = None
    """PEM: certificate authorities to trust for downloads, in addition to the usual ones."""
    download_connections: Annotated[int, msgspec.Meta(ge=1, le=32)] = 8
    """Simultaneous connections of one pull."""
    download_patience_s: Annotated[float, msgspec.Meta(ge=1)] = 600.0
    """A download that receives nothing for this long is abandoned; what has arrived stays."""
    max_pulls: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Models that the server downloads at the same time."""
    max_waiting_pulls: Count = 16
    """Maximum number of pulls waiting for their turn."""
    max_download_kb_per_s: Count = 0
    """Bandwidth limit of one pull, in kB/s; 0: unlimited."""
    allow_private_downloads: bool = False
    """Redirects may lead to private addresses: for networks whose name servers return such addresses."""
    load_timeout_s: float = 600.0
    worker_timeout_s: Seconds = 30.0
    """A model's process that does not respond for this long is killed and restarted; 0: never."""
    step_timeout_s: Seconds = 600.0
    """The same for a process that responds, but takes this long for a single step of the model, or to accept or reject
    a request; 0: never. A first step may compile a GPU's programs, and a model that does not fit into memory is
    read from disk at every step."""
    grace_s: float = 30.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """With debug, workers also check the integrity of their KV caches whenever they are idle."""
    log_format: Literal["text", "json"] = "text"
    verbose: bool = False
    """Shows llama.cpp's own log on stderr."""

    @property
    def data_dir(self) -> Path:
        return Path(self.home) if self.home is not None else folders.user_data_dir()

    def keys(self) -> tuple[ApiKey, ...]:
        """All API keys, from the setting and from the file. Raises `InvalidParameter`."""
        keys = comma_list(self.api_keys)
        if self.api_key_file is not None:
            try:
                lines = self.api_key_file.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                reason = sentence_of(error) if isinstance(error, OSError) else f"it cannot be read: {error}"
                raise InvalidParameter(f"api_key_file: {reason}", param="api_key_file") from error
            keys += tuple(key for line in lines if (key := line.strip()) and not key.startswith("#"))
            if not keys:
                raise InvalidParameter(
                    f"api_key_file: {self.api_key_file} contains no key, so anyone could use the server; add one, or "
                    "remove the setting",
                    param="api_key_file",
                )
        return parse_keys(keys)

    def aliases(self) -> tuple[tuple[str, str], ...]:
        """`model_aliases` as pairs of pattern and model, where an empty model means the loaded one.

        Raises `InvalidParameter`.
        """
        pairs = [text.partition("=") for text in comma_list(self.model_aliases)]
        for pattern, equals, model in pairs:
            if not pattern.strip() or (equals and not model.strip()):
                raise InvalidParameter(
                    f"model_aliases: {pattern + equals + model!r} is not PATTERN=MODEL, such as claude-*=qwen3:0.6b",
                    param="model_aliases",
                )
        return tuple((pattern.strip(), model.strip()) for pattern, _, model in pairs)

    def origins(self) -> tuple[str, ...]:
        """`cors_origins` in browsers' notation. Raises `InvalidParameter`."""
        return tuple(origin_of(text.lower()) for text in comma_list(self.cors_origins))

    def sections(self) -> Sections:
        """The settings for single models."""
        return NO_SECTIONS

    def is_given(self, name: str) -> bool:  # noqa: ARG002
        """Whether the command line sets this setting, which overrides every model's section."""
        return False

    def source(self, name: str) -> str | None:  # noqa: ARG002
        """Where this setting was set for all models; None if it has its default."""
        return None

    def for_model(self, id: str) -> Settings:
        """The settings with which the model with this id is loaded."""
        own = self.sections().of(id)
        fields = {key: own[key].value for key in LOADING if key in own}
        if "keep_alive" in own:
            fields["model_keep_alive_s"] = own["keep_alive"].value
        changed = {name: value for name, value in fields.items() if not self.is_given(name)}
        return msgspec.structs.replace(self, **changed) if changed else self

    def load_options(self) -> LoadOptions:
        """The settings that determine how a model is loaded. Raises `InvalidParameter`."""
        return msgspec.structs.replace(
            super().load_options(),
            kv_disk_mb=self.kv_disk_mb,
            grammar=GrammarLimits(
                source_bytes=self.max_grammar_bytes,
                cpu_s=self.max_grammar_cpu_s,
                memory_mb=self.max_grammar_mb,
                lexer_states=self.max_grammar_states,
                step_items=self.max_grammar_items,
                step_fuel=self.max_grammar_fuel,
            ),
        )


class MergedSettings(Settings, frozen=True, kw_only=True):
    """Settings that know the source of each; returned by `load`."""

    given: frozenset[str]
    sources: dict[str, str]
    models: Sections

    def sections(self) -> Sections:
        return self.models

    def is_given(self, name: str) -> bool:
        return name in self.given

    def source(self, name: str) -> str | None:
        return self.sources.get(name)


def load(
    command_line: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Merges all sources; a value of None on the command line means "not given". Raises `InvalidParameter`."""
    environ = os.environ if environ is None else environ
    types = kinds()
    from_env = {
        name: (value, f"{ENV_PREFIX}{name.upper()} in the environment")
        for name in sorted(types)
        if (value := environ.get(f"{ENV_PREFIX}{name.upper()}", "")) != ""
    }
    if "hub_endpoint" not in from_env and environ.get("HF_ENDPOINT"):  # the name that Hugging Face's own tools use
        from_env["hub_endpoint"] = (environ["HF_ENDPOINT"], "HF_ENDPOINT in the environment")
    from_line = {
        name: (value, f"--{name.replace('_', '-')}")
        for name, value in (command_line or {}).items()
        if value is not None
    }
    home = from_line.get("home", from_env.get("home", (None, "")))[0]
    path = config_file(Path(home) if home else None)
    content = read_toml(path)
    models = Sections(model_sections(content.pop(MODELS, {}), path), path, lambda: _sections_of(path))
    for name in content:
        if name not in types:
            raise InvalidParameter(
                f"{path} has an unknown setting {name!r}; known are {', '.join(sorted((*types, MODELS)))}"
            )
    merged = {**{name: (value, str(path)) for name, value in content.items()}, **from_env, **from_line}
    return MergedSettings(
        **{name: converted(name, types[name], value, source) for name, (value, source) in merged.items()},
        given=frozenset(from_line),
        sources={name: source for name, (_, source) in merged.items()},
        models=models,
    )


def kinds() -> dict[str, Any]:
    """The type of each setting."""
    return {field.name: field.type for field in msgspec.structs.fields(Settings)}


def config_file(home: Path | None) -> Path:
    """The path of `config.toml`: in `home`, or in the user's config directory."""
    return (folders.user_config_dir() if home is None else home) / "config.toml"


def model_sections(tables: Any, path: Path) -> tuple[Section, ...]:
    """Parses the table `models` of that file. Raises `InvalidParameter`."""
    return sections.parse(tables, str(path), kinds(), lambda values: Settings(**values).load_options())


def _sections_of(path: Path) -> tuple[Section, ...]:
    return model_sections(read_toml(path).get(MODELS, {}), path)
