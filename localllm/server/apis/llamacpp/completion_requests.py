"""`POST /completion` and `/infill`: JSON bytes to a typed request, and that to the runtime's types.

Out-of-range numbers are clamped where llama-server clamps them. Raises `RequestError`s that name the field.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from localllm.chat.media_files import put_back
from localllm.errors import InvalidParameter, UnsupportedParameter
from localllm.server.apis.llamacpp.fields import COMPLETION_FATES
from localllm.server.apis.llamacpp.samplers import samplers_of, switched_off
from localllm.server.requests.field_rules import Fates
from localllm.server.requests.marked_prompts import MarkedPrompt, PromptObject
from localllm.server.requests.sampling import SamplingFields, seeded
from localllm.server.requests.structures import SchemaField, is_given, schema_structure
from localllm.types import (
    NO_LIMIT,
    RANDOM_SEED,
    Detail,
    Extra,
    GenerationRequest,
    Infill,
    Lines,
    SamplingParams,
    Shift,
    TokenId,
)
from localllm.types.declared import MAX_COUNT
from localllm.types.ranges import check_range
from localllm.types.structures import Structure
from localllm.types.upstream import DEFAULT_SEED

ANY_SLOT = -1
MAX_LIMIT = 2**31 - 1
_LEAST = {"temperature": 0.0, "top_k": 0, "top_p": 0.0, "min_p": 0.0, "xtc_probability": 0.0, "top_n_sigma": 0.0}
_LEAST |= {"xtc_threshold": 0.0, "mirostat": 0, "typical_p": 0.0}
_MOST = {"top_p": 1.0, "min_p": 1.0, "xtc_probability": 1.0, "xtc_threshold": 1.0, "mirostat": 2, "typical_p": 1.0}

MOVED = frozenset({*_LEAST, *_MOST, "dry_base"})
"""Fields whose numbers are clamped to their range instead of refused."""


PromptText = str | list[str | TokenId] | MarkedPrompt
PromptField = str | PromptObject | list[str | TokenId | PromptObject | list[str | TokenId]]
"""A text; a text with pictures and sounds; tokens and texts of one prompt; or several prompts."""


class AnswerFields(SamplingFields, frozen=True, kw_only=True):
    """Fields that `/completion` and `/infill` share."""

    fates: ClassVar[Fates] = COMPLETION_FATES

    model: str | None = None
    """Optional while exactly one model is loaded."""
    stream: bool | None = None
    n_predict: int | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    n_cmpl: int | None = None
    n: int | None = None
    n_probs: int | None = None
    logprobs: int | None = None
    """Another name of `n_probs`, as `n` is of `n_cmpl`; the two limits above are other names of `n_predict`."""
    post_sampling_probs: bool | None = None
    return_tokens: bool | None = None
    return_progress: bool | None = None
    timings_per_token: bool | None = None
    sse_ping_interval: int | None = None
    """Seconds; -1: never."""
    n_indent: int | None = None
    t_max_predict_ms: int | None = None
    n_keep: int | None = None
    n_discard: int | None = None
    id_slot: int | None = None
    response_fields: list[str] | None = None
    samplers: list[str] | str | None = None
    json_schema: SchemaField | UnsetType = UNSET
    grammar: str | None = None
    """GBNF."""
    adaptive_target: float | None = None
    """Negative: off."""

    def generations(self, sources: list[dict[str, Any]], *, most: int) -> list[GenerationRequest]:
        """One request per answer, those of one prompt adjacent; at most `most`. Raises `RequestError`s."""
        num_answers = len(sources) * self.num_completions
        if num_answers > most:
            raise InvalidParameter(
                f"{len(sources)} prompts with n_cmpl {self.num_completions} are {num_answers} answers, and this model "
                f"takes at most {most} at a time (--slots and --max-waiting together): send fewer",
                param="n_cmpl" if self.num_completions > 1 else "prompt",
            )
        params, structure = self.params(), self.structure()
        drawn = seeded(params, self.num_completions)
        made = [self.generation_of(each, structure=structure, **source) for source in sources for each in drawn]
        return [msgspec.structs.replace(each, **self._rules()) for each in made]

    def _rules(self) -> dict[str, Any]:
        check_range("id_slot", self.id_slot, ANY_SLOT, 255)
        check_range("t_max_predict_ms", self.t_max_predict_ms, -1, 2**53)
        check_range("sse_ping_interval", self.sse_ping_interval, -1, MAX_LIMIT)
        lines = Lines(min_indent=self.n_indent or 0, max_s=max(0, self.t_max_predict_ms or 0) / 1000)
        detail = Detail(
            progress=bool(self.stream and self.return_progress),
            making=True,
            tokens=bool(self.stream or self.return_tokens),
            draws=bool(self.post_sampling_probs),
        )
        slot = None if self.id_slot == ANY_SLOT else self.id_slot
        shift = Shift(keep=self.n_keep, discard=self.n_discard or 0)
        lined = None if lines == Lines() else lines
        return {"lines": lined, "detail": detail, "slot": slot, "shift": shift}

    @property
    def num_completions(self) -> int:
        """Answers per prompt. Raises `InvalidParameter`."""
        count = self.n_cmpl if self.n_cmpl is not None else self.n
        check_range("n_cmpl", count, 1, MAX_COUNT)
        return 1 if count is None else count

    @property
    def used_samplers(self) -> tuple[str, ...]:
        """The samplers to apply, by name. Raises `InvalidParameter`, `UnsupportedParameter`."""
        return samplers_of(self.samplers)

    def params(self) -> SamplingParams:
        if self.adaptive_target is not None and self.adaptive_target >= 0:
            raise UnsupportedParameter(
                "adaptive_target is not supported yet; leave it out or send -1", param="adaptive_target"
            )
        adjusted = {name: self._clamped(name) for name in {**_LEAST, **_MOST}}
        if self.seed == DEFAULT_SEED:
            adjusted["seed"] = RANDOM_SEED
        if self.dry_base is not None and self.dry_base < 1:
            adjusted["dry_base"] = None
        adjusted |= switched_off(self.used_samplers)
        return SamplingFields.params(msgspec.structs.replace(self, **adjusted))

    def _clamped(self, name: str) -> Any:
        value = getattr(self, name)
        if value is None:
            return None
        value = max(value, _LEAST.get(name, value))
        return min(value, _MOST.get(name, value))

    def limit(self) -> int | None:
        names = ("n_predict", "max_completion_tokens", "max_tokens")
        name, limit = next(((name, each) for name in names if (each := getattr(self, name)) is not None), ("", None))
        check_range(name, limit, NO_LIMIT, MAX_LIMIT)
        return limit

    def num_logprobs(self) -> int | None:
        count = self.n_probs if self.n_probs is not None else self.logprobs
        check_range("n_probs", count, 0, 20)
        return count or None

    def structure(self) -> Structure | None:
        """Raises `InvalidParameter`."""
        has_schema = is_given(self.json_schema)
        if has_schema and self.grammar:
            raise InvalidParameter(
                "json_schema and grammar each ask for a structure; send one of them", param="grammar"
            )
        if has_schema:
            return schema_structure(self.json_schema, "json_schema")
        return Structure(kind="gbnf", source=self.grammar, param="grammar") if self.grammar else None


class CompletionRequest(AnswerFields, frozen=True, kw_only=True):
    """`POST /completion`."""

    prompt: PromptField

    def prompts(self) -> list[PromptText]:
        """The prompts: each a text, one with media, or tokens mixed with texts. Raises `InvalidParameter`."""
        if isinstance(self.prompt, str | PromptObject):
            return [_text_of(self.prompt, "prompt")]
        items = self.prompt
        if not items:
            raise InvalidParameter("prompt must not be an empty array", param="prompt")
        if any(isinstance(item, int) for item in items):
            return [_mixed(items)]
        found: list[PromptText] = []
        for number, item in enumerate(items):
            assert not isinstance(item, int)
            found.append(_text_of(item, f"prompt[{number}]"))
        return found


class ExtraFile(msgspec.Struct, frozen=True):
    """A piece of another file."""

    text: str
    filename: str = "tmp"


class InfillRequest(AnswerFields, frozen=True, kw_only=True):
    """`POST /infill`: fills in between `input_prefix` followed by `prompt`, and `input_suffix`."""

    input_prefix: str
    input_suffix: str
    prompt: str = ""
    input_extra: list[ExtraFile] | None = None

    def source(self) -> dict[str, Any]:
        """The prompt, as fields of `GenerationRequest`. Raises `InvalidParameter`."""
        extras = tuple(Extra(each.text, each.filename) for each in self.input_extra or ())
        infill = Infill(prefix=self.input_prefix, suffix=self.input_suffix, prompt=self.prompt, extras=extras)
        return {"infill": infill}


def _text_of(item: str | PromptObject | list[str | TokenId], path: str) -> PromptText:
    if isinstance(item, PromptObject):
        return item.prompt(path)
    return put_back(item) if isinstance(item, str) else item


def _mixed(items: list[str | TokenId | PromptObject | list[str | TokenId]]) -> PromptText:
    found: list[str | TokenId] = []
    for number, item in enumerate(items):
        if not isinstance(item, str | int):
            raise InvalidParameter(f"prompt[{number}]: mix only tokens and texts", param=f"prompt[{number}]")
        found.append(put_back(item) if isinstance(item, str) else item)
    return found
