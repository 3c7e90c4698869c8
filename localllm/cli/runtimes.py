"""`localllm runtime`: lists, tests, builds, takes in, chooses and removes llama.cpp libraries.

Loads none of them: what is tested is tested in child processes. Data on stdout, progress on stderr.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from localllm.cli import report
from localllm.cli.units import duration
from localllm.errors import InvalidParameter, LoadFailed
from localllm.llama import building, builds, installed, runtimes, selftest
from localllm.llama.builds import Seen
from localllm.llama.runtimes import AUTO, Listed, Runtime
from localllm.settings.config import Settings

TELL_EVERY_S = 5.0
"""Without a terminal."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints of each."""

    name: str
    origin: str
    version: str
    kind: str
    library: str
    in_use: bool
    why_not: str = ""
    building: bool = False
    """It is being built."""


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """What `test --json` prints of each."""

    name: str
    works: bool
    used: str = ""
    prefill_tokens_per_s: float = 0.0
    decode_tokens_per_s: float = 0.0
    problem: str = ""


def manage_runtimes(
    settings: Settings,
    action: str,
    target: str | None,
    *,
    name: str | None,
    as_json: bool,
    background: bool = False,
) -> int:
    """Returns the exit code. Raises `LocalLLMError`s."""
    if name is not None and action not in ("build", "install"):
        raise InvalidParameter(f"--name goes with build and install, not with {action}", param="name")
    if background and action != "build":
        raise InvalidParameter(f"--background goes with build, not with {action}", param="background")
    if action == "list":
        return _list(settings, as_json=as_json)
    if action == "test":
        return _test(settings, target, as_json=as_json)
    if target is None:
        wanted = {"build": f"one of {', '.join(building.KINDS)}", "install": "a folder or archive"}
        raise InvalidParameter(f"{action} what? Give {wanted.get(action, 'the name of a runtime')}", param="target")
    if action == "build":
        return _build_apart(settings, target, name) if background else _build(settings, target, name)
    if action == "stop":
        builds.stop(settings.data_dir, target)
        report.say(f"localllm: the build of {target} is ended")
        return report.OK
    if action == "install":
        made = building.add(Path(target).expanduser(), settings.data_dir, name=name, check=_check)
        report.say(f"localllm: {made.name} is installed; `localllm runtime use {made.name}` makes it the one in use")
    elif action == "use":
        runtimes.choose(target, settings.data_dir)
        report.say(
            f"localllm: models that are loaded from now on use {'what is fastest' if target == AUTO else target}"
        )
    else:
        if not builds.forget_failed(target, settings.data_dir):
            building.remove(target, settings.data_dir)
            builds.forget(target, settings.data_dir)
        if runtimes.chosen(settings.data_dir) == target:
            runtimes.choose(AUTO, settings.data_dir)
        report.say(f"localllm: {target} is removed")
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
        rows = [*(_row(each, used) for each in found), *map(_build_row, under_way)]
        report.write_json(msgspec.json.encode(rows))
    else:
        lines: list[tuple[str, ...]] = [
            (each.runtime.name, each.origin, each.kind, each.version, _state(each, used)) for each in found
        ]
        for each in under_way:
            lines.append((each.build.name, "build", each.build.kind, installed.PACKAGE_VERSION, _progress(each)))
        report.write_table(("NAME", "ORIGIN", "FOR", "VERSION", "STATE"), lines)
    if problem:
        report.say(f"localllm: {problem}")
    return report.OK if used else report.MODEL_OR_BACKEND


def _row(each: Listed, used: str) -> Row:
    return Row(
        name=each.runtime.name,
        origin=each.origin,
        version=each.version,
        kind=each.kind,
        library=each.runtime.library,
        in_use=each.runtime.name == used,
        why_not=each.why_not,
    )


def _build_row(each: Seen) -> Row:
    return Row(
        name=each.build.name,
        origin="build",
        version=installed.PACKAGE_VERSION,
        kind=each.build.kind,
        library="",
        in_use=False,
        why_not=_progress(each),
        building=each.is_running,
    )


