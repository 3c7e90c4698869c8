"""Measures attention of a model in memory, with flash attention and without, in about a second.

Two small contexts, by turns. Their caches are filled without computing: a pass that is stopped at its first node leaves
the cells taken and their contents zero, in memory of their own. Of large models the first layers are computed only:
llama.cpp asks after every node whether to go on. Does not know what is made of the figures.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from localllm.llama.attention import Figures, Point, spread
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel

SHALLOW = 192
"""Tokens that the passes behind little have before them: one row then looks at 256 cells, as llama.cpp rounds."""
DEEPEST = 4096
LEAST_DEEP = 512
CACHE_BYTES = 192 * 2**20
"""Of each of the two contexts, since fresh memory costs up to 2 s a GB; depth is what fits."""
SCORES_BYTES = 128 * 2**20
"""Of a pass without flash attention, for the same reason; rows are what fits."""
ROWS = (512, 256, 128, 64)
"""A prompt's, at once: as many as are quick enough. Fewer than 64 are computed in another way."""
PASS_S = 0.02
"""A pass should take no longer: rows and layers are chosen so."""
MAX_S = 1.6
"""For all passes. What would take longer is not measured."""
ROUNDS = (2, 3)
"""Fewest and most."""
ALL = -1
"""As a number of layers: the output head, too."""


class Shape(NamedTuple):
    """What the model needs to be measured, from its header."""

    num_layers: int
    first_attention: int
    """The first layer that attends to all tokens."""
    token_bytes: int
    """Of one token in the cache, F16."""
    num_heads: int
    can_rewind: bool
    """No layer is recurrent, so that a pass can be taken back."""


class Probe:
    """A context of one sequence; `free` releases it. Its passes leave no result."""

    def __init__(
        self, library: Library, model: LlamaModel, *, flash: bool, cells: int, rows: int, threads: int
    ) -> None:
        """Raises `MemoryError` where llama.cpp makes no such context."""
        api = self._api = library.api
        params = api.llama_context_default_params()
        params.n_ctx, params.n_seq_max = cells, 1
        params.n_batch = params.n_ubatch = rows
        params.n_outputs_max = 1
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = int(flash)
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
        """The name of the node after which a pass is stopped; None: it is computed whole."""
        self._began_s = self._ended_s = 0.0
        self._is_begun = self._is_over = False
        self.depth = 0
        """Tokens in the cache."""

    def fill(self, depth: int) -> None:
        """Take cells up to `depth`, computing one node for each `rows` of them."""
        while self.depth < depth:
            count = min(self._rows, depth - self.depth)
            self._is_over = True
            self._decode(count)
            self.depth += count

    def clear(self) -> None:
        self._api.llama_memory_clear(self._memory, False)
        self.depth = 0

    def pass_s(self, rows: int, layers: int) -> float:
        """Seconds that the first `layers` layers take for so many rows; without building the graph and its inputs."""
        self._last = None if layers == ALL else f"l_out-{layers - 1}".encode()
        self._is_begun = self._is_over = False
        self._ended_s = 0.0
        self._decode(rows)
        took_s = (self._ended_s or time.perf_counter()) - self._began_s
        if not self._api.llama_memory_seq_rm(self._memory, 0, self.depth, -1):
            self.depth += rows
        return took_s

    def free(self) -> None:
        self._api.llama_free(self._context)

    def _decode(self, rows: int) -> None:
        status = self._api.llama_decode(self._context, self._api.llama_batch_get_one(self._tokens, rows))
        if status != 0:
            raise MemoryError

    def _on_node(self, tensor: int, is_question: bool, _: object) -> bool:
        """llama.cpp asks whether we want to look after this node; then, when it is computed, whether to go on."""
        if is_question:
            return (
                not self._is_begun or self._is_over or (self._last is not None and self._name_of(tensor) == self._last)
            )
        if self._is_over:
            return False
        if not self._is_begun:
            self._is_begun, self._began_s = True, time.perf_counter()
            return True
        self._is_over, self._ended_s = True, time.perf_counter()
        return False


