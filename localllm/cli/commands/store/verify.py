"""`localllm verify`: checks the files of models, and says which are damaged and how to restore them."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from localllm.cli.chat.interrupts import stopped_by_ctrl_c
from localllm.cli.render.bars import Bar
from localllm.cli.render.units import counted, size
from localllm.cli.shared import report
from localllm.settings.config import Settings


def verify_models(settings: Settings, names: list[str], *, as_json: bool) -> int:
    """Check `names`, or all models; returns a failure if anything is damaged. Raises `ModelNotFound`."""
    from localllm.registry.again import again
    from localllm.registry.listing import store_of
    from localllm.registry.remote import Cancelled
    from localllm.registry.verifying import verify, works_of

    store = store_of(settings.data_dir)
    manifests, broken = _wanted(settings, names)
    works = works_of(manifests)
    total = sum(work.file.size_bytes for work in works)
    cancel, lock = threading.Event(), threading.Lock()
    done = 0

    def count(num_bytes: int) -> None:
        nonlocal done
        with lock:
            done += num_bytes
            now_done = done
        bar.show("verifying", now_done, total)

    what = names[0] if len(names) == 1 else counted(len(manifests), "model")
    with stopped_by_ctrl_c(cancel), Bar(what) as bar:
        try:
            found = verify(works, store, on_bytes=count, cancel=cancel)
        except Cancelled:
            report.say("localllm: stopped; damaged files found so far are set aside")
            return report.INTERRUPTED
    if as_json:
        report.write_json(msgspec.json.encode(_as_json(manifests, found, broken)))
        return report.FAILURE if found or broken else report.OK
    for manifest, damage in found:
        aside = "; set aside" if damage.is_set_aside else ""
        report.say(f"localllm: {manifest.name}: {damage.path} {damage.reason}{aside}; {again(manifest)}")
    for each in broken:
        report.say(f"localllm: the manifest of {each.name} is damaged: {each.reason}; {each.remedy}")
    if not found and not broken:
        report.say(
            f"localllm: {counted(len(works), 'file')} ({size(total)}) {'is' if len(works) == 1 else 'are'} intact"
        )
    return report.FAILURE if found or broken else report.OK


def _wanted(settings: Settings, names: list[str]) -> tuple[list[Any], list[Any]]:
    """The manifests to check, and the damaged ones if no names are given."""
    from localllm.registry.listing import store_of, stored

    if names:
        return [stored(name, settings.data_dir) for name in names], []
    manifests, damaged = store_of(settings.data_dir).scan()
    return list(manifests), list(damaged)


def _as_json(manifests: list[Any], found: list[Any], broken: list[Any]) -> dict[str, Any]:
    damaged = [
        {
            "model": manifest.name,
            "file": damage.file.file_name,
            "path": damage.path,
            "reason": damage.reason,
            "set_aside": damage.is_set_aside,
        }
        for manifest, damage in found
    ]
    damaged += [{"model": each.name, "path": each.path, "reason": each.reason} for each in broken]
    return {"verified": [manifest.name for manifest in manifests], "damaged": damaged}
