"""`localllm pull`: says what it is going to download, shows how far it is; what was stopped can be gone on with."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import msgspec

from localllm.cli import report
from localllm.cli.bars import Bar
from localllm.cli.units import size
from localllm.config import Settings
from localllm.states import AvailableModel, PullState


def pull_model(settings: Settings, name: str, *, as_json: bool) -> int:
    """Download a model; returns the exit code. Raises `LocalLLMError`s."""
    model = download(settings, name, quiet=as_json)
    if model is None:
        return report.INTERRUPTED
    if as_json:
        sys.stdout.write(msgspec.json.encode(model).decode() + "\n")
    else:
        report.say(f"localllm: {model.id} is here ({size(model.size_bytes)}): localllm run {model.id}")
    return report.OK


def download(settings: Settings, name: str, *, quiet: bool = False) -> AvailableModel | None:
    """The model is in the store then; None if Ctrl-C stopped it. With `quiet` only the progress is shown."""
    from localllm.registry.pull import Puller
    from localllm.registry.remote import Cancelled, PullPlan
    from localllm.supervisor.fit import measure

    def announce(plan: PullPlan) -> None:
        if quiet:
            return
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
