"""`localllm doctor`: reports what the doctor's child process found, as text or as one JSON object.

Never loads llama.cpp: the child may crash, and the crash is part of the report. Plain text, readable in a pipe.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from localllm.cli.render.units import labelled, size
from localllm.cli.shared.formats import in_generic_format
from localllm.cli.shared.report import screen_columns, write, write_json
from localllm.cli.shared.tuned import summary
from localllm.registry.offers.machine import examine
from localllm.settings.config import Settings
from localllm.types import DeviceInfo
from localllm.types.diagnosis import Candidate, Report

EXIT_WORKS, EXIT_BROKEN = 0, 4
MAX_COLUMNS = 110
"""Of a line; fewer on a narrower terminal."""
_VERBS = {"ok": "works", "died": "died", "hung": "hung", "wrong": "wrong results", "failed": "failed"}


def doctor(settings: Settings, model: str | None = None, *, as_json: bool = False, fresh: bool = False) -> int:
    """Print the report on stdout; returns the exit code: 0 if models can be loaded here, else 4.

    `fresh` runs the self-test again instead of using the remembered one. The report names unknown chat formats, of
    `model` or of all models on this machine. Raises `ModelNotFound`.
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


def story(report: Report) -> Iterator[str]:
    """The report as lines of text."""
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
        yield _row("Sampler", f"slow, in Python: {report.sampler_missing}; reinstall localllm with a compiler")
    missing = report.grammars_missing
    yield _row("Grammars", "schemas and grammars are supported" if missing is None else f"unavailable: {missing}")
    yield from _format_rows(report)
    for index, line in enumerate(report.tunings):
        yield _row("" if index else "Tuned", line)
    if report.error is not None:
        yield _row("Problem", report.error)
    if report.advice is not None:
        yield _row("Advice", report.advice)
    if report.command is not None:
        yield "To install the library for this machine, run:"
        yield f"  {report.command}"  # never wrapped, so that it can be copied
    yield "Models can be loaded here." if report.works else "Models cannot be loaded here."


def _library_rows(report: Report) -> Iterator[str]:
    if report.package_version is None:
        return
    version = f", llama.cpp {report.llama_version} ({report.commit})" if report.llama_version else ""
    yield _row("Library", f"llama-cpp-python {report.package_version}{version}")
    yield _row("", report.library_path or "")
    if report.cpu_variants:
        yield _row("", f"with {len(report.cpu_variants)} CPU variants: {', '.join(report.cpu_variants)}")
    else:
        yield _row("", "with a built-in CPU backend")


def _runtime_rows(report: Report) -> Iterator[str]:
    if len(report.runtimes) < 2 and report.package_version is not None:
        return
    for index, each in enumerate(report.runtimes):
        what = f"{each.name}: {each.origin}, {each.version}, llama.cpp {each.llama_cpp}, for {each.kind}"
        if each.is_last:
            what += "; used if you ask for a GPU, since none of its devices was faster than the CPU"
        yield _row("" if index else "Runtimes", f"{what}; not usable: {each.why_not}" if each.why_not else what)


def _selftest_rows(report: Report) -> Iterator[str]:
    if not report.candidates:
        return
    when = "remembered from an earlier run; `--fresh` repeats it" if report.remembered else "run just now"
    where = f"stored in {report.memory_path}" if report.not_stored is None else f"not stored: {report.not_stored}"
    yield _row("Self-test", f"{when}; {where}")
    yield _row("", "speeds are for a small test file on one thread, for comparison only")
    width = max(len(candidate.label) for candidate in report.candidates)
    for candidate in report.candidates:
        yield _row("", f"{candidate.label:<{width}}  {_outcome(candidate)}")
    if report.used is not None:
        yield _row("In use", f"{report.used}: {_why(report)}")
    if report.lacks:
        yield _row("Lacks", f"{' and '.join(report.lacks)}; `localllm runtime list` shows what others lack")


def _outcome(candidate: Candidate) -> str:
    if candidate.result == "ok":
        return (
            f"works: {candidate.prefill_tokens_per_s:,.0f} tokens/s prompt, {candidate.decode_tokens_per_s:,.0f} decode"
        )
    return _VERBS.get(candidate.result, candidate.result) + (f": {candidate.detail}" if candidate.detail else "")


def _why(report: Report) -> str:
    survivors = [candidate.label for candidate in report.candidates if candidate.result == "ok"]
    if len(survivors) == 1:
        return "it computes the expected tokens" + (", as the only one" if len(report.candidates) > 1 else "")
    if report.used == survivors[0]:
        return "the highest rated that computes the expected tokens, and no other is clearly faster"
    return f"clearly faster than {survivors[0]}, which is rated higher"


def _device_rows(devices: tuple[DeviceInfo, ...]) -> Iterator[str]:
    for index, device in enumerate(devices):
        memory = f"{size(device.free_bytes)} of {size(device.total_bytes)} free"
        yield _row("" if index else "Devices", f"{device.name}: {device.description} ({device.kind}), {memory}")
        if device.trial:
            yield _row("", f"{device.name}: {device.trial}")


def _format_rows(report: Report) -> Iterator[str]:
    if report.generic_formats is None:
        return
    if not report.generic_formats:
        yield _row("Formats", "the format of calls and thoughts is known for every chat model checked")
    for index, (name, why) in enumerate(report.generic_formats.items()):
        yield _row("" if index else "Formats", f"{name} uses the generic format: {why}")


def _plugin_rows(report: Report) -> Iterator[str]:
    names = ", ".join(report.plugins) or "none"
    if report.plugin_dir is not None:
        yield _row("Plugins", f"{names} in {report.plugin_dir} and the runtime")
    elif report.plugins:
        yield _row("Plugins", f"{names} of the current runtime")
    else:
        yield _row("Plugins", "no folder set; --plugin-dir or LOCALLLM_PLUGIN_DIR names one")
    for words in report.absent:
        yield _row("", words)


def _row(title: str, text: str) -> str:
    """A title column with the text wrapped beside it; long paths and commands are not broken."""
    return labelled(title, text, 11, min(screen_columns() or MAX_COLUMNS, MAX_COLUMNS))
