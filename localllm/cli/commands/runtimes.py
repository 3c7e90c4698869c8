"""`localllm runtime`: lists, tests, builds, installs, selects and removes llama.cpp libraries.

Loads none of them: tests run in child processes. Data on stdout, progress on stderr.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from localllm.cli.render.build_progress import BuildProgress
from localllm.cli.render.units import duration
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, LoadFailed
from localllm.llama.probes import device_trials, selftest
from localllm.llama.probes.selftest_memory import Outcome, Trial
from localllm.llama.runtimes import build_targets, building, builds, wheel_files, wheel_index
from localllm.llama.runtimes import found as runtimes
from localllm.llama.runtimes.builds import BuildStatus
from localllm.llama.runtimes.found import AUTO, Runtime, RuntimeRow
from localllm.llama.runtimes.wheel_index import WheelIndex
from localllm.settings.config import Settings
from localllm.types import upstream
from localllm.types.libraries import builds as builds_known

OWN_LABEL = builds_known.named(upstream.LLAMA_VERSION).label
_INSTALLED = f"a folder or archive, or one of {', '.join(each.name for each in wheel_files.offered())}"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One runtime in the output of `list --json`."""

    name: str
    origin: str
    version: str
    kind: str
    library: str
    in_use: bool
    why_not: str = ""
    llama_cpp: str = ""
    """The version of llama.cpp: `0.6 (b11549)`."""
    lacks: tuple[str, ...] = ()
    """What it cannot do."""
    source: str = ""
    """Index that its wheel came from; empty: the package index, or it is no wheel."""
    sha256: str = ""
    """Of its wheel."""
    absent: tuple[str, ...] = ()
    """Why a CPU-only runtime's device backends do not load here."""
    building: bool = False
    """Whether its build is in progress."""


class RuntimeTest(msgspec.Struct, frozen=True, kw_only=True):
    """One runtime in the output of `test --json`."""

    name: str
    works: bool
    used: str = ""
    prefill_tokens_per_s: float = 0.0
    decode_tokens_per_s: float = 0.0
    problem: str = ""
    absent: tuple[str, ...] = ()
    """As in `Row`."""


def manage_runtimes(
    settings: Settings,
    action: str,
    target: str | None,
    *,
    name: str | None,
    as_json: bool,
    background: bool = False,
    unverified: bool = False,
    index: str = "",
    sha256: str = "",
) -> int:
    """Carry out the action; returns the exit code. Raises `LocalLLMError`s."""
    if name is not None and action not in ("build", "install"):
        raise InvalidParameter(f"--name is for build and install, not for {action}", param="name")
    if background and action != "build":
        raise InvalidParameter(f"--background is for build, not for {action}", param="background")
    if unverified and action != "install":
        raise InvalidParameter(f"--unverified is for install, not for {action}", param="unverified")
    if index and action != "install":
        raise InvalidParameter(f"--index is for install, not for {action}", param="index")
    if index and unverified:
        raise InvalidParameter(
            "--unverified is for files; an --index gives the version that is known", param="unverified"
        )
    if sha256 and not index:
        raise InvalidParameter("--sha256 says what an --index has to give; pinned wheels have theirs", param="sha256")
    if action == "list":
        return _list(settings, as_json=as_json)
    if action == "test":
        return _test(settings, target, as_json=as_json)
    if target is None:
        targets = {"build": f"one of {', '.join(building.KINDS)}", "install": _INSTALLED}
        raise InvalidParameter(f"{action} needs {targets.get(action, 'the name of a runtime')}", param="target")
    if action == "build":
        return _build_in_background(settings, target, name) if background else _build(settings, target, name)
    if action == "stop":
        builds.stop(settings.data_dir, target)
        report.say(f"localllm: stopped the build of {target}")
        return report.OK
    if action == "install":
        added = (
            _install_from(wheel_index.index_of(target, index, sha256), settings, name)
            if index
            else _install(settings, target, name, unverified=unverified)
        )
        _introduce(added, settings)
    elif action == "use":
        runtimes.choose(target, settings.data_dir)
        report.say(f"localllm: models loaded from now on use {'the fastest runtime' if target == AUTO else target}")
    else:
        if not builds.forget_failed(target, settings.data_dir):
            building.remove(target, settings.data_dir)
            builds.forget(target, settings.data_dir)
        if runtimes.chosen(settings.data_dir) == target:
            runtimes.choose(AUTO, settings.data_dir)
        report.say(f"localllm: removed {target}")
    return report.OK


