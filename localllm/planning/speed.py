"""Predicts a model's tokens per second on this machine's CPU: a pure function of its header and a short probe.

The time per token consists of reading its matrices (for many tokens at once: multiplying with them), attending to
earlier tokens, and a little per operation. What no probe measured is not predicted. Knows nothing of processes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from localllm.planning.speeds import AttentionWay, MachineSpeed, NotPredicted, Speed, expert_kernel
from localllm.types import ModelInfo
from localllm.types.headers.products import Matrices
from localllm.types.load_options import LoadOptions

PROMPT_TOKENS = 512
"""Length of the prompt that is predicted; the answer follows it."""
STEP_S = 0.00015
"""Time of a step outside its graph: planning, sampling, text."""
LAYER_NODES = 9
"""Operations of a layer besides matrices and vectors: rotations, copies into the cache, attention, sums."""
MATRIX_NODES, VECTOR_NODES = 2, 1
"""Thread barriers per matrix and per vector. A matrix has two: its input is quantized first."""
MIXTURE_NODES, MIXTURE_S = 12, 1.5e-5
"""Further nodes of a layer with experts, and the time for choosing experts and summing them up."""
UNMASKED_SHARE = 9 / 16
"""Share of a prompt's token pairs in tiles that flash attention computes: it skips fully masked ones."""
PLAIN_GAIN = 1.05
"""Attention without flash is used if it is faster by this factor, as a load decides (`llama.attention.MARGIN`)."""
CACHED_BYTES, COLD_BYTES = 4 * 2**20, 48 * 2**20
"""Models up to the first size stay in a CPU's caches; from the second on they are read from main memory for every
token."""
MODEL_ERROR = 0.12
"""Error of this model against measurements (benchmarks/log/tuning.md#predicted-speed)."""
MOST_ERROR = 0.5


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe has to measure for a model."""

    names: tuple[str, ...]
    head_size: int


def kernels(info: ModelInfo) -> Kernels | NotPredicted:
    """What the probe has to measure for this model, or why nothing can be predicted."""
    if not info.causal:
        return NotPredicted("an encoder writes no answers")
    if any(layer.state for layer in info.layer_memory):
        return NotPredicted("it has recurrent layers")
    if not info.products.matrices:
        return NotPredicted("nothing is known of its matrices")
    size = _head_size(info)
    if size is None:
        return NotPredicted("its attention is of an unsupported kind")
    names = {_kernel(each) for each in info.products.matrices}
    return Kernels(names=tuple(sorted(names)), head_size=size)


def predict(info: ModelInfo, options: LoadOptions, machine: MachineSpeed) -> Speed | NotPredicted:
    """The speed with all layers on the CPU. `machine` has measured what `kernels` requires."""
    needed = kernels(info)
    if isinstance(needed, NotPredicted):
        return needed
    if options.kv_type != "f16":
        return NotPredicted(f"attention was not measured with a cache in {options.kv_type}")
    lacking = [name for name in needed.names if name not in machine.kernels]
    if lacking or str(needed.head_size) not in machine.attention:
        return NotPredicted(f"not measured: {', '.join(lacking) or 'its attention'}")
    nodes_s = STEP_S + machine.node_s * _num_nodes(info) + MIXTURE_S * _num_mixtures(info)
    memory = _memory_share(info.size_bytes)
    read_s = {
        head: sum(_read_s(each, info, machine, memory) for each in _all(info, head=head)) for head in (True, False)
    }
    answer_s = nodes_s + read_s[True] + read_s[False]
    prompt_s = (
        nodes_s
        + read_s[True]
        + PROMPT_TOKENS
        * (
            sum(_multiply_s(each, info, machine) for each in _all(info, head=False))
            + machine.element_s * _num_elements(info)
        )
    )
    attention = machine.attention[str(needed.head_size)]
    flash, plain = (
        (answer_s + token_s, prompt_s + many_s)
        for token_s, many_s in (
            _attention_s(info, attention.flash, memory, UNMASKED_SHARE),
            _attention_s(info, attention.plain, memory, 1.0),
        )
    )
    is_plain = options.flash_attn == "off" or (
        options.flash_attn == "auto" and flash[0] * flash[1] > PLAIN_GAIN**2 * plain[0] * plain[1]
    )
    answer_s, prompt_s = plain if is_plain else flash
    spread = max(machine.kernels[name].spread for name in needed.names)
    return Speed(
        prompt_tokens_per_s=PROMPT_TOKENS / prompt_s,
        answer_tokens_per_s=1 / answer_s,
        error=min(MOST_ERROR, MODEL_ERROR + spread / 2),
    )


def _all(info: ModelInfo, *, head: bool) -> Iterator[Matrices]:
    return (each for each in info.products.matrices if each.is_head == head)


def _kernel(each: Matrices) -> str:
    return expert_kernel(each.type) if each.experts else each.type


def _used(each: Matrices, info: ModelInfo) -> float:
    """How many of these matrices a token uses."""
    return each.count * (min(info.experts_used or 1, each.experts) if each.experts else 1)


def _read_s(each: Matrices, info: ModelInfo, machine: MachineSpeed, memory: float) -> float:
    kernel = machine.kernels[_kernel(each)]
    byte_s = kernel.cached_byte_s + memory * (kernel.byte_s - kernel.cached_byte_s)
    return _used(each, info) * each.bytes * byte_s + each.count * kernel.matrix_s * memory


def _multiply_s(each: Matrices, info: ModelInfo, machine: MachineSpeed) -> float:
    kernel = machine.kernels[_kernel(each)]
    return _used(each, info) * (each.weights * kernel.product_s + each.outputs * kernel.output_s)


def _memory_share(size_bytes: int) -> float:
    """Share of a model's bytes that come from main memory for every token, by its size."""
    share = math.log(max(size_bytes, 1) / CACHED_BYTES) / math.log(COLD_BYTES / CACHED_BYTES)
    return min(max(share, 0.0), 1.0)


