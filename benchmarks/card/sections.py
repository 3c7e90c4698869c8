"""What is measured on the card: one function a section, most valuable first. Each runs in a process of its own.

A section yields rows as it learns them, so that those before a crash are kept. Knows neither limits nor tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks import kv_tiers, load, structure
from benchmarks.card import bare, models
from benchmarks.structure_schemas import SCHEMAS
from benchmarks.tools import TOOLS
from localllm import LLM
from localllm.client.sidecar import Sidecar
from localllm.registry.resolve import carried
from localllm.types import TokenLogprob
from localllm.types.load_options import LoadOptions

REPOSITORY = Path(__file__).parents[2]
ALL = "--gpu-layers=all"
UNGUESSED = "--speculation=off"
SLACK_BYTES = 4 * 2**20
"""For tiny models, as in tests/gpu."""
TIE = 0.1
"""Difference of log-probabilities that rounding may turn around."""
EDIT = "Repeat this text word for word: " + load.text(60, 5)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure."""

    what: str
    measured: str
    reach: str = ""
    """What it should be; empty: for information."""
    is_reached: bool | None = None


class Job(NamedTuple):
    """What a section is given."""

    folder: Path
    """For models; kept between sections."""
    data_dir: Path
    small: bool
    """A rehearsal without a GPU."""

    def model(self, name: str) -> Path:
        return models.write(self.folder, name, small=self.small)

    def pick(self, card: int, small: int) -> int:
        return small if self.small else card


Rows = Iterator[Row]


def ratio(what: str, value: float, at_least: float | None = None, at_most: float | None = None, note: str = "") -> Row:
    """A row with a factor and its bound."""
    reach = f"at least {at_least:g}" if at_least is not None else f"at most {at_most:g}" if at_most is not None else ""
    is_reached = (at_least is None or value >= at_least) and (at_most is None or value <= at_most) if reach else None
    return Row(what=what, measured=f"{value:.3g}{note}", reach=reach, is_reached=is_reached)


@contextlib.contextmanager
def served(path: Path, *options: str) -> Iterator[Callable[..., load.Server]]:
    """A server with all layers on the device; what it yields makes a client with further fields for each request."""
    with Sidecar.start([str(path), ALL, "--log-level=warning", *options]) as one:
        yield lambda **extra: load.Server(one.url, one.ready.model or "", one.token, extra)


def many(server: load.Server, streams: int, prompt: int, out: int, kind: str = "distinct", rounds: int = 1) -> Any:
    """As `benchmarks.load` measures a crowd."""
    seed = time.time_ns() % (1 << 30)
    return asyncio.run(load.many(load.Plan(server, streams, streams * rounds, prompt, out, seed), load.JOBS[kind]))


