"""What a model stores for each token and slot, per layer, according to its header.

The rules are those of llama.cpp's `llama_model::create_memory`, `llama_hparams` and `src/models/*.cpp`. Further caches
of some architectures, such as compressed keys, are not counted. Knows nothing of bytes and slots.
"""

from __future__ import annotations

from typing import Protocol

from localllm.types import LayerMemory

_WINDOW_PERIODS: dict[str, tuple[int, bool]] = {
    "afmoe": (4, False), "cohere2": (4, False), "cohere2moe": (4, True), "dflash": (1, False), "exaone-moe": (4, False),
    "exaone4": (4, False), "gemma2": (2, False), "gemma3": (6, False), "gemma3n": (5, False), "gemma4": (1, False),
    "gemma4-assistant": (1, False),
    "gpt-oss": (2, False), "granite_swa": (1, False), "laguna": (4, True), "lfm2": (0, False), "lfm2moe": (0, False),
    "llama4": (4, False), "maple": (1, False), "mellum": (4, False), "mimo2": (1, False), "muse-glimmer": (4, False),
    "olmo2": (4, False), "plamo3": (8, False), "smallthinker": (4, True), "spark2_5": (1, False), "step35": (1, False),
}  # fmt: skip
"""Architectures with a sliding window -> the period in layers, and whether the first layer of a period (not the last)
has full attention.

0: no layer has full attention. 1: all have, unless the header lists the layers. Other architectures ignore the key.
"""
_DEFAULT_WINDOWS = {"gemma2": 4096, "exaone-moe": 128, "llama4": 8192}
_FIXED_WINDOWS = {"llama4": 8192, "smallthinker": 4096}
"""Windows that override the header's, unless that is 0."""
_EXAONE4_WINDOW = (64, 4096)
"""The layer count of the only EXAONE 4 model with a window, and its window."""
_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
_ATTENTION_INTERVALS = frozenset({"qwen3next", "qwen35", "qwen35moe", "qwen4exp", "minimax-01"})
"""Architectures in which every nth layer is not recurrent, unless the header lists the layers."""
_HYBRID = _ATTENTION_INTERVALS | {
    "jamba", "falcon-h1", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "kimi-linear",
    "bailingmoe3", "kimi-k3", "glm5-next",
}  # fmt: skip
_NEXTN_APART = frozenset({"glm4moe", "deepseek2", "deepseek32", "glm-dsa", "cohere2moe", "hy_v3", "step35", "mimo2"})
"""Architectures whose NextN layers are not part of the model's own memory."""
_NEXTN_WITHIN = frozenset({"bailingmoe3"})
"""Architectures whose NextN layers have a place in the model's own memory, which stays empty."""
_INDEXED = frozenset({"deepseek32", "glm-dsa"})
"""Architectures whose layers also store an indexer's keys, which select the tokens to attend to."""
_GLM_SHARING_CTX = 1_048_576
"""Context length that distinguishes GLM 5.2, whose layers share an earlier layer's selection, from GLM 5."""
_DEFAULT_INTERVAL = 4
_GEMMA3N_OWN_KV = 20
"""Number of layers with their own keys and values, which later layers reuse."""


class Keys(Protocol):
    """Access to the header's numbers under the architecture's name."""

    @property
    def architecture(self) -> str: ...

    def size(self, key: str) -> int | None:
        """One bounded number for all layers. Raises `InvalidModelFile`."""
        ...

    def sizes(self, key: str, num_layers: int) -> tuple[int, ...] | None:
        """One bounded number per layer. Raises `InvalidModelFile`."""
        ...


def sliding_window(keys: Keys, num_layers: int) -> int:
    """The window in tokens; 0 if no layer has one."""
    architecture = keys.architecture
    if architecture not in _WINDOW_PERIODS:
        return 0
    if architecture == "exaone4" and num_layers != _EXAONE4_WINDOW[0]:
        return 0
    default = _EXAONE4_WINDOW[1] if architecture == "exaone4" else _DEFAULT_WINDOWS.get(architecture, 0)
    window = keys.size("attention.sliding_window")
    window = default if window is None else window
    return _FIXED_WINDOWS.get(architecture, window) if window else 0


def layer_memory(keys: Keys, num_layers: int) -> tuple[LayerMemory, ...]:
    """How many numbers each layer stores. Raises `InvalidModelFile`."""
    heads = keys.sizes("attention.head_count", num_layers) or (0,) * num_layers
    kv_heads = keys.sizes("attention.head_count_kv", num_layers) or heads
    windowed = _windowed(keys, num_layers) if sliding_window(keys, num_layers) else (False,) * num_layers
    recurrent = _recurrent(keys, kv_heads)
    state = _state(keys, heads[0] if heads else 0)
    own_kv = _num_own_kv(keys, num_layers)
    head = (keys.size("embedding_length") or 0) // heads[0] if heads and heads[0] else 0
    has_values = _has_values(keys)
    indexes = _indexes(keys, num_layers, own_kv)

    def numbers(layer: int, name: str) -> int:
        if head == 0 or layer >= own_kv or (recurrent[layer] and keys.architecture != "falcon-h1"):
            return 0
        size = keys.size(f"attention.{name}_length_swa") if windowed[layer] else None
        size = keys.size(f"attention.{name}_length") if size is None else size
        return kv_heads[layer] * (head if size is None else size)

    return tuple(
        LayerMemory(
            keys=numbers(layer, "key") + indexes[layer],
            values=numbers(layer, "value") if has_values else 0,
            state=state if recurrent[layer] else 0,
            is_windowed=windowed[layer],
        )
        for layer in range(num_layers)
    )