def _list(settings: Settings, *, as_json: bool) -> int:
    used, problem = "", ""
    try:
        used = selftest.choose(settings.data_dir, runtime=settings.runtime).choice.runtime.name
    except LoadFailed as error:
        problem = error.message
    found = runtimes.listed(settings.data_dir)
    under_way = builds.seen(settings.data_dir)
    if as_json:
        rows = [*(_row(settings, each, used) for each in found), *map(_build_row, under_way)]
        report.write_json(msgspec.json.encode(rows))
    else:
        lines: list[tuple[str, ...]] = [
            (each.runtime.name, each.origin, each.kind, each.version, each.llama_cpp, _state(settings, each, used))
            for each in found
        ]
        for each in under_way:
            build = each.build
            lines.append((build.name, "build", build.kind, upstream.PACKAGE_VERSION, OWN_LABEL, _progress(each)))
        report.write_table(("NAME", "ORIGIN", "FOR", "VERSION", "LLAMA.CPP", "STATE"), lines)
    if problem:
        report.say(f"localllm: {problem}")
    return report.OK if used else report.MODEL_OR_BACKEND


def _row(settings: Settings, each: RuntimeRow, used: str) -> Row:
    trial = _known(settings, each)
    return Row(
        name=each.runtime.name,
        origin=each.origin,
        version=each.version,
        kind=each.kind,
        library=each.runtime.library,
        in_use=each.runtime.name == used,
        why_not=each.why_not,
        llama_cpp=each.llama_cpp,
        source=each.source,
        sha256=each.sha256,
        lacks=() if trial is None else trial.lacks,
        absent=() if trial is None else trial.absent,
    )


def _build_row(each: BuildStatus) -> Row:
    return Row(
        name=each.build.name,
        origin="build",
        version=upstream.PACKAGE_VERSION,
        kind=each.build.kind,
        library="",
        in_use=False,
        why_not=_progress(each),
        llama_cpp=OWN_LABEL,
        building=each.is_running,
    )


def _progress(each: BuildStatus) -> str:
    build = each.build
    if not each.is_running:
        return f"not built: {build.problem or 'its process ended early'}" + (f" ({build.log})" if build.log else "")
    if build.remaining_s is None:
        return "building: downloading the source"
    if build.done == build.total:
        return "building: testing"
    return f"building: {build.done} of {build.total} files, about {duration(build.remaining_s)} left"


def _state(settings: Settings, each: RuntimeRow, used: str) -> str:
    in_use = ("in use",) if each.runtime.name == used else ()
    trial = _known(settings, each)
    if trial is None:
        return each.why_not or "not tested yet"
    lacks = (f"lacks {' and '.join(trial.lacks)}",) if trial.lacks else ()
    last = ("its devices are no faster than the CPU",) if each.is_last else ()
    return "; ".join([*in_use, *last, *lacks, *trial.absent])


def _known(settings: Settings, each: RuntimeRow) -> Trial | None:
    """Its last self-test."""
    outcome = None if each.why_not else selftest.known(settings.data_dir, each.runtime)
    return None if outcome is None else outcome.trial


def _test(settings: Settings, target: str | None, *, as_json: bool) -> int:
    names = [each.name for each in runtimes.usable(settings.data_dir)] if target is None else [target]
    results = [_tested(name, settings) for name in names]
    if as_json:
        report.write_json(msgspec.json.encode(results))
    else:
        rows = [
            (
                each.name,
                each.used or "does not work",
                f"{each.prefill_tokens_per_s:,.0f}" if each.works else "",
                f"{each.decode_tokens_per_s:,.0f}" if each.works else "",
            )
            for each in results
        ]
        report.write_table(("NAME", "BACKEND", "PROMPT TOKENS/S", "DECODE TOKENS/S"), rows)
        report.say("localllm: speeds are for a tiny file on one thread, for comparison only")
    for each in results:
        if each.works:
            _try_devices(settings, selftest.choose(settings.data_dir, runtime=each.name), fresh=True)
        for words in filter(None, (each.problem, *each.absent)):
            report.say(f"localllm: {each.name}: {words}")
    return report.OK if results and all(each.works for each in results) else report.MODEL_OR_BACKEND


def _tested(name: str, settings: Settings) -> RuntimeTest:
    try:
        outcome = selftest.choose(settings.data_dir, runtime=name, fresh=True)
    except LoadFailed as error:
        if error.param == "runtime":  # no runtime has that name
            raise
        return RuntimeTest(name=name, works=False, problem=error.message)
    best = outcome.trial
    return RuntimeTest(
        name=name,
        works=True,
        used=best.choice.label(),
        prefill_tokens_per_s=round(best.prefill_tokens_per_s),
        decode_tokens_per_s=round(best.decode_tokens_per_s),
        absent=best.absent,
    )