def _num_nodes(info: ModelInfo) -> float:
    matrices = sum(each.count for each in info.products.matrices)
    nodes = MATRIX_NODES * matrices + VECTOR_NODES * info.products.num_vectors + LAYER_NODES * info.num_layers
    return nodes + MIXTURE_NODES * _num_mixtures(info)


def _num_mixtures(info: ModelInfo) -> int:
    """Layers with experts; all layers are counted even if some are dense."""
    return info.num_layers if any(each.experts for each in info.products.matrices) else 0


def _num_elements(info: ModelInfo) -> float:
    """Numbers written per token by operations between matrices: each matrix's output once, each vector twice."""
    outputs = sum(_used(each, info) * each.outputs for each in info.products.matrices if not each.is_head)
    return outputs + 2 * info.products.vector_numbers


def _head_size(info: ModelInfo) -> int | None:
    """Numbers per head; None if heads differ in size, or keys and values are stored as one (latent attention)."""
    sizes = {kept // (info.num_kv_heads or 1) for layer in info.layer_memory for kept in (layer.keys, layer.values)}
    size = max(sizes, default=0)
    return size if len(sizes) == 1 and 0 < size <= 1024 else None


def _attention_s(info: ModelInfo, way: AttentionWay, memory: float, share: float) -> tuple[float, float]:
    """Seconds for a token after the prompt, and for the whole prompt. `share`: of its token pairs that are computed."""
    seen = sum(
        min(PROMPT_TOKENS, info.sliding_window) if layer.is_windowed else PROMPT_TOKENS for layer in info.layer_memory
    )
    heads = info.num_heads or 1
    token_s = heads * way.cached_token_s + memory * (info.num_kv_heads or heads) * way.memory_s
    return token_s * seen, way.prompt_s * share * heads * seen * PROMPT_TOKENS
