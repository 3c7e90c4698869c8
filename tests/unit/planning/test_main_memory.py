"""The main memory that is counted for a loaded model."""

from __future__ import annotations

import msgspec
import pytest

from localllm.errors import InvalidParameter
from localllm.gguf import read_model_info
from localllm.planning.main_memory import MainMemory
from localllm.registry.resolve import carried
from localllm.types import AppliedAdapter
from localllm.types.load_options import LoadOptions


def test_adapters_count_once_each_up_to_their_limit_and_a_set_beyond_it_is_refused() -> None:
    memory = MainMemory(read_model_info(carried("demo.gguf")), LoadOptions(lora_mb=10), None, ())
    before = memory.slots_bytes
    one, two, three = (AppliedAdapter(name, name, size_bytes=6_000_000) for name in ("one", "two", "three"))
    memory.use_adapters([one])
    memory.use_adapters([one, msgspec.structs.replace(two, scale=0.0)])
    assert (memory.adapter_bytes, memory.slots_bytes) == (6_000_000, before)
    memory.use_adapters([three])
    assert memory.adapter_bytes == 10_000_000
    with pytest.raises(InvalidParameter, match=r"take 12 MB; at most 10 MB are loaded at a time \(lora_mb\)"):
        memory.use_adapters([one, two])
