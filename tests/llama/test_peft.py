"""An adapter that peft trained on the demo: what llama.cpp computes under it is what PyTorch did."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from localllm.engine.backend import Segment
from localllm.engine.requests.adapters import NO_ADAPTERS, ScaledAdapter
from localllm.llama import library
from localllm.registry.making.merging import Applied, merge
from localllm.registry.peft.converting import convert
from localllm.registry.resolve import carried
from tests.llama.test_kv_reuse import opened
from tests.peft_folders import FOREIGN


def test_its_logits_are_those_of_pytorch_applied_and_merged(loaded_library: library.Library, tmp_path: Path) -> None:
    """The base's weights are Q8_0 in both; llama.cpp also rounds what they are multiplied with, the adapter or not."""
    info = convert(FOREIGN, carried("demo.gguf"), tmp_path / "foreign.gguf")
    with np.load(FOREIGN / "logits.npz") as stored:
        prompt, wanted = stored["prompt"].tolist(), {False: stored["before"], True: stored["after"]}
    errors = {}
    with opened(loaded_library, carried("demo.gguf")) as backend:
        backend.adapters.know("foreign", tmp_path / "foreign.gguf", info.size_bytes)
        for is_under, logits in wanted.items():
            backend.cells.truncate(0, 0)
            backend.decoder.use_adapters((ScaledAdapter("foreign", 1.0),) if is_under else NO_ADAPTERS)
            backend.decoder.decode([Segment(0, 0, prompt, num_outputs=1)])
            errors[is_under] = float(np.abs(backend.decoder.logits(0)[0] - logits).max())
    assert float(np.abs(wanted[True] - wanted[False]).max()) > 3
    assert max(errors.values()) < 0.3, errors
    merge(carried("demo.gguf"), [Applied(tmp_path / "foreign.gguf", 1.0)], tmp_path / "merged.gguf")
    with opened(loaded_library, tmp_path / "merged.gguf") as backend:
        backend.decoder.decode([Segment(0, 0, prompt, num_outputs=1)])
        assert float(np.abs(backend.decoder.logits(0)[0] - wanted[True]).max()) < 0.3