def _progress(each: Seen) -> str:
    build = each.build
    if not each.is_running:
        return f"not built: {build.problem or 'its process ended early'}" + (f" ({build.log})" if build.log else "")
    if build.remaining_s is None:
        return "building: fetches the source"
    if build.done == build.total:
        return "building: is tested"
    return f"building: {build.done} of {build.total} files, about {duration(build.remaining_s)} left"


def _state(each: Listed, used: str) -> str:
    return each.why_not or ("in use" if each.runtime.name == used else "")


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
        report.say("localllm: of a tiny file on one thread, to compare these lines by")
    for each in results:
        if each.problem:
            report.say(f"localllm: {each.name}: {each.problem}")
    return report.OK if results and all(each.works for each in results) else report.MODEL_OR_BACKEND


def _tested(name: str, settings: Settings) -> Tested:
    try:
        outcome = selftest.choose(settings.data_dir, runtime=name, fresh=True)
    except LoadFailed as error:
        if error.param == "runtime":  # there is none of that name
            raise
        return Tested(name=name, works=False, problem=error.message)
    best = outcome.trial
    return Tested(
        name=name,
        works=True,
        used=best.choice.label(),
        prefill_tokens_per_s=round(best.prefill_tokens_per_s),
        decode_tokens_per_s=round(best.decode_tokens_per_s),
    )


def _build(settings: Settings, kind: str, name: str | None) -> int:
    base = building.base_in(settings.data_dir)
    report.say(f"localllm: this fetches the source of llama.cpp and compiles {_extent(kind, base)}")
    progress = _Steps()
    started_s = time.monotonic()
    called = building.check_name(name or kind)
    try:
        with builds.recorded(settings.data_dir, called, kind) as record:

            def tell(done: int, total: int) -> None:
                progress(done, total)
                record(done, total)

            made = building.build(kind, settings.data_dir, name=called, base=base, check=_check, on_progress=tell)
    finally:
        progress.clear()
    took = duration(time.monotonic() - started_s)
    outcome = selftest.choose(settings.data_dir, runtime=settings.runtime)
    use = (
        "it is in use from now on" if outcome.choice.runtime == made else f"`localllm runtime use {made.name}` uses it"
    )
    report.say(f"localllm: {made.name} is built and tested ({took}); {use}")
    return report.OK


def _build_apart(settings: Settings, kind: str, name: str | None) -> int:
    building.check_kind(kind)
    build = builds.start(settings.data_dir, name or kind, kind)
    extent = _extent(kind, building.base_in(settings.data_dir))
    report.say(
        f"localllm: {build.name} is being built in the background: {extent}; it is tested, and used from then on where "
        f"it is the fastest or brings what is asked for. `localllm runtime list` shows how far it is, `localllm "
        f"runtime stop {build.name}` ends it, {build.log} is its log"
    )
    return report.OK


def _extent(kind: str, base: Runtime | None) -> str:
    if base is None or kind == "cpu":
        return "all of it, which takes some 10 minutes on two cores"
    return f"its {kind} backend, to go with the libraries of {base.name}"


def _check(runtime: Runtime) -> None:
    """Raises `LoadFailed` where it does not give the recorded tokens."""
    outcome = selftest.examine(runtime)
    report.say(f"localllm: tested: {selftest.describe(outcome.trial)}")


class _Steps:
    """How far a compiler is: a line that is drawn anew on a terminal, else one now and then."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._began_s = time.monotonic()
        self._told_s = 0.0
        self._is_drawn = False

    def __call__(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s < (0.2 if self._is_terminal else TELL_EVERY_S) or not done:
            return
        self._told_s = now_s
        left_s = (now_s - self._began_s) / done * (total - done)
        text = f"compiling: {done} of {total} files, about {duration(left_s)} left"
        if self._is_terminal:
            report.draw(text, before="\r\x1b[K")
            self._is_drawn = True
        else:
            report.say(text)

    def clear(self) -> None:
        """Leave an empty line."""
        if self._is_drawn:
            report.draw("", before="\r\x1b[K")
