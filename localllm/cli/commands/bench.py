"""`localllm bench`: measures a server at rising concurrency, as a table, JSON and a plot.

The server is at a URL, or our own, started for a model. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from localllm import __version__
from localllm.bench.answer import clean
from localllm.bench.levels import DEFAULT_LEVELS, Plan, parse_levels
from localllm.bench.load import LevelRun, Load
from localllm.bench.report import Environment, Report, aligned, headline, plot, table, to_json
from localllm.bench.request import Api
from localllm.bench.summary import remarks, summarize
from localllm.bench.target import base_url, discover, is_url
from localllm.cli.options.settings import as_arguments
from localllm.cli.render.progress import LoadProgress
from localllm.cli.shared import config, report
from localllm.client.sidecar import Sidecar
from localllm.errors import InvalidParameter, sentence_of
from localllm.registry.adapters.names import with_given
from localllm.system import cpu as system_cpu
from localllm.system import machine

MOST_SLOTS = 32
SPARE_TOKENS = 320
"""Room for the chat template, and for the requests that measure the tokens per word."""
SPARE_SHARE = 0.2
"""Spare room as a share of the prompt, since words vary in length."""
CTX_STEP = 256
_EVERYWHERE = ("home", "verbose")
"""Settings that also apply to a server at a URL."""


class BenchOptions(NamedTuple):
    """The options of the command line; None: not given."""

    target: str
    concurrency: str | None = None
    requests: int | None = None
    duration_s: float | None = None
    prompt_tokens: int = 64
    shared_prefix_tokens: int = 0
    max_tokens: int = 64
    model: str | None = None
    api_key_env: str | None = None
    api: Api | None = None
    ignore_eos: bool = True
    seed: int | None = None
    warmup: int | None = None
    timeout_s: float = 300.0
    as_json: bool = False
    svg: Path | None = None
    load: Mapping[str, Any] = {}
    """Settings by name, for our own server."""


class _Endpoint(NamedTuple):
    url: str
    api_key: str | None
    model: str | None
    """None: the server's only model."""


def bench_model(options: BenchOptions) -> int:
    """Measure and print; returns the exit code: 0, 1 if no request was answered, 130 after Ctrl-C.

    Raises `LocalLLMError`s for problems found before the first measured request.
    """
    plan = _plan(options)
    remote = is_url(options.target)
    _check(options, remote=remote)
    with _remote(options) if remote else _own_server(options, plan) as endpoint:
        target = discover(endpoint.url, api_key=endpoint.api_key, model=endpoint.model, api=options.api)
        date = datetime.now(UTC).isoformat(timespec="seconds")
        load = Load(target, plan, endpoint.api_key)
        progress = Progress(plan)
        interrupted = False
        try:
            asyncio.run(load.run(progress))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            progress.clear()
    levels = tuple(summarize(run) for run in load.runs if run.started_ns)
    notes = remarks(levels, plan, load.forgone)
    if options.api is None and target.api == "completions":
        notes.append("the model has no chat template, so /v1/completions was measured")
    found = Report(
        date=date,
        environment=_environment(),
        target=target,
        started_here=not remote,
        plan=plan,
        tokens_per_word=load.tokens_per_word,
        levels=levels,
        remarks=tuple(notes),
        interrupted=interrupted,
    )
    _publish(found, options)
    if interrupted:
        return report.INTERRUPTED
    return report.OK if found.num_answers else report.FAILURE


def _plan(options: BenchOptions) -> Plan:
    """Without --seed every run has its own prompts, since a server may have cached those of the last run."""
    return Plan(
        levels=DEFAULT_LEVELS if options.concurrency is None else parse_levels(options.concurrency),
        num_requests=options.requests,
        duration_s=options.duration_s,
        prompt_tokens=options.prompt_tokens,
        shared_prefix_tokens=options.shared_prefix_tokens,
        max_tokens=options.max_tokens,
        seed=random.SystemRandom().randrange(2**31) if options.seed is None else options.seed,
        num_warmup=options.warmup,
        timeout_s=options.timeout_s,
        ignore_eos=options.ignore_eos,
    )


def _check(options: BenchOptions, *, remote: bool) -> None:
    """Find errors now that would otherwise show after minutes of measuring."""
    if options.svg is not None and (options.svg.is_dir() or not options.svg.parent.is_dir()):
        raise InvalidParameter(
            f"--svg: {options.svg} cannot be written; name a file in a folder that exists", param="svg"
        )
    if remote:
        for name, value in options.load.items():
            if value is not None and name not in _EVERYWHERE:
                option = f"--{name.replace('_', '-')}"
                raise InvalidParameter(
                    f"{option} is for loading a model; {options.target} is a server that has loaded its own", param=name
                )
    else:
        for option, value in (("--model", options.model), ("--api-key-env", options.api_key_env)):
            if value is not None:
                raise InvalidParameter(f"{option} is for servers at a URL; {options.target} is a model", param="target")


