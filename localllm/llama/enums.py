"""llama.cpp's enums by localllm's names: their numbers are those of the loaded bindings."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from localllm.types import FlashAttn, Pooling
from localllm.types.devices import Numa, Split

VocabKind = Literal["SPM", "BPE", "WPM", "UGM"]
_VOCAB_KINDS: tuple[VocabKind, ...] = ("SPM", "BPE", "WPM", "UGM")
_FLASH_ATTN: dict[FlashAttn, str] = {"auto": "AUTO", "off": "DISABLED", "on": "ENABLED"}


class TokenAttributes(NamedTuple):
    """LLAMA_TOKEN_ATTR_*, bits of `llama_vocab_get_attr`."""

    unknown: int
    control: int
    user_defined: int
    strips_left: int
    strips_right: int


def token_attributes(api: Any) -> TokenAttributes:
    names = ("UNKNOWN", "CONTROL", "USER_DEFINED", "LSTRIP", "RSTRIP")
    return TokenAttributes(*(int(getattr(api, f"LLAMA_TOKEN_ATTR_{name}")) for name in names))


def vocab_kind(api: Any, handle: Any) -> VocabKind | None:
    """None: one of those that need no care of ours."""
    number = api.llama_vocab_type(handle)
    return next((kind for kind in _VOCAB_KINDS if number == getattr(api, f"LLAMA_VOCAB_TYPE_{kind}")), None)


def flash_attn_type(api: Any, wanted: FlashAttn) -> int:
    return int(getattr(api, f"LLAMA_FLASH_ATTN_TYPE_{_FLASH_ATTN[wanted]}"))


def pooling_type(api: Any, pooling: Pooling) -> int:
    return int(getattr(api, f"LLAMA_POOLING_TYPE_{pooling.upper()}"))


def split_mode(api: Any, split: Split) -> int:
    return int(getattr(api, f"LLAMA_SPLIT_MODE_{split.upper()}"))


def numa_strategy(api: Any, numa: Numa) -> int:
    return int(getattr(api, f"GGML_NUMA_STRATEGY_{numa.upper()}"))


def file_type(api: Any, quantization: str) -> int:
    """`quantization`: one of `types.quantization.NAMES`."""
    return int(getattr(api, f"LLAMA_FTYPE_{'ALL' if quantization == 'F32' else 'MOSTLY'}_{quantization}"))


def position_sections(api: Any, model: Any) -> int:
    """How many numbers tell the position of a vector: 4 where rotary embeddings count in time, height and width."""
    kinds = (api.LLAMA_ROPE_TYPE_MROPE, api.LLAMA_ROPE_TYPE_IMROPE)
    return 4 if api.llama_model_rope_type(model) in kinds else 1
