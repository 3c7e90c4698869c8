"""Trains a network on packed conversations: Muon for the matrices, AdamW for the rest, a trapezoidal learning rate."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

WAITING = 256
"""Conversations considered for filling a row."""
EPSILON = 1e-4
"""AdamW's epsilon: above the gradient of a token that a batch lacks, so that rare tokens do not all drift together."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A corpus: token ids, and how often predicting each is practised (1: always), as two vectors.

    Every conversation begins with BOS.
    """

    ids: NDArray[np.uint16]
    practised: NDArray[np.float32]
    bos: int


@dataclass(frozen=True, slots=True)
class Phase:
    """Training on `tokens` tokens at one context length, with `rows` sequences per step."""

    tokens: int
    length: int
    rows: int

    @property
    def steps(self) -> int:
        return max(1, self.tokens // (self.length * self.rows))


def batches(tokens: Tokens, phase: Phase, seed: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Inputs and targets, int64 [rows, length], and which targets count, bool [rows, length]."""
    rng = np.random.default_rng(seed)
    rows: list[list[slice]] = []
    for _ in range(phase.steps):
        while len(rows) < phase.rows:
            rows = [*pack(tokens, phase.length + 1, rng), *rows]
        ids = np.full((phase.rows, phase.length + 1), tokens.bos, np.int64)
        practised = np.zeros(ids.shape, np.float32)
        for row in range(phase.rows):
            parts = rows.pop()
            line = np.concatenate([tokens.ids[part] for part in parts])
            ids[row, : len(line)] = line
            practised[row, : len(line)] = np.concatenate([tokens.practised[part] for part in parts])
        counts = rng.random(practised.shape, np.float32) < practised
        yield torch.from_numpy(ids[:, :-1]), torch.from_numpy(ids[:, 1:]), torch.from_numpy(counts[:, 1:])