def attention_memory(keys: Keys, num_layers: int, layer: int) -> LayerMemory:
    """What one layer with full attention stores. Raises `InvalidModelFile`."""
    heads = keys.sizes("attention.head_count", num_layers) or (0,) * num_layers
    kv_heads = keys.sizes("attention.head_count_kv", num_layers) or heads
    size = (keys.size("embedding_length") or 0) // heads[layer] if heads[layer] else 0
    lengths = [keys.size(f"attention.{name}_length") for name in ("key", "value")]
    stored = [kv_heads[layer] * (size if length is None else length) for length in lengths]
    return LayerMemory(keys=stored[0], values=stored[1] if _has_values(keys) else 0)


def _has_values(keys: Keys) -> bool:
    """Whether values are cached; multi-head latent attention reads them from the cached keys."""
    return not (keys.size("attention.key_length_mla") and keys.size("attention.value_length_mla"))


def _windowed(keys: Keys, num_layers: int) -> tuple[bool, ...]:
    """Whether each layer has a window: as listed, or all but one per period."""
    period, dense_first = _WINDOW_PERIODS[keys.architecture]
    if period:
        listed = keys.sizes("attention.sliding_window_pattern", num_layers)
        if listed is not None and keys.size("attention.sliding_window_pattern") is None:
            return tuple(map(bool, listed))
        given = keys.size("attention.sliding_window_pattern")
        period = period if given is None else given
    if period == 0:
        return (True,) * num_layers
    dense = 0 if dense_first else period - 1
    return tuple(layer % period != dense for layer in range(num_layers))


def _recurrent(keys: Keys, kv_heads: tuple[int, ...]) -> tuple[bool, ...]:
    num_layers = len(kv_heads)
    architecture = keys.architecture
    if architecture in _RECURRENT or architecture == "falcon-h1":  # the latter also attends in every layer
        return (True,) * num_layers
    if architecture not in _HYBRID:
        return (False,) * num_layers
    if architecture in _ATTENTION_INTERVALS:
        listed = keys.sizes("attention.recurrent_layers", num_layers)
        if listed is not None:
            return tuple(map(bool, listed))
        interval = keys.size("full_attention_interval") or _DEFAULT_INTERVAL
        num_first = num_layers - (keys.size("nextn_predict_layers") or 0)
        return tuple(layer < num_first and (layer + 1) % interval != 0 for layer in range(num_layers))
    if architecture.startswith("nemotron_h"):  # has three kinds of layers
        widths = keys.sizes("feed_forward_length", num_layers) or (0,) * num_layers
        return tuple(heads == 0 and width == 0 for heads, width in zip(kv_heads, widths, strict=True))
    return tuple(heads == 0 for heads in kv_heads)


def _indexes(keys: Keys, num_layers: int, own_kv: int) -> tuple[int, ...]:
    """How many numbers each layer stores for its indexer."""
    if keys.architecture not in _INDEXED:
        return (0,) * num_layers
    choosing = (1,) * num_layers
    if keys.architecture == "glm-dsa":
        if (keys.size("context_length") or 0) >= _GLM_SHARING_CTX:
            choosing = tuple(int(layer < 2 or layer % 4 == 2) for layer in range(num_layers))
        choosing = keys.sizes("attention.indexer.types", num_layers) or choosing
    size = keys.size("attention.indexer.key_length") or 0
    return tuple(size if choosing[layer] and layer < own_kv else 0 for layer in range(num_layers))


def _state(keys: Keys, num_heads: int) -> int:
    """How many numbers one recurrent layer's state has (n_embd_r + n_embd_s), for all kinds of such layers."""
    width = keys.size("embedding_length") or 0
    conv = max(0, (keys.size("ssm.conv_kernel") or 0) - 1)
    if head := keys.size("wkv.head_size"):
        shifts = keys.size("token_shift_count")
        return width * (2 if shifts is None else shifts) + width * head
    inner, states = keys.size("ssm.inner_size") or 0, keys.size("ssm.state_size") or 0
    if cached := keys.size("shortconv.l_cache"):
        return width * (cached - 1) + states * inner
    if head := keys.size("kda.head_dim"):
        return 3 * (conv or 3) * num_heads * head + head * head * num_heads
    return conv * (inner + 2 * (keys.size("ssm.group_count") or 0) * states) + states * inner


def _num_own_kv(keys: Keys, num_layers: int) -> int:
    """The number of layers with their own keys and values; later layers reuse these or have none in this memory."""
    if keys.architecture == "gemma3n":
        return min(_GEMMA3N_OWN_KV, num_layers)
    if keys.architecture in (_HYBRID | _NEXTN_APART) - _NEXTN_WITHIN:  # NextN layers belong to a separate context
        return max(0, num_layers - (keys.size("nextn_predict_layers") or 0))
    if keys.architecture == "gemma4-assistant":  # it reads its target's
        return 0
    if keys.architecture == "gemma4":
        return max(0, num_layers - (keys.size("attention.shared_kv_layers") or 0))
    return num_layers
