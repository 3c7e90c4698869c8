"""What a model of an architecture without formulas of ours stores and computes in, as llama.cpp itself lays it out.

A child process loads it without its weights (`no_alloc`) and makes contexts of two lengths; what these differ by is
each token's, the rest each slot's. Slower than a formula (a second, once per file), and right. Results become fields of
a `ModelInfo`, so that plans need not know of it.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from localllm.measuring import probe
from localllm.measuring.conditions import conditions_here
from localllm.measuring.result_store import ResultStore
from localllm.planning import buffers
from localllm.planning.buffers import Step
from localllm.system.programs import own_command
from localllm.types import LayerMemory, ModelInfo, upstream
from localllm.types.libraries import builds

log = logging.getLogger("localllm")

FILE_NAME = "dry-loads.json"
MAX_REMEMBERED = 64
TIMEOUT_S = 180.0
"""The self-test of each library on this machine may come first."""
LONGEST, UBATCH = 8192, 512
F16, F32 = 2, 4


class DryQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What to load without weights: contexts with one slot of these many tokens each."""

    data_dir: str
    path: str
    architecture: str
    contexts: tuple[int, int]
    ubatch: int


class DryAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Bytes in those contexts, or why they are unknown."""

    error: str = ""
    kept: tuple[int, ...] = ()
    """Keys, values and states."""
    computed: tuple[int, ...] = ()
    """Compute buffers for one row of logits, with flash attention where llama.cpp has it."""


def has_formulas(info: ModelInfo) -> bool:
    """Whether the rules in `gguf.rules` were made with this architecture in view: it is one of the build that they were
    read from."""
    return info.architecture in builds.named(upstream.LLAMA_VERSION).architectures


def completed(info: ModelInfo, path: Path, data_dir: Path) -> ModelInfo:
    """The model with what a dry load found, if there are no formulas; unchanged if that fails, which is logged."""
    if has_formulas(info) or not info.causal or not info.num_layers:
        return info
    longest = min(info.context_length or LONGEST, LONGEST)
    contexts = (longest // 2, longest)
    answer = _asked(info, path, data_dir, contexts)
    if answer.error or len(answer.kept) != len(contexts):
        fields = {"model": str(path), "architecture": info.architecture, "reason": answer.error}
        log.warning("dry_load_failed", extra={"fields": fields})
        return info
    return with_answer(info, answer, contexts)


def with_answer(info: ModelInfo, answer: DryAnswer, contexts: tuple[int, int]) -> ModelInfo:
    """Spreads what was found evenly over the layers."""
    (shorter, longer), (less, more) = contexts, answer.kept
    layers = info.num_layers
    each_token = max(0, more - less) / (longer - shorter)
    each_slot = max(0.0, less - each_token * shorter)
    numbers = -(-round(each_token) // (F16 * layers))
    layer = LayerMemory(keys=numbers - numbers // 2, values=numbers // 2, state=-(-round(each_slot) // (F32 * layers)))
    found = msgspec.structs.replace(info, layer_memory=(layer,) * layers, sliding_window=0)
    step = Step(rows=UBATCH, seen=longer, windowed=longer, outputs=1, states=1)
    beyond = max(answer.computed, default=0) - buffers.compute_bytes(found, step, flash=True)
    return msgspec.structs.replace(found, more_bytes_per_row=max(0, -(-beyond // UBATCH)))


def _asked(info: ModelInfo, path: Path, data_dir: Path, contexts: tuple[int, int]) -> DryAnswer:
    memory = ResultStore(data_dir / FILE_NAME, DryAnswer, most=MAX_REMEMBERED, subject="what a dry load found")
    status = path.stat()
    name = conditions_here(library="", backend=info.architecture).key(
        str(path), str(status.st_size), str(status.st_mtime_ns)
    )
    if (known := memory.get(name)) is not None:
        return known
    question = DryQuestion(
        data_dir=str(data_dir), path=str(path), architecture=info.architecture, contexts=contexts, ubatch=UBATCH
    )
    answer, failure = probe.ask(own_command("localllm.llama.probes.dry_load_child"), question, DryAnswer, TIMEOUT_S)
    if answer is None or failure is not None:
        return DryAnswer(error=f"its process ended early ({failure.detail if failure else 'no answer'})")
    if not answer.error:
        memory.put(name, answer)
    return answer
