"""`localllm kv list` and `localllm kv clear`: conversations and slots. Data on stdout, questions on stderr."""

from __future__ import annotations

import sys
from collections import defaultdict

import msgspec

from localllm.cli import report
from localllm.cli.units import ago, size
from localllm.errors import InvalidParameter, LocalLLMError, ModelNotFound, Unavailable
from localllm.kvdisk.folder import Busy
from localllm.kvdisk.survey import Kept, clear, survey
from localllm.settings.config import Settings

UNKNOWN = "?"
"""In place of the name of a model that nobody wrote down."""


def list_saved(settings: Settings, model: str | None, *, as_json: bool) -> int:
    """What is saved, per model; with JSON per fingerprint, with all that it depends on. Raises `ModelNotFound`."""
    found = _found(settings, model)
    if as_json:
        report.write_json(msgspec.json.encode(found))
        return report.OK
    groups: defaultdict[str, list[Kept]] = defaultdict(list)
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
        report.say(f"localllm: {unreadable} of them cannot be read; they go when there is no room, or with kv clear")
    return report.OK


def clear_saved(settings: Settings, model: str | None, *, sure: bool, as_json: bool) -> int:
    """Remove what is saved, after asking. Raises `ModelNotFound`, `InvalidParameter` where nobody can be asked."""
    found = _found(settings, model)
    what = _counted(sum(kept.conversations for kept in found), sum(len(kept.slots) for kept in found))
    if found and not sure and not _agreed(what, sum(kept.size_bytes for kept in found), model):
        report.say("localllm: nothing was removed")
        return report.FAILURE
    try:
        cleared = clear(settings.data_dir, model)
    except (Busy, OSError) as error:
        raise Unavailable(f"saved conversations cannot be removed: {error}; try again") from error
    if as_json:
        report.write_json(msgspec.json.encode(cleared))
    else:
        report.say(
            f"localllm: {_counted(cleared.conversations, cleared.slots)} removed, {size(cleared.size_bytes)} freed"
        )
    return report.OK


def _found(settings: Settings, model: str | None) -> list[Kept]:
    try:
        found = survey(settings.data_dir)
    except OSError as error:
        raise LocalLLMError(f"saved conversations cannot be listed: {error}") from error
    if model is None:
        return found
    chosen = [kept for kept in found if model in (kept.model, kept.fingerprint)]
    if not chosen:
        raise ModelNotFound(f"no conversations are saved of {model!r}; localllm kv list says of which", param="model")
    return chosen


def _counted(conversations: int, slots: int) -> str:
    return f"{conversations} conversations" + (f" and {slots} saved slots" if slots else "")


def _agreed(what: str, size_bytes: int, model: str | None) -> bool:
    if not sys.stdin.isatty():
        raise InvalidParameter("nobody can be asked whether to remove them; add --yes", param="yes")
    of = "of all models" if model is None else f"of {model}"
    return report.ask(f"Remove {what} {of} ({size(size_bytes)})? [y/N] ").lower() in ("y", "yes")
