"""Graphs of equal operations on given shapes, timed: ggml's own functions, on the loaded CPU backend or a GPU's.

Weights are placed where llama.cpp would put them: in the first buffer type that can compute with them. All are zero,
since a kernel's time does not depend on the values. Knows nothing of models and of what the times mean.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from localllm.errors import LoadFailed
from localllm.gguf.tables import BLOCK_TYPES
from localllm.llama.devices import CPU, device_array
from localllm.llama.layouts import InitParams
from localllm.llama.library import Library

TYPES = {block.name: number for number, block in BLOCK_TYPES.items()}
CONTEXT_BYTES = 8 * 2**20
"""Size of a ggml context: only descriptions of tensors, some 400 bytes each."""
_P, _I, _N, _F = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_float

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ggml_init": (_P, [InitParams]),
    "ggml_free": (None, [_P]),
    "ggml_new_tensor_4d": (_P, [_P, _I, _N, _N, _N, _N]),
    "ggml_view_3d": (_P, [_P, _P, _N, _N, _N, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t]),
    "ggml_permute": (_P, [_P, _P, _I, _I, _I, _I]),
    "ggml_nbytes": (ctypes.c_size_t, [_P]),
    "ggml_mul_mat": (_P, [_P, _P, _P]),
    "ggml_mul_mat_id": (_P, [_P, _P, _P, _P]),
    "ggml_add": (_P, [_P, _P, _P]),
    "ggml_mul": (_P, [_P, _P, _P]),
    "ggml_rms_norm": (_P, [_P, _P, _F]),
    "ggml_swiglu_split": (_P, [_P, _P, _P]),
    "ggml_soft_max_ext": (_P, [_P, _P, _P, _F, _F]),
    "ggml_flash_attn_ext": (_P, [_P, _P, _P, _P, _P, _F, _F, _F]),
    "ggml_new_graph_custom": (_P, [_P, ctypes.c_size_t, ctypes.c_bool]),
    "ggml_build_forward_expand": (None, [_P, _P]),
    "ggml_backend_dev_init": (_P, [_P, ctypes.c_char_p]),
    "ggml_backend_free": (None, [_P]),
    "ggml_backend_dev_buffer_type": (_P, [_P]),
    "ggml_backend_dev_supports_op": (ctypes.c_bool, [_P, _P]),
    "ggml_backend_alloc_ctx_tensors_from_buft": (_P, [_P, _P]),
    "ggml_backend_buffer_free": (None, [_P]),
    "ggml_backend_buffer_clear": (None, [_P, ctypes.c_uint8]),
    "ggml_backend_tensor_set": (None, [_P, _P, ctypes.c_size_t, ctypes.c_size_t]),
    "ggml_backend_graph_compute": (_I, [_P, _P]),
    "ggml_backend_reg_get_proc_address": (_P, [_P, ctypes.c_char_p]),
}

UNDISTURBED_SHARE = 0.85
"""Least share of all threads' CPU time in an undisturbed pass: threads that wait for each other spin."""
SHORT_S = 100e-6
"""In shorter passes most time goes between them, where the other threads may rest; then the fastest pass counts."""
MOST_DISTURBANCES = 3
"""After this many disturbances, measuring with all threads is given up: it is slow and futile."""
PARALLEL_SHARE = 0.8
"""Assumed gain from each further thread, if it could not be measured."""


class Times(NamedTuple):
    """Seconds of equal passes, fastest first."""

    seconds: list[float]
    is_certain: bool
    """False if extrapolated from one thread's time."""


Maker = Callable[[int | None], int]
Operation = Callable[["Cpu", int], Maker]
"""(CPU, ggml context) makes the activations, which all passes share -> (weights) makes a node."""


class Cpu:
    """The CPU backend with a number of threads, and the buffer types in llama.cpp's order."""

    clock: Callable[[], float] = staticmethod(time.thread_time)
    """For what one thread computes."""

    def __init__(self, library: Library, threads: int) -> None:
        """Starts the backend. Raises `LoadFailed`."""
        ggml = self.ggml = library.ggml
        ggml.bind(_SIGNATURES)
        self.device = next(each for each in ggml.device_pointers() if ggml.backend_dev_type(each) == CPU)
        registry = ggml.backend_dev_backend_reg(self.device)
        self._set_threads = ctypes.CFUNCTYPE(None, _P, _I)(
            ggml.backend_reg_get_proc_address(registry, b"ggml_backend_set_n_threads")
        )
        self.backend, self.alone = self._start(threads), self._start(1)
        """The backend with all threads, and with one."""
        self.threads = threads
        self.disturbances = 0
        """Number of measurements during which something else ran."""
        self.numbers: dict[int, list[int]] = {}
        """Contents of I32 tensors of the graph, in place of zeros."""
        self.plain = ggml.backend_dev_buffer_type(self.device)
        self.buffer_types = [*(self._extra(registry) if library.choice.extra_bufts else ()), self.plain]

    def _start(self, threads: int) -> int:
        backend = self.ggml.backend_dev_init(self.device, None)
        if not backend:
            raise LoadFailed("the CPU backend cannot be started")
        self._set_threads(backend, threads)
        return int(backend)

    def _extra(self, registry: int) -> list[int]:
        """AMX and repacked weights, a NULL-terminated list."""
        address = self.ggml.backend_reg_get_proc_address(registry, b"ggml_backend_dev_get_extra_bufts")
        if not address:
            return []
        listed = ctypes.CFUNCTYPE(ctypes.POINTER(_P), _P)(address)(self.device)
        found: list[int] = []
        while listed and listed[len(found)]:
            found.append(listed[len(found)])
        return found

    def tensor(self, context: int, type: str, *dims: int) -> int:
        """`dims` are ggml's, the row length first."""
        shape = (*dims, *(1,) * (4 - len(dims)))
        return int(self.ggml.new_tensor_4d(context, TYPES[type], *shape))

    def close(self) -> None:
        for backend in {self.backend, self.alone}:
            self.ggml.backend_free(backend)


