"""Starts a network with attention heads that can copy, which a short training would take most of its time to find.

The circuit is that of Olsson et al., "In-context Learning and Induction Heads" (2022): a head of the first layer writes
down which token came before; heads of the next layers look for places whose predecessor is the current token, and
propose what stands there. Training is free to change all of it.
"""

from __future__ import annotations

import torch
from network import Network
from torch import Tensor

CONSTANT = 0.08
"""What every embedding holds in its first number: something to attend by when only the distance counts."""
PAIRS = 12
"""Fast rotary pairs, that tell neighbours apart."""
SHARPNESS = 1.7
MATCH = 1.6
NOTE = 0.04
PROPOSAL = 0.05


@torch.no_grad()
def prime(network: Network, generator: torch.Generator) -> None:
    """Set the first key-value group of layer 0, and all groups of layers 1 and 2, as far as there are."""
    shape = network.shape
    size = shape.head_dim
    network.token_embd.weight[:, 0] = CONSTANT
    read = _orthonormal(size, shape.width, generator)
    read[:, 0] = 0.0
    note = _orthonormal(size, shape.width, generator).T

    first = network.blk[0].attention
    angles = shape.rope_theta ** (-torch.arange(0, size, 2) / size)
    _rows(first.attn_k, 0, size).zero_()
    _rows(first.attn_k, 0, size)[0 : 2 * PAIRS : 2, 0] = SHARPNESS
    query = _rows(first.attn_q, 0, size)
    query.zero_()
    # Turned back by one position, so that the product is largest where the key is one position before.
    query[0 : 2 * PAIRS : 2, 0] = SHARPNESS * torch.cos(angles[:PAIRS])
    query[1 : 2 * PAIRS : 2, 0] = -SHARPNESS * torch.sin(angles[:PAIRS])
    _rows(first.attn_v, 0, size).copy_(read)
    _columns(first.attn_output, 0, size).copy_(NOTE * note)

    groups = shape.heads // shape.kv_heads
    slow = size // 2  # numbers of the slow rotary pairs, which turn little over a hundred tokens
    for block in list(network.blk)[1:3]:
        attention = block.attention
        for group in range(shape.kv_heads):
            part = slice(group * slow % size, group * slow % size + slow)
            key, query = _rows(attention.attn_k, group, size), _rows(attention.attn_q, group * groups, size)
            key.zero_()
            query.zero_()
            key[size - slow :] = MATCH * note.T[part]
            query[size - slow :] = MATCH * read[part]
            proposal = _orthonormal(size, shape.width, generator)
            _rows(attention.attn_v, group, size).copy_(proposal)
            _columns(attention.attn_output, group * groups, size).copy_(PROPOSAL * proposal.T)


def _rows(matrix: torch.nn.Linear, head: int, size: int) -> Tensor:
    return matrix.weight[head * size : (head + 1) * size]


def _columns(matrix: torch.nn.Linear, head: int, size: int) -> Tensor:
    return matrix.weight[:, head * size : (head + 1) * size]


def _orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Random rows of length one at right angles to each other, float32 [rows, columns]."""
    q, _ = torch.linalg.qr(torch.randn(columns, rows, generator=generator))
    return q.T.contiguous()
