"""Times a loaded model with and without flash attention: in about a second, or under 0.1 s for a tiny model.

Two small contexts take turns. Their caches are filled without computing: a pass that is aborted at its first node
leaves its cells allocated, with all values zero. Of a large model only the first layers are computed: llama.cpp asks
after each node whether to continue. Does not know how the figures are judged (`attention.py`).
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from localllm.llama.enums import flash_attn_type
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.probes.flash_attention import Figures, Point, spread
from localllm.measuring.paired import usual_s

SHALLOW = 192
"""Cached tokens before a shallow pass: llama.cpp rounds up, so one row attends to 256 cells."""
MIN_DEEP, MAX_DEEP = 512, 4096
"""Cached tokens before a deep pass."""
CACHE_BYTES = 192 * 2**20
"""Bound on each context's cache, since the first touch of memory costs up to 2 s per GB. Limits the depth."""
SCORES_BYTES = 128 * 2**20
"""Bound on the attention scores of a pass without flash attention, for the same reason. Limits the rows."""
PROMPT_ROWS = (512, 256, 128, 64)
"""Candidates for the rows of a prompt pass. llama.cpp has another kernel for fewer than 64."""
MIN_PASS_S, MAX_PASS_S = 0.001, 0.02
"""Bounds on the target duration of a pass."""
PARAMETER_S = 1.5e-10
"""Target duration of a pass per parameter of the model: a small model that loads quickly is not kept waiting."""
SETUP_S = 0.2
MAX_PASSES = 70
"""Bound on a measurement: `SETUP_S` and this many target durations. A longer one is skipped."""
BUSY_SHARE = 0.75
"""A measurement that took too long while its threads had less of their cores than this says nothing about the model."""
MIN_ROUNDS, MAX_ROUNDS = 2, 3
ALL = -1
"""As a number of layers: the whole model with its output head."""


class ProbeShape(NamedTuple):
    """The facts of a model's header that a measurement depends on."""

    num_parameters: int
    num_layers: int
    first_attention: int
    """Index of the first layer that attends to all tokens."""
    token_bytes: int
    """Size of one token in an F16 cache."""
    num_heads: int

    @property
    def pass_s(self) -> float:
        """Target duration of a pass."""
        return min(max(self.num_parameters * PARAMETER_S, MIN_PASS_S), MAX_PASS_S)

    @property
    def max_s(self) -> float:
        """Longest duration of a measurement."""
        return SETUP_S + MAX_PASSES * self.pass_s


class Probe:
    """A context of one sequence; `free` releases it. Its passes are timed and their results discarded."""

    def __init__(
        self, library: Library, model: LlamaModel, *, flash: bool, cells: int, rows: int, threads: tuple[int, int]
    ) -> None:
        """`threads`: for one row and for more. Raises `MemoryError` if llama.cpp cannot create the context."""
        api = self._api = library.api
        params = api.llama_context_default_params()
        params.n_ctx, params.n_seq_max = cells, 1
        params.n_batch = params.n_ubatch = rows
        params.n_outputs_max = 1
        params.n_threads, params.n_threads_batch = threads
        params.flash_attn_type = flash_attn_type(api, "on" if flash else "off")
        params.swa_full = False
        params.no_perf = True
        self._callback = api.ggml_backend_sched_eval_callback(self._on_node)
        params.cb_eval = self._callback
        self._name_of: Any = api._lib["ggml_get_name"]
        self._name_of.argtypes, self._name_of.restype = [ctypes.c_void_p], ctypes.c_char_p
        self._context: Any = api.llama_init_from_model(model.handle, params)
        if not self._context:
            raise MemoryError
        self._memory = api.llama_get_memory(self._context)
        num_words = api.llama_vocab_n_tokens(model.vocab)
        self._tokens = (ctypes.c_int32 * rows)(*((index * 7919 + 1) % num_words for index in range(rows)))
        self._rows = rows
        self._last: bytes | None = None
        """Name of the node after which a pass is aborted; None: it runs to its end."""
        self._began_s = self._ended_s = 0.0
        self._has_begun = self._has_ended = False
        self.depth = 0
        """Tokens in the cache."""

    def fill(self, depth: int) -> None:
        """Make the cache hold `depth` tokens; each chunk of `rows` tokens computes one node."""
        self._api.llama_memory_clear(self._memory, False)
        for start in range(0, depth, self._rows):
            self._has_ended = True
            self._decode(min(self._rows, depth - start))
        self.depth = depth

    def pass_s(self, rows: int, layers: int) -> float:
        """Seconds to compute the first `layers` layers for `rows` tokens, without building the graph and its inputs."""
        self._last = None if layers == ALL else f"l_out-{layers - 1}".encode()
        self._has_begun = self._has_ended = False
        self._ended_s = 0.0
        self._decode(rows)
        took_s = (self._ended_s or time.perf_counter()) - self._began_s
        if not self._api.llama_memory_seq_rm(self._memory, 0, self.depth, -1):
            self.fill(self.depth)  # a recurrent state cannot be rewound, and equal passes start at equal depths
        return took_s

    def free(self) -> None:
        self._api.llama_free(self._context)

    def _decode(self, rows: int) -> None:
        status = self._api.llama_decode(self._context, self._api.llama_batch_get_one(self._tokens, rows))
        if status != 0:
            raise MemoryError

    def _on_node(self, tensor: int, is_question: bool, _: object) -> bool:
        """llama.cpp asks whether to stop for this node, then, once it is computed, whether to continue."""
        if is_question:
            if not self._has_begun or self._has_ended:
                return True
            return self._last is not None and bool(self._name_of(tensor) == self._last)
        if self._has_ended:
            return False
        if not self._has_begun:
            self._has_begun, self._began_s = True, time.perf_counter()
            return True
        self._has_ended, self._ended_s = True, time.perf_counter()
        return False


