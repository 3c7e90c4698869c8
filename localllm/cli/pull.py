"""`localllm pull`: says what it is going to download, shows how far it is; what was stopped can be gone on with."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import msgspec

from localllm import osdep
from localllm.cli import report
from localllm.cli.bars import Bar
from localllm.cli.units import size
from localllm.config import Settings
from localllm.errors import LocalLLMError, PullFailed
from localllm.speeds import NotPredicted
from localllm.states import AvailableModel, PullState
from localllm.types import ModelInfo


def pull_model(settings: Settings, name: str, *, force: bool, as_json: bool) -> int:
    """Download a model; returns the exit code. Raises `LocalLLMError`s."""
    model = download(settings, name, force=force, quiet=as_json)
    if model is None:
        return report.INTERRUPTED
    if as_json:
        report.write_json(msgspec.json.encode(model), indented=False)
    else:
        report.say(f"localllm: {model.id} is here ({size(model.size_bytes)}): localllm run {model.id}")
    return report.OK


def download(settings: Settings, name: str, *, force: bool = False, quiet: bool = False) -> AvailableModel | None:
    """The model is in the store then; None if Ctrl-C stopped it. With `quiet` only the progress is shown.

    Raises `PullFailed` where it is larger than this machine's memory, unless a person or `force` wants it all the same.
    """
    from localllm.registry.pull import Puller
    from localllm.registry.remote import Cancelled, PullPlan
    from localllm.supervisor.fit import measure

    def announce(plan: PullPlan) -> None:
        if not quiet:
            describe(plan)
        _check_memory(plan.name, plan.need_bytes or plan.size_bytes, force=force)

    def describe(plan: PullPlan) -> None:
        what = [
            size(plan.size_bytes),
            plan.quant,
            f"licence: {plan.license}" if plan.license else "licence: not stated",
        ]
        report.say(f"localllm: {plan.name} is {plan.source}: {', '.join(part for part in what if part)}")
        if plan.why:
            report.say(f"localllm: {plan.quant or 'this file'} because {plan.why}")
        for notice in plan.notices:
            report.say(f"localllm: {notice}")
        if plan.info is not None:
            report.say(f"localllm: {_expected_speed(settings, plan.info)}")

    cancel = threading.Event()
    bar = Bar(name)
    last = PullState(phase="looking", id=name)

    def tell(state: PullState) -> None:
        nonlocal last
        last = state
        bar.show(state.phase, state.done_bytes, state.total_bytes, state.bytes_per_s)

    try:
        with _stopped_by_ctrl_c(cancel), Puller(settings, measure=measure(settings.load_options())) as puller, bar:
            return puller.pull(name, on_plan=announce, on_state=tell, cancel=cancel)
    except Cancelled:
        so_far = f"; {size(last.done_bytes)} are kept" if last.done_bytes else ""
        report.say(f"localllm: stopped{so_far}: localllm pull {name} goes on from there")
        return None


def _expected_speed(settings: Settings, info: ModelInfo) -> str:
    from localllm.cli.devices import devices_of
    from localllm.cli.speed_words import speed_sentence
    from localllm.predicting import speeds

    try:
        (speed,) = speeds(settings, settings.load_options(), [info], devices_of(settings))
    except LocalLLMError as error:  # what cannot be loaded here may be downloaded all the same
        speed = NotPredicted(error.message)
    return speed_sentence(speed)


def _check_memory(name: str, size_bytes: int | None, *, force: bool) -> None:
    """Asks, refuses or warns before a model is downloaded that is larger than all memory."""
    total = osdep.total_memory()
    if total is None or size_bytes is None or size_bytes <= total:
        return
    doubt = (
        f"{name} takes {size(size_bytes)}, and this machine {size(total)} of memory: unless GPUs hold most of "
        "it, it is read from the disk for every token"
    )
    if force:
        report.say(f"localllm: {doubt}")
        return
    if not sys.stdin.isatty():
        raise PullFailed(
            f"{doubt}; localllm pull --force {name} downloads it all the same, a smaller quantization may fit"
        )
    with _ended_by_ctrl_c():
        answer = report.ask(f"localllm: {doubt}. Download it all the same? [y/N] ")
    if answer.lower() not in ("y", "yes"):
        raise PullFailed("nothing was downloaded; localllm search finds smaller models")


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """While a question waits, Ctrl-C ends the command."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _stopped_by_ctrl_c(cancel: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set the flag, and everything is put down in order. A second Ctrl-C does not wait for that."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        if cancel.is_set():
            raise KeyboardInterrupt
        cancel.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