def measure(
    library: Library,
    model: LlamaModel,
    shape: Shape,
    *,
    ctx: int,
    threads: int,
    max_rows: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Figures:
    """For slots of `ctx` tokens, which is more than `LEAST_DEEP`. Figures without points: it would take too long."""
    began_s = clock()
    deep = depth_of(shape, ctx)
    rows = max(64, min(max_rows, ROWS[0], SCORES_BYTES // (4 * max(shape.num_heads, 1) * (deep + ROWS[0]))) // 64 * 64)
    spare = rows if shape.can_rewind else (ROUNDS[1] + 2) * (rows + 1)
    probes: list[Probe] = []
    try:
        for flash in (True, False):
            probes.append(Probe(library, model, flash=flash, cells=deep + spare, rows=rows, threads=threads))
        return _measure(probes, shape, deep, rows, lambda: clock() - began_s)
    except MemoryError:
        return Figures(took_s=round(clock() - began_s, 3))
    finally:
        for probe in probes:
            probe.free()


def depth_of(shape: Shape, ctx: int) -> int:
    """How deep the deeper passes are: half of what a slot holds, if memory and `DEEPEST` allow."""
    fitting = CACHE_BYTES // max(shape.token_bytes, 1)
    return max(LEAST_DEEP, min(ctx // 2, DEEPEST, fitting) // 256 * 256)


class _Kind(NamedTuple):
    """Passes of so many rows, as far as so many layers."""

    rows: int
    layers: int
    about_s: float


def _measure(probes: list[Probe], shape: Shape, deep: int, most_rows: int, elapsed_s: Callable[[], float]) -> Figures:
    for probe in probes:
        probe.fill(SHALLOW)
    decode, prompt = _kinds(probes[0], shape, most_rows)
    # With what is new to each shape, and behind much twice as long.
    about_s = 2 * 2 * (decode.about_s + prompt.about_s) * 1.5
    rounds = min(ROUNDS[1], int((MAX_S - elapsed_s()) / max(about_s, 1e-9)) - 1)
    if rounds < ROUNDS[0]:
        return Figures(took_s=round(elapsed_s(), 3))
    points: list[Point] = []
    series: list[list[float]] = []
    for depth in (SHALLOW, deep):
        for probe in probes:
            probe.clear()
            probe.fill(depth)
        times = {(kind, with_flash): list[float]() for kind in (decode, prompt) for with_flash in (True, False)}
        for number, kind in itertools.product(range(rounds + 1), (decode, prompt)):
            for with_flash in (True, False) if number % 2 else (False, True):
                took_s = probes[not with_flash].pass_s(kind.rows, kind.layers)
                if number:  # the first makes the graph's memory
                    times[kind, with_flash].append(took_s)
            if elapsed_s() > MAX_S:
                break
        if min(map(len, times.values())) < ROUNDS[0]:
            return Figures(took_s=round(elapsed_s(), 3))
        fastest = [min(times[kind, with_flash]) for kind in (decode, prompt) for with_flash in (True, False)]
        points.append(Point(depth, *fastest))
        series += times.values()
    return Figures(points=tuple(points), spread=round(spread(series), 4), took_s=round(elapsed_s(), 3))


def _kinds(probe: Probe, shape: Shape, most_rows: int) -> tuple[_Kind, _Kind]:
    """One row, and a prompt's, of as many layers as `PASS_S` allows; up to the first that attends to all, at least."""
    least = shape.first_attention + 1
    probe.pass_s(1, least)
    row_s = probe.pass_s(1, least) / least
    probe.pass_s(ROWS[-1], least)
    each_s = probe.pass_s(ROWS[-1], least) / least / ROWS[-1]
    rows = next(rows for rows in ROWS if rows <= most_rows and (rows * each_s * least <= PASS_S or rows == ROWS[-1]))
    kinds = []
    for count, layer_s in ((1, row_s), (rows, rows * each_s)):
        layers = max(least, int(PASS_S / layer_s))
        layers = ALL if layers >= shape.num_layers else layers
        kinds.append(_Kind(count, layers, layer_s * (shape.num_layers if layers == ALL else layers)))
    return kinds[0], kinds[1]
