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
from localllm.config import Settings
from localllm.errors import InvalidParameter, LoadFailed
from localllm.llama import building, runtimes, selftest
from localllm.llama.runtimes import AUTO, Listed, Runtime

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


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """What `test --json` prints of each."""

    name: str
    works: bool
    used: str = ""
    prefill_tokens_per_s: float = 0.0
    decode_tokens_per_s: float = 0.0
    problem: str = ""


def manage_runtimes(settings: Settings, action: str, target: str | None, *, name: str | None, as_json: bool) -> int:
    """Returns the exit code. Raises `LocalLLMError`s."""
    if name is not None and action not in ("build", "install"):
        raise InvalidParameter(f"--name goes with build and install, not with {action}", param="name")
    if action == "list":
        return _list(settings, as_json=as_json)
    if action == "test":
        return _test(settings, target, as_json=as_json)
    if target is None:
        wanted = {"build": f"one of {', '.join(building.KINDS)}", "install": "a folder or archive"}
        raise InvalidParameter(f"{action} what? Give {wanted.get(action, 'the name of a runtime')}", param="target")
    if action == "build":
        return _build(settings, target, name)
    if action == "install":
        made = building.add(Path(target).expanduser(), settings.data_dir, name=name, check=_check)
        report.say(f"localllm: {made.name} is installed; `localllm runtime use {made.name}` makes it the one in use")
    elif action == "use":
        runtimes.choose(target, settings.data_dir)
        report.say(
            f"localllm: models that are loaded from now on use {'what is fastest' if target == AUTO else target}"
        )
    else:
        building.remove(target, settings.data_dir)
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
    if as_json:
        rows = [_row(each, used) for each in found]
        report.write_json(msgspec.json.encode(rows))
    else:
        lines = [(each.runtime.name, each.origin, each.kind, each.version, _state(each, used)) for each in found]
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
    report.say("localllm: this fetches the source of llama.cpp and compiles it; it takes some 10 minutes on two cores")
    progress = _Steps()
    started_s = time.monotonic()
    try:
        made = building.build(kind, settings.data_dir, name=name, check=_check, on_progress=progress)
    finally:
        progress.clear()
    took = duration(time.monotonic() - started_s)
    outcome = selftest.choose(settings.data_dir, runtime=settings.runtime)
    use = (
        "it is in use from now on" if outcome.choice.runtime == made else f"`localllm runtime use {made.name}` uses it"
    )
    report.say(f"localllm: {made.name} is built and tested ({took}); {use}")
    return report.OK


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
