"""What is planned for a model, weights, cache and buffers together, is what llama.cpp allocates on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType

from localllm.errors import LoadFailed
from localllm.gguf import read_model_info
from localllm.llama import library
from localllm.llama.embedding import LlamaEmbedder
from localllm.llama.model import LlamaModel
from localllm.llama.spread import Spread
from localllm.planning.needs import embedding_bytes
from localllm.planning.plan import compute_bytes, memory_bytes, output_bytes, plan
from localllm.registry.resolve import carried
from localllm.types import FlashAttn, ModelInfo
from localllm.types.load_options import LoadOptions
from tests.llama.planned import allocated_mib, planned_backend
from tests.models import families, headed
from tests.models.headed import write_headed
from tests.models.hollow import ENCODERS, SHAPES, write_hollow
from tests.models.maker import write_llama

MIB = 2**20
LOGGED = re.compile(r"buffer size = +([0-9.]+) MiB")
INDEXED = ("deepseek32", "glm-dsa")
"""An indexer's buffers are not planned."""
SMALL: dict[str, Callable[[Path], Path]] = {
    "full": write_llama,
    "wide heads": families.write_wide_heads,
    "sliding window": families.write_sliding_window,
    "latent": families.write_latent,
    "recurrent": families.write_recurrent,
    "hybrid": families.write_hybrid,
    "gated": families.write_gated_delta,
    "gated with heads": partial(families.write_gated_delta, n_nextn=1),
    "short": families.write_short_conv,
    **{name: partial(write_headed, architecture=name) for name in headed.KEYS if name not in INDEXED},
    "mixture": families.write_mixture,
    "demo": lambda _: carried("demo.gguf"),
}
STEPS = {
    "flash": LoadOptions(ctx=2048, slots=4, flash_attn="on"),
    "no flash": LoadOptions(ctx=2048, slots=4, flash_attn="off"),
    "one long slot": LoadOptions(ctx=16_384, slots=1, flash_attn="on"),
    "large steps": LoadOptions(ctx=1024, slots=8, flash_attn="on", ubatch=2048),
    "small steps": LoadOptions(ctx=1024, slots=8, flash_attn="on", ubatch=128),
    "q8_0": LoadOptions(ctx=2048, slots=4, flash_attn="on", kv_type="q8_0"),
}


def planned_bytes(info: ModelInfo, options: LoadOptions) -> int:
    flash = plan(info, options, []).flash_attn != "off"
    kept = sum(memory_bytes(info, options, flash=flash))
    return info.size_bytes + kept + compute_bytes(info, options, flash=flash) + output_bytes(info, options)


@pytest.mark.parametrize("mode", ["flash", "no flash", "large steps"])
@pytest.mark.parametrize("kind", SMALL)
def test_a_small_model_takes_what_is_planned(
    loaded_library: library.Library, tmp_path: Path, kind: str, mode: str
) -> None:
    path = SMALL[kind](tmp_path / "a.gguf")
    info = read_model_info(path)
    options = LoadOptions(ctx=512, slots=4, flash_attn=STEPS[mode].flash_attn, ubatch=STEPS[mode].ubatch)
    mark = loaded_library.log.mark()
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    backend = planned_backend(loaded_library, model, info, options)
    allocated = reported_bytes(loaded_library, mark)
    backend.free()
    model.close()
    assert planned_bytes(info, options) == pytest.approx(allocated, rel=0.1, abs=4 * MIB)


TRIED = ("Llama 3.2 1B", "Gemma 3 1B", "Qwen3 30B-A3B", "TinyLlama")
"""One of each kind: tied, with windows, with experts, with a small vocabulary."""


