"""Time to the first token of a known prefix: restored from main memory or from disk, against computing it again.

    python -m benchmarks.kv_tiers MODEL.gguf [--tokens N] [--rounds N]

With a real worker (`localllm.LLM`) and one slot: a prefix, then another prompt that takes its slot, then the prefix
again with a few more tokens. For the disk, the model is unloaded and loaded in between; `disk` reads from the system's
page cache, `disk, dropped` after the files were dropped from it (posix_fadvise, DONTNEED). Prints medians, and the
speedup over computing. Each round has a prefix of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.embeddings import words_of
from benchmarks.results import save
from localllm import LLM
from localllm.types import SamplingParams
from localllm.types.load_options import LoadOptions

THREADS = 2
TAIL = "say more now please"
ONE_TOKEN = SamplingParams(temperature=0, max_tokens=1)
COMPUTED, MEMORY, DISK, DROPPED = "computed", "main memory", "disk", "disk, dropped"


def options(tokens: int, *, disk_mb: int) -> LoadOptions:
    return LoadOptions(ctx=tokens + 256, slots=1, threads=THREADS, kv_ram_mb=2048, kv_disk_mb=disk_mb)


class Moment(NamedTuple):
    """Seconds until the first token, and how the worker spent them."""

    first_token_s: float
    queue_s: float
    """Until the prompt was in its slot: reading, saving the slot's content, restoring."""
    prefill_s: float
    """Computing uncached tokens and the first token."""


def ask(llm: LLM, prompt: str, *, cached: bool, tokens: int) -> Moment:
    """Send a prompt, and check that it was or was not cached."""
    started_s = time.perf_counter()
    for delta in llm.complete(prompt, stream=True, params=ONE_TOKEN):
        if delta.finish is not None:
            seconds = time.perf_counter() - started_s
            known = delta.finish.usage.cached_tokens
            assert (known >= tokens - 64) is cached, f"{known} of {tokens} tokens were known"
            return Moment(seconds, delta.finish.timings.queue_s, delta.finish.timings.prefill_s)
    raise AssertionError("the answer has no end")


def drop_from_page_cache(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def from_memory(model: Path, prefixes: list[str], tokens: int) -> dict[str, list[Moment]]:
    times: dict[str, list[Moment]] = {COMPUTED: [], MEMORY: []}
    with LLM(model, options=options(tokens, disk_mb=0)) as llm:
        ask(llm, "to warm up", cached=False, tokens=tokens)
        for prefix in prefixes:
            times[COMPUTED].append(ask(llm, prefix, cached=False, tokens=tokens))
            ask(llm, f"another prompt {prefix[:400]}", cached=False, tokens=tokens)
            times[MEMORY].append(ask(llm, f"{prefix} {TAIL}", cached=True, tokens=tokens))
    return times


def from_disk(model: Path, prefixes: list[str], tokens: int, home: Path) -> dict[str, list[Moment]]:
    with LLM(model, options=options(tokens, disk_mb=4096)) as llm:
        for prefix in prefixes:
            ask(llm, prefix, cached=False, tokens=tokens)
    times: dict[str, list[Moment]] = {DISK: [], DROPPED: []}
    for way, some in ((DISK, prefixes[::2]), (DROPPED, prefixes[1::2])):
        for prefix in some:
            if way == DROPPED:
                drop_from_page_cache(home)
            with LLM(model, options=options(tokens, disk_mb=4096)) as llm:
                ask(llm, "to warm up", cached=False, tokens=tokens)
                times[way].append(ask(llm, f"{prefix} {TAIL}", cached=True, tokens=tokens))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=4, help="prefixes for each tier; half of the disk's are dropped")
    arguments = parser.parse_args()
    model: Path = arguments.model.resolve()
    words, rng = words_of(model), random.Random(time.time_ns())
    prefixes = [" ".join(rng.choices(words, k=arguments.tokens)) for _ in range(2 * arguments.rounds)]
    machine_home = os.environ.get("LOCALLLM_HOME")
    times = from_memory(model, prefixes[: arguments.rounds], arguments.tokens)
    with tempfile.TemporaryDirectory(dir=".") as folder:  # on a disk: /tmp is main memory on many systems
        os.environ["LOCALLLM_HOME"] = str(Path(folder).resolve())
        times |= from_disk(model, prefixes[arguments.rounds :], arguments.tokens, Path(folder))
    if machine_home is None:
        del os.environ["LOCALLLM_HOME"]
    else:
        os.environ["LOCALLLM_HOME"] = machine_home
    medians = {way: Moment(*map(statistics.median, zip(*some, strict=True))) for way, some in times.items()}
    computed_s = medians[COMPUTED].first_token_s
    figures: dict[str, Any] = {
        "tokens": arguments.tokens,
        "ms": {
            way: {name.removesuffix("_s"): round(1000 * value, 1) for name, value in moment._asdict().items()}
            for way, moment in medians.items()
        },
        "first_token_ms": {way: [round(1000 * one.first_token_s, 1) for one in some] for way, some in times.items()},
        "times_sooner": {way: round(computed_s / moment.first_token_s, 1) for way, moment in medians.items()},
    }
    save(f"kv_tiers-{model.stem}", figures)


if __name__ == "__main__":
    main()
