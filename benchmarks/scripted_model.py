"""A GPT-2-architecture GGUF that writes a given text for any prompt, for measuring speed with that text.

The text is in the position embeddings: each position has the output row of the next token. Token embeddings and the
last matrices of each block are zero, and all other weights random; everything is multiplied as usual, at the usual
speed. The text can be changed in the file. Knows nothing of peers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np

from benchmarks.random_model import CHATML, copy_tokenizer

CTX = 2048
_SCALE = 1 / 64


class Shape(NamedTuple):
    """The dimensions of a model."""

    layers: int
    width: int
    heads: int


SMALL = Shape(30, 576, 9)
"""About the size of the other benchmarks' model."""


def output_rows(num_tokens: int, width: int) -> np.ndarray[tuple[int, int], np.dtype[np.float16]]:
    """Rows of the output head, shape (tokens, width). The dot product of a row with itself is by far the largest."""
    rows = np.random.default_rng(0).standard_normal((num_tokens, width), dtype=np.float32)
    return rows.astype(np.float16)


def write_scripted_model(path: Path, vocabulary: Path, shape: Shape = SMALL) -> None:
    """F16 weights, no text yet; the tokenizer is copied from the vocabulary-only GGUF `vocabulary`."""
    num_layers, width, num_heads = shape
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_name(path.stem)
    writer.add_block_count(num_layers)
    writer.add_context_length(CTX)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(4 * width)
    writer.add_head_count(num_heads)
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
        writer.add_tensor(name + ".weight", np.ones(width, np.float32))
        writer.add_tensor(name + ".bias", np.zeros(width, np.float32))

    writer.add_tensor("token_embd.weight", np.zeros((size, width), np.float16))
    writer.add_tensor("position_embd.weight", np.zeros((CTX, width), np.float32))
    norm("output_norm")
    writer.add_tensor("output.weight", output_rows(size, width))
    for layer in range(num_layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm")
        matrix(block + "attn_qkv", 3 * width, width)
        matrix(block + "attn_output", width, width, is_zero=True)
        norm(block + "ffn_norm")
        matrix(block + "ffn_up", 4 * width, width)
        matrix(block + "ffn_down", width, 4 * width, is_zero=True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_script(model: Path, start: int, tokens: Sequence[int], num_tokens: int) -> None:
    """Make the file's model write these tokens at the positions from `start` on."""
    (tensor,) = (each for each in gguf.GGUFReader(model, "r+").tensors if each.name == "position_embd.weight")
    assert tensor.tensor_type == gguf.GGMLQuantizationType.F32
    data = tensor.data
    rows = output_rows(num_tokens, data.shape[1])
    data[:] = 0
    data[start - 1 : start - 1 + len(tokens)] = rows[list(tokens)]
    data.flush()
