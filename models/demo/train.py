"""Builds localllm's demo model from scratch: corpus, tokenizer, training, GGUF, evaluation.

pip install -e ".[train]"
python models/demo/train.py            # the shipped files, into localllm/data
python models/demo/train.py --quick    # throw-away files in minutes, into a temporary folder
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import adapter
import copying
import evaluate
import export
import fit
import tokenizer as bpe
import tokenizers
import torch
from corpus import mix
from gguf import GGMLQuantizationType
from network import Network, Shape
from quantize import quantize

DATA = Path(__file__).resolve().parents[2] / "localllm" / "data"
SEED = 1
CHUNK = 2000
"""Conversations generated from one seed, in one process."""
TOKENIZER_TEXTS = 30_000


class Minutes(NamedTuple):
    """Time limit of each training. With corpus and evaluation, some 5 minutes, the whole takes less than 90."""

    phases: float = 66
    late_phases: float = 10
    draft: float = 3
    adapter: float = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of everything. A network has a phase with short rows and one with long rows, interleaved."""

    shape: Shape
    draft_shape: Shape
    conversations: int
    long_conversations: int
    phases: tuple[fit.Phase, fit.Phase]
    late_conversations: int
    late_long_conversations: int
    late_phases: tuple[fit.Phase, fit.Phase]
    """For the last stage of training."""
    draft: tuple[fit.Phase, fit.Phase]
    adapter: fit.Phase
    questions: int
    """Evaluation questions of each kind."""
    minutes: Minutes
    compiled: bool
    """Whether to compile the layers (on a CPU with a C++ compiler), which is a third faster."""


FULL = Plan(
    shape=Shape(),
    draft_shape=Shape(width=128, layers=2, heads=2, kv_heads=1, hidden=384, tied=True),
    conversations=105_000,
    long_conversations=3_000,
    phases=(fit.Phase(13_300_000, 384, 8), fit.Phase(2_000_000, 2048, 2)),
    late_conversations=7_000,
    late_long_conversations=1_200,
    late_phases=(fit.Phase(850_000, 384, 8), fit.Phase(900_000, 2048, 2)),
    draft=(fit.Phase(1_300_000, 384, 8), fit.Phase(100_000, 2048, 2)),
    adapter=fit.Phase(250_000, 384, 4),
    questions=200,
    minutes=Minutes(),
    compiled=True,
)

QUICK = Plan(
    shape=Shape(layers=1, hidden=256),
    draft_shape=Shape(width=128, layers=1, heads=2, kv_heads=1, hidden=128, tied=True),
    conversations=2_500,
    long_conversations=20,
    phases=(fit.Phase(220_000, 256, 8), fit.Phase(6_000, 1024, 2)),
    late_conversations=300,
    late_long_conversations=20,
    late_phases=(fit.Phase(20_000, 256, 8), fit.Phase(4_000, 1024, 2)),
    draft=(fit.Phase(50_000, 256, 8), fit.Phase(4_000, 1024, 2)),
    adapter=fit.Phase(20_000, 128, 8),
    questions=4,
    minutes=Minutes(),
    compiled=False,
)


