"""Initializes a network with attention heads that can copy, which a short training would spend most of its time on.

The circuit is that of Olsson et al., "In-context Learning and Induction Heads" (2022): heads in the first layer record
the previous tokens; heads in the next layers attend to positions preceded by the current token and its predecessor, and
predict the token found there. Training is free to change all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from network import Network
from tokenizer import SPACE
from torch import Tensor, nn

PAIRS = 12
"""Fast rotary pairs, which distinguish neighbouring positions."""
SHARPNESS = 1.7
MATCH = (2.2, 1.8)
"""Weights of the current token and of the one before it."""
LARGE = 12.0
"""Initial scale of an untied input matrix and of primed weights, relative to the usual one, with which a few steps undo
the priming."""

# In units of an embedding's standard deviation:
CONSTANT = 4.0
"""The first component of every embedding: a constant that heads can attend by if only the distance matters."""
NOTE = 2.0
PROPOSAL = 4.0


@torch.no_grad()
def relate(network: Network, tokens: Sequence[str], generator: torch.Generator) -> None:
    """Give a word similar embeddings with and without a space or a capital, so that all forms share what is learned."""
    weight = network.token_embd.weight
    std = float(weight.std())
    families: dict[str, Tensor] = {}
    space, capital = (std * 0.7 * torch.randn(network.shape.width, generator=generator) for _ in range(2))
    for number, token in enumerate(tokens):
        plain = token.removeprefix(SPACE)
        if plain.isalpha():
            row = families.setdefault(plain.lower(), weight[number].clone())
            weight[number] = row + (plain != token) * space + (plain != plain.lower()) * capital
    weight *= std / weight.std(dim=1, keepdim=True)  # of equal norm, so that heads attend to them equally


@torch.no_grad()
def prime(network: Network, generator: torch.Generator) -> None:
    """Set the first key-value group of layer 0, and all groups of layers 1 and 2 if they exist."""
    shape = network.shape
    size = shape.head_dim
    groups = shape.heads // shape.kv_heads
    std = float(network.token_embd.weight.std())
    if network.output is not None:
        network.output.weight.copy_(network.token_embd.weight)
        network.token_embd.weight *= LARGE
        std *= LARGE
    network.token_embd.weight[:, 0] = CONSTANT * std
    read = _orthonormal(size, shape.width, generator)
    read[:, 0] = 0.0
    notes = _orthonormal(2 * size, shape.width, generator).T.split(size, dim=1)

    first = network.blk[0].attention
    angles = shape.rope_theta ** (-torch.arange(0, size, 2) / size)
    _rows(first.attn_k, 0, size).zero_()
    _rows(first.attn_k, 0, size)[0 : 2 * PAIRS : 2, 0] = SHARPNESS
    _rows(first.attn_v, 0, size).copy_(read)
    for back, note in zip(range(1, groups + 1), notes, strict=False):
        query = _rows(first.attn_q, back - 1, size)
        query.zero_()
        # Rotated back by `distance` positions, so that the product is largest for a key that far before.
        query[0 : 2 * PAIRS : 2, 0] = SHARPNESS * torch.cos(back * angles[:PAIRS])
        query[1 : 2 * PAIRS : 2, 0] = -SHARPNESS * torch.sin(back * angles[:PAIRS])
        _columns(first.attn_output, back - 1, size).copy_(NOTE * std * note)

    half = size // 4  # the slow rotary pairs, which rotate little over some hundred tokens, carry two tokens
    heads = [(block.attention, group) for block in list(network.blk)[1:3] for group in range(shape.kv_heads)]
    proposals = _orthonormal(min(shape.width, len(heads) * size), shape.width, generator).split(size)
    for number, (attention, group) in enumerate(heads):
        part = slice(number * half % size, number * half % size + half)
        key, query = _rows(attention.attn_k, group, size), _rows(attention.attn_q, group * groups, size)
        key.zero_()
        query.zero_()
        key[size - 2 * half : size - half] = MATCH[0] * notes[0].T[part]
        query[size - 2 * half : size - half] = MATCH[0] * read[part]
        key[size - half :] = MATCH[1] * notes[1].T[part]
        query[size - half :] = MATCH[1] * notes[0].T[part]
        proposal = proposals[number % len(proposals)]
        _rows(attention.attn_v, group, size).copy_(proposal)
        _columns(attention.attn_output, group * groups, size).copy_(PROPOSAL * std * proposal.T)


def _rows(matrix: nn.Linear, head: int, size: int) -> Tensor:
    return matrix.weight[head * size : (head + 1) * size]


def _columns(matrix: nn.Linear, head: int, size: int) -> Tensor:
    return matrix.weight[:, head * size : (head + 1) * size]


def _orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Random orthonormal rows, float32 [rows, columns]."""
    q, _ = torch.linalg.qr(torch.randn(columns, rows, generator=generator))
    return q.T.contiguous()
