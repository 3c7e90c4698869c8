"""`localllm pull`: announces a download, shows its progress, and can resume it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import msgspec

from localllm.cli.chat.interrupts import stopped_by_ctrl_c
from localllm.cli.render.bars import Bar
from localllm.cli.render.units import size
from localllm.cli.shared import report
from localllm.errors import InvalidModelFile, LocalLLMError, PullFailed
from localllm.planning.speeds import NotPredicted
from localllm.settings.config import Settings
from localllm.system import memory
from localllm.system.shell_words import shell_word
from localllm.types import ModelInfo
from localllm.types.states import AvailableModel, PullState

if TYPE_CHECKING:
    from localllm.registry.remote import PullPlan

Volume = Literal["words", "progress", "nothing"]
"""Output on stderr: a description and progress, progress only, or nothing."""


def pull_models(
    settings: Settings, names: Sequence[str], *, force: bool, dry_run: bool, quiet: bool, as_json: bool
) -> int:
    """Download models one after the other; returns the exit code. A failed one does not stop the others."""
    volume: Volume = "nothing" if quiet else "progress" if as_json else "words"
    codes = []
    for name in names:
        try:
            codes.append(
                _plan(settings, name, volume, force=force, as_json=as_json)
                if dry_run
                else _pull(settings, name, volume, force=force, as_json=as_json)
            )
        except LocalLLMError as error:
            codes.append(report.complain(error))
        if codes[-1] == report.INTERRUPTED:
            break
    return next((code for code in codes if code != report.OK), report.OK)


def _pull(settings: Settings, name: str, volume: Volume, *, force: bool, as_json: bool) -> int:
    model = download(settings, name, force=force, volume=volume)
    if model is None:
        return report.INTERRUPTED
    if as_json:
        report.write_json(msgspec.json.encode(model), indented=False)
    elif volume == "words":
        report.say(f"localllm: {model.id} is ready ({size(model.size_bytes)}): localllm run {shell_word(model.id)}")
    return report.OK


def _plan(settings: Settings, name: str, volume: Volume, *, force: bool, as_json: bool) -> int:
    """Print what would be downloaded."""
    from localllm.planning.memory_fit import measure
    from localllm.registry.pull import Puller
    from localllm.registry.remote import Cancelled

    cancel = threading.Event()
    try:
        with (
            stopped_by_ctrl_c(cancel),
            _naming_force(name),
            Puller(settings, measure=measure(settings.load_options())) as puller,
        ):
            plan = puller.plan(name, cancel, force=force)
            missing = puller.missing(plan)
    except Cancelled:
        return report.INTERRUPTED
    sizes = [file.size_bytes for file in missing]
    missing_bytes = None if None in sizes else sum(each or 0 for each in sizes)
    if as_json:
        report.write_json(msgspec.json.encode(_planned(plan, missing_bytes)), indented=False)
        return report.OK
    if volume == "words":
        describe(settings, plan)
    report.write(*(f"{size(file.size_bytes):>8}  {file.file_name}" for file in missing))
    if volume == "words":
        would = f"{size(missing_bytes)} would be downloaded" if missing else "nothing has to be downloaded"
        report.say(f"localllm: {would}")
    return report.OK


def _planned(plan: PullPlan, missing_bytes: int | None) -> dict[str, object]:
    files = [
        {
            "name": file.file_name,
            "role": file.role,
            "size_bytes": file.size_bytes,
            "digest": file.digest and str(file.digest),
        }
        for file in plan.files
    ]
    return {
        "id": plan.name,
        "source": plan.source,
        "quant": plan.quant,
        "license": plan.license,
        "why": plan.why,
        "notices": plan.notices,
        "size_bytes": plan.size_bytes,
        "need_bytes": plan.need_bytes,
        "download_bytes": missing_bytes,
        "files": files,
    }


def describe(settings: Settings, plan: PullPlan) -> None:
    """Describe the model on stderr."""
    facts = [
        size(plan.size_bytes),
        plan.quant,
        f"licence: {plan.license}" if plan.license else "licence: not stated",
    ]
    report.say(f"localllm: {plan.name} is {plan.source}: {', '.join(fact for fact in facts if fact)}")
    if plan.problem is not None:
        report.say(f"localllm: {plan.problem.message}")
    if plan.why:
        report.say(f"localllm: {plan.quant or 'this file'} because {plan.why}")
    for notice in plan.notices:
        report.say(f"localllm: {notice}")
    if plan.info is not None:
        report.say(f"localllm: {_expected_speed(settings, plan.info)}")


def download(settings: Settings, name: str, *, force: bool = False, volume: Volume = "words") -> AvailableModel | None:
    """Download a model into the store; None if Ctrl-C stopped it.

    Raises `PullFailed` if it is larger than this machine's memory, unless the user agrees or `force` is set.
    """
    from localllm.planning.memory_fit import measure
    from localllm.registry.pull import Puller
    from localllm.registry.remote import Cancelled

    def announce(plan: PullPlan) -> None:
        bar.note("")
        if volume == "words":
            describe(settings, plan)
        _check_memory(plan.name, plan.need_bytes or plan.size_bytes, force=force)

    cancel = threading.Event()
    bar = Bar(name)
    last = PullState(phase="looking", id=name)

    def show(state: PullState) -> None:
        nonlocal last
        last = state
        if volume == "nothing":
            return
        host = state.waiting_for
        phase = bar.wait(host, state.waiting_s, state.waiting_why) if host else state.phase
        if state.phase == "looking":
            bar.note(phase if state.waiting_for else "")
            return
        bar.show(phase, state.done_bytes, state.total_bytes, state.bytes_per_s)

    try:
        with (
            stopped_by_ctrl_c(cancel),
            _naming_force(name),
            Puller(settings, measure=measure(settings.load_options())) as puller,
            bar,
        ):
            return puller.pull(name, on_plan=announce, on_state=show, cancel=cancel, force=force)
    except Cancelled:
        kept = f"; {size(last.done_bytes)} kept" if last.done_bytes else ""
        report.say(f"localllm: stopped{kept}: localllm pull {shell_word(name)} resumes the download")
        return None


@contextmanager
def _naming_force(name: str) -> Iterator[None]:
    """Within the block, the refusal of an architecture that llama.cpp does not know says how to download it anyway."""
    try:
        yield
    except InvalidModelFile as error:
        if "architecture" not in error.details:
            raise
        raise InvalidModelFile(
            f"{error.message}; localllm pull --force {shell_word(name)} downloads it anyway"
        ) from error


def _expected_speed(settings: Settings, info: ModelInfo) -> str:
    from localllm.cli.render.speed_words import speed_sentence
    from localllm.cli.shared.devices import seen_of
    from localllm.planning.prediction import speeds

    try:
        (speed,) = speeds(settings, settings.load_options(), [info], seen_of(settings).devices)
    except LocalLLMError as error:  # a model that cannot be loaded here may still be downloaded
        speed = NotPredicted(error.message)
    return speed_sentence(speed)


def _check_memory(name: str, size_bytes: int | None, *, force: bool) -> None:
    """Ask, refuse or warn before downloading a model that is larger than all memory."""
    total = memory.total_memory()
    if total is None or size_bytes is None or size_bytes <= total:
        return
    warning = (
        f"{name} takes {size(size_bytes)}, but this machine has {size(total)} of memory: unless GPUs hold most of "
        "it, it is read from disk for every token"
    )
    if force:
        report.say(f"localllm: {warning}")
        return
    if not sys.stdin.isatty():
        raise PullFailed(
            f"{warning}; localllm pull --force {shell_word(name)} downloads it anyway, a smaller quantization may fit"
        )
    with _ended_by_ctrl_c():
        answer = report.ask(f"localllm: {warning}. Download it anyway? [y/N] ")
    if answer.lower() not in ("y", "yes"):
        raise PullFailed("nothing was downloaded; localllm search finds smaller models")


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Ctrl-C within the block ends the command."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