@contextmanager
def _remote(options: BenchOptions) -> Iterator[_Endpoint]:
    key = None
    if options.api_key_env is not None:
        key = os.environ.get(options.api_key_env, "").strip()
        if not key:
            raise InvalidParameter(f"{options.api_key_env} is not set in the environment", param="api_key_env")
        if not key.isascii() or not key.isprintable():
            raise InvalidParameter(f"{options.api_key_env} is not a valid API key", param="api_key_env")
    yield _Endpoint(base_url(options.target), key, options.model)


@contextmanager
def _own_server(options: BenchOptions, plan: Plan) -> Iterator[_Endpoint]:
    """A sidecar with a slot for each concurrent request, and no more context than they need."""
    settings = config.load(options.load)
    load = dict(options.load)
    if load.get("slots") is None:
        load["slots"] = min(max(plan.levels), MOST_SLOTS)
    ours = load.get("ctx") is None
    if ours:
        load["ctx"] = context_for(plan)
    try:
        sidecar = _start(options.target, load, verbose=settings.verbose)
    except InvalidParameter as error:
        if not (ours and error.param == "ctx"):
            raise
        # The model's context is smaller than this safe estimate: use all of it.
        sidecar = _start(options.target, {**load, "ctx": None}, verbose=settings.verbose)
    with sidecar:
        model = sidecar.ready.model
        under = model and with_given(model, settings.lora, settings.control_vector)
        yield _Endpoint(f"{sidecar.url}/v1", sidecar.token, under)


def _start(model: str, load: Mapping[str, Any], *, verbose: bool) -> Sidecar:
    arguments = [model, *as_arguments(load), *([] if verbose else ["--log-level=warning"])]
    progress = LoadProgress()
    try:
        return Sidecar.start(arguments, on_progress=progress, stderr=sys.stderr)
    finally:
        progress.clear()


def context_for(plan: Plan) -> int:
    """A context in tokens that is large enough for any prompt and its answer."""
    prompt = (1 + SPARE_SHARE) * (plan.prompt_tokens + plan.shared_prefix_tokens)
    return -(-int(prompt + plan.max_tokens + SPARE_TOKENS) // CTX_STEP) * CTX_STEP


class Progress:
    """A progress line on stderr each second, redrawn in place on a terminal."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._on_terminal = sys.stderr.isatty()
        self._width = 0

    def __call__(self, run: LevelRun) -> None:
        line = self._line(run)
        if not self._on_terminal:
            report.say(line)
            return
        report.draw(line.ljust(self._width), before="\r")
        self._width = len(line)

    def clear(self) -> None:
        """Erase the line."""
        if self._width:
            report.draw(" " * self._width, before="\r", after="\r")
            self._width = 0

    def _line(self, run: LevelRun) -> str:
        line = f"concurrency {run.concurrency}: "
        if not run.started_ns:
            return line + "warming up"
        seconds = (time.perf_counter_ns() - run.started_ns) / 1e9
        of = "" if self._plan.num_requests is None else f" of {self._plan.num_requests}"
        line += f"{len(run.answers)}{of} answered, {run.num_tokens_seen / seconds:.1f} tokens/s, {seconds:.0f} s"
        return line + (f", {len(run.failures)} failed" if run.failures else "")


def _environment() -> Environment:
    import platform

    import httpx

    cpu = system_cpu.cpu_model().splitlines()
    return Environment(
        localllm=__version__,
        python=platform.python_version(),
        httpx=httpx.__version__,
        platform=machine.platform_name(),
        cpu=cpu[0].rpartition(":")[2].strip() if cpu else "unknown",
        num_physical_cores=system_cpu.num_physical_cores(),
    )


def _publish(found: Report, options: BenchOptions) -> None:
    """Print to stdout first: a full disk must not cost the results."""
    if options.as_json:
        report.write_json(to_json(found).encode(), indented=False)
    elif found.levels:
        _print_table(found)
    for note in found.remarks:
        report.say(f"note: {note}")
    sys.stdout.flush()
    if options.svg is not None and found.num_answers:
        try:
            options.svg.write_text(plot(found), "utf-8")
        except OSError as error:
            raise InvalidParameter(f"--svg: {sentence_of(error)}", param="svg") from error


def _print_table(found: Report) -> None:
    rows = table(found.levels)
    lines = aligned(rows)
    report.write(*map(clean, headline(found)), "")
    if not sys.stdout.isatty():
        report.write(*lines)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False, soft_wrap=False)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for number, title in enumerate(rows[0]):
        drawn.add_column(Text(title), justify="right" if number else "left", no_wrap=True)
    for row in rows[1:]:
        drawn.add_row(*map(Text, row))
    if console.measure(drawn).minimum <= console.width:
        console.print(drawn)
    else:  # the table would be cut off; plain lines wrap instead
        report.write(*lines)
