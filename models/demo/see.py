"""Teaches the finished demo model to see: trains its encoder through the model, whose own weights stay as they are.

pip install -e ".[train]"
python models/demo/see.py                     # writes localllm/data/demo-mmproj.gguf in 40 minutes on one core
python models/demo/see.py --go-on eye.pt      # goes on from an earlier state

First the encoder alone learns to tell pictures apart, with small heads that are thrown away; then its rows learn to
make the frozen model say what they show.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pictures
import tokenizer as bpe
import tokenizers
import torch
from encoder import Encoder, Eye, pixels, write
from gguf import GGUFReader, quants
from network import Network, Shape, rotations
from numpy.typing import NDArray
from pictures import COLORS, SHAPES, Question, Scene
from torch import Tensor, nn
from torch.nn import functional

DATA = Path(__file__).resolve().parents[2] / "localllm" / "data"
POOL = 12_000
"""Pictures drawn at a time; each is used some times before new ones replace them."""
HELPER_WEIGHT = 0.2
"""Of the heads' loss beside the model's."""
MOST_TALKS = 64
"""Pictures of a batch that are talked about: that costs ten times as much as to encode them."""


class Heads(nn.Module):
    """What the encoder's mean patch says of a scene; only for training."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = (2, len(SHAPES), len(COLORS), 5, 10)
        self.parts = nn.ModuleList(nn.Linear(width, size) for size in sizes)

    def forward(self, patches: Tensor, labels: Tensor) -> Tensor:
        """Loss. `labels`: int64 [batch, 5]; -1 where a scene has none."""
        mean = patches.mean(1)
        losses = [
            functional.cross_entropy(part(mean), labels[:, at], ignore_index=-1) for at, part in enumerate(self.parts)
        ]
        return torch.stack([loss for loss in losses if not loss.isnan()]).sum()