@pytest.fixture(scope="module")
def hollow_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Written once: their vocabularies are large."""
    folder = tmp_path_factory.mktemp("hollow")

    @cache
    def file(name: str) -> Path:
        return write_hollow(folder / f"{name}.gguf", (ENCODERS | SHAPES)[name])

    return file


@pytest.fixture(
    scope="module",
    params=[*TRIED, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in SHAPES if name not in TRIED)],
)
def hollow(
    request: pytest.FixtureRequest, loaded_library: library.Library, hollow_file: Callable[[str], Path]
) -> Iterator[tuple[ModelInfo, LlamaModel, float]]:
    """A model of real widths, loaded; its weights are holes of a file, and nothing is computed with them.

    Not repacked: the log would count a weight's copy, where the CPU repacks F16, and its pages in the mapped file.
    """
    path = hollow_file(request.param)
    mark = loaded_library.log.mark()
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False, spread=Spread(repack="off"))
    yield read_model_info(path), model, reported_bytes(loaded_library, mark)
    model.close()


@pytest.mark.parametrize("mode", STEPS)
def test_a_model_of_real_size_takes_what_is_planned(
    loaded_library: library.Library, hollow: tuple[ModelInfo, LlamaModel, float], mode: str
) -> None:
    """Its context is made without the two tokens that a worker computes first: they would read all the weights."""
    (info, model, weights), options = hollow, STEPS[mode]
    placement = plan(info, options, [])
    api = loaded_library.api
    params = api.llama_context_default_params()
    params.n_ctx = placement.num_cells
    params.n_seq_max = placement.slots
    params.n_batch = options.ubatch_tokens
    params.n_ubatch = placement.ubatch_tokens
    params.n_outputs_max = placement.max_outputs
    params.kv_unified = params.swa_full = False
    params.type_k = params.type_v = getattr(api, f"GGML_TYPE_{options.kv_type.upper()}")
    params.flash_attn_type = int(placement.flash_attn == "on")
    mark = loaded_library.log.mark()
    context = api.llama_init_from_model(model.handle, params)
    assert context
    allocated = weights + reported_bytes(loaded_library, mark)
    api.llama_free(context)
    assert planned_bytes(info, options) == pytest.approx(allocated, rel=0.1)
    buffers = planned_bytes(info, options) - info.size_bytes
    assert buffers == pytest.approx(allocated - weights, rel=0.15), "not hidden behind the weights"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory in /proc")
@pytest.mark.parametrize("name", ["Llama 3.2 1B", "TinyLlama"])
def test_repacked_weights_take_no_more_than_is_planned(
    loaded_library: library.Library, tmp_path: Path, name: str
) -> None:
    """Their copies are the process's own memory; the pages of the mapped file behind them can be dropped."""
    if not loaded_library.choice.extra_bufts:
        pytest.skip("this build repacks nothing here")
    path = write_hollow(tmp_path / "a.gguf", SHAPES[name], GGMLQuantizationType.Q4_0)
    mark, before = loaded_library.log.mark(), own_bytes()
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    grown = own_bytes() - before
    model.close()
    repacked = sum(
        float(found[1])
        for line in loaded_library.log.lines_since(mark)
        if "Mapped" not in line and (found := LOGGED.search(line))
    )
    if not repacked:
        pytest.skip("this CPU repacks no Q4_0")
    assert repacked * MIB > read_model_info(path).size_bytes / 2
    assert repacked * MIB * 0.9 < grown < read_model_info(path).size_bytes + 48 * MIB, "the rest is the vocabulary"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory in /proc")
def test_locked_weights_are_those_that_are_computed_with(loaded_library: library.Library, tmp_path: Path) -> None:
    """llama.cpp would lock the mapped file, and no repacked copy."""
    path = write_llama(tmp_path / "a.gguf", n_embd=256, n_ff=256, dtype=GGMLQuantizationType.Q4_0)
    mark, before = loaded_library.log.mark(), of_process("VmLck")
    spread = Spread(mlock=True)
    try:
        model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False, spread=spread)
    except LoadFailed as error:
        if error.param != "mlock":
            raise
        pytest.skip("this system lets nobody lock as much")
    locked = of_process("VmLck") - before
    model.close()
    (buffer,) = (line for line in loaded_library.log.lines_since(mark) if LOGGED.search(line))
    assert "CPU_Mapped" in buffer
    assert locked >= 0.9 * read_model_info(path).size_bytes


def own_bytes() -> int:
    """Memory of this process that is no file's."""
    return of_process("RssAnon")


def of_process(kind: str) -> int:
    """Bytes of a kind of memory, as Linux counts this process's."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{kind}:"))
    return int(line.split()[1]) * 1024


def reported_bytes(loaded: library.Library, mark: int) -> float:
    """By llama.cpp's own log, of everything since the mark."""
    return allocated_mib(loaded.log.lines_since(mark)) * MIB


@pytest.fixture(scope="module", params=[*ENCODERS, "Llama 3.2 1B"])
def embedding_model(
    request: pytest.FixtureRequest, loaded_library: library.Library, hollow_file: Callable[[str], Path]
) -> Iterator[tuple[ModelInfo, LlamaModel]]:
    path = hollow_file(request.param)
    model = LlamaModel(loaded_library, path, gpu_layers=0, devices=(), must_offload=False)
    yield read_model_info(path), model
    model.close()


@pytest.mark.parametrize(("ctx", "flash_attn"), [(128, "off"), (2048, "auto"), (2048, "off")])
def test_embedding_takes_what_is_planned(
    loaded_library: library.Library, embedding_model: tuple[ModelInfo, LlamaModel], ctx: int, flash_attn: FlashAttn
) -> None:
    info, model = embedding_model
    options = LoadOptions(embedding_ctx=min(ctx, info.context_length or ctx), flash_attn=flash_attn)
    mark = loaded_library.log.mark()
    embedder = LlamaEmbedder(
        loaded_library, model, causal=info.causal, pooling="rank" if info.causal else "mean", threads=2,
        ctx=options.embedding_ctx or 0, flash_attn=flash_attn,
    )  # fmt: skip
    allocated = reported_bytes(loaded_library, mark)
    embedder.free()
    if info.causal and not loaded_library.known.switches_embeddings:
        assert embedding_bytes(info, options) > allocated, "it has no rows of logits there, which are planned"
    else:
        assert embedding_bytes(info, options) == pytest.approx(allocated, rel=0.1)
