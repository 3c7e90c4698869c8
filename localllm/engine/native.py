"""The compiled batch sampler, loaded with ctypes: rows of logits in, tokens out. The structs mirror `native/sampler`.

Where no compiler was there when localllm was installed there is none; `sampler.py` computes the same in NumPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.sampler import Row, Sampled, SamplerParams

ABI = 1
MAX_TOP = 20
PACKAGE = "localllm_native"
"""The folder of site-packages that the build installs the library into."""


class NotCompiled(Exception):
    """This installation has no sampler that can be loaded; the text is the reason."""


class _Params(ctypes.Structure):
    _fields_ = [
        ("temperature", ctypes.c_float),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("top_n_sigma", ctypes.c_float),
        ("repeat_penalty", ctypes.c_float),
        ("presence_penalty", ctypes.c_float),
        ("frequency_penalty", ctypes.c_float),
        ("top_k", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("draw", ctypes.c_uint64),
        ("repeated", ctypes.c_void_p),
        ("counted", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("biased", ctypes.c_void_p),
        ("biases", ctypes.c_void_p),
        ("mask", ctypes.c_void_p),
        ("num_repeated", ctypes.c_int32),
        ("num_counted", ctypes.c_int32),
        ("num_biased", ctypes.c_int32),
        ("num_top", ctypes.c_int32),
    ]


class _Result(ctypes.Structure):
    _fields_ = [
        ("token", ctypes.c_int32),
        ("logprob", ctypes.c_float),
        ("num_top", ctypes.c_int32),
        ("top", ctypes.c_int32 * MAX_TOP),
        ("top_logprobs", ctypes.c_float * MAX_TOP),
    ]


class NativeSampler:
    """One loaded library; safe to use from one thread at a time."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        """Raises `OSError` if the file is no library, `ValueError` if it was built for another version of localllm."""
        self._library = ctypes.CDLL(str(path))
        self._library.ls_abi.restype = ctypes.c_int32
        if (abi := self._library.ls_abi()) != ABI:
            raise ValueError(
                f"{path} speaks version {abi} of the sampler's interface, not {ABI}; install localllm again"
            )
        self._library.ls_sample.restype = None
        self._threads = threads

    def sample(self, rows: Sequence[Row], params: Sequence[SamplerParams]) -> list[Sampled]:
        """One token for each row, float32 [vocab], all of one length."""
        count = len(rows)
        kept: list[Any] = []  # what the structs point to must live until the call is over
        addresses = (ctypes.c_void_p * count)(*(row.ctypes.data for row in rows))
        structs = (_Params * count)(*(_struct(each, kept) for each in params))
        results = (_Result * count)()
        self._library.ls_sample(count, addresses, len(rows[0]), structs, results, self._threads)
        return [_sampled(result, each.num_top) for result, each in zip(results, params, strict=True)]


def load(*, threads: int = 1) -> NativeSampler:
    """The sampler that was built with this installation. Raises `NotCompiled`."""
    spec = find_spec(PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [path for folder in folders for path in Path(folder).iterdir() if path.suffix in (".so", ".dll", ".dylib")]
    if not found:
        raise NotCompiled("there was no C++ compiler when localllm was installed")
    try:
        return NativeSampler(found[0], threads=threads)
    except (OSError, AttributeError, ValueError) as error:
        raise NotCompiled(str(error)) from error


def _struct(params: SamplerParams, kept: list[Any]) -> _Params:
    def address(values: Any, kind: type) -> int | None:
        array: npt.NDArray[Any] = np.fromiter(values, kind)
        kept.append(array)
        return array.ctypes.data if len(array) else None

    return _Params(
        temperature=params.temperature,
        top_p=params.top_p,
        min_p=params.min_p,
        top_n_sigma=params.top_n_sigma,
        repeat_penalty=params.repeat_penalty,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        top_k=params.top_k,
        seed=params.seed,
        draw=params.draw,
        repeated=address(params.repeated, np.int32),
        counted=address(params.counts.keys(), np.int32),
        counts=address(params.counts.values(), np.int32),
        biased=address(params.bias.keys(), np.int32),
        biases=address(params.bias.values(), np.float32),
        mask=None if params.mask is None else params.mask.ctypes.data,
        num_repeated=len(params.repeated),
        num_counted=len(params.counts),
        num_biased=len(params.bias),
        num_top=min(params.num_top, MAX_TOP),
    )


def _sampled(result: _Result, num_top: int) -> Sampled:
    if num_top < 0 or result.token < 0:
        return Sampled(result.token)
    top = tuple((result.top[i], result.top_logprobs[i]) for i in range(result.num_top))
    return Sampled(result.token, result.logprob, top)
