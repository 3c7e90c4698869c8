"""A real state goes to the disk and comes back into another context, as good as computed anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from localllm.engine.backend import Segment
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from tests.kvdisks import opened

PROMPT = [int(token) for token in np.random.default_rng(3).integers(10, 250, 100)]
NEXT = [7]


@contextmanager
def context(library: Library, path: Path) -> Iterator[LlamaBackend]:
    model = LlamaModel(library, path, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(library, model, KvMemory(256, 2), Batching(128), threads=1)
    yield backend
    backend.free()
    model.close()


def test_a_state_from_the_disk_answers_as_the_one_that_was_computed(
    loaded_library: Library, tiny_model: Path, tmp_path: Path
) -> None:
    with context(loaded_library, tiny_model) as backend, opened(tmp_path) as cache:
        backend.decoder.decode([Segment(0, 0, PROMPT, num_outputs=1)])
        assert cache.store(np.array(PROMPT, np.int32), backend.cells.save(0)) is not None
        backend.decoder.decode([Segment(0, len(PROMPT), NEXT, num_outputs=1)])
        computed = backend.decoder.logits(0)[-1].copy()
    with context(loaded_library, tiny_model) as backend, opened(tmp_path) as cache:
        (entry,) = cache.entries
        assert entry.tokens.tolist() == PROMPT
        assert cache.prefetch(entry)
        saved = cache.load(entry)
        assert saved is not None
        backend.cells.restore(1, bytes(saved.state), len(PROMPT))
        backend.decoder.decode([Segment(1, len(PROMPT), NEXT, num_outputs=1)])
        assert np.array_equal(backend.decoder.logits(0)[-1], computed)
