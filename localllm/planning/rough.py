"""Memory and speed of a model whose header is not here: estimates from the few figures that a catalog has.

`fit` reads the header and computes both exactly (`memory_fit`, `speed`). Knows no catalog and no processes.
"""

from __future__ import annotations

import math

import msgspec

from localllm.planning.needs import FIXED_BYTES
from localllm.planning.speed import LAYER_NODES, MATRIX_NODES, STEP_S, VECTOR_NODES
from localllm.planning.speeds import MachineSpeed, NotPredicted, Speed, expert_kernel

COMPUTE_BYTES = 540 * 2**20
"""Compute buffers of usual models with a context of 8,192 tokens, in which attention is not flash."""
LAYERS_OF_ONE_BILLION, LAYERS_POWER = 28, 0.22
"""Usual numbers of layers: 28 of a model with 10**9 parameters, 46 of one with ten times as many."""
USUAL_KV_BYTES = 4 * 8 * 128
"""Keys and values of a token in a layer, in f16, with eight heads of 128 numbers: many models have fewer."""
LAYER_MATRICES, LAYER_VECTORS = 7, 2
ERROR = 0.3
"""Relative error of a speed (benchmarks/log/tuning.md#rough-speed)."""
KERNELS = {"Q4_K_M": "Q4_K", "Q4_K_S": "Q4_K", "Q5_K_M": "Q5_K", "Q5_K_S": "Q5_K"}
"""The tensor type of most bytes, where the quantization has another name."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model."""

    size_bytes: int
    quant: str
    num_parameters: int
    active_parameters: int | None = None
    """Those that compute each token; None: all."""
    kv_bytes_per_token: int | None = None
    generates: bool = True
    """False: it embeds texts, and keeps no keys and values."""

    @property
    def kernel(self) -> str:
        """What a probe has to measure for it (`ProbeQuestion.kernels`)."""
        return KERNELS.get(self.quant.upper(), self.quant.upper())


def need_bytes(model: Figures, ctx: int) -> int:
    """Main memory with one context of `ctx` tokens, without a projector."""
    per_token = 0
    if model.generates:
        per_token = model.kv_bytes_per_token or round(USUAL_KV_BYTES * _layers(model.num_parameters))
    return model.size_bytes + per_token * ctx + COMPUTE_BYTES + FIXED_BYTES


def speed(model: Figures, machine: MachineSpeed) -> Speed | NotPredicted:
    """With all layers on the CPU, behind a short prompt. Experts count as other matrices unless they were measured."""
    kernel = machine.kernels.get(model.kernel)
    if model.active_parameters is not None:
        kernel = machine.kernels.get(expert_kernel(model.kernel), kernel)
    if kernel is None:
        return NotPredicted(f"{model.kernel} was not measured")
    active = model.active_parameters or model.num_parameters
    nodes = LAYER_NODES + MATRIX_NODES * LAYER_MATRICES + VECTOR_NODES * LAYER_VECTORS
    answer_s = STEP_S + machine.node_s * nodes * _layers(active)
    answer_s += model.size_bytes * active / model.num_parameters * kernel.byte_s
    return Speed(prompt_tokens_per_s=1 / (active * kernel.product_s), answer_tokens_per_s=1 / answer_s, error=ERROR)


def _layers(num_parameters: int) -> float:
    return LAYERS_OF_ONE_BILLION * math.pow(num_parameters / 10**9, LAYERS_POWER)
