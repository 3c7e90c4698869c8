"""`localllm doctor`: tells what the doctor's child process found, in words or as one JSON object.

Never loads llama.cpp: the child may die of it, and its death is part of the story. Plain text, readable in a pipe.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator

import msgspec

from localllm import __version__, osdep
from localllm.cli.formats import in_generic_format
from localllm.cli.report import write, write_json
from localllm.cli.tuned import summary
from localllm.cli.units import size
from localllm.llama.diagnosis import Candidate, Question, Report
from localllm.settings.config import Settings
from localllm.types import DeviceInfo

EXIT_WORKS, EXIT_BROKEN = 0, 4
TIMEOUT_S = 600.0
_VERBS = {"ok": "works", "died": "died", "hung": "did not answer", "wrong": "computes wrongly", "failed": "failed"}


def child_command() -> list[str]:
    """The argv of the doctor's child; a frozen desktop app replaces it."""
    return [sys.executable, "-P", "-m", "localllm.llama.doctor"]


def doctor(settings: Settings, model: str | None = None, *, as_json: bool = False, fresh: bool = False) -> int:
    """Prints the report on stdout; returns the exit code: 0 if a model could be loaded here, else 4.

    `fresh` forgets the remembered self-test and runs it again. Of `model`, or of all models of this machine, it tells
    whose chat format is not known. Raises `ModelNotFound`.
    """
    names = _models(settings, model)
    report = examine(settings, fresh=fresh)
    generic = in_generic_format(names, settings.data_dir)
    report = msgspec.structs.replace(report, generic_formats=generic, tunings=tuple(summary(settings)))
    if as_json:
        write_json(msgspec.json.encode(report))
    else:
        write(*story(report))
    return EXIT_WORKS if report.works else EXIT_BROKEN


def _models(settings: Settings, model: str | None) -> list[str]:
    from localllm.registry.listing import available
    from localllm.registry.resolve import resolve

    if model is None:
        return [each.id for each in available(settings.data_dir)]
    resolve(model, settings.data_dir).release()
    return [model]


def examine(settings: Settings, *, fresh: bool) -> Report:
    """Asks the child. If it dies, its last report comes back with the death as its error."""
    question = Question(
        data_dir=str(settings.data_dir),
        runtime=settings.runtime,
        plugin_dir=None if settings.plugin_dir is None else str(settings.plugin_dir),
        devices=settings.devices or (),
        rpc=settings.rpc,
        fresh=fresh,
        verbose=settings.verbose,
    )
    try:
        child = subprocess.run(
            child_command(),
            input=msgspec.json.encode(question),
            stdout=subprocess.PIPE,
            timeout=TIMEOUT_S,
            **osdep.own_process_group(),
        )
        lines, failure = child.stdout.splitlines(), _failure(child.returncode)
    except subprocess.TimeoutExpired as error:
        lines, failure = (error.stdout or b"").splitlines(), f"the library did not answer in {TIMEOUT_S:g} s"
    report = _last_report(lines)
    if failure is None and not report.works and report.error is None:
        failure = "the doctor's process ended without an answer"
    return report if failure is None else msgspec.structs.replace(report, works=False, error=failure)


def story(report: Report) -> Iterator[str]:
    """The report in words, line by line."""
    yield f"localllm {report.localllm}, Python {report.python}, {report.platform}"
    yield _row("CPU", report.cpu)
    yield from _library_rows(report)
    yield from _runtime_rows(report)
    yield from _selftest_rows(report)
    for backend, names in report.features.items():
        yield _row("Features", f"{backend}: {' '.join(names)}")
    yield from _device_rows(report.devices)
    yield from _plugin_rows(report)
    if report.sampler_missing is not None:
        yield _row("Sampler", f"slow, in Python: {report.sampler_missing}; with a compiler, install localllm again")
    missing = report.grammars_missing
    yield _row("Grammars", "answers can be held to schemas and grammars" if missing is None else f"none: {missing}")
    yield from _format_rows(report)
    for index, line in enumerate(report.tunings):
        yield _row("" if index else "Tuned", line)
    if report.error is not None:
        yield _row("Problem", report.error)
    if report.advice is not None:
        yield _row("Advice", report.advice)
    if report.command is not None:
        yield "To install the library that fits this machine, type:"
        yield f"  {report.command}"  # never wrapped: it is there to be copied
    yield "Models can be loaded here." if report.works else "No model can be loaded here."


