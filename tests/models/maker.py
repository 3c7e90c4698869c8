"""The everyday test model: a tiny random llama with grouped-query attention, and its quantized forms.

`quantize` runs llama.cpp in a child process, since a fault there must not take pytest down.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, LlamaFileType

from tests.models.builder import Builder, TensorTypes
from tests.models.tokenizers import Tokenizer, bpe

CHILD_TIMEOUT_S = 120


def write_llama(
    path: Path,
    *,
    architecture: str = "llama",
    n_layer: int = 2,
    n_embd: int = 64,
    n_ff: int = 128,
    n_head: int = 4,
    n_kv: int = 2,
    vocab: int = 320,
    ctx: int = 512,
    seed: int = 0,
    dtype: GGMLQuantizationType = GGMLQuantizationType.F32,
    tensor_types: TensorTypes | None = None,
    scale: float = 1.0,
    output_scale: float = 4.0,
    chat_template: str | None = None,
    tokenizer: Tokenizer | None = None,
    n_expert: int = 0,
    n_expert_used: int = 2,
    name: str = "tiny-llama",
    extra: Mapping[str, Any] | None = None,
    max_tensors_per_file: int = 0,
    given: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Path:
    """Write a llama model of random weights and return its path; under 0.1 s and 0.6 MB by default.

    `dtype` and `tensor_types` choose among F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0 and MXFP4; the
    other types come from `quantize`. `architecture` may be another one of the same tensors. Logits have a deviation of
    about `output_scale`. `tokenizer` replaces the BPE vocabulary of `vocab` tokens; `extra` adds metadata under full
    key names; `n_expert` makes it a mixture. Split by `max_tensors_per_file`, the files lie beside `path` and
    `shards_of(path)` finds them. `given` holds matrices that shall not be random (see `Builder`).
    """
    words = tokenizer or bpe(vocab)
    with Builder(
        path,
        architecture,
        seed=seed,
        dtype=dtype,
        tensor_types=tensor_types,
        scale=scale,
        max_tensors_per_file=max_tensors_per_file,
        given=given,
    ) as model:
        model.writer.add_name(name)
        model.writer.add_file_type(_FILE_TYPES.get(dtype, LlamaFileType.ALL_F32))
        model.keys(
            {
                "block_count": n_layer,
                "context_length": ctx,
                "embedding_length": n_embd,
                "feed_forward_length": n_ff,
                "attention.head_count": n_head,
                "attention.head_count_kv": n_kv,
                "attention.layer_norm_rms_epsilon": 1e-5,
                "rope.dimension_count": n_embd // n_head,
                "rope.freq_base": 10000.0,
                "vocab_size": len(words.tokens),
            }
        )
        if n_expert:
            model.keys({"expert_count": n_expert, "expert_used_count": n_expert_used})
        words.write(model.writer)
        if chat_template is not None:
            model.writer.add_chat_template(chat_template)
        for key, value in (extra or {}).items():
            model.key(key, value)
        model.matrix("token_embd.weight", n_embd, len(words.tokens), std=1.0)
        model.vector("output_norm.weight", n_embd, mean=1.0)
        model.matrix("output.weight", n_embd, len(words.tokens), std=output_scale / n_embd**0.5)
        for block in range(n_layer):
            add_attention(model, block, n_embd, n_head, n_kv)
            add_ffn(model, block, n_embd, n_ff, n_expert)
    return path


def shards_of(path: Path) -> list[Path]:
    """The files of a model that was written split, in order."""
    return sorted(path.parent.glob(f"{path.stem}-*-of-*.gguf"))


_FILE_TYPES = {
    GGMLQuantizationType.F16: LlamaFileType.MOSTLY_F16,
    GGMLQuantizationType.BF16: LlamaFileType.MOSTLY_BF16,
    GGMLQuantizationType.Q4_0: LlamaFileType.MOSTLY_Q4_0,
    GGMLQuantizationType.Q4_1: LlamaFileType.MOSTLY_Q4_1,
    GGMLQuantizationType.Q5_0: LlamaFileType.MOSTLY_Q5_0,
    GGMLQuantizationType.Q5_1: LlamaFileType.MOSTLY_Q5_1,
    GGMLQuantizationType.Q8_0: LlamaFileType.MOSTLY_Q8_0,
    GGMLQuantizationType.TQ1_0: LlamaFileType.MOSTLY_TQ1_0,
    GGMLQuantizationType.TQ2_0: LlamaFileType.MOSTLY_TQ2_0,
    GGMLQuantizationType.MXFP4: LlamaFileType.MOSTLY_MXFP4_MOE,
}


def add_attention(
    model: Builder, block: int, n_embd: int, n_head: int, n_kv: int, head_size: int | None = None
) -> None:
    """Norm, query, key, value and output matrices of one block, `head_size` numbers per head."""
    size = head_size or n_embd // n_head
    model.vector(f"blk.{block}.attn_norm.weight", n_embd, mean=1.0)
    model.matrix(f"blk.{block}.attn_q.weight", n_embd, n_head * size)
    model.matrix(f"blk.{block}.attn_k.weight", n_embd, n_kv * size)
    model.matrix(f"blk.{block}.attn_v.weight", n_embd, n_kv * size)
    model.matrix(f"blk.{block}.attn_output.weight", n_head * size, n_embd)


def add_ffn(model: Builder, block: int, n_embd: int, n_ff: int, n_expert: int = 0) -> None:
    """Norm and the gated feed-forward matrices of one block, or a router and `n_expert` of them."""
    model.vector(f"blk.{block}.ffn_norm.weight", n_embd, mean=1.0)
    experts = (n_expert,) if n_expert else ()
    suffix = "_exps" if n_expert else ""
    if n_expert:
        model.matrix(f"blk.{block}.ffn_gate_inp.weight", n_embd, n_expert)
    model.matrix(f"blk.{block}.ffn_gate{suffix}.weight", n_embd, n_ff, *experts)
    model.matrix(f"blk.{block}.ffn_up{suffix}.weight", n_embd, n_ff, *experts)
    model.matrix(f"blk.{block}.ffn_down{suffix}.weight", n_ff, n_embd, *experts)


def quantize(
    source: Path,
    target: Path,
    file_type: int,
    tensor_types: Mapping[str, int] | None = None,
    *,
    importance: bool = False,
    pure: bool = False,
) -> Path:
    """`llama_model_quantize` in a child process; `source` is best F16 or F32.

    `file_type` is a `LlamaFileType`. `tensor_types` maps regular expressions, searched in tensor names, to ggml types
    and only counts for matrices when the file type's own type is a quantized one. `importance` hands in an importance
    matrix of ones, without which the types below 3 bits are refused; `pure` gives every matrix the file type's type.
    Raises `RuntimeError` with the child's last words.
    """
    job = {
        "source": str(source),
        "target": str(target),
        "file_type": int(file_type),
        "tensor_types": {pattern: int(kind) for pattern, kind in (tensor_types or {}).items()},
        "importance": importance,
        "pure": pure,
    }
    run_child("tests.models.quantize_child", [job])
    return target


def run_child(module: str, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run `python -m module` with jobs as JSON lines on its stdin; one JSON line comes back for each.

    Raises `RuntimeError` with exit code and stderr if it dies on the way.
    """
    root = Path(__file__).parent.parent.parent
    child = subprocess.run(
        [sys.executable, "-m", module],
        input="".join(json.dumps(job) + "\n" for job in jobs),
        capture_output=True,
        encoding="utf-8",
        cwd=root,
        timeout=CHILD_TIMEOUT_S,
        check=False,
    )
    answers = [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]
    if child.returncode != 0 or len(answers) != len(jobs):
        done = f"{len(answers)} of {len(jobs)} jobs done"
        raise RuntimeError(f"{module} ended with {child.returncode}, {done}: {child.stderr[-2000:]}")
    return answers
