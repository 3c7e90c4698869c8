"""A GPT-2-architecture GGUF that writes a given text, whatever it is asked: the speed of a model with that text.

What comes next is in the position embeddings: that of each position is the output row of the token behind it. Token
embeddings and the last matrices of each block are zero, the other weights random: all of it is multiplied as ever, and
takes the time that other numbers take. The text may be changed in the file. Knows nothing of peers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np

from benchmarks.random_model import CHATML, copy_tokenizer

N_LAYER, N_EMBD, N_FF, N_HEAD, CTX = 30, 576, 2304, 9, 2048
_SCALE = 1 / 64


def output_rows(num_tokens: int) -> np.ndarray[tuple[int, int], np.dtype[np.float16]]:
    """Shape (tokens, width): the head's, of which each is by far the most like itself."""
    rows = np.random.default_rng(0).standard_normal((num_tokens, N_EMBD), dtype=np.float32)
    return rows.astype(np.float16)


def write_scripted_model(path: Path, vocabulary: Path) -> None:
    """F16 weights, no text yet; the tokenizer is copied from the vocabulary-only GGUF `vocabulary`."""
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_name(path.stem)
    writer.add_block_count(N_LAYER)
    writer.add_context_length(CTX)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(N_HEAD)
    writer.add_layer_norm_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    size = copy_tokenizer(writer, vocabulary)
    writer.add_vocab_size(size)
    writer.add_chat_template(CHATML)
    chooser = np.random.default_rng(1)

    def matrix(name: str, rows: int, columns: int, *, is_zero: bool = False) -> None:
        weights = np.zeros((rows, columns), np.float16)
        if not is_zero:
            weights = (chooser.standard_normal((rows, columns), dtype=np.float32) * _SCALE).astype(np.float16)
        writer.add_tensor(name + ".weight", weights)
        writer.add_tensor(name + ".bias", np.zeros(rows, np.float32))

    def norm(name: str) -> None:
        writer.add_tensor(name + ".weight", np.ones(N_EMBD, np.float32))
        writer.add_tensor(name + ".bias", np.zeros(N_EMBD, np.float32))

    writer.add_tensor("token_embd.weight", np.zeros((size, N_EMBD), np.float16))
    writer.add_tensor("position_embd.weight", np.zeros((CTX, N_EMBD), np.float32))
    norm("output_norm")
    writer.add_tensor("output.weight", output_rows(size))
    for layer in range(N_LAYER):
        block = f"blk.{layer}."
        norm(block + "attn_norm")
        matrix(block + "attn_qkv", 3 * N_EMBD, N_EMBD)
        matrix(block + "attn_output", N_EMBD, N_EMBD, is_zero=True)
        norm(block + "ffn_norm")
        matrix(block + "ffn_up", N_FF, N_EMBD)
        matrix(block + "ffn_down", N_EMBD, N_FF, is_zero=True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_script(model: Path, start: int, tokens: Sequence[int], num_tokens: int) -> None:
    """From now on the file's model writes these tokens at the positions from `start` on."""
    rows = output_rows(num_tokens)
    (tensor,) = (each for each in gguf.GGUFReader(model, "r+").tensors if each.name == "position_embd.weight")
    assert tensor.tensor_type == gguf.GGMLQuantizationType.F32
    data = tensor.data
    data[:] = 0
    data[start - 1 : start - 1 + len(tokens)] = rows[list(tokens)]
    data.flush()