def measure(
    library: Library,
    model: LlamaModel,
    shape: ProbeShape,
    *,
    ctx: int,
    threads: int,
    threads_batch: int | None = None,
    max_rows: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Figures:
    """Figures for slots of `ctx` tokens, more than `MIN_DEEP`; without points if measuring would take too long."""
    began_s = clock()
    deep = depth_of(shape, ctx)
    fitting = SCORES_BYTES // (4 * max(shape.num_heads, 1) * (deep + PROMPT_ROWS[0]))
    rows = max(PROMPT_ROWS[-1], min(max_rows, PROMPT_ROWS[0], fitting) // 64 * 64)
    probes: list[Probe] = []
    try:
        for flash in (True, False):
            both = threads, threads_batch or threads
            probes.append(Probe(library, model, flash=flash, cells=deep + rows, rows=rows, threads=both))
        started_s, used_s = clock(), time.process_time()
        found = _measure(probes, shape, deep, rows, lambda: clock() - began_s)
        share = (time.process_time() - used_s) / max(1e-9, (clock() - started_s) * threads)
        return found if found.points or share > BUSY_SHARE else msgspec.structs.replace(found, obstacle="busy")
    except MemoryError:
        return Figures(took_s=round(clock() - began_s, 3), obstacle="memory")
    finally:
        for probe in probes:
            probe.free()


def depth_of(shape: ProbeShape, ctx: int) -> int:
    """Depth of the deep passes: half of a slot, as far as memory and `MAX_DEEP` allow."""
    fitting = CACHE_BYTES // max(shape.token_bytes, 1)
    return max(MIN_DEEP, min(ctx // 2, MAX_DEEP, fitting) // 256 * 256)


class _Kind(NamedTuple):
    """A pass of `rows` tokens through the first `layers` layers."""

    rows: int
    layers: int
    estimate_s: float


def _measure(
    probes: list[Probe], shape: ProbeShape, deep: int, max_rows: int, elapsed_s: Callable[[], float]
) -> Figures:
    for probe in probes:
        probe.fill(SHALLOW)
    kinds = _kinds(probes[0], shape, max_rows, elapsed_s)
    if kinds is None:
        return Figures(took_s=round(elapsed_s(), 3))
    decode, prompt = kinds
    # Two depths, two contexts; a deep pass is assumed to take twice as long as a shallow one.
    round_s = 2 * 2 * (decode.estimate_s + prompt.estimate_s) * 1.5
    rounds = min(MAX_ROUNDS, int((shape.max_s - elapsed_s()) / max(round_s, 1e-9)) - 1)
    if rounds < MIN_ROUNDS:
        return Figures(took_s=round(elapsed_s(), 3))
    points: list[Point] = []
    series: list[list[float]] = []
    for depth in (SHALLOW, deep):
        for probe in probes:
            probe.fill(depth)
        times = {(kind, with_flash): list[float]() for kind in (decode, prompt) for with_flash in (True, False)}
        for number, kind in itertools.product(range(rounds + 1), (decode, prompt)):
            for with_flash in (True, False) if number % 2 else (False, True):
                took_s = probes[not with_flash].pass_s(kind.rows, kind.layers)
                if number:  # the first allocates the graph
                    times[kind, with_flash].append(took_s)
            if elapsed_s() > shape.max_s:
                break
        if min(map(len, times.values())) < MIN_ROUNDS:
            return Figures(took_s=round(elapsed_s(), 3))
        usual = [usual_s(times[kind, with_flash]) for kind in (decode, prompt) for with_flash in (True, False)]
        points.append(Point(depth, *usual))
        series += times.values()
    return Figures(points=tuple(points), spread=round(spread(series), 4), took_s=round(elapsed_s(), 3))


def _kinds(
    probe: Probe, shape: ProbeShape, max_rows: int, elapsed_s: Callable[[], float]
) -> tuple[_Kind, _Kind] | None:
    """A decode and a prompt pass close to the target duration, each with a layer that attends to all tokens.

    None if time is up: beside a busy process even a pass of a tiny model can take 0.1 s.
    """
    min_layers = shape.first_attention + 1
    layer_s = {}
    for rows in (1, PROMPT_ROWS[-1]):
        probe.pass_s(rows, min_layers)  # allocates the graph
        if elapsed_s() > shape.max_s:
            return None
        layer_s[rows] = probe.pass_s(rows, min_layers) / min_layers
    row_s = layer_s[PROMPT_ROWS[-1]] / PROMPT_ROWS[-1]
    candidates = [rows for rows in PROMPT_ROWS if rows <= max_rows and rows * row_s * min_layers <= shape.pass_s]
    prompt_rows = max(candidates, default=PROMPT_ROWS[-1])
    kinds = []
    for count, each_s in ((1, layer_s[1]), (prompt_rows, prompt_rows * row_s)):
        layers = max(min_layers, int(shape.pass_s / each_s))
        layers = ALL if layers >= shape.num_layers else layers
        kinds.append(_Kind(count, layers, each_s * (shape.num_layers if layers == ALL else layers)))
    return kinds[0], kinds[1]
