"""The Llama architecture in PyTorch, exactly as llama.cpp computes it, so that trained models run there unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of a model. Matrix rows have length `width` or `hidden`: multiples of 256 allow all K-quants."""

    vocab: int = 4096
    width: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 512
    context: int = 2048
    tied: bool = False
    """Whether input and output embeddings share one matrix."""
    rope_theta: float = 100_000.0
    norm_epsilon: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


class Attention(nn.Module):
    """Grouped-query attention with RoPE on adjacent pairs (llama.cpp's `LLAMA_ROPE_TYPE_NORM`)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.attn_q = nn.Linear(shape.width, shape.heads * shape.head_dim, bias=False)
        self.attn_k = nn.Linear(shape.width, shape.kv_heads * shape.head_dim, bias=False)
        self.attn_v = nn.Linear(shape.width, shape.kv_heads * shape.head_dim, bias=False)
        self.attn_output = nn.Linear(shape.heads * shape.head_dim, shape.width, bias=False)

    def forward(self, x: Tensor, rotation: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = rotate(self.attn_q(x).view(batch, length, self.shape.heads, -1), rotation).transpose(1, 2)
        k = rotate(self.attn_k(x).view(batch, length, self.shape.kv_heads, -1), rotation).transpose(1, 2)
        v = self.attn_v(x).view(batch, length, self.shape.kv_heads, -1).transpose(1, 2)
        groups = self.shape.heads // self.shape.kv_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attn_output(mixed.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.ffn_gate = nn.Linear(shape.width, shape.hidden, bias=False)
        self.ffn_up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.ffn_down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.ffn_down(functional.silu(self.ffn_gate(x)) * self.ffn_up(x))


class Block(nn.Module):
    """One layer; norms have their GGUF names."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attn_norm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        self.attention = Attention(shape)
        self.ffn_norm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        self.feed_forward = FeedForward(shape)

    def forward(self, x: Tensor, rotation: Tensor) -> Tensor:
        x = x + self.attention(self.attn_norm(x), rotation)
        return x + self.feed_forward(self.ffn_norm(x))


class Network(nn.Module):
    """Token ids, int64 [batch, length], to logits [batch, length, vocab].

    With `where`, bool [batch, length], only the logits of those positions, [count, vocab]: logits are half the work.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocab, shape.width)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        self.output = None if shape.tied else nn.Linear(shape.width, shape.vocab, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                deep = name.endswith(("attn_output.weight", "ffn_down.weight"))
                std = 0.02 / (2 * shape.layers) ** 0.5 if deep else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(self, ids: Tensor, where: Tensor | None = None) -> Tensor:
        rotation = rotations(self.shape, ids.shape[1], ids.device)
        x = self.token_embd(ids)
        for block in self.blk:
            x = block(x, rotation)
        x = x if where is None else x[where]
        output = self.token_embd if self.output is None else self.output
        return functional.linear(self.output_norm(x), output.weight)


def rotations(shape: Shape, length: int, device: torch.device) -> Tensor:
    """cos and sin of every position and pair, float32 [2, length, 1, head_dim / 2]."""
    frequencies = shape.rope_theta ** (-torch.arange(0, shape.head_dim, 2, device=device) / shape.head_dim)
    angles = torch.outer(torch.arange(length, device=device), frequencies)
    return torch.stack((angles.cos(), angles.sin())).unsqueeze(2)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate the pairs (0, 1), (2, 3) ... of the last dimension of [batch, length, heads, head_dim]."""
    cos, sin = rotation.to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
