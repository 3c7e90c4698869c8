"""`adapter_config.json` of a PEFT folder: what its adapter is, and what of that a GGUF adapter cannot express.

Knows nothing of tensors and of base models.
"""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from localllm.errors import InvalidModelFile, UnsupportedParameter, clipped
from localllm.registry.sources.hugging_face_api import PEFT_CONFIG

FILE = PEFT_CONFIG
MAX_BYTES = 4 * 1024 * 1024
MAX_PATTERNS = 512
MAX_PATTERN_CHARS = 300

_INEXPRESSIBLE = {
    "use_dora": "DoRA changes the magnitudes of whole rows",
    "use_qalora": "QALoRA averages its inputs in groups",
    "use_bdlora": "block-diagonal factors are not matrices",
    "arrow_config": "Arrow chooses among several adapters for each token",
    "kasa_config": "KaSA adds singular values of its own",
    "monteclora_config": "MonteCLoRA draws its factors at random",
    "lora_bias": "biases are not matrices",
    "modules_to_save": "whole matrices replace those of the base",
    "trainable_token_indices": "single rows of the embeddings replace those of the base",
    "target_parameters": "it changes parameters that are no layers of their own",
    "layer_replication": "it repeats layers of the base",
}
"""Fields that are empty in what can be converted, and why not otherwise."""
_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Beginnings of `init_lora_weights` for training on changed weights of the base."""
_PATTERN = re.compile(r"(?:[\w.\-^$|)]|\\[.dw]|\[[\w\-]+\]|\((?:\?:)?)+", re.ASCII)
"""A simple regular expression, without repetitions."""
_REPEATED = re.compile(r"(?<!\))(?:[*+]|\{\d{1,3}\})")
"""A repetition, except of a group."""
MAX_REPEATED = 2


class PeftConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that matter, as `peft.LoraConfig` has them; all others are ignored."""

    peft_type: str = ""
    r: int = 8
    lora_alpha: float = 8.0
    use_rslora: bool = False
    rank_pattern: dict[str, int] | None = None
    alpha_pattern: dict[str, float] | None = None
    bias: str = "none"
    init_lora_weights: Any = True
    base_model_name_or_path: str | None = None
    alora_invocation_tokens: tuple[Annotated[int, msgspec.Meta(ge=0, lt=2**31)], ...] | None = None
    """Of an activated adapter (aLoRA): the tokens from which on it works."""

    def scaling(self, module: str) -> float:
        """The factor on B A of this module, whose name is that in the model."""
        rank = (self.rank_pattern or {}).get(_key(tuple(self.rank_pattern or ()), module), self.r)
        alpha = (self.alpha_pattern or {}).get(_key(tuple(self.alpha_pattern or ()), module), self.lora_alpha)
        return alpha / math.sqrt(rank) if self.use_rslora else alpha / rank


def read_config(folder: Path) -> PeftConfig:
    """Raises `InvalidModelFile`; `UnsupportedParameter` names what cannot be converted."""
    path = folder / FILE
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _invalid(path, f"it cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_BYTES:
        raise _invalid(path, f"it has more than {MAX_BYTES:,} bytes")
    try:
        fields = msgspec.json.decode(raw, type=dict[str, Any])
        config = msgspec.convert(fields, PeftConfig)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _invalid(path, str(error)) from None
    _check(path, config, fields)
    return config


def _check(path: Path, config: PeftConfig, fields: dict[str, Any]) -> None:
    if config.peft_type != "LORA":
        raise _unsupported("peft_type", f"it is {clipped(config.peft_type)!r}; only LORA can be converted")
    for field, why in _INEXPRESSIBLE.items():
        if fields.get(field):
            raise _unsupported(field, why)
    if fields.get("invocation_string") and not config.alora_invocation_tokens:
        raise _unsupported("invocation_string", "the tokens of that text are wanted, as alora_invocation_tokens")
    if config.bias != "none":
        raise _unsupported("bias", f"it is {clipped(config.bias)!r}, and biases are not matrices")
    init = config.init_lora_weights
    if isinstance(init, str) and init.lower().startswith(_CHANGES_BASE):
        raise _unsupported(
            "init_lora_weights",
            f"with {clipped(init)!r} it was trained on changed weights of its base; save it with peft's "
            "path_initial_model_for_weight_conversion",
        )
    ranks, alphas = config.rank_pattern or {}, config.alpha_pattern or {}
    for field, pattern in [("rank_pattern", each) for each in ranks] + [("alpha_pattern", each) for each in alphas]:
        _check_pattern(field, pattern)
    if len(ranks) + len(alphas) > MAX_PATTERNS:
        raise _invalid(path, f"it has {len(ranks) + len(alphas):,} patterns; at most {MAX_PATTERNS:,} are read")
    if min((config.r, *ranks.values())) < 1:
        raise _invalid(path, "a rank is less than 1")
    if not all(math.isfinite(alpha) and alpha for alpha in (config.lora_alpha, *alphas.values())):
        raise _invalid(path, "an alpha is 0 or no finite number: it would change nothing")


def _check_pattern(field: str, pattern: str) -> None:
    """A pattern is a regular expression from a file that may be hostile: only those that are fast are searched."""
    plain, num_repeated = _REPEATED.subn("", pattern)
    is_simple = len(pattern) <= MAX_PATTERN_CHARS and _PATTERN.fullmatch(plain) and num_repeated <= MAX_REPEATED
    try:
        if is_simple:
            re.compile(pattern)
            return
    except re.error:
        pass
    raise _unsupported(field, f"the pattern {clipped(pattern)!r} is not a simple one")


@functools.lru_cache(maxsize=4096)
def _key(patterns: tuple[str, ...], module: str) -> str:
    """The first pattern that matches the end of the module's name, as in `peft.utils.other.get_pattern_key`."""
    return next((each for each in patterns if re.match(rf"(.*\.)?({each})$", module)), module)


def _unsupported(field: str, why: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"{FILE}: {field}: {why}, which a GGUF adapter cannot express", param=field)


def _invalid(path: Path, reason: str) -> InvalidModelFile:
    return InvalidModelFile(f"{path.name} is not a usable adapter configuration: {reason}", path=str(path))