def _library_rows(report: Report) -> Iterator[str]:
    if report.package_version is None:
        return
    version = f", llama.cpp {report.llama_version} ({report.commit})" if report.llama_version else ""
    yield _row("Library", f"llama-cpp-python {report.package_version}{version}")
    yield _row("", report.library_path or "")
    if report.cpu_variants:
        yield _row("", f"with {len(report.cpu_variants)} CPU variants: {', '.join(report.cpu_variants)}")
    else:
        yield _row("", "with its CPU backend linked in")


def _runtime_rows(report: Report) -> Iterator[str]:
    if len(report.runtimes) < 2 and report.package_version is not None:
        return
    for index, each in enumerate(report.runtimes):
        what = f"{each.name}: {each.origin}, {each.version}, for {each.kind}"
        yield _row("" if index else "Runtimes", f"{what}; not usable: {each.why_not}" if each.why_not else what)


def _selftest_rows(report: Report) -> Iterator[str]:
    if not report.candidates:
        return
    when = "remembered from an earlier run; `--fresh` runs it again" if report.remembered else "run just now"
    yield _row("Self-test", f"{when}; memory: {report.memory_path}")
    yield _row("", "speeds are of the small test file on one thread, to compare these lines by")
    width = max(len(candidate.label) for candidate in report.candidates)
    for candidate in report.candidates:
        yield _row("", f"{candidate.label:<{width}}  {_fate(candidate)}")
    if report.used is not None:
        yield _row("In use", f"{report.used}: {_why(report)}")


def _fate(candidate: Candidate) -> str:
    if candidate.result == "ok":
        return (
            f"works: {candidate.prefill_tokens_per_s:,.0f} tokens/s prompt, {candidate.decode_tokens_per_s:,.0f} decode"
        )
    return _VERBS.get(candidate.result, candidate.result) + (f": {candidate.detail}" if candidate.detail else "")


def _why(report: Report) -> str:
    survivors = [candidate.label for candidate in report.candidates if candidate.result == "ok"]
    if len(survivors) == 1:
        return "it gives the recorded tokens" + (", and nothing before it does" if len(report.candidates) > 1 else "")
    if report.used == survivors[0]:
        return "the best rated that gives the recorded tokens, and no other is clearly faster"
    return f"clearly faster than {survivors[0]}, which is rated better"


def _device_rows(devices: tuple[DeviceInfo, ...]) -> Iterator[str]:
    for index, device in enumerate(devices):
        memory = f"{size(device.free_bytes)} of {size(device.total_bytes)} free"
        yield _row("" if index else "Devices", f"{device.name}: {device.description} ({device.kind}), {memory}")


def _format_rows(report: Report) -> Iterator[str]:
    if report.generic_formats is None:
        return
    if not report.generic_formats:
        yield _row("Formats", "how models write calls and thoughts is known of every chat model looked at")
    for index, (name, why) in enumerate(report.generic_formats.items()):
        yield _row("" if index else "Formats", f"{name} is read in the generic one: {why}")


def _plugin_rows(report: Report) -> Iterator[str]:
    names = ", ".join(report.plugins) or "none"
    if report.plugin_dir is not None:
        yield _row("Plugins", f"{names} in {report.plugin_dir} and the runtime")
    elif report.plugins:
        yield _row("Plugins", f"{names} of the runtime in use")
    else:
        yield _row("Plugins", "no folder set; --plugin-dir or LOCALLLM_PLUGIN_DIR names one")


def _row(title: str, text: str) -> str:
    """A title column, the text wrapped beside it; long paths and commands stay whole."""
    return textwrap.fill(
        text,
        width=110,
        initial_indent=f"{title:<11}",
        subsequent_indent=" " * 11,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _failure(returncode: int) -> str | None:
    return None if returncode == 0 else f"the doctor's process ended early ({osdep.exit_reason(returncode)})"


def _last_report(lines: list[bytes]) -> Report:
    for line in reversed(lines):
        try:
            return msgspec.json.decode(line, type=Report)
        except msgspec.MsgspecError:
            continue  # a line cut short by a death
    return Report(localllm=__version__, python=sys.version.split()[0], platform=osdep.platform_name(), cpu="unknown")