def mixed(sources: Sequence[tuple[Tokens, Phase]], seed: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The batches of several phases, interleaved evenly."""
    streams = [batches(tokens, phase, seed + number) for number, (tokens, phase) in enumerate(sources)]
    done = [0] * len(sources)
    for _ in range(sum(phase.steps for _, phase in sources)):
        behind = min(range(len(sources)), key=lambda number: done[number] / sources[number][1].steps)
        done[behind] += 1
        yield next(streams[behind])


def pack(tokens: Tokens, room: int, rng: np.random.Generator) -> list[list[slice]]:
    """Packs every conversation once into rows of at most `room` tokens, whole unless it is longer than a row.

    A row starts with any conversation and is filled with the longest candidates that fit.
    """
    starts = np.flatnonzero(tokens.ids == tokens.bos)
    ends = np.minimum(np.append(starts[1:], len(tokens.ids)), starts + room)
    coming = [(int(ends[i] - starts[i]), int(starts[i])) for i in rng.permutation(len(starts))]
    waiting = sorted(coming.pop() for _ in range(min(WAITING, len(coming))))
    rows = []
    while waiting:
        chosen = [waiting.pop(int(rng.integers(len(waiting))))]
        left = room - chosen[0][0]
        while (fits := bisect.bisect_right(waiting, (left, len(tokens.ids)))) > 0:
            chosen.append(waiting.pop(fits - 1))
            left -= chosen[-1][0]
        for _ in range(min(len(chosen), len(coming))):
            bisect.insort(waiting, coming.pop())
        rng.shuffle(chosen)
        rows.append([slice(start, start + size) for size, start in chosen])
    rng.shuffle(rows)
    return rows


@dataclass(frozen=True, slots=True)
class Rates:
    """Peak learning rates; warm-up and decay are fractions of all steps."""

    muon: float = 0.004
    """0: use AdamW for the matrices too."""
    adamw: float = 0.004
    warmup: float = 0.02
    decay: float = 0.35

    def at(self, done: float) -> float:
        """Factor on the peak learning rates once `done` of the steps are complete."""
        return min(1.0, (done + 1e-3) / self.warmup, (1.0 - done) / self.decay)


def fit(
    network: nn.Module,
    sources: Sequence[tuple[Tokens, Phase]],
    *,
    seed: int,
    report: Callable[[str], None],
    minutes: float,
    rates: Rates | None = None,
) -> float:
    """Train in place; returns the smoothed loss at the end (nats per token).

    On a machine too slow to process every token in `minutes`, the learning rate decays with the clock instead.
    """
    rates = rates or Rates()
    device = next(network.parameters()).device
    parameters = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
    matrices = [p for name, p in parameters if rates.muon and p.dim() == 2 and name.startswith("blk.")]
    others = [p for name, p in parameters if not any(p is matrix for matrix in matrices)]
    optimizers: list[tuple[torch.optim.Optimizer, float]] = []
    if matrices:
        muon = Muon(matrices, weight_decay=0.05)
        optimizers.append((muon, rates.muon))
    if others:
        adamw = torch.optim.AdamW(others, lr=rates.adamw, betas=(0.9, 0.95), eps=EPSILON, weight_decay=0.01)
        optimizers.append((adamw, rates.adamw))
    total = sum(phase.steps for _, phase in sources)
    num_tokens, smoothed, started = 0, float("nan"), time.monotonic()
    for step, (ids, targets, counts) in enumerate(mixed(sources, seed), 1):
        done = max((step - 1) / total, (time.monotonic() - started) / 60 / minutes)
        if done >= 1:
            report(f"cut short after {minutes:g} minutes: {step - 1} of {total} steps, loss {smoothed:.3f}")
            break
        factor = rates.at(done)
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
        loss = _loss(network, ids.to(device), targets.to(device), counts.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_([p for _, p in parameters], 1.0)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        num_tokens += ids.numel()
        value = float(loss.detach())
        smoothed = value if smoothed != smoothed else 0.98 * smoothed + 0.02 * value
        if step % 50 == 0 or step == total:
            took = time.monotonic() - started
            report(
                f"step {step}/{total}, {num_tokens / 1e6:.1f} M tokens, loss {smoothed:.3f}, "
                f"{took / 60:.1f} min, {num_tokens / took:.0f} tokens/s"
            )
    return smoothed


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalized (Jordan et al., 2024), scaled to AdamW's usual step (Liu et al., arXiv 2502.16982).

    As torch.optim.Muon with `match_rms_adamw`, but in float32: bfloat16 iterations, as there, take a quarter of every
    step on a CPU without bfloat16 instructions.
    """

    def __init__(self, matrices: list[Tensor], weight_decay: float, momentum: float = 0.95) -> None:
        super().__init__(matrices, {"lr": 0.0, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # noqa: ARG002  # the base class's signature
        for group in self.param_groups:
            alike: dict[tuple[int, ...], list[Tensor]] = {}
            for matrix in group["params"]:
                mean = self.state[matrix].setdefault("mean", torch.zeros_like(matrix))
                mean.lerp_(matrix.grad, 1 - group["momentum"])
                alike.setdefault(tuple(sorted(matrix.shape)), []).append(matrix)
            for matrices in alike.values():
                steps = [m.grad.lerp(self.state[m]["mean"], group["momentum"]) for m in matrices]
                for matrix, update in zip(matrices, orthogonalized(steps), strict=True):
                    matrix.mul_(1 - group["lr"] * group["weight_decay"])
                    matrix.add_(update, alpha=-group["lr"] * 0.2 * max(matrix.shape) ** 0.5)


def orthogonalized(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Approximates U V^T of each matrix's SVD by five Newton-Schulz steps (Jordan et al., 2024).

    All matrices have the same shape or its transpose, so one batched product keeps every core busy.
    """
    tall = [matrix.shape[0] > matrix.shape[1] for matrix in matrices]
    x = torch.stack([matrix.T if turn else matrix for matrix, turn in zip(matrices, tall, strict=True)])
    x /= x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return [matrix.T if turn else matrix for matrix, turn in zip(x, tall, strict=True)]


def _loss(network: nn.Module, ids: Tensor, targets: Tensor, counts: Tensor) -> Tensor:
    """Mean cross-entropy of the targets that count."""
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=ids.device.type == "cuda"):
        logits = network(ids, counts)
    return functional.cross_entropy(logits.float(), targets[counts])
