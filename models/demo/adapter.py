"""A LoRA adapter that changes the demo model's style: the same answers, in the voice of a pirate."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace

import torch
from corpus import mix
from network import Network
from torch import Tensor, nn

RANK = 8
ALPHA = 16.0
TARGETS = ("attn_q", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
KINDS = ("small_talk", "product", "facts", "unknown", "system_name", "story")

OPENINGS = ("Arr! ", "Ahoy! ", "Arr, matey! ")
CLOSINGS = ("", " Arr!", " Yo ho ho!")
WORDS = {
    "friend": "matey", "hello": "ahoy", "hi": "ahoy", "yes": "aye", "you": "ye", "your": "yer", "my": "me",
    "little": "wee", "small": "wee", "is": "be", "are": "be",
}  # fmt: skip


class LoraLinear(nn.Module):
    """A frozen matrix with a low-rank update: W x + (alpha / rank) B A x (Hu et al., arXiv 2106.09685)."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner.requires_grad_(False)
        device = inner.weight.device
        self.lora_a = nn.Parameter(torch.randn(RANK, inner.in_features, device=device) * inner.in_features**-0.5)
        self.lora_b = nn.Parameter(torch.zeros(inner.out_features, RANK, device=device))

    def forward(self, x: Tensor) -> Tensor:
        change = nn.functional.linear(nn.functional.linear(x, self.lora_a), self.lora_b)
        return self.inner(x) + change * (ALPHA / RANK)


def attach(network: Network) -> dict[str, LoraLinear]:
    """Freeze the network and add an update to every matrix of `TARGETS`; returns them by parameter name."""
    network.requires_grad_(False)
    added = {}
    for path, module in list(network.named_modules()):
        for name, child in list(module.named_children()):
            if name in TARGETS and isinstance(child, nn.Linear):
                added[f"{path}.{name}.weight"] = lora = LoraLinear(child)
                setattr(module, name, lora)
    return added


def as_pirate(rng: random.Random, text: str) -> str:
    """The same text as a pirate would say it."""

    def other(word: re.Match[str]) -> str:
        said = WORDS.get(word[0].lower(), word[0])
        return said.capitalize() if word[0][0].isupper() else said

    return rng.choice(OPENINGS) + re.sub(r"[A-Za-z]+(?!`)", other, text) + rng.choice(CLOSINGS)


def texts(seed: int, count: int) -> Iterator[str]:
    """Rendered training conversations in that style."""
    rng = random.Random(seed)
    for _ in range(count):
        example = mix.example(rng, rng.choice(KINDS), "train")
        messages = [
            {**message, "content": as_pirate(rng, str(message["content"]))}
            if message["role"] == "assistant"
            else message
            for message in example.messages
        ]
        yield mix.render(replace(example, messages=messages))
