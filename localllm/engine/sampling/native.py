"""The compiled batch sampler, loaded with ctypes: rows of logits in, tokens out. The structs mirror `native/sampler`.

It is missing where no compiler was available at installation; `sampler.py` computes the same in NumPy.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from localllm.engine.sampling.sampler import SampledToken, SamplerParams
from localllm.engine.sampling.selection import Row
from localllm.system import native_libraries

ABI = 4
MAX_TOP = 20

_FLOATS = (
    "temperature",
    "dynatemp_range",
    "dynatemp_exponent",
    "typical_p",
    "top_p",
    "min_p",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "mirostat_tau",
    "mirostat_eta",
    "mirostat_mu",
)
_LISTS = ("repeated", "counted", "counts", "biased", "biases", "lessened", "less", "mask")


class _Params(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_float) for name in _FLOATS),
        ("mirostat", ctypes.c_int32),
        ("top_k", ctypes.c_int32),
        ("num_top", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("draw", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in _LISTS),
        ("num_repeated", ctypes.c_int32),
        ("num_counted", ctypes.c_int32),
        ("num_biased", ctypes.c_int32),
        ("num_lessened", ctypes.c_int32),
    ]
    changes: bool
    """Whether the last draw's row was modified, so that this one must be checked."""
    mask_array: npt.NDArray[np.uint32] | None
    """What `mask` points to: looking up an array's address takes longer than reading its row."""
    bias: Mapping[int, float]
    bias_arrays: list[Any]
    """Arrays made from the biases, which seldom change between draws."""


class _Result(ctypes.Structure):
    _fields_ = [
        ("token", ctypes.c_int32),
        ("logprob", ctypes.c_float),
        ("mirostat_mu", ctypes.c_float),
        ("num_top", ctypes.c_int32),
        ("top", ctypes.c_int32 * MAX_TOP),
        ("top_logprobs", ctypes.c_float * MAX_TOP),
    ]


class NativeSampler:
    """One loaded library; used by one thread at a time."""

    def __init__(self, path: Path, *, threads: int = 1, team: int | None = None) -> None:
        """`team`: address of `GOMP_parallel`, whose threads are then used; see sampler.h.

        Raises `OSError` if the file is not a library, `ValueError` if it was built for another version of localllm.
        """
        self._library = ctypes.CDLL(str(path))
        self._library.ls_abi.restype = ctypes.c_int32
        if (abi := self._library.ls_abi()) != ABI:
            raise ValueError(f"{path} has version {abi} of the sampler's interface, not {ABI}; install localllm again")
        self._library.ls_sample.restype = None
        self._threads = threads
        self._team = ctypes.c_void_p(team)
        self._structs: WeakKeyDictionary[SamplerParams, _Params] = WeakKeyDictionary()
        self._call = _Call([], [], [])

    def sample(
        self, rows: Sequence[Row], params: Sequence[SamplerParams], *, threads: int | None = None
    ) -> list[SampledToken]:
        """One token per row, float32 [vocab], all of the same length. Raises `ValueError` for a mask that is
        too short."""
        call = self._call
        if not call.is_of(rows, params):
            call = self._call = _Call(rows, params, [self._struct(each) for each in params])
        kept: list[Any] = []  # what the structs point to must outlive the call
        for struct, each in zip(call.structs, params, strict=True):
            struct.draw = each.draw
            struct.mirostat_mu = each.mirostat_mu
            changes = bool(each.bias or each.counts or each.lessened or len(each.repeated))
            if changes or struct.changes:
                struct.changes = changes
                _point_to_changes(struct, each, kept)
            mask = each.mask
            if mask is not struct.mask_array:
                struct.mask = None if mask is None else _mask_address(mask)
                struct.mask_array = mask
            if mask is not None and len(mask) < call.num_words:
                raise ValueError(f"a mask of {len(mask)} words does not cover {call.vocab} tokens")
        num_threads = self._threads if threads is None else threads
        self._library.ls_sample(len(rows), call.rows, call.vocab, call.params, call.results, num_threads, self._team)
        return [_sampled(result, each.num_top) for result, each in zip(call.views, params, strict=True)]

    def _struct(self, params: SamplerParams) -> _Params:
        struct = self._structs.get(params)
        if struct is None:
            numbers = (getattr(params, name) for name in _FLOATS)
            struct = _Params(*numbers, params.mirostat, params.top_k, min(params.num_top, MAX_TOP), params.seed)
            struct.changes = False
            struct.bias = {}
            struct.mask_array = None
            self._structs[params] = struct
        return struct


