"""Measures how fast this CPU computes what models consist of: about 0.2 s for each tensor type and head size.

Passes are short (a millisecond or less) and many, and the faster ones count: other activity disturbs some, not all.
Knows nothing of models and of what is predicted from the figures.
"""

from __future__ import annotations

from collections.abc import Callable

from localllm.gguf.tables import BLOCK_TYPES
from localllm.llama.probes.speed_graph import Cpu, Maker, Operation, Passes, Times
from localllm.measuring.paired import disturbance, usual_s
from localllm.planning.speeds import AttentionSpeed, AttentionWay, KernelSpeed, MachineSpeed, tensor_type

ROWS = 512
"""Tokens of a prompt that llama.cpp computes at once."""
SIDE = 1024
"""Numbers in a row of the matrices, a multiple of all block sizes."""
NARROW = 256
CACHED_BYTES, COLD_BYTES, GROUP_BYTES = 3 * 2**20, 256 * 2**20, 6 * 2**20
"""Sizes: what stays in the caches of a usual CPU; what does not; what is read in one pass."""
EXPERTS, EXPERTS_USED = 16, 2
CELLS, HEADS, KV_HEADS = 512, 16, 8
MOST_S = 0.08
"""Time for one kind of passes."""
UNCERTAIN_SPREAD = 0.4
"""Spread assigned to times extrapolated from one thread."""
NODES = 32
LEAST_MEETING_S = 1e-6
"""Assumed time of a thread barrier after an operation, if it could not be measured."""
_BLOCKS = {block.name: block for block in BLOCK_TYPES.values()}


def measure(cpu: Cpu, known: MachineSpeed | None, threads: int, kernels: list[str], heads: list[int]) -> MachineSpeed:
    """Measures these kernels and head sizes; returns them with what was `known` before. Raises `LoadFailed`."""
    found = known or MachineSpeed(threads=threads, node_s=_node_s(cpu), element_s=_element_s(cpu))
    return MachineSpeed(
        threads=threads,
        node_s=found.node_s,
        element_s=found.element_s,
        kernels=found.kernels | {name: _better(found.kernels.get(name), _kernel(cpu, name)) for name in kernels},
        attention=found.attention | {str(size): _attention(cpu, size) for size in heads},
    )


def _better(before: KernelSpeed | None, now: KernelSpeed) -> KernelSpeed:
    """The less noisy of the two, with the attempts of both."""
    if before is None:
        return now
    return now.clearer(before).with_attempts_of(before, now)


def _node_s(cpu: Cpu) -> float:
    """Time of adding a few numbers, after which all threads meet."""
    with Passes(cpu, _adding(64, 1), weights=None, each=NODES) as passes:
        times = passes.times(60, MOST_S)
    return _usual(times) / NODES + (0.0 if times.is_certain else LEAST_MEETING_S)


