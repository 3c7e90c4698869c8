"""`localllm kv list` and `localllm kv clear`: saved conversations and slots. Data on stdout, questions on stderr."""

from __future__ import annotations

import sys
from collections import defaultdict

import msgspec

from localllm.cli.render.units import ago, counted, size
from localllm.cli.shared import report
from localllm.errors import InvalidParameter, LocalLLMError, ModelNotFound, Unavailable, sentence_of
from localllm.kvdisk.folder import Busy
from localllm.kvdisk.survey import StoredStates, clear, survey
from localllm.settings.config import Settings

UNKNOWN = "?"
"""Stands for a model whose name was not recorded."""


def list_saved(settings: Settings, model: str | None, *, as_json: bool) -> int:
    """Saved conversations per model; as JSON per fingerprint, with everything it depends on. Raises `ModelNotFound`."""
    found = _found(settings, model)
    if as_json:
        report.write_json(msgspec.json.encode(found))
        return report.OK
    groups: defaultdict[str, list[StoredStates]] = defaultdict(list)
    for kept in found:
        groups[kept.model or UNKNOWN].append(kept)
    rows = [
        (
            name,
            str(sum(kept.conversations for kept in group)),
            str(sum(len(kept.slots) for kept in group)),
            f"{sum(kept.tokens for kept in group):,}",
            size(sum(kept.size_bytes for kept in group)),
            ago(max(kept.last_used_unix_s for kept in group)),
        )
        for name, group in groups.items()
    ]
    report.write_table(("MODEL", "CONVERSATIONS", "SLOTS", "TOKENS", "SIZE", "LAST USED"), rows)
    if unreadable := sum(kept.unreadable for kept in found):
        report.say(f"localllm: {unreadable} of them are unreadable; evicted when space is needed, or by kv clear")
    return report.OK


def clear_saved(settings: Settings, model: str | None, *, sure: bool, as_json: bool) -> int:
    """Remove saved conversations, after asking. Raises `ModelNotFound`, `InvalidParameter` without a terminal."""
    found = _found(settings, model)
    what = _counted(sum(kept.conversations for kept in found), sum(len(kept.slots) for kept in found))
    if found and not sure and not _is_confirmed(what, sum(kept.size_bytes for kept in found), model):
        report.say("localllm: nothing was removed")
        return report.FAILURE
    try:
        cleared = clear(settings.data_dir, model)
    except Busy as error:
        raise Unavailable(f"saved conversations cannot be removed: {error}; try again") from error
    except OSError as error:
        raise LocalLLMError(f"saved conversations cannot be removed: {sentence_of(error)}") from error
    if as_json:
        report.write_json(msgspec.json.encode(cleared))
    else:
        report.say(
            f"localllm: {_counted(cleared.conversations, cleared.slots)} removed, {size(cleared.size_bytes)} freed"
        )
    return report.OK


def _found(settings: Settings, model: str | None) -> list[StoredStates]:
    try:
        found = survey(settings.data_dir)
    except OSError as error:
        raise LocalLLMError(f"saved conversations cannot be listed: {sentence_of(error)}") from error
    if model is None:
        return found
    chosen = [kept for kept in found if model in (kept.model, kept.fingerprint)]
    if not chosen:
        raise ModelNotFound(f"no saved conversations for {model!r}; localllm kv list shows all", param="model")
    return chosen


def _counted(conversations: int, slots: int) -> str:
    return counted(conversations, "conversation") + (f" and {counted(slots, 'saved slot')}" if slots else "")


def _is_confirmed(what: str, size_bytes: int, model: str | None) -> bool:
    if not sys.stdin.isatty():
        raise InvalidParameter("cannot ask for confirmation without a terminal; add --yes", param="yes")
    of = "of all models" if model is None else f"of {model}"
    return report.ask(f"Remove {what} {of} ({size(size_bytes)})? [y/N] ").lower() in ("y", "yes")
