"""What is planned for keys, values and states is what llama.cpp allocates, for every kind of memory and layout."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from localllm.gguf import read_model_info
from localllm.gguf.rules.nextn import FORMS
from localllm.llama import library
from localllm.llama.backend import open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.drafts.nextn import LlamaHeads
from localllm.llama.drafts.target_vectors import KeptVectors
from localllm.llama.model import LlamaModel
from localllm.planning.nextn_heads import BATCH_TOKENS, OUTPUTS, heads_bytes
from localllm.planning.plan import memory_bytes, plan
from localllm.types.load_options import LoadOptions
from tests.llama.needs import guess_functions
from tests.llama.planned import allocated_mib, planned_backend
from tests.models import families, headed
from tests.models.headed import write_headed
from tests.models.maker import write_llama

MIB = 2**20
LOGGED = re.compile(r"(?:KV|RS) buffer size = +([0-9.]+) MiB")
WRITERS: dict[str, Callable[[Path], Path]] = {
    "full": write_llama,
    "wide heads": families.write_wide_heads,
    "sliding window": families.write_sliding_window,
    "latent": families.write_latent,
    "recurrent": families.write_recurrent,
    "hybrid": families.write_hybrid,
    "gated": families.write_gated_delta,
    "gated with heads": partial(families.write_gated_delta, n_nextn=1),
    "short": families.write_short_conv,
    **{name: partial(write_headed, architecture=name) for name in headed.KEYS},
}
OPTIONS = {
    "flash": LoadOptions(ctx=512, slots=16, ubatch=64, flash_attn="on"),
    "no flash": LoadOptions(ctx=512, slots=16, ubatch=64, flash_attn="off"),
    "unified": LoadOptions(ctx=512, slots=8, ubatch=64, kv="unified"),
    "q8_0": LoadOptions(ctx=512, slots=16, ubatch=64, kv_type="q8_0"),
}
WINDOWED = ("sliding window", "step35", "cohere2moe", "mimo2")
STATEFUL = ("qwen35moe", "bailingmoe3", "nemotron_h_moe", "recurrent", "hybrid", "gated", "gated with heads", "short")
IMPOSSIBLE = {
    *((name, "unified") for name in (*WINDOWED, *STATEFUL)),  # refused there
    *((name, "q8_0") for name in WRITERS if name not in ("wide heads", "recurrent")),  # no head is of 32 numbers
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {name: write(folder / f"{name}.gguf") for name, write in WRITERS.items()}


@pytest.mark.parametrize(
    ("kind", "mode"), [(kind, mode) for kind in WRITERS for mode in OPTIONS if (kind, mode) not in IMPOSSIBLE]
)
def test_the_plan_is_what_llama_cpp_allocates(
    loaded_library: library.Library, paths: dict[str, Path], kind: str, mode: str
) -> None:
    """To the byte that llama.cpp's log prints: hundredths of a MiB, for at most three buffers."""
    options, info = OPTIONS[mode], read_model_info(paths[kind])
    placement = plan(info, options, [])
    mark = loaded_library.log.mark()
    model = LlamaModel(loaded_library, paths[kind], gpu_layers=0, devices=(), must_offload=False)
    backend = planned_backend(loaded_library, model, info, options)
    lines = loaded_library.log.lines_since(mark)
    backend.free()
    model.close()
    allocated = [float(found[1]) for line in lines if (found := LOGGED.search(line))]
    assert allocated
    planned = sum(memory_bytes(info, options, flash=placement.flash_attn != "off"))
    assert planned / MIB == pytest.approx(sum(allocated), abs=0.02)
    assert planned > 0.1 * MIB, "more than what the log rounds"


@pytest.mark.parametrize("architecture", headed.KEYS)
def test_the_plan_of_heads_is_what_llama_cpp_allocates(
    loaded_library: library.Library, paths: dict[str, Path], architecture: str
) -> None:
    """Keys and values to the byte, or fewer where the layer has a window; buffers as others of a small model."""
    info, options = read_model_info(paths[architecture]), LoadOptions(ctx=1024, slots=4, flash_attn="off")
    functions = guess_functions(loaded_library)
    assert not info.no_heads
    model = LlamaModel(
        loaded_library, paths[architecture], gpu_layers=0, devices=(), must_offload=False, has_heads=True
    )
    target = open_backend(
        loaded_library, model, KvMemory(1024, 4, snapshots=3), Batching(512), threads=2, kept=KeptVectors(functions)
    )
    mark = loaded_library.log.mark()
    heads = LlamaHeads(
        loaded_library, model, target, Batching(BATCH_TOKENS, max_outputs=OUTPUTS), ctx=1024, threads=2,
        is_cropped=FORMS[architecture].is_cropped, flash_attn="off",
    )  # fmt: skip
    lines = loaded_library.log.lines_since(mark)
    heads.free()
    target.free()
    model.close()
    kept = sum(float(found[1]) for line in lines if (found := LOGGED.search(line)))
    computed = allocated_mib(lines, "compute")
    planned = heads_bytes(info, options, ctx=1024, slots=4)
    assert info.heads is not None
    if info.sliding_window:
        assert 0 < kept <= planned.kept / MIB + 0.02
    else:
        assert planned.kept / MIB == pytest.approx(kept, abs=0.02)
    assert planned.compute / MIB == pytest.approx(computed, rel=0.1, abs=4)
