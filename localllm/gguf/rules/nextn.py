"""A file's NextN layers (multi-token prediction): what the first one stores, and whether llama.cpp has a graph for it.

Without a graph llama.cpp ends the process, and if one of their tensors is missing it rejects the whole file; both
follow from the header. The rules are those of `graph_mtp` in llama.cpp's src/models/*.cpp. Knows nothing of options.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from localllm.gguf.rules.memory import Keys, attention_memory
from localllm.types import LayerMemory


class NextKeys(Keys, Protocol):
    """Access to the header's numbers, including fractions."""

    def number(self, key: str) -> float | None:
        """The number under this full key. Raises `InvalidModelFile`."""
        ...


class Form(NamedTuple):
    """What llama.cpp requires of an architecture's NextN layers."""

    tensors: tuple[str, ...] = ()
    """Tensors required in each of these layers; `|` separates alternatives."""
    takes_several: bool = False
    """Whether a file may have several of these layers, of which the first is computed."""
    is_cropped: bool = False
    """Whether only tokens with logits yield vectors, not all tokens."""


_JOINT = ("nextn.eh_proj", "nextn.enorm", "nextn.hnorm")
_ATTENTION = ("attn_norm", "attn_qkv|attn_q", "attn_qkv|attn_k", "attn_qkv|attn_v", "attn_output")
_DENSE = ("ffn_gate", "ffn_up", "ffn_down")
_EXPERTS = ("ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
_FUSED_EXPERTS = ("ffn_gate_inp", "ffn_gate_up_exps|ffn_gate_exps", "ffn_gate_up_exps|ffn_up_exps", "ffn_down_exps")
_SHARED = ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")
_EITHER = ("ffn_norm", "ffn_gate|ffn_gate_inp", *(f"{name}|{name}_exps" for name in _DENSE))
_GATED = (*_ATTENTION, "attn_q_norm", "attn_k_norm", "post_attention_norm")
_GATED_EXPERTS = (*_GATED, *_FUSED_EXPERTS, "ffn_gate_inp_shexp", *_SHARED)
_LATENT_ONLY = (
    "attn_norm", "attn_q_a|attn_q", "attn_kv_a_mqa", "attn_kv_a_norm", "attn_k_b", "attn_v_b", "attn_output",
    "ffn_norm",
)  # fmt: skip
_LATENT = (*_LATENT_ONLY, "attn_q_a", "attn_q_a_norm", "attn_q_b")

FORMS = {
    "qwen35": Form((*_GATED, *_DENSE)),
    "qwen35moe": Form(_GATED_EXPERTS),
    "glm4moe": Form((*_ATTENTION, "post_attention_norm", *_EXPERTS)),
    "deepseek2": Form((*_LATENT, *_FUSED_EXPERTS, *_SHARED)),
    "deepseek32": Form((*_LATENT, *_EXPERTS, *_SHARED)),
    "glm-dsa": Form((*_LATENT, *_EXPERTS, *_SHARED)),
    "bailingmoe3": Form((*_LATENT_ONLY, "attn_gate", "layer_output_norm", *_EXPERTS, *_SHARED)),
    "hy_v3": Form((*_ATTENTION, "attn_q_norm", "attn_k_norm", *_EITHER), takes_several=True),
    "step35": Form((*_ATTENTION, *_EITHER), takes_several=True, is_cropped=True),
    "nemotron_h_moe": Form(
        (
            *_ATTENTION,
            "post_attention_norm",
            "ffn_gate_inp",
            "ffn_up_exps",
            "ffn_down_exps",
            "ffn_up_shexp",
            "ffn_down_shexp",
            "nextn.shared_head_norm",
        ),
    ),
    "cohere2moe": Form((*_ATTENTION, *_FUSED_EXPERTS)),
    "mimo2": Form(("attn_norm", "attn_qkv", "attn_output", "ffn_norm", *_DENSE), takes_several=True, is_cropped=True),
}
"""Architectures whose heads `tests/llama/test_heads.py` has shown to work here."""
_CANNOT_ROLL_BACK = frozenset({"qwen3next"})
"""Architectures for which llama.cpp has a graph, but cannot roll back the model's memory."""


def heads(keys: NextKeys, tensors: Collection[str], num_layers: int) -> tuple[LayerMemory | None, str]:
    """What the first NextN layer stores, and why it cannot guess; None and empty if the file has no such layers.

    Some files have the key without the layers.

    Raises `InvalidModelFile`.
    """
    count = keys.size("nextn_predict_layers") or 0
    first = num_layers - count
    if not 0 < first < num_layers or f"blk.{first}.nextn.eh_proj.weight" not in tensors:
        return None, ""
    return attention_memory(keys, num_layers, first), _why_none(keys, tensors, range(first, num_layers))


def _why_none(keys: NextKeys, tensors: Collection[str], layers: range) -> str:
    form = FORMS.get(keys.architecture)
    if keys.architecture in _CANNOT_ROLL_BACK:
        return f"llama.cpp cannot roll back wrong guesses in the memory of {keys.architecture}"
    if form is None:
        return f"localllm does not compute those of {keys.architecture} yet"
    if len(layers) > 1 and not form.takes_several:
        return f"llama.cpp computes one NextN layer of {keys.architecture}, and the file has {len(layers)}"
    for layer in layers:
        for names in (*_JOINT, *form.tensors):
            if not any(f"blk.{layer}.{name}.weight" in tensors for name in names.split("|")):
                return f"the file has no blk.{layer}.{names.replace('|', ' or ')}, which llama.cpp needs for them"
    if (keys.size("leading_dense_block_count") or 0) > layers[0]:
        return "the file says that they are dense, and llama.cpp computes them with experts"
    if keys.architecture == "glm4moe" and any(keys.sizes("rope.dimension_sections", 4) or ()):
        return "llama.cpp does not compute those of models that see images"
    if "attn_kv_a_mqa" in form.tensors:
        if not all(keys.size(f"attention.{name}_length_mla") for name in ("key", "value")):
            return "llama.cpp computes them with latent attention, which the file lacks"
        if keys.architecture == "deepseek2" and keys.number("deepseek2.attention.temperature_scale"):
            return "llama.cpp does not compute them where the temperature of attention is scaled"
    return ""
