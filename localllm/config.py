"""Settings: defaults < config.toml < LOCALLLM_<NAME> in the environment < the command line, merged once.

A bad value is an error that names itself and where it came from. Knows nothing of what the settings do.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from localllm import osdep
from localllm.errors import InvalidParameter
from localllm.types import GpuLayers, LoadOptions

ENV_PREFIX = "LOCALLLM_"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting with its default. Field `x_y` is `LOCALLLM_X_Y` in the environment, `--x-y` on the command line."""

    home: Path | None = None
    """Moves the data directory and the config directory together."""
    host: str = "127.0.0.1"
    port: int = 11435
    ctx: int | None = None
    slots: int = 4
    threads: int | None = None
    gpu_layers: GpuLayers = "auto"
    device: str | None = None
    """Comma-separated device names, as `localllm doctor` prints them."""
    kv_ram_mb: int = 2048
    """Main memory, in MiB, for idle conversations that had to leave their slot; 0: none."""
    max_step_ms: int = 300
    """The longest that one step of the model is planned to take."""
    prefill_step_ms: int = 100
    """The longest that one is planned to take which computes prompts while answers stream."""
    plugin_dir: Path | None = None
    """Folder of ggml backend plugins (Vulkan, CUDA ...) to load."""
    api_keys: str | None = None
    """Comma-separated."""
    api_key_file: Path | None = None
    """One key a line."""
    allow_remote_without_key: bool = False
    allowed_hosts: str = ""
    """Comma-separated host names that a Host header may name, besides this machine's own."""
    max_waiting: int = 256
    max_body_bytes: int = 8 * 1024 * 1024
    strict: bool = False
    """A request field that nobody knows is an error; otherwise it is ignored, and named in a header and the log."""
    load_timeout_s: float = 600.0
    grace_s: float = 30.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """With debug, workers also check what they believe of their KV caches whenever they are idle."""
    verbose: bool = False
    """Shows llama.cpp's own log on stderr."""

    @property
    def data_dir(self) -> Path:
        return self.home if self.home is not None else osdep.user_data_dir()

    @property
    def devices(self) -> tuple[str, ...] | None:
        return _comma_list(self.device) or None

    def keys(self) -> tuple[str, ...]:
        """All API keys, from the setting and from the file. Raises `InvalidParameter` if the file cannot be read."""
        keys = _comma_list(self.api_keys)
        if self.api_key_file is not None:
            try:
                lines = self.api_key_file.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidParameter(f"api_key_file cannot be read: {error}", param="api_key_file") from error
            keys += tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
        return keys

    def load_options(self) -> LoadOptions:
        """The part that says how a model is loaded. Raises `InvalidParameter`."""
        return LoadOptions(
            ctx=self.ctx,
            slots=self.slots,
            threads=self.threads,
            gpu_layers=self.gpu_layers,
            devices=self.devices,
            kv_ram_mb=self.kv_ram_mb,
            max_step_ms=self.max_step_ms,
            prefill_step_ms=self.prefill_step_ms,
        )


def load(
    command_line: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Merge all sources; a value of None on the command line means "not given". Raises `InvalidParameter`."""
    environ = os.environ if environ is None else environ
    known = {field.name for field in msgspec.structs.fields(Settings)}
    from_env = {
        name: (value, f"{ENV_PREFIX}{name.upper()} in the environment")
        for name in sorted(known)
        if (value := environ.get(f"{ENV_PREFIX}{name.upper()}", "")) != ""
    }
    from_line = {
        name: (value, f"--{name.replace('_', '-')}")
        for name, value in (command_line or {}).items()
        if value is not None
    }
    home = from_line.get("home", from_env.get("home", (None, "")))[0]
    config_dir = Path(home) if home else osdep.user_config_dir()
    merged = {**_from_file(config_dir / "config.toml", known), **from_env, **from_line}
    return Settings(**{name: _convert(name, value, source) for name, (value, source) in merged.items()})


def _from_file(path: Path, known: set[str]) -> dict[str, tuple[Any, str]]:
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidParameter(f"{path} cannot be read: {error}") from error
    for name in content:
        if name not in known:
            raise InvalidParameter(f"{path} has an unknown setting {name!r}; known are {', '.join(sorted(known))}")
    return {name: (value, str(path)) for name, value in content.items()}


def _convert(name: str, value: Any, source: str) -> Any:
    """One value to its field's type; strings (environment, command line) may spell numbers and booleans."""
    (field,) = (field for field in msgspec.structs.fields(Settings) if field.name == name)
    try:
        if name == "gpu_layers":
            return parse_gpu_layers(value)
        if isinstance(value, Path):
            return value
        return msgspec.convert(value, field.type, strict=not isinstance(value, str), dec_hook=_paths)
    except (msgspec.ValidationError, ValueError) as error:
        reason = str(error).lower()
        raise InvalidParameter(f"{source}: {value!r} is not a valid {name} ({reason})", param=name) from error


def parse_gpu_layers(value: str | int) -> GpuLayers:
    """`auto`, `all` or a count of zero or more. Raises `ValueError`."""
    if value in ("auto", "all"):
        return value  # type: ignore[return-value]
    if isinstance(value, bool) or not str(value).isdecimal():
        raise ValueError("it takes auto, all or a number of layers")
    return int(value)


def _paths(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"expected {kind.__name__}")


def _comma_list(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