class _Call:
    """Arguments of a call; reused by the next one, which is nearly always about the same rows and parameters."""

    def __init__(self, rows: Sequence[Row], params: Sequence[SamplerParams], structs: list[_Params]) -> None:
        count = len(structs)
        self._of = (*rows, *params)
        self._ids = tuple(map(id, self._of))
        self.vocab = len(rows[0]) if rows else 0
        self.num_words = -(-self.vocab // 32)
        self.structs = structs
        self.rows = (ctypes.c_void_p * count)(*(row.ctypes.data for row in rows))
        self.params = (ctypes.c_void_p * count)(*map(ctypes.addressof, structs))
        self.results = (_Result * count)()
        self.views = list(self.results)

    def is_of(self, rows: Sequence[Row], params: Sequence[SamplerParams]) -> bool:
        return self._ids == (*map(id, rows), *map(id, params))  # these objects are kept alive here


def _point_to_changes(struct: _Params, params: SamplerParams, kept: list[Any]) -> None:
    """Fields that change the row before anything is drawn from it."""
    struct.num_repeated = len(params.repeated)
    if struct.num_repeated:
        repeated = np.ascontiguousarray(params.repeated, np.int32)
        kept.append(repeated)
        struct.repeated = repeated.ctypes.data
    struct.num_counted = len(params.counts)
    if params.counts:
        struct.counted = _address(params.counts, np.int32, kept)
        struct.counts = _address(params.counts.values(), np.int32, kept)
    struct.num_biased = len(params.bias)
    if params.bias and params.bias is not struct.bias:
        struct.bias, struct.bias_arrays = params.bias, []
        struct.biased = _address(params.bias, np.int32, struct.bias_arrays)
        struct.biases = _address(params.bias.values(), np.float32, struct.bias_arrays)
    struct.num_lessened = len(params.lessened)
    if params.lessened:
        struct.lessened = _address(params.lessened, np.int32, kept)
        struct.less = _address(params.lessened.values(), np.float32, kept)


def load(*, threads: int = 1, team: int | None = None) -> NativeSampler:
    """The sampler built with this installation; see `NativeSampler`. Raises `NotCompiled`."""
    return native_libraries.load("sampler", lambda path: NativeSampler(path, threads=threads, team=team))


def _mask_address(mask: npt.NDArray[np.uint32]) -> int:
    buffer: Any = mask  # it is a buffer, though numpy's types do not say so before Python 3.12
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(buffer))  # a third of the time of `.ctypes.data`
    except TypeError:
        if not (mask.flags.c_contiguous and mask.size):
            raise ValueError("a mask must be an array of consecutive words") from None
        return mask.ctypes.data  # read-only


def _address(values: Collection[Any], kind: type, kept: list[Any]) -> int:
    array: npt.NDArray[Any] = np.fromiter(values, kind, len(values))
    kept.append(array)
    return array.ctypes.data


def _sampled(result: _Result, num_top: int) -> SampledToken:
    if num_top < 0 or result.token < 0:
        return SampledToken(result.token, math.nan, (), result.mirostat_mu)
    top = tuple((result.top[i], result.top_logprobs[i]) for i in range(result.num_top))
    return SampledToken(result.token, result.logprob, top, result.mirostat_mu)
