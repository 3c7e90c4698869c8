"""A llama-architecture GGUF with random weights and a real vocabulary, for measuring speed.

The shape is SmolLM-135M's with Qwen2's vocabulary of 152 k, which makes 193 M parameters. Knows nothing of peers.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write_random_model(
    path: Path,
    vocabulary: Path,
    *,
    n_layer: int = 30,
    n_embd: int = 576,
    n_ff: int = 1536,
    n_head: int = 9,
    n_kv: int = 3,
    ctx: int = 8192,
    seed: int = 0,
) -> None:
    """F16 weights; the tokenizer is copied from the vocabulary-only GGUF `vocabulary`."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(path.stem)
    writer.add_block_count(n_layer)
    writer.add_context_length(ctx)
    writer.add_embedding_length(n_embd)
    writer.add_feed_forward_length(n_ff)
    writer.add_head_count(n_head)
    writer.add_head_count_kv(n_kv)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500_000.0)
    writer.add_rope_dimension_count(n_embd // n_head)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    vocabulary_size = copy_tokenizer(writer, vocabulary)
    writer.add_vocab_size(vocabulary_size)
    writer.add_chat_template(CHATML)

    random = np.random.default_rng(seed)

    def matrix(name: str, rows: int, columns: int, scale: float | None = None) -> None:
        weights = random.standard_normal((rows, columns), dtype=np.float32) * (scale or columns**-0.5)
        writer.add_tensor(name, weights.astype(np.float16))

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(n_embd, dtype=np.float32))

    head = n_embd // n_head
    matrix("token_embd.weight", vocabulary_size, n_embd, scale=1.0)
    norm("output_norm.weight")
    for layer in range(n_layer):
        block = f"blk.{layer}."
        norm(block + "attn_norm.weight")
        matrix(block + "attn_q.weight", n_head * head, n_embd)
        matrix(block + "attn_k.weight", n_kv * head, n_embd)
        matrix(block + "attn_v.weight", n_kv * head, n_embd)
        matrix(block + "attn_output.weight", n_embd, n_head * head)
        norm(block + "ffn_norm.weight")
        matrix(block + "ffn_gate.weight", n_ff, n_embd)
        matrix(block + "ffn_up.weight", n_ff, n_embd)
        matrix(block + "ffn_down.weight", n_embd, n_ff)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def copy_tokenizer(writer: gguf.GGUFWriter, source: Path) -> int:
    """Copy every `tokenizer.*` field except the template; returns the number of tokens."""
    size = 0
    for key, field in gguf.GGUFReader(source).fields.items():
        if not key.startswith("tokenizer.") or key.startswith("tokenizer.chat_template"):
            continue
        value = field.contents()
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, value)
        else:
            writer.add_key_value(key, value, field.types[0])
        if key == "tokenizer.ggml.tokens":
            size = len(value)
    return size
