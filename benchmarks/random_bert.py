"""An encoder of BERT-base's shape (109 M parameters) with random weights and a real vocabulary.

Speed does not depend on the weights. Knows nothing of peers.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from benchmarks.random_model import copy_tokenizer

ENCODER = "models/bert110m-Q8_0.gguf"


def write_random_bert(
    path: Path,
    vocabulary: Path,
    *,
    n_layer: int = 12,
    n_embd: int = 768,
    n_ff: int = 3072,
    n_head: int = 12,
    ctx: int = 512,
    seed: int = 0,
) -> None:
    """F16 weights, mean pooling; the tokenizer is copied from the vocabulary-only GGUF `vocabulary`."""
    writer = gguf.GGUFWriter(str(path), "bert")
    writer.add_name(path.stem)
    writer.add_block_count(n_layer)
    writer.add_context_length(ctx)
    writer.add_embedding_length(n_embd)
    writer.add_feed_forward_length(n_ff)
    writer.add_head_count(n_head)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    vocabulary_size = copy_tokenizer(writer, vocabulary)
    random = np.random.default_rng(seed)

    def matrix(name: str, rows: int, columns: int, kind: type[np.generic] = np.float16) -> None:
        weights = random.standard_normal((rows, columns), dtype=np.float32) * columns**-0.5
        writer.add_tensor(name, weights.astype(kind))

    def vector(name: str, size: int, mean: float = 0.0) -> None:
        writer.add_tensor(name, (mean + 0.02 * random.standard_normal(size)).astype(np.float32))

    def norm(name: str) -> None:
        vector(f"{name}.weight", n_embd, mean=1.0)
        vector(f"{name}.bias", n_embd)

    matrix("token_embd.weight", vocabulary_size, n_embd)
    matrix("token_types.weight", 2, n_embd, np.float32)
    matrix("position_embd.weight", ctx, n_embd, np.float32)
    norm("token_embd_norm")
    for layer in range(n_layer):
        block = f"blk.{layer}."
        shapes = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (n_embd, n_embd))
        shapes |= {"ffn_up": (n_ff, n_embd), "ffn_down": (n_embd, n_ff)}
        for name, (rows, columns) in shapes.items():
            matrix(f"{block}{name}.weight", rows, columns)
            vector(f"{block}{name}.bias", rows)
        norm(block + "attn_output_norm")
        norm(block + "layer_output_norm")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