def text(job: Job) -> Rows:
    """The recorded text on the device; the tests of devices."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "localllm", "doctor", "--json"], capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    gpus = [each for each in report["devices"] if each["kind"] != "cpu"]
    names = ", ".join(f"{each['name']} ({each['description']}, {each['total_bytes'] / 2**30:.0f} GiB)" for each in gpus)
    yield Row(what="device", measured=names or "none", reach="one", is_reached=bool(gpus))
    yield Row(what="llama.cpp", measured=f"{report['llama_version']} {report['commit']}, {report['used']}")
    answers: list[tuple[tuple[TokenLogprob, ...], dict[str, int]]] = []
    for layers in (0, 3, "all"):
        with LLM("demo", gpu_layers=layers, slots=1, ctx=512) as llm:
            answer = llm.complete("Once upon a time", temperature=0, max_tokens=64, logprobs=5)
            answers.append((answer.logprobs, llm.info.layers_per_device))
    for said, where in answers[1:]:
        yield _compared(f"demo's text, layers {where}", answers[0][0], said)
    yield from _tests(job)


def _compared(what: str, on_cpu: Sequence[TokenLogprob], said: Sequence[TokenLogprob]) -> Row:
    """Whether two greedy texts are the same up to a token that was as likely as another."""
    pairs = enumerate(zip(on_cpu, said, strict=False))
    at = next((number for number, (one, two) in pairs if one.token != two.token), None)
    if at is None:
        return Row(what=what, measured="the same", reach="the CPU's", is_reached=True)
    best, second = sorted((logprob for _, logprob in on_cpu[at].top), reverse=True)[:2]
    measured = f"differs from token {at} of {len(on_cpu)} on, where the CPU's two best are {best - second:.3f} apart"
    return Row(what=what, measured=measured, reach="the CPU's, or a tie", is_reached=best - second < TIE)


def _tests(job: Job) -> Rows:
    """tests/gpu: counts, and the names of what failed."""
    chosen = (job.data_dir / "runtimes" / "chosen").read_text().strip()
    environment = os.environ | {"LOCALLLM_TEST_RUNTIME": str(job.data_dir / "runtimes" / chosen)}
    files = ["test_offload.py"]
    if not job.small:
        files += ["test_states.py", "test_placement.py", "test_device_planning.py"]
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-W", "default"]
    done = subprocess.run(
        [*command, "-o", "addopts=", f"--timeout={job.pick(60, 240)}", *(f"tests/gpu/{each}" for each in files)],
        cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    print("\n".join(lines[-40:]), done.stderr[-2000:], file=sys.stderr)
    last = lines[-1].strip("= ") if lines else "nothing"
    yield Row(what="tests/gpu", measured=last, reach="none fails", is_reached=done.returncode == 0)


def planned(job: Job) -> Rows:
    """What the plan says of memory, what llama.cpp allocates, and how long a load takes."""
    path = job.model("dense")
    options = LoadOptions(slots=job.pick(8, 2), ctx=4096, mmap=False)
    yield from _allocated("dense", path, [msgspec.structs.replace(options, gpu_layers=layers) for layers in ("all", 2)])
    times = []
    for _ in range(2):
        began = time.perf_counter()
        with LLM(path, options=options):
            times.append(time.perf_counter() - began)
    size = path.stat().st_size
    rate = size / times[1] / 1e9
    yield Row(what="load from the page cache", measured=f"{times[1]:.2f} s for {size / 1e9:.2f} GB, {rate:.2f} GB/s")
    yield Row(what="first load, with the driver's compilations", measured=f"{times[0]:.2f} s")


def _allocated(name: str, path: Path, cases: list[LoadOptions]) -> Rows:
    from tests.gpu.allocations import Case, Outcome

    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.allocations"], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True,
        input=b"".join(msgspec.json.encode(Case(str(path), each)) + b"\n" for each in cases),
    )  # fmt: skip
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        outcome = msgspec.json.decode(line, type=Outcome)
        for share in outcome.placement.shares:
            real = outcome.bytes.get(share.device, 0.0)
            if share.device != "CPU" and real:
                what = f"{name}, layers {case.gpu_layers}, experts on CPU {case.n_cpu_moe}: planned / allocated"
                is_right = abs(share.total - real) <= max(0.1 * real, SLACK_BYTES)
                measured = f"{share.total / 2**20:,.0f} / {real / 2**20:,.0f} MiB"
                yield Row(what=what, measured=measured, reach="within 10 % or 4 MiB", is_reached=is_right)


def streams(job: Job) -> Rows:
    """One stream and crowds: against the library's own steps at the same depth."""
    path, out = job.model("dense"), job.pick(128, 12)
    crowd = (1, 8, 32, 64) if not job.small else (1, 4)
    options = LoadOptions(slots=crowd[-1], ctx=job.pick(1024, 512), gpu_layers="all", mmap=False)
    with bare.opened(bare.loaded(job.data_dir), path, options) as backend:
        steps = {width: bare.step_ms(backend, width, job.pick(128, 32) + out // 2) for width in crowd}
        prompt_ms = bare.prefill_ms(backend, 128)
    words = job.pick(100, 12)
    for width, step in steps.items():
        yield Row(what=f"library, {width} rows a step", measured=f"{step:.2f} ms, {1e3 * width / step:,.0f} tokens/s")
    yield Row(what="library, prompt of 128", measured=f"{prompt_ms:.1f} ms, {128e3 / prompt_ms:,.0f} tokens/s")
    with served(path, f"--slots={crowd[-1]}", f"--ctx={options.ctx}", UNGUESSED) as client:
        greedy, drawn = client(ignore_eos=True), client(ignore_eos=True, temperature=0.8, top_p=0.95)
        many(greedy, 1, words, 8)
        for width in crowd:
            for name, server in (("greedy", greedy), ("top_p", drawn)):
                got = many(server, width, words, out)
                shown = f"{got['tpot_p50_ms']:.2f} ms a token, {got['tokens_per_s']:,.0f} tokens/s"
                yield Row(what=f"{width} x {name}", measured=f"{shown}, first token {got['ttft_p50_ms']:.0f} ms")
                limit = 0.97 if width == 1 else 0.95
                yield ratio(f"{width} x {name}: of the library's step", steps[width] / got["tpot_p50_ms"], limit)
        share = 1 - steps[1] / many(greedy, 1, words, out)["tpot_p50_ms"]
        yield ratio("one stream: share of a step outside llama.cpp", share, at_most=0.05)


def long_prompt(job: Job) -> Rows:
    """Time to the first token of a long prompt, alone."""
    path, tokens = job.model("dense"), job.pick(4000, 200)
    options = LoadOptions(slots=1, ctx=tokens + 256, gpu_layers="all", mmap=False)
    with bare.opened(bare.loaded(job.data_dir), path, options) as backend:
        alone_ms = bare.prefill_ms(backend, tokens)
    with served(path, "--slots=1", f"--ctx={2 * tokens}", UNGUESSED) as client:
        many(client(ignore_eos=True), 1, 12, 8)
        got = [many(client(ignore_eos=True), 1, tokens // 4, 2) for _ in range(3)]
    first = min(each["ttft_p50_ms"] for each in got)
    count = got[0]["prompt_tokens"]
    yield Row(what=f"library, {tokens} tokens", measured=f"{alone_ms:.0f} ms, {1e3 * tokens / alone_ms:,.0f} tokens/s")
    yield Row(what=f"served, {count:.0f} tokens", measured=f"{first:.0f} ms")
    yield ratio("per token, of the library's speed", (alone_ms / tokens) / (first / count), 0.9)


def crowds(job: Job) -> Rows:
    """A shared beginning, chats of several turns, and a long prompt that arrives beside streams."""
    path, prefix, width = job.model("dense"), job.pick(500, 30), job.pick(32, 4)
    out = job.pick(32, 8)
    with served(path, f"--slots={width}", f"--ctx={job.pick(4096, 512)}", UNGUESSED) as client:
        server = client(ignore_eos=True)
        many(server, 1, 30, 4)
        apart = many(server, width, prefix, out)
        together = many(server, width, prefix, out, "shared")
        shown = (
            f"{apart['wall_s']:.2f} s apart, {together['wall_s']:.2f} s shared ({together['prompt_tokens']:.0f} tokens)"
        )
        yield Row(what=f"{width} at once with one beginning", measured=shown)
        yield ratio("times as fast as without one", apart["wall_s"] / together["wall_s"], 4.0)
        chats = many(server, job.pick(12, 3), 50, out, "turns")
        yield Row(what="chats of four turns", measured=f"{chats['tokens_per_s']:,.0f} tokens/s")
        yield ratio("computed again", chats["computed_again"], at_most=0.05)
    with served(path, "--slots=9", f"--ctx={job.pick(8192, 1024)}", UNGUESSED) as client:
        plan = load.Plan(client(ignore_eos=True), 1, 1, job.pick(1500, 60), job.pick(400, 60), 1)
        gaps = asyncio.run(load.stall(plan))
        shown = f"longest gap {gaps['gap_max_during_ms']:.0f} ms, median before {gaps['gap_p50_before_ms']:.1f} ms"
        yield Row(what="a long prompt beside streams", measured=shown)
        alone_ms = 1e3 * gaps["ttft_alone_s"]
        yield ratio("longest gap, of that prompt's own time", gaps["gap_max_during_ms"] / alone_ms, at_most=0.2)


def structures(job: Job) -> Rows:
    """Time per token under a schema, and with tools offered, against free text."""
    path, out = job.model("dense"), job.pick(96, 12)
    schema = next(iter(SCHEMAS.values()))
    widths = (1, 8, 32) if not job.small else (1, 4)
    with served(path, f"--slots={widths[-1]}", f"--ctx={job.pick(2048, 2048)}", UNGUESSED) as client:
        free = client(ignore_eos=True)
        bound, offered = client(**structure.asking(schema)), client(tools=TOOLS, min_tokens=out)
        for server in (free, bound, offered):
            many(server, 1, 24, out)  # the grammar is compiled, the prompt of tools computed
        for width in widths:
            base = many(free, width, 24, out)["tpot_p50_ms"]
            for name, server in (("schema", bound), ("tools", offered)):
                yield ratio(
                    f"{width} x {name}: time per token of free text's",
                    _token_ms(server, width, out) / base,
                    at_most=1.03,
                )


def _token_ms(server: load.Server, width: int, out: int) -> float:
    return float(many(server, width, 24, out)["tpot_p50_ms"])


def tiers(job: Job) -> Rows:
    """A prefix from main memory and from disk against computing it."""
    path, wanted = job.model("dense"), job.pick(4000, 200)
    with LLM(path, slots=1, ctx=256) as llm:
        words = 50 * wanted // len(llm.tokenize(load.text(50, 0)))
        prefixes = [load.text(words, seed) for seed in range(1, 5)]
        count = min(len(llm.tokenize(each)) for each in prefixes)
    times = kv_tiers.from_memory(path, prefixes[:2], count)
    home = job.folder / "tier-home"
    home.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (home / "runtimes").symlink_to(job.data_dir / "runtimes")
    os.environ["LOCALLLM_HOME"] = str(home)
    times |= kv_tiers.from_disk(path, prefixes[2:], count, home)
    computed = statistics.median(each.first_token_s for each in times[kv_tiers.COMPUTED])
    yield Row(what=f"{count} tokens computed", measured=f"{1e3 * computed:.0f} ms")
    for way in (kv_tiers.MEMORY, kv_tiers.DISK, kv_tiers.DROPPED):
        took = statistics.median(each.first_token_s for each in times[way])
        yield ratio(f"times as fast from {way}", computed / took, 1.0, note=f" ({1e3 * took:.0f} ms)")


def guesses(job: Job) -> Rows:
    """What rows beyond the first cost, and guesses by lookup on text that repeats."""
    path = job.model("dense")
    options = LoadOptions(slots=8, ctx=1024, gpu_layers="all", mmap=False)
    with bare.opened(bare.loaded(job.data_dir), path, options) as backend:
        depth = job.pick(256, 16)
        for slots in (1, job.pick(8, 2)):
            one = bare.step_ms(backend, slots, depth)
            cost = [f"{rows}: {bare.step_ms(backend, slots, depth, rows) / one:.2f}" for rows in (2, 4, 8)]
            yield Row(what=f"{slots} streams: a step's time by rows, of one row's", measured=", ".join(cost))
    spent: list[list[float]] = []
    widths = (1, job.pick(8, 2))
    for speculation in ((UNGUESSED,), ()):
        with served(carried("demo.gguf"), "--slots=8", "--ctx=1024", *speculation) as client:
            spent.append([_edits(client(ignore_eos=True), width, job.pick(96, 24)) for width in widths])
    for width, off, on in zip(widths, *spent, strict=True):
        yield ratio(f"demo, {width} x an edit: speed with guesses of that without", off / on, 1.0)


def _edits(server: load.Server, width: int, out: int) -> float:
    async def ask() -> float:
        asked = (server.ask([load.user(EDIT)], out) for _ in range(width))
        return statistics.median(each.tpot_s for each in await asyncio.gather(*asked))

    return min(asyncio.run(ask()) for _ in range(3))


def experts(job: Job) -> Rows:
    """A mixture with its experts on the device, half of them, or all on the CPU."""
    path = job.model("experts")
    tokens = job.pick(512, 32)
    layers = models.SMALL["experts"][0].layers if job.small else models.CARD["experts"][0].layers
    options = LoadOptions(slots=4, ctx=1024, gpu_layers="all", mmap=False)
    cases = {stay: msgspec.structs.replace(options, n_cpu_moe=stay) for stay in (0, layers // 2, layers)}
    yield from _allocated("experts", path, list(cases.values()))
    speeds: dict[int, float] = {}
    lib = bare.loaded(job.data_dir)
    for stay, case in cases.items():
        with bare.opened(lib, path, case) as backend:
            step, prompt = bare.step_ms(backend, 4, job.pick(128, 16)), bare.prefill_ms(backend, tokens)
        speeds[stay] = 4e3 / step
        shown = f"{speeds[stay]:,.0f} tokens/s with 4 rows, prompt {1e3 * tokens / prompt:,.0f} tokens/s"
        yield Row(what=f"experts of {stay} layers on the CPU", measured=shown)
    yield ratio("half of the experts there, of none there", speeds[layers // 2] / speeds[layers], 1.0)


def other(job: Job) -> Rows:
    """The other llama.cpps that were carried: text and speed on the same card."""
    chosen = (job.data_dir / "runtimes" / "chosen").read_text().strip()
    names = [each.name for each in (job.data_dir / "runtimes").iterdir() if (each / "runtime.json").exists()]
    path = job.model("dense")
    for name in sorted(names, key=lambda each: each != chosen):
        with served(path, "--slots=8", "--ctx=512", UNGUESSED, f"--runtime={name}") as client:
            server = client(ignore_eos=True)
            many(server, 1, 60, 8)
            got = [many(server, width, job.pick(100, 12), job.pick(64, 8)) for width in (1, 8)]
        shown = ", ".join(f"{each['tpot_p50_ms']:.2f} ms a token" for each in got)
        yield Row(what=f"{name}: 1 and 8 streams", measured=shown)


class Section(NamedTuple):
    """A section and its bound."""

    run: Callable[[Job], Rows]
    limit_s: int
    about: str


SECTIONS = {
    "text": Section(text, 110, "exact text, and the tests of devices"),
    "plan": Section(planned, 60, "planned against allocated memory, and loading"),
    "streams": Section(streams, 90, "one stream and crowds, against the library alone"),
    "prompt": Section(long_prompt, 40, "a long prompt"),
    "crowds": Section(crowds, 70, "what requests share, and what arrives beside them"),
    "structure": Section(structures, 50, "schemas and tools"),
    "tiers": Section(tiers, 60, "prefixes from main memory and disk"),
    "guesses": Section(guesses, 50, "guesses"),
    "experts": Section(experts, 60, "a mixture of experts"),
    "other": Section(other, 50, "every llama.cpp that was carried"),
}
"""Most valuable first. The limits are for a card; a rehearsal has more time."""