class Gpu(Cpu):
    """A device in place of the CPU: it has no threads of ours, and the wall clock counts."""

    clock = staticmethod(time.perf_counter)

    def __init__(self, library: Library, name: str) -> None:
        """Raises `LoadFailed`, `DeviceUnavailable`."""
        ggml = self.ggml = library.ggml
        ggml.bind(_SIGNATURES)
        self.device = int(device_array(ggml, [name])[0] or 0)
        backend = ggml.backend_dev_init(self.device, None)
        if not backend:
            raise LoadFailed(f"{name} cannot be started")
        self.backend = self.alone = int(backend)
        self.threads, self.disturbances = 1, 0
        self.numbers: dict[int, list[int]] = {}
        self.plain = ggml.backend_dev_buffer_type(self.device)
        self.buffer_types = [self.plain]


class Passes:
    """Equal operations in groups, each with its own weights; a pass computes one group."""

    def __init__(
        self,
        cpu: Cpu,
        operation: Operation,
        *,
        weights: tuple[str, tuple[int, ...]] | None,
        each: int,
        groups: int = 1,
        packed: bool = True,
    ) -> None:
        """`weights`: type and dimensions of each. `packed`: False for a cache.

        Raises `LoadFailed` if nothing can compute with them.
        """
        self._cpu = cpu
        for buffer_type in cpu.buffer_types if weights and packed else (cpu.plain,):
            if self._build(operation, weights, each, groups, buffer_type):
                return
            self.close()
        raise LoadFailed(f"the CPU cannot compute with {weights and weights[0]}")

    def _build(
        self,
        operation: Operation,
        weights: tuple[str, tuple[int, ...]] | None,
        each: int,
        groups: int,
        buffer_type: int,
    ) -> bool:
        cpu, ggml = self._cpu, self._cpu.ggml
        self._contexts = [ggml.init(InitParams(CONTEXT_BYTES, None, True)) for _ in range(2)]
        self._buffers: list[int] = []
        fixed, moving = self._contexts
        kept = [cpu.tensor(fixed, weights[0], *weights[1]) for _ in range(each * groups)] if weights else []
        if kept:
            self._allocate(fixed, buffer_type)
        self._graphs = []
        cpu.numbers.clear()
        make = operation(cpu, moving)
        for group in range(groups):
            graph = ggml.new_graph_custom(moving, 2 * each + 64, False)
            for index in range(each):
                node = make(kept[group * each + index] if kept else None)
                if not ggml.backend_dev_supports_op(cpu.device, node):
                    return False
                ggml.build_forward_expand(graph, node)
            self._graphs.append(graph)
        ggml.backend_buffer_clear(self._allocate(moving, cpu.plain), 0)
        for tensor, numbers in cpu.numbers.items():
            given = (ctypes.c_int32 * len(numbers))(*numbers)
            ggml.backend_tensor_set(tensor, given, 0, ctypes.sizeof(given))
        if kept:
            size = ggml.nbytes(kept[0])
            zeros = ctypes.create_string_buffer(size)
            for tensor in kept:  # one by one, because some buffer types repack what is set
                ggml.backend_tensor_set(tensor, zeros, 0, size)
        return True

    def _allocate(self, context: int, buffer_type: int) -> int:
        buffer = self._cpu.ggml.backend_alloc_ctx_tensors_from_buft(context, buffer_type)
        if not buffer:
            raise LoadFailed("there is not enough memory to measure in")
        self._buffers.append(buffer)
        return int(buffer)

    def times(self, rounds: int, within_s: float) -> Times:
        """Times of each pass; the first round, which touches memory for the first time, does not count.

        Threads that wait for each other are disturbed by anything else that needs a core: then one thread is measured
        by its own CPU clock, which stands still meanwhile, and its share of the work is extrapolated.
        """
        threads = self._cpu.threads
        if threads > 1 and self._cpu.disturbances < MOST_DISTURBANCES:
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            found = self._run(self._cpu.backend, time.perf_counter, rounds, within_s)
            used = (time.process_time() - cpu_s) / (threads * (time.perf_counter() - wall_s))
            if found and (used >= UNDISTURBED_SHARE or found[0] < SHORT_S):
                return Times(found, is_certain=True)
            self._cpu.disturbances += 1
        found = self._run(self._cpu.alone, self._cpu.clock, rounds, within_s)
        return Times([each / (1 + PARALLEL_SHARE * (threads - 1)) for each in found], is_certain=threads == 1)

    def _run(self, backend: int, clock: Callable[[], float], rounds: int, within_s: float) -> list[float]:
        found: list[float] = []
        until = time.perf_counter() + within_s
        for number in range(rounds + 1):
            for graph in self._graphs:
                began = clock()
                if self._cpu.ggml.backend_graph_compute(backend, graph) != 0:
                    raise LoadFailed("a graph of the probe cannot be computed")
                if number:
                    found.append(clock() - began)
                if (found or backend != self._cpu.alone) and time.perf_counter() > until:
                    return sorted(found)
        return sorted(found)

    def close(self) -> None:
        for buffer in self._buffers:
            self._cpu.ggml.backend_buffer_free(buffer)
        for context in self._contexts:
            self._cpu.ggml.free(context)
        self._buffers, self._contexts = [], []

    def __enter__(self) -> Passes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