def make(plan: Plan, out: Path, report: evaluate.Report) -> None:
    """Write `demo.gguf`, `demo-draft.gguf` and `demo-pirate-lora.gguf` into `out`, and report their evaluation."""
    torch.manual_seed(SEED)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    work = Path(tempfile.mkdtemp(prefix="demo-model-"))
    report(f"work files are in {work}; training on {device}")
    texts = generate(SEED, plan.conversations)
    words = bpe.train(texts[:TOKENIZER_TEXTS])
    words.save(str(work / "tokenizer.json"))
    corpus = tokens(words, texts), tokens(words, generate(SEED + 1_000_000, plan.long_conversations, long=True))
    num_tokens = sum(len(part.ids) for part in corpus)
    report(f"{len(texts)} conversations and {plan.long_conversations} long ones, {num_tokens / 1e6:.1f} M tokens")

    network = new_network(plan.shape, words, device, report, compiled=plan.compiled)
    fit.fit(network, list(zip(corpus, plan.phases, strict=True)), seed=SEED, report=report, minutes=plan.minutes.phases)
    finish(plan, network, words, report)
    torch.save(network.state_dict(), work / "demo.pt")
    ship(work, out, "demo", network, words, GGMLQuantizationType.Q8_0)

    draft = new_network(plan.draft_shape, words, device, report, compiled=plan.compiled)
    fit.fit(draft, list(zip(corpus, plan.draft, strict=True)), seed=SEED, report=report, minutes=plan.minutes.draft)
    ship(work, out, "demo-draft", draft, words, GGMLQuantizationType.Q5_1)

    changes = adapter.attach(network)
    tone = tokens(words, list(adapter.texts(SEED, max(200, plan.adapter.tokens // 50))))
    gentle = fit.Rates(muon=0.0, adamw=0.003)
    fit.fit(network, [(tone, plan.adapter)], seed=SEED, report=report, minutes=plan.minutes.adapter, rates=gentle)
    pairs = {name: (change.lora_a, change.lora_b) for name, change in changes.items()}
    export.write_adapter(out / "demo-pirate-lora.gguf", pairs, adapter.ALPHA, "localllm demo, as a pirate")

    for path in sorted(out.glob("demo*.gguf")):
        report(f"{path.name}: {path.stat().st_size:,} bytes")
    table, _ = asyncio.run(evaluate.examine(out / "demo.gguf", plan.questions))
    report(f"\n{table}\n")


def finish(plan: Plan, network: Network, words: tokenizers.Tokenizer, report: evaluate.Report) -> None:
    """The last stage of training, on the hardest tasks: long-range recall, counting, requests that no tool fits.

    A quarter of its weight change is reverted, so that names and tools are not forgotten.
    """
    before = {name: weights.clone() for name, weights in network.state_dict().items()}
    short = generate(SEED + 2_000_000, plan.late_conversations, late=True)
    long = generate(SEED + 3_000_000, plan.late_long_conversations, long=True, late=True)
    sources = list(zip((tokens(words, short), tokens(words, long)), plan.late_phases, strict=True))
    gentle = fit.Rates(0.0016, 0.0016, warmup=0.05, decay=0.9)
    fit.fit(network, sources, seed=SEED + 1, report=report, minutes=plan.minutes.late_phases, rates=gentle)
    with torch.no_grad():
        for name, weights in network.state_dict().items():
            weights.lerp_(before[name], 0.25)


def generate(seed: int, count: int, *, long: bool = False, late: bool = False) -> list[str]:
    """Conversations, generated on all cores; the same for the same seed on any number of cores."""
    chunks = range(0, count, CHUNK)
    with ProcessPoolExecutor() as pool:
        made = pool.map(
            partial(_chunk, long=long, late=late), [seed + start for start in chunks], [min(CHUNK, count)] * len(chunks)
        )
        return [text for chunk in made for text in chunk][:count]


def _chunk(seed: int, count: int, *, long: bool, late: bool) -> list[str]:
    return list(mix.texts(seed, count, long=long, late=late))


def tokens(words: tokenizers.Tokenizer, texts: Iterable[str]) -> fit.Tokens:
    """Encoded conversations."""
    return fit.Tokens(*bpe.encode(words, list(texts)), words.token_to_id(bpe.BOS))


def new_network(
    shape: Shape, words: tokenizers.Tokenizer, device: torch.device, report: evaluate.Report, *, compiled: bool
) -> Network:
    """An untrained network, except for similar embeddings of word forms and the copying heads; optionally compiled."""
    network = Network(shape)
    generator = torch.Generator().manual_seed(SEED)
    copying.relate(network, [words.id_to_token(number) for number in range(shape.vocab)], generator)
    copying.prime(network, generator)
    for block in network.blk if compiled else ():
        block.compile(dynamic=False)
    report(f"{sum(p.numel() for p in network.parameters()) / 1e6:.2f} M parameters")
    return network.to(device)


def ship(
    work: Path, out: Path, name: str, network: Network, words: tokenizers.Tokenizer, kind: GGMLQuantizationType
) -> None:
    """Write the F16 file to the work folder, and its quantized form to `out`."""
    export.write_model(work / f"{name}-F16.gguf", network, words, mix.TEMPLATE, f"localllm {name}")
    quantize(work / f"{name}-F16.gguf", out / f"{name}.gguf", kind)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="train a throw-away model, to check that everything works")
    parser.add_argument("--out", type=Path, help="output folder; default: localllm/data, or with --quick a new folder")
    options = parser.parse_args()
    out = options.out or (Path(tempfile.mkdtemp(prefix="demo-quick-")) if options.quick else DATA)
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()

    def report(line: str) -> None:
        print(line, flush=True)

    make(QUICK if options.quick else FULL, out, report)
    report(f"{(time.monotonic() - started) / 60:.1f} minutes in all; the files are in {out}")


if __name__ == "__main__":
    main()
