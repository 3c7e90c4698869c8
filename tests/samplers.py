"""The sampler that workers use, for engines with a real model: the one in NumPy took a fifth of a test's time."""

from __future__ import annotations

import functools

from localllm.engine.sampling import native
from localllm.engine.sampling.sampler import NumpySampler, Sampler
from localllm.system import native_libraries


@functools.cache
def sampler() -> Sampler:
    """Compiled, or in NumPy where there is no compiler; `tests/native` compares what they draw."""
    try:
        return native.load()
    except native_libraries.NotCompiled:
        return NumpySampler()
