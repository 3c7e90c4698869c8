"""`localllm push`: uploads a model to a registry, with progress."""

from __future__ import annotations

import threading

import msgspec

from localllm.cli.chat.interrupts import stopped_by_ctrl_c
from localllm.cli.render.bars import Bar
from localllm.cli.shared import report
from localllm.settings.config import Settings
from localllm.system.shell_words import shell_word
from localllm.types.states import PushState


def push_model(settings: Settings, name: str, target: str | None, *, as_json: bool) -> int:
    """Upload a model, skipping what the registry already has. Raises `LocalLLMError`s."""
    from localllm.registry.push import push
    from localllm.registry.remote import Cancelled

    cancel = threading.Event()
    bar = Bar(name)
    sent = dict[str, tuple[int, int]]()
    """Bytes done, and all, of each file so far."""

    def show(state: PushState) -> None:
        host = state.waiting_for
        phase = bar.wait(host, state.waiting_s, state.waiting_why) if host else state.phase
        if state.phase == "uploading":
            sent[state.digest] = state.done_bytes, state.total_bytes
            done, total = map(sum, zip(*sent.values(), strict=True))
            bar.show(phase, done, total)
        elif host:
            bar.note(phase)

    try:
        with stopped_by_ctrl_c(cancel), bar:
            pushed = push(name, target, settings, on_state=show, cancel=cancel)
    except Cancelled:
        report.say("localllm: stopped; files uploaded so far are skipped next time")
        return report.INTERRUPTED
    if as_json:
        report.write_json(msgspec.json.encode({"id": pushed}), indented=False)
    else:
        report.say(f"localllm: uploaded {name}: localllm pull {shell_word(pushed)}")
    return report.OK