class Pool(NamedTuple):
    """Drawn pictures, uint8 [count, 3, size, size], their labels, int64 [count, 5], and scenes."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    scenes: list[Scene]


def draw_pool(seed: int, count: int) -> Pool:
    """In a process of its own."""
    rng, eye = random.Random(f"see {seed}"), Eye()
    scenes, images = zip(*(pictures.draw(rng, "train") for _ in range(count)), strict=True)
    return Pool(np.stack([pixels(image, eye) for image in images]), np.array([labels(s) for s in scenes]), list(scenes))


def labels(scene: Scene) -> list[int]:
    """For `Heads`."""
    if scene.digit is not None:
        return [1, -1, -1, -1, scene.digit]
    return [0, SHAPES.index(scene.shape), list(COLORS).index(scene.color), scene.number - 1, -1]


def read_model(path: Path) -> tuple[Network, tokenizers.Tokenizer]:
    """The demo model as it was shipped, frozen, and its tokenizer."""
    reader = GGUFReader(path)
    network = Network(Shape())
    names = {key.replace(".attention.", ".").replace(".feed_forward.", "."): key for key in network.state_dict()}
    state = {
        names[tensor.name]: torch.from_numpy(quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
        for tensor in reader.tensors
    }
    network.load_state_dict(state)
    network.requires_grad_(False)
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in reader.fields["tokenizer.ggml.merges"].contents()]
    words = bpe.of({token: number for number, token in enumerate(tokens)}, merges)
    return network, words


class Speaker:
    """The frozen model: pictures and questions to the loss of the answers."""

    def __init__(self, network: Network, words: tokenizers.Tokenizer) -> None:
        self._network = network
        self._words = words
        self._before = self._embedded(f"{bpe.BOS}{bpe.START}user\n")

    def _ids(self, text: str) -> list[int]:
        return list(self._words.encode(text, add_special_tokens=False).ids)

    def _embedded(self, text: str) -> Tensor:
        return self._network.token_embd(torch.tensor(self._ids(text)))

    def loss(self, rows: Tensor, talks: list[list[Question]]) -> tuple[Tensor, Tensor]:
        """The mean loss of the answers' tokens, and for each talk whether every token would have been said.

        A talk is one or two questions; the picture stands before the first.
        """
        texts, practised = zip(*(self._talk(talk) for talk in talks), strict=True)
        longest = max(map(len, texts))
        ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
        mask = torch.tensor([each + [False] * (longest - len(each)) for each in practised])
        x = torch.cat((self._before.expand(len(talks), -1, -1), rows, self._network.token_embd(ids)), 1)
        rotation = rotations(self._network.shape, x.shape[1], x.device)
        for block in self._network.blk:
            x = block(x, rotation)
        x = x[:, self._before.shape[0] + rows.shape[1] - 1 : -1][mask]
        assert self._network.output is not None
        logits = functional.linear(self._network.output_norm(x), self._network.output.weight)
        wanted = ids[mask]
        wrong = torch.zeros(mask.shape, dtype=torch.bool)
        wrong[mask] = logits.argmax(1) != wanted
        return functional.cross_entropy(logits, wanted), ~wrong.any(1)

    def _talk(self, talk: list[Question]) -> tuple[list[int], list[bool]]:
        ids: list[int] = []
        practised: list[bool] = []
        for number, question in enumerate(talk):
            begin = "\n" if number == 0 else f"\n{bpe.START}user\n"
            asked = self._ids(f"{begin}{question.asked}{bpe.END}\n{bpe.START}assistant\n")
            said = self._ids(f"{question.answer}{bpe.END}")
            ids += asked + said
            practised += [False] * len(asked) + [True] * len(said)
        return ids, practised


class Pools:
    """Pictures without end: the next pool is drawn in another process while one is used."""

    def __init__(self, seed: int, count: int) -> None:
        self._process = ProcessPoolExecutor(1)
        self._count = count
        self.seed = seed
        self._next = self._ask()
        self._pool = self._next.result()
        self._next = self._ask()

    def _ask(self) -> Future[Pool]:
        self.seed += 1
        return self._process.submit(draw_pool, self.seed, self._count)

    def batch(self, rng: random.Random, size: int) -> tuple[Tensor, Tensor, list[Scene]]:
        """Random pictures, their labels and scenes."""
        if self._next.done():
            self._pool, self._next = self._next.result(), self._ask()
        chosen = [rng.randrange(self._count) for _ in range(size)]
        seen = torch.from_numpy(self._pool.pixels[chosen]).float() / 127.5 - 1
        return seen, torch.from_numpy(self._pool.labels[chosen]), [self._pool.scenes[one] for one in chosen]

    def close(self) -> None:
        """End its process."""
        self._process.shutdown(cancel_futures=True)


def rate(done: float, top: float) -> float:
    """The learning rate after this share of a stage: a short warm-up, then a cosine."""
    return top * min(1, done / 0.03) * (0.02 + 0.98 * (1 + math.cos(math.pi * min(1, done))) / 2)


def train(encoder: Encoder, speaker: Speaker, pools: Pools, minutes: Sequence[float], go_on: Any, state: Path) -> None:
    """Both stages, each for its minutes; the state is written from time to time."""
    heads = Heads(encoder.eye.width)
    if go_on:
        encoder.load_state_dict(go_on["encoder"])
        heads.load_state_dict(go_on["heads"])
    rng = random.Random(pools.seed)
    for stage, (limit, size, top) in enumerate(zip(minutes, (192, 160), (1.5e-3, 1e-3), strict=True)):
        optimizer = torch.optim.AdamW(
            [*encoder.parameters(), *heads.parameters()], lr=top, weight_decay=0.05, betas=(0.9, 0.98)
        )
        started = reported = time.monotonic()
        steps, right = 0, [0, 0]
        while (done := (time.monotonic() - started) / 60 / limit if limit else 1) < 1:
            for group in optimizer.param_groups:
                group["lr"] = rate(done, top)
            seen, known, scenes = pools.batch(rng, size)
            patches = encoder.patches(seen)
            loss = heads(patches, known)
            if stage == 1:
                turns = rng.choice((1, 1, 1, 2))  # equal lengths, so that little is padding
                talks = [_talk(scene, rng, turns) for scene in scenes[:MOST_TALKS]]
                told, said = speaker.loss(encoder.rows(patches[:MOST_TALKS]), talks)
                loss = HELPER_WEIGHT * loss + told
                right = [right[0] + int(said.sum()), right[1] + len(talks)]
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(encoder.parameters(), 1)
            optimizer.step()
            steps += 1
            if time.monotonic() - reported > 30:
                share = f", {right[0] / right[1]:.1%} of talks right" if right[1] else ""
                print(f"stage {stage + 1}: {done:.0%}, {steps} steps, loss {loss.item():.3f}{share}", flush=True)
                torch.save({"encoder": encoder.state_dict(), "heads": heads.state_dict()}, state)
                reported, right = time.monotonic(), [0, 0]
    torch.save({"encoder": encoder.state_dict(), "heads": heads.state_dict()}, state)


def _talk(scene: Scene, rng: random.Random, turns: int) -> list[Question]:
    """What a picture shows is asked most: that answer is the longest."""
    every = pictures.questions(scene, rng)
    return every[:1] if turns == 1 and rng.random() < 0.35 else rng.sample(every, turns)


def main() -> None:
    """`python models/demo/see.py`: see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, nargs=2, default=(12, 28), help="of both stages")
    parser.add_argument("--go-on", type=Path, help="begin with this state")
    parser.add_argument("--state", type=Path, default=Path("eye.pt"), help="where the state is kept")
    parser.add_argument("--seed", type=int, default=1, help="another one with --go-on, or the same pictures come again")
    parser.add_argument("--pool", type=int, default=POOL, help="pictures drawn at a time")
    parser.add_argument("--threads", type=int, default=1, help="more help only on a quiet machine")
    parser.add_argument("--out", type=Path, default=DATA / "demo-mmproj.gguf")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    encoder = Encoder(Eye())
    print(f"{sum(each.numel() for each in encoder.parameters()):,} parameters")
    speaker = Speaker(*read_model(DATA / "demo.gguf"))
    go_on = torch.load(options.go_on) if options.go_on else None
    pools = Pools(options.seed, options.pool)
    train(encoder, speaker, pools, options.minutes, go_on, options.state)
    pools.close()
    write(options.out, encoder, "localllm demo, its encoder of pictures")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
