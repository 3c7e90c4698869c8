"""Settings: defaults < config.toml < LOCALLLM_<NAME> in the environment < a model's section < the command line.

Errors name the bad value and its source. Knows nothing of what the settings do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from localllm.errors import InvalidParameter, sentence_of
from localllm.settings import sections
from localllm.settings.keys import ApiKey, parse_keys
from localllm.settings.load_settings import LOADING
from localllm.settings.sections import NO_SECTIONS, Section, Sections
from localllm.settings.server_settings import ServerSettings
from localllm.settings.values import comma_list, converted, origin_of, read_toml
from localllm.system import folders
from localllm.types import GrammarLimits
from localllm.types import RopeScaling as RopeScaling
from localllm.types import ThinkingDefault as ThinkingDefault
from localllm.types.declared import Declared, declared
from localllm.types.load_options import LoadOptions

ENV_PREFIX = "LOCALLLM_"
MODELS = "models"
"""The table of `config.toml` that has a section for each model."""


class Settings(ServerSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting. Field `x_y` is `LOCALLLM_X_Y` in the environment, `--x-y` on the command line."""

    def __post_init__(self) -> None:
        for name in OF_THE_SERVER:  # those for loading are checked together, by `load_options`
            SETTINGS[name].check(getattr(self, name))

    @property
    def data_dir(self) -> Path:
        return Path(self.home) if self.home is not None else folders.user_data_dir()

    def keys(self) -> tuple[ApiKey, ...]:
        """All API keys, from the settings and from the file. Raises `InvalidParameter`."""
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
        own = (self.api_key or "").strip()
        if own and not any(key == own or key.endswith(f"={own}") for key in keys):
            keys += (own,)
        return parse_keys(keys)

    def client_key(self) -> str | None:
        """The key that commands send: theirs, else the first admin key, else the first. Raises `InvalidParameter`."""
        if self.api_key:
            return parse_keys([self.api_key.strip()])[0].secret
        keys = sorted(self.keys(), key=lambda key: key.role != "admin")
        return keys[0].secret if keys else None

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
                close_at_limit=self.close_at_limit,
            ),
        )


SETTINGS: Mapping[str, Declared] = declared(Settings)
"""Every setting's declaration, by name."""
OF_THE_SERVER = tuple(name for name in SETTINGS if name not in LOADING)


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
    from_env = {
        name: (value, f"{ENV_PREFIX}{name.upper()} in the environment")
        for name in sorted(SETTINGS)
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
        if name not in SETTINGS:
            raise InvalidParameter(
                f"{path} has an unknown setting {name!r}; known are {', '.join(sorted((*SETTINGS, MODELS)))}"
            )
    merged = {**{name: (value, str(path)) for name, value in content.items()}, **from_env, **from_line}
    sources = {name: source for name, (_, source) in merged.items()}
    values = {name: converted(name, SETTINGS[name].type, value, sources[name]) for name, (value, _) in merged.items()}
    try:
        return MergedSettings(**values, given=frozenset(from_line), sources=sources, models=models)
    except InvalidParameter as error:
        raise InvalidParameter(f"{sources[str(error.param)]}: {error.message}", param=error.param) from error


def config_file(home: Path | None) -> Path:
    """The path of `config.toml`: in `home`, or in the user's config directory."""
    return (folders.user_config_dir() if home is None else home) / "config.toml"


def model_sections(tables: Any, path: Path) -> tuple[Section, ...]:
    """Parses the table `models` of that file. Raises `InvalidParameter`."""
    return sections.parse(tables, str(path), lambda values: Settings(**values).load_options())


def _sections_of(path: Path) -> tuple[Section, ...]:
    return model_sections(read_toml(path).get(MODELS, {}), path)
