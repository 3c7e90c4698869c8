"""`python -m localllm.llama.probes.doctor`: examines library and devices in a process that may crash.

Reads a `Question` from stdin and writes a `Report` per stage as a line of JSON, so that findings before a crash are not
lost. Gives facts and advice; `cli/commands/doctor.py` words them for the terminal.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable
from pathlib import Path

import msgspec

from localllm import __version__
from localllm.engine.sampling import native
from localllm.errors import LocalLLMError
from localllm.llama.library import Library
from localllm.llama.probes import selftest
from localllm.llama.probes.device_trials import examined
from localllm.llama.probes.selftest_memory import Memory, Outcome, Trial
from localllm.llama.runtimes import found as runtimes
from localllm.llama.runtimes import gains, installed
from localllm.llama.runtimes.installed import InstalledBindings
from localllm.llama.runtimes.requested import Wishes
from localllm.measuring import probe
from localllm.system import cpu, machine, native_libraries
from localllm.types import DeviceInfo
from localllm.types.diagnosis import Candidate, Question, Report, RuntimeRow

Send = Callable[[Report], None]


def reply(question: Question, send: Send) -> None:
    """Answers the one question."""
    logging.getLogger("localllm").addHandler(logging.NullHandler())  # the report says what was not stored
    examine(question, send)


def examine(question: Question, send: Send) -> None:
    """Every stage in order, each ending in a report; an error ends it."""
    data_dir = Path(question.data_dir)
    plugin_dir = None if question.plugin_dir is None else Path(question.plugin_dir)
    report = Report(
        localllm=__version__,
        python=platform.python_version(),
        platform=machine.platform_name(),
        cpu=cpu.cpu_name(),
        memory_path=str(Memory(data_dir).path),
        sampler_missing=_why_no_sampler(),
        grammars_missing=_why_no_grammars(),
        plugin_dir=question.plugin_dir,
    )
    try:
        report = _change(report, runtimes=tuple(_row(each) for each in runtimes.listed(data_dir)))
        send(report)
        wishes = Wishes(
            runtime=question.runtime,
            plugin_dir=plugin_dir,
            devices=question.devices,
            rpc=question.rpc,
            gpus=question.gpus,
        )
        outcome = wishes.choose(data_dir, fresh=question.fresh)
        files = installed.find(outcome.choice.runtime.library)
        report = _with_files(report, files, plugin_dir)
        report = _with_outcome(report, files, outcome, data_dir)
        send(report)
        loaded = wishes.load(outcome, verbose=question.verbose)
        report = _with_library(report, loaded, loaded.devices())
        send(report)
        send(_change(report, devices=examined(loaded, data_dir, plugin_dir=plugin_dir, fresh=question.fresh)))
    except LocalLLMError as error:
        send(_with_error(report, error))


def advice(files: InstalledBindings, outcome: Outcome, data_dir: Path) -> str | None:
    """How to make models faster here; None if nothing is known to help."""
    if (for_gpu := gains.gpu_advice(data_dir)) is not None:
        return for_gpu
    if files.has_all_variants or not machine.builds_cpu_variants():
        return None
    if files.is_foreign:
        found = gains.gain(data_dir)
        return None if found is None else gains.sentence(found)
    if not outcome.choice.extra_bufts:
        return (
            "this build of llama.cpp fails on this CPU with its fast matrix code, which is therefore switched off; "
            "a build with CPU variants keeps it (on Intel servers with AMX, two to three times the speed)"
        )
    return (
        "this is a plain build of llama.cpp; one with CPU variants has the best code for every CPU and keeps working "
        "when it moves to another machine"
    )


def _why_no_sampler() -> str | None:
    try:
        native.load()
    except native_libraries.NotCompiled as error:
        return str(error)
    return None


def _why_no_grammars() -> str | None:
    try:
        import llguidance  # noqa: F401
    except ImportError as error:
        return f"llguidance cannot be imported ({error})"
    return None


def _row(each: runtimes.RuntimeRow) -> RuntimeRow:
    return RuntimeRow(
        name=each.runtime.name,
        origin=each.origin,
        version=each.version,
        llama_cpp=each.llama_cpp,
        kind=each.kind,
        why_not=each.why_not,
        is_last=each.is_last,
    )


def _with_files(report: Report, files: InstalledBindings, plugin_dir: Path | None) -> Report:
    extra = () if plugin_dir is None else installed.plugin_files(plugin_dir)
    return _change(
        report,
        package_version=files.package_version,
        library_path=str(files.library_path),
        cpu_variants=tuple(sorted(files.variants)),
        plugins=tuple(path.name for path in (*files.plugins, *extra)),
    )


def _command(files: InstalledBindings) -> str:
    return "localllm runtime build cpu" if files.is_foreign else installed.install_command()


def _with_outcome(report: Report, files: InstalledBindings, outcome: Outcome, data_dir: Path) -> Report:
    suggestion = advice(files, outcome, data_dir)
    return _change(
        report,
        candidates=tuple(_candidate(trial) for trial in outcome.tried),
        used=outcome.choice.label(),
        lacks=outcome.trial.lacks,
        remembered=outcome.from_cache,
        not_stored=outcome.not_stored,
        advice=suggestion,
        command=_command(files) if suggestion else None,
    )


def _with_library(report: Report, loaded: Library, devices: tuple[DeviceInfo, ...]) -> Report:
    return _change(
        report,
        works=True,
        llama_version=loaded.build.llama_version,
        commit=loaded.build.commit,
        fingerprint=loaded.build.fingerprint,
        features=loaded.build.features,
        devices=devices,
        absent=tuple(map(str, loaded.absent)),
    )


def _with_error(report: Report, error: LocalLLMError) -> Report:
    if isinstance(error, selftest.NothingWorks):
        report = _change(report, candidates=tuple(_candidate(trial) for trial in error.tried))
    command = error.details.get("command")
    if isinstance(command, str):  # the message would repeat it after the reason
        return _change(report, error=str(error.details["reason"]), command=command)
    return _change(report, error=error.message)


def _candidate(trial: Trial) -> Candidate:
    return Candidate(
        label=trial.choice.label(),
        result=trial.result,
        detail=trial.detail,
        seconds=trial.seconds,
        prefill_tokens_per_s=round(trial.prefill_tokens_per_s),
        decode_tokens_per_s=round(trial.decode_tokens_per_s),
    )


_change = msgspec.structs.replace


if __name__ == "__main__":
    probe.serve(Question, reply)
