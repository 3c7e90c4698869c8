"""`localllm push`: a model of this machine to a registry, with its progress."""

from __future__ import annotations

import threading

import msgspec

from localllm.cli import report
from localllm.cli.bars import Bar
from localllm.cli.interrupts import stopped_by_ctrl_c
from localllm.settings.config import Settings
from localllm.types.states import PushState


def push_model(settings: Settings, name: str, target: str | None, *, as_json: bool) -> int:
    """Upload it; what the registry has already is not sent again. Raises `LocalLLMError`s."""
    from localllm.registry.push import push
    from localllm.registry.remote import Cancelled

    cancel = threading.Event()
    bar = Bar(name)

    def tell(state: PushState) -> None:
        if state.phase == "uploading":
            bar.show("uploading", state.done_bytes, state.total_bytes)

    try:
        with stopped_by_ctrl_c(cancel), bar:
            pushed = push(name, target, settings, on_state=tell, cancel=cancel)
    except Cancelled:
        report.say("localllm: stopped; what the registry has whole is not sent again the next time")
        return report.INTERRUPTED
    if as_json:
        report.write_json(msgspec.json.encode({"id": pushed}), indented=False)
    else:
        report.say(f"localllm: {name} is there: localllm pull {pushed}")
    return report.OK