def _install(settings: Settings, target: str, name: str | None, *, unverified: bool) -> Runtime:
    wheel = None if Path(target).expanduser().exists() else wheel_files.named(target)
    if wheel is None:
        source = Path(target).expanduser()
        return building.add(source, settings.data_dir, name=name, unverified=unverified, check=_check)
    size, label = wheel_files.file_of(wheel).size_bytes, builds_known.named(wheel.build).label
    report.say(
        f"localllm: downloading {wheel.package} {wheel.version} ({size / 1e6:.0f} MB), built by {wheel.maker}; "
        f"nothing of it is used but llama.cpp {label}"
    )
    return building.add_wheel(wheel, settings.data_dir, name=name, check=_check)


def _install_from(index: WheelIndex, settings: Settings, name: str | None) -> Runtime:
    """Says what its files are trusted for before it uses them."""
    pinned = "with that SHA-256" if index.sha256 else "which publishes no hashes, so that its connection vouches for it"
    report.say(
        f"localllm: downloading {wheel_index.REQUIREMENT} from {index.url}, {pinned}; nothing of it is used but "
        f"llama.cpp {OWN_LABEL}"
    )

    def told(digest: str) -> None:
        if not index.sha256:
            report.say(
                f"localllm: its SHA-256 is {digest}; other content under its name is refused here from now on "
                "(`--sha256` asks for this one elsewhere)"
            )

    return building.add_from_index(index, settings.data_dir, name=name, check=_check, on_download=told)


def _introduce(added: Runtime, settings: Settings) -> None:
    report.say(f"localllm: installed {added.name}; `localllm runtime use {added.name}` selects it")
    outcome = selftest.choose(settings.data_dir, runtime=added.name)
    if outcome.trial.lacks:
        report.say(f"localllm: {added.name} lacks {' and '.join(outcome.trial.lacks)}")
    _try_devices(settings, outcome)


def _try_devices(settings: Settings, outcome: Outcome, *, fresh: bool = False) -> None:
    """Says of each GPU that the runtime finds whether it is faster than the CPU."""
    runtime = outcome.choice.runtime
    row = next((each for each in runtimes.listed(settings.data_dir) if each.runtime == runtime), None)
    if row is None or not row.uses_gpus:
        return
    found = device_trials.examine_runtime(outcome.choice, settings.data_dir, fresh=fresh)
    for device in found:
        use = "" if device.is_automatic else f"; --gpu-layers all or --device {device.name.lower()} uses it"
        report.say(f"localllm: {device.name} ({device.description}): {device.trial}{use}")
    if not found:
        report.say(f"localllm: {runtime.name} finds no GPU here; `localllm doctor --runtime {runtime.name}` says more")


def _build(settings: Settings, kind: str, name: str | None) -> int:
    base = building.base_in(settings.data_dir)
    report.say(f"localllm: downloading the source of llama.cpp {OWN_LABEL} and compiling {_extent(kind, base)}")
    progress = BuildProgress()
    started_s = time.monotonic()
    build_name = building.check_name(name or kind)
    try:
        with builds.recorded(settings.data_dir, build_name, kind) as record:

            def show(done: int, total: int) -> None:
                progress(done, total)
                record(done, total)

            built = building.build(kind, settings.data_dir, name=build_name, base=base, check=_check, on_progress=show)
    finally:
        progress.clear()
    took = duration(time.monotonic() - started_s)
    _try_devices(settings, selftest.choose(settings.data_dir, runtime=built.name))
    outcome = selftest.choose(settings.data_dir, runtime=settings.runtime)
    use = (
        "it is used from now on"
        if outcome.choice.runtime == built
        else f"`localllm runtime use {built.name}` selects it"
    )
    report.say(f"localllm: built and tested {built.name} in {took}; {use}")
    return report.OK


def _build_in_background(settings: Settings, kind: str, name: str | None) -> int:
    building.check_kind(kind)
    build = builds.start(settings.data_dir, name or kind, kind)
    extent = _extent(kind, building.base_in(settings.data_dir))
    report.say(
        f"localllm: building {build.name} of llama.cpp {OWN_LABEL} in the background: {extent}. Once tested, it is "
        "used wherever it is the fastest or the only one for a device. `localllm runtime list` shows the progress, "
        f"`localllm runtime stop {build.name}` stops it, {build.log} is the log"
    )
    return report.OK


def _extent(kind: str, base: Runtime | None) -> str:
    targets = build_targets.note(kind, os.environ.get(building.FLAGS_VARIABLE, ""))
    if base is None or kind == "cpu":
        return f"all of it, which takes some 10 minutes on two cores{targets}"
    return f"its {kind} backend, to go with the libraries of {base.name}{targets}"


def _check(runtime: Runtime) -> str:
    """Its llama.cpp. Raises `LoadFailed` if it does not compute the expected tokens."""
    trial = selftest.examine(runtime).trial
    report.say(f"localllm: tested: {selftest.describe(trial)}")
    return trial.build
