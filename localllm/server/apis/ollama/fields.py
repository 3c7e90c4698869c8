"""Fields that several of Ollama's requests share: generation, thinking, format, and keep_alive.

Knows nothing of messages and prompts.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from localllm.errors import InvalidParameter, clipped
from localllm.server.requests.field_rules import Fates, Nested, fates_of
from localllm.server.requests.parse import Fields, fields_of
from localllm.server.requests.values import json_of
from localllm.settings.durations import keep_alive_seconds
from localllm.types import MAX_LOGPROBS, NO_LIMIT, Rendering, SamplingParams
from localllm.types.structures import Structure

FormatField = Annotated[Raw, Meta(extra_json_schema={"type": ["object", "string", "null"]})]

_SAMPLING = (
    "temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty", "repeat_last_n", "presence_penalty",
    "frequency_penalty", "mirostat", "mirostat_tau", "mirostat_eta", "seed",
)  # fmt: skip
"""Options passed to `SamplingParams` under the same name."""
_DRAWING = (*_SAMPLING, "num_predict", "stop")
"""Options without effect if no text is generated."""
_NOTHING = (b"false", b"null")
EFFORTS = ("low", "medium", "high", "max")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`options`."""

    fates: ClassVar[Fates] = Fates(
        ignored=dict.fromkeys(
            (
                "draft_num_predict",
                "f16_kv",
                "low_vram",
                "main_gpu",
                "num_batch",
                "num_gpu",
                "num_gqa",
                "num_thread",
                "numa",
                "rope_frequency_base",
                "rope_frequency_scale",
                "use_mlock",
                "use_mmap",
            ),
            "only the server sets how models are loaded",
        )
        | dict.fromkeys(
            ("embedding_only", "logits_all", "penalize_newline", "tfs_z", "vocab_only"), "Ollama ignores it as well"
        )
        | {"num_keep": "only the server sets it: --context-shift"}
    )

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    seed: int | None = None
    num_predict: int | None = None
    """Maximum number of tokens; -1 and -2: as many as fit."""
    stop: str | list[str] | None = None
    num_ctx: int | None = None
    """Context in tokens; a model with a smaller one is reloaded if possible."""

    def params(self, logprobs: int | None) -> SamplingParams:
        """Raises `InvalidParameter`."""
        limit = self.num_predict
        return SamplingParams(
            **{name: getattr(self, name) for name in _SAMPLING},
            max_tokens=NO_LIMIT if limit is not None and limit < 0 else limit,
            stop=tuple(filter(None, [self.stop] if isinstance(self.stop, str) else self.stop or ())),
            logprobs=logprobs,
        )


class CommonFields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of every request to a model."""

    nested: ClassVar[Nested] = ("options",)

    model: str | None = None
    name: str | None = None
    """The former name of `model`."""
    keep_alive: float | str | None = None
    options: Options | None = None

    @property
    def asked_model(self) -> str:
        """Raises `InvalidParameter`."""
        return named(self.model, self.name)

    @property
    def priority(self) -> int | None:
        """None: Ollama's requests have no priority."""
        return None

    @property
    def cache_salt(self) -> str | None:
        """None: Ollama's requests have no cache salt."""
        return None

    @property
    def prompt_cache_key(self) -> str | None:
        """None: nor a key."""
        return None

    def keep_alive_s(self) -> float | None:
        """Raises `InvalidParameter`."""
        return keep_alive_seconds(self.keep_alive)


IGNORED = {"shift": "only the server sets it: --context-shift"}
"""Ignored fields of chats and plain prompts, with the reasons."""


class AnswerFields(CommonFields, frozen=True, kw_only=True):
    """Fields that chats and plain prompts share."""

    fates: ClassVar[Fates] = Fates(ignored=IGNORED)

    format: FormatField | UnsetType = UNSET
    """`json`, or a JSON schema."""
    think: bool | str | None = None
    stream: bool | None = None
    """Default: true."""
    logprobs: bool | None = None
    top_logprobs: int | None = None

    def params(self) -> SamplingParams:
        """Raises `InvalidParameter`."""
        top = self.top_logprobs or 0
        if not 0 <= top <= MAX_LOGPROBS:
            raise InvalidParameter(f"top_logprobs must be between 0 and {MAX_LOGPROBS}", param="top_logprobs")
        return (self.options or Options()).params(top if self.logprobs else None)

    def structure(self) -> Structure | None:
        """Raises `InvalidParameter`."""
        text = json_of(self.format)
        if text in ("", '""'):
            return None
        if text == '"json"':
            return Structure(kind="json_object", param="format")
        if not text.startswith("{"):
            raise InvalidParameter(
                f'invalid format: {clipped(text)}; expected "json" or a valid JSON Schema object', param="format"
            )
        if not text[1:-1].strip():
            return Structure(kind="json_object", param="format")
        return Structure(kind="json_schema", source=text, param="format")

    @property
    def wants_thoughts(self) -> bool:
        """Whether the request asks the model to think."""
        return self.think not in (None, False, "")

    def rendering(self, tools: str = "") -> Rendering:
        """Raises `InvalidParameter`."""
        variables: dict[str, Any] = {}
        if isinstance(self.think, str) and self.think:
            if self.think not in EFFORTS:
                raise InvalidParameter(
                    f'invalid think value: "{clipped(self.think)}" (must be "high", "medium", "low", "max", true, or '
                    "false)",
                    param="think",
                )
            variables["reasoning_effort"] = self.think
        if isinstance(self.think, bool) or variables:
            variables |= {"enable_thinking": bool(self.think), "thinking": bool(self.think)}
        return Rendering(variables=json.dumps(variables), tools=tools)


def named(model: str | None, name: str | None) -> str:
    """The requested model's name. Raises `InvalidParameter`."""
    asked = model or name
    if not asked:
        raise InvalidParameter("model is required", param="model")
    return asked


def without_effect(given: Fields, kind: type[msgspec.Struct], ctx: int | None) -> list[str]:
    """Known fields and options without effect; `ctx`: the loaded context, if known."""
    options = fields_of(given.get("options"))
    ignored = [name for name in fates_of(kind).ignored if name in given and bytes(given[name]) not in _NOTHING]
    unused = [*Options.fates.ignored, *(() if issubclass(kind, AnswerFields) else _DRAWING)]
    if ctx is not None and (msgspec.json.decode(options.get("num_ctx", b"null")) or 0) > ctx:
        unused.append("num_ctx")
    return ignored + [f"options.{name}" for name in unused if name in options and bytes(options[name]) != b"null"]