def _element_s(cpu: Cpu) -> float:
    """Average time per number of llama.cpp's operations between the matrices."""

    def operations(cpu: Cpu, context: int) -> Maker:
        ggml = cpu.ggml
        one, other = (cpu.tensor(context, "F32", SIDE, ROWS // 4) for _ in range(2))

        def make(_: int | None) -> int:
            normal = ggml.mul(context, ggml.rms_norm(context, one, 1e-5), other)
            return int(ggml.add(context, ggml.swiglu_split(context, normal, other), one))

        return make

    with Passes(cpu, operations, weights=None, each=4) as passes:
        return _usual(passes.times(30, MOST_S)) / (4 * 4 * SIDE * (ROWS // 4))


def _kernel(cpu: Cpu, name: str) -> KernelSpeed:
    type = tensor_type(name)
    if type != name:
        return _expert_kernel(cpu, type)
    block = _BLOCKS[type]
    matrix_bytes = SIDE * SIDE // block.length * block.size
    weights = (type, (SIDE, SIDE))
    one = product(SIDE, 1)
    each = max(1, CACHED_BYTES // matrix_bytes)
    with Passes(cpu, one, weights=weights, each=each) as passes:
        cached = passes.times(40, MOST_S)
    cached_byte_s = _usual(cached) / (each * matrix_bytes)
    each = max(1, GROUP_BYTES // matrix_bytes)
    groups = COLD_BYTES // (each * matrix_bytes)
    with Passes(cpu, one, weights=weights, each=each, groups=groups) as passes:
        cold = passes.times(6, MOST_S)
    byte_s = max(cached_byte_s, _usual(cold) / (each * matrix_bytes))
    small_bytes = NARROW * NARROW // block.length * block.size
    each = max(1, GROUP_BYTES // small_bytes)
    with Passes(cpu, product(NARROW, 1), weights=(type, (NARROW, NARROW)), each=each, groups=8) as passes:
        small = passes.times(6, MOST_S)
    with Passes(cpu, product(SIDE, ROWS), weights=(type, (SIDE, 2 * SIDE)), each=1) as passes:
        many = passes.times(20, MOST_S)
    with Passes(cpu, product(NARROW, ROWS), weights=(type, (NARROW, SIDE)), each=1) as passes:
        narrow = passes.times(20, MOST_S)
    product_s, output_s = _by_width(_usual(many) / (ROWS * 2 * SIDE), _usual(narrow) / (ROWS * SIDE))
    return KernelSpeed(
        cached_byte_s=cached_byte_s,
        byte_s=byte_s,
        matrix_s=max(0.0, _usual(small) / each - byte_s * small_bytes),
        product_s=product_s,
        output_s=output_s,
        spread=max(map(_spread, (cold, many))),
    )


def _by_width(wide_s: float, narrow_s: float) -> tuple[float, float]:
    """From the seconds of an output of `SIDE` products and of `NARROW`: seconds per product, and per output besides."""
    product_s = max((wide_s - narrow_s) / (SIDE - NARROW), 0.5 * wide_s / SIDE)
    return min(product_s, wide_s / SIDE), max(0.0, wide_s - product_s * SIDE)


def _expert_kernel(cpu: Cpu, type: str) -> KernelSpeed:
    """Uses experts of a quarter of the size: those of mixtures are small."""
    block = _BLOCKS[type]
    side = SIDE // 2
    expert_bytes = side * side // block.length * block.size
    weights = (type, (side, side, EXPERTS))
    groups = max(2, COLD_BYTES // (expert_bytes * EXPERTS))
    with Passes(cpu, _mixture(side, 1), weights=weights, each=1) as passes:
        cached = passes.times(60, MOST_S)
    cached_byte_s = _usual(cached) / (EXPERTS_USED * expert_bytes)
    with Passes(cpu, _mixture(side, 1), weights=weights, each=1, groups=groups) as passes:
        cold = passes.times(20, MOST_S)
    with Passes(cpu, _mixture(side, ROWS), weights=weights, each=1) as passes:
        many = passes.times(20, MOST_S)
    return KernelSpeed(
        cached_byte_s=cached_byte_s,
        byte_s=max(cached_byte_s, _usual(cold) / (EXPERTS_USED * expert_bytes)),
        matrix_s=0.0,
        product_s=_usual(many) / (ROWS * EXPERTS_USED * side * side),
        output_s=0.0,
        spread=max(map(_spread, (cold, many))),
    )


def _attention(cpu: Cpu, size: int) -> AttentionSpeed:
    """A cache stores a token's keys of all heads side by side, and comes from main memory for a single token."""
    cache = ("F16", (size, KV_HEADS, CELLS, 2))
    groups = max(2, COLD_BYTES // (2 * 2 * CELLS * KV_HEADS * size))

    def each_s(operation: Operation, rows: int, groups: int) -> float:
        with Passes(cpu, operation, weights=cache, each=1, groups=groups, packed=False) as passes:
            return _usual(passes.times(20, MOST_S)) / (rows * CELLS * HEADS)

    def way(operation: Callable[[int, int], Operation]) -> AttentionWay:
        cached_token_s = each_s(operation(size, 1), 1, 1)
        return AttentionWay(
            cached_token_s=cached_token_s,
            memory_s=max(0.0, each_s(operation(size, 1), 1, groups) - cached_token_s) * HEADS / KV_HEADS,
            prompt_s=each_s(operation(size, ROWS // 4), ROWS // 4, 2),
        )

    return AttentionSpeed(flash=way(_flash), plain=way(_plain))


def _adding(width: int, rows: int) -> Operation:
    def operation(cpu: Cpu, context: int) -> Maker:
        one, other = (cpu.tensor(context, "F32", width, rows) for _ in range(2))
        return lambda _: cpu.ggml.add(context, one, other)

    return operation


def product(width: int, rows: int) -> Operation:
    """Rows of so many numbers, by matrices with columns of that length."""

    def operation(cpu: Cpu, context: int) -> Maker:
        tokens = cpu.tensor(context, "F32", width, rows)
        return lambda weights: cpu.ggml.mul_mat(context, weights, tokens)

    return operation


def _mixture(width: int, rows: int) -> Operation:
    def operation(cpu: Cpu, context: int) -> Maker:
        tokens = cpu.tensor(context, "F32", width, 1, rows)
        chosen = cpu.tensor(context, "I32", EXPERTS_USED, rows)
        cpu.numbers[chosen] = [index % EXPERTS for index in range(EXPERTS_USED * rows)]
        return lambda weights: cpu.ggml.mul_mat_id(context, weights, tokens, chosen)

    return operation


def _flash(size: int, rows: int) -> Operation:
    def operation(cpu: Cpu, context: int) -> Maker:
        queries = cpu.tensor(context, "F32", size, rows, HEADS)
        mask = cpu.tensor(context, "F16", CELLS, rows)

        def make(cache: int | None) -> int:
            keys, values = (_by_heads(cpu, context, cache, size, part) for part in range(2))
            return int(cpu.ggml.flash_attn_ext(context, queries, keys, values, mask, size**-0.5, 0.0, 0.0))

        return make

    return operation


def _plain(size: int, rows: int) -> Operation:
    """The values are stored transposed in the cache."""

    def operation(cpu: Cpu, context: int) -> Maker:
        ggml = cpu.ggml
        queries = cpu.tensor(context, "F32", size, rows, HEADS)
        mask = cpu.tensor(context, "F32", CELLS, rows)

        def make(cache: int | None) -> int:
            keys = _by_heads(cpu, context, cache, size, 0)
            row_bytes = 2 * CELLS
            part = row_bytes * size * KV_HEADS
            values = ggml.view_3d(context, cache, CELLS, size, KV_HEADS, row_bytes, row_bytes * size, part)
            scores = ggml.mul_mat(context, keys, queries)
            return int(ggml.mul_mat(context, values, ggml.soft_max_ext(context, scores, mask, size**-0.5, 0.0)))

        return make

    return operation


def _by_heads(cpu: Cpu, context: int, cache: int | None, size: int, part: int) -> int:
    """Keys or values: dimensions of a cache's tensor are the head's size, the heads, and the cells, in this order."""
    head_bytes = 2 * size
    cell_bytes = head_bytes * KV_HEADS
    view = cpu.ggml.view_3d(context, cache, size, KV_HEADS, CELLS, head_bytes, cell_bytes, part * cell_bytes * CELLS)
    return int(cpu.ggml.permute(context, view, 0, 2, 1, 3))


def _usual(times: Times) -> float:
    return usual_s(times.seconds)


def _spread(times: Times) -> float:
    measured = disturbance(times.seconds)
    return measured if times.is_certain else max(measured, UNCERTAIN_SPREAD)
