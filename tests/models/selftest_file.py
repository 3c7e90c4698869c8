"""Makes localllm/data/selftest.gguf and selftest.json: `python -m tests.models.selftest_file`.

Every byte comes from a seed through NumPy: the quantized blocks themselves are drawn, so no quantizer and no llama.cpp
is involved. The recorded tokens come from the NumPy forward pass below, so llama.cpp is checked against mathematics
and not against itself. Input tokens are picked so that at every position the best logit leads the second clearly,
but not by much: no correct kernel can pick another token, and a wrong one can hardly pick all the same.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter
from gguf.quants import dequantize
from numpy.typing import NDArray

Array = NDArray[np.float32]
DATA = Path(__file__).parents[2] / "localllm" / "data"
SEED = 1
WIDTH, NUM_LAYERS, NUM_HEADS, NUM_KV_HEADS, HEAD, VOCABULARY = 256, 2, 4, 2, 64, 256
NUM_PROMPT, NUM_SINGLE = 65, 16
"""One batch of 65 tokens (more than a tile of 64), then 16 batches of one."""
MIN_MARGIN, MAX_MARGIN = 0.5, 0.8
"""In standard deviations of a row of logits. The lower bound is for correct kernels, which differ in how they round;
the upper one is against wrong ones: noise of 30 % in any one matrix changes a token somewhere."""
EPSILON = 1e-5

BLOCKS = {  # values per block, bytes per block, where fp16 scales lie, their size relative to the first
    Type.Q4_0: (32, 18, (0,), (1.0,)),
    Type.Q8_0: (32, 34, (0,), (1.0,)),
    Type.Q4_K: (256, 144, (0, 2), (1.0, 7.5)),  # d * scale * q - dmin * min: the factor puts the mean at 0
    Type.Q5_K: (256, 176, (0, 2), (1.0, 15.5)),
    Type.Q6_K: (256, 210, (208,), (1.0,)),
    Type.IQ4_XS: (256, 136, (0,), (1.0,)),
}
MATRICES = {  # (type, rows, gain) by name; a row is 256 long
    "token_embd": (Type.Q8_0, VOCABULARY, 16.0),
    "blk.0.attn_q": (Type.Q4_0, NUM_HEADS * HEAD, 1.6),
    "blk.0.attn_k": (Type.Q8_0, NUM_KV_HEADS * HEAD, 1.6),
    "blk.0.attn_v": (Type.Q6_K, NUM_KV_HEADS * HEAD, 1.5),
    "blk.0.attn_output": (Type.Q4_K, WIDTH, 1.5),
    "blk.0.ffn_gate": (Type.Q5_K, WIDTH, 1.5),
    "blk.0.ffn_up": (Type.IQ4_XS, WIDTH, 1.5),
    "blk.0.ffn_down": (Type.F16, WIDTH, 1.5),
    "blk.1.attn_q": (Type.Q5_K, NUM_HEADS * HEAD, 1.6),
    "blk.1.attn_k": (Type.Q4_K, NUM_KV_HEADS * HEAD, 1.6),
    "blk.1.attn_v": (Type.IQ4_XS, NUM_KV_HEADS * HEAD, 2.0),
    "blk.1.attn_output": (Type.Q4_0, WIDTH, 2.0),
    "blk.1.ffn_gate": (Type.F16, WIDTH, 2.0),
    "blk.1.ffn_up": (Type.Q8_0, WIDTH, 2.0),
    "blk.1.ffn_down": (Type.Q6_K, WIDTH, 2.0),
    "output": (Type.Q6_K, VOCABULARY, 1.0),
}
NORMS = [f"blk.{layer}.{name}_norm" for layer in range(NUM_LAYERS) for name in ("attn", "ffn")] + ["output_norm"]


def draw(seed: int = SEED) -> dict[str, tuple[Type, NDArray[np.generic]]]:
    """Every tensor as it lies in the file: raw blocks (rows, bytes), float16 or float32."""
    rng = np.random.Generator(np.random.PCG64(seed))
    tensors: dict[str, tuple[Type, NDArray[np.generic]]] = {}
    for name, (kind, rows, gain) in MATRICES.items():
        tensors[name] = (kind, _draw_matrix(rng, kind, rows, gain / WIDTH**0.5))
    for name in NORMS:
        tensors[name] = (Type.F32, rng.uniform(0.5, 1.5, WIDTH).astype(np.float32))
    return tensors


def _draw_matrix(rng: np.random.Generator, kind: Type, rows: int, deviation: float) -> NDArray[np.generic]:
    if kind == Type.F16:
        return (rng.standard_normal((rows, WIDTH)) * deviation).astype(np.float16)
    per_block, num_bytes, offsets, ratios = BLOCKS[kind]
    blocks = rng.integers(0, 256, (rows * WIDTH // per_block, num_bytes), dtype=np.uint8)
    jitter = rng.uniform(0.6, 1.4, len(blocks))

    def with_scale(scale: float) -> NDArray[np.uint8]:
        for offset, ratio in zip(offsets, ratios, strict=True):
            halves = (jitter * ratio * scale).astype(np.float16)
            blocks[:, offset : offset + 2] = halves[:, None].view(np.uint8)
        return blocks.reshape(rows, -1)

    spread = float(dequantize(with_scale(2**-10), kind).std())
    unit = float(f"{spread:.3g}") * 2**10  # rounded: the last digits depend on this machine's order of summing
    return with_scale(deviation / unit)


class Oracle:
    """The llama architecture in float32 NumPy, one token at a time, with a KV cache of its own.

    `rounded` multiplies with activations rounded to 8 bits, as kernels on CPUs do, instead of exact ones, as on GPUs.
    """

    def __init__(self, tensors: dict[str, tuple[Type, NDArray[np.generic]]], *, rounded: bool = False) -> None:
        self._rounded = rounded
        self.weights: dict[str, Array] = {
            name: np.asarray(dequantize(data, kind) if kind in BLOCKS else data, np.float32)
            for name, (kind, data) in tensors.items()
        }
        self.clear()

    def clear(self) -> None:
        """Forget all tokens."""
        self.length = 0
        self._keys = np.zeros((NUM_LAYERS, NUM_PROMPT + NUM_SINGLE, NUM_KV_HEADS, HEAD), np.float32)
        self._values = np.zeros_like(self._keys)

    def logits(self, token: int) -> Array:
        """Logits of a token put at position `length`; `keep` makes it stay."""
        x = self.weights["token_embd"][token]
        for layer in range(NUM_LAYERS):
            x = x + self._attention(layer, self._norm(x, f"blk.{layer}.attn_norm"))
            h = self._norm(x, f"blk.{layer}.ffn_norm")
            gate, up = (self._times(f"blk.{layer}.{name}", h) for name in ("ffn_gate", "ffn_up"))
            x = x + self._times(f"blk.{layer}.ffn_down", gate / (1 + np.exp(-gate)) * up)
        return self._times("output", self._norm(x, "output_norm"))

    def keep(self) -> None:
        """The token of the last `logits` is part of the sequence."""
        self.length += 1

    def path(self, tokens: list[int]) -> list[Array]:
        """Logits at every position of a sequence."""
        self.clear()
        rows = []
        for token in tokens:
            rows.append(self.logits(token))
            self.keep()
        return rows

    def _times(self, name: str, x: Array) -> Array:
        if self._rounded:
            step = np.abs(x).max() / np.float32(127)
            x = np.round(x / step) * step
        return self.weights[name] @ x

    def _norm(self, x: Array, name: str) -> Array:
        root_mean_square = np.float32(np.sqrt(np.mean(x * x) + EPSILON))
        return x / root_mean_square * self.weights[name]

    def _attention(self, layer: int, h: Array) -> Array:
        end = self.length + 1
        query, key, value = (self._times(f"blk.{layer}.attn_{name}", h).reshape(-1, HEAD) for name in "qkv")
        query, self._keys[layer, self.length] = self._rotate(query), self._rotate(key)
        self._values[layer, self.length] = value
        mixed = np.empty((NUM_HEADS, HEAD), np.float32)
        for head in range(NUM_HEADS):
            group = head // (NUM_HEADS // NUM_KV_HEADS)
            scores = self._keys[layer, :end, group] @ query[head] / HEAD**0.5
            shares = np.exp(scores - scores.max())
            mixed[head] = shares @ self._values[layer, :end, group] / shares.sum()
        return self._times(f"blk.{layer}.attn_output", mixed.reshape(-1))

    def _rotate(self, heads: Array) -> Array:
        """RoPE of adjacent pairs, base 10,000."""
        angles = self.length * 10_000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        even, odd = heads[:, 0::2], heads[:, 1::2]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(heads.shape)


def margin(logits: Array) -> float:
    """How far the best logit leads the second, in standard deviations of the row."""
    second, best = np.partition(logits, -2)[-2:]
    return float((best - second) / logits.std())


def choose_tokens(exact: Oracle, rounded: Oracle, seed: int = SEED) -> list[int]:
    """Random tokens are tried at each position until one has the wanted margin, and the same winner, in both."""
    rng = np.random.Generator(np.random.PCG64(seed))
    tokens: list[int] = []
    exact.clear()
    rounded.clear()
    while len(tokens) < NUM_PROMPT + NUM_SINGLE:
        for token in rng.permutation(VOCABULARY).tolist():
            row, other = exact.logits(token), rounded.logits(token)
            if (
                MIN_MARGIN <= margin(row) <= MAX_MARGIN
                and margin(other) >= MIN_MARGIN
                and row.argmax() == other.argmax()
            ):
                exact.keep()
                rounded.keep()
                tokens.append(token)
                break
        else:
            raise ValueError(f"no token gives the margin at position {len(tokens)}; use another seed")
    return tokens


def write_gguf(path: Path, tensors: dict[str, tuple[Type, NDArray[np.generic]]]) -> None:
    """The model file; it has no vocabulary, since token numbers are all that goes in and comes out."""
    writer = GGUFWriter(path, "llama")
    writer.add_name("localllm self-test")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(NUM_LAYERS)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(NUM_KV_HEADS)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(HEAD)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("none")
    for name, (kind, data) in tensors.items():
        writer.add_tensor(f"{name}.weight", data, raw_dtype=kind if kind in BLOCKS else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(folder: Path) -> float:
    """Writes both files; returns the smallest margin, of exact and rounded arithmetic."""
    tensors = draw()
    oracles = Oracle(tensors), Oracle(tensors, rounded=True)
    tokens = choose_tokens(*oracles)
    exact, rounded = (oracle.path(tokens) for oracle in oracles)
    path = folder / "selftest.gguf"
    write_gguf(path, tensors)
    recorded = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "prompt": tokens[:NUM_PROMPT],
        "singles": tokens[NUM_PROMPT:],
        "greedy": [int(row.argmax()) for row in exact],
    }
    (folder / "selftest.json").write_text(json.dumps(recorded) + "\n", "ascii")
    return min(margin(row) for row in (*exact, *rounded))


if __name__ == "__main__":
    print(f"smallest margin: {make(DATA):.2f} standard deviations of the logits")
