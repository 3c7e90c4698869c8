"""`localllm list`, `rm`, `cp`, `gc` and `search`. Data on stdout, messages on stderr."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from localllm.cli.render.units import ago, size
from localllm.cli.shared import report
from localllm.errors import PullFailed
from localllm.settings.config import Settings
from localllm.types.states import AvailableModel


def list_models(settings: Settings, *, as_json: bool) -> int:
    """List every model on this machine."""
    from localllm.registry import listing
    from localllm.runtime.adapters import AdapterNames
    from localllm.runtime.routing import Routing

    models = [*listing.listed(settings.data_dir), *AdapterNames(settings).listed()]
    models += Routing(settings).listed([model for model in models if model.problem is None])
    damaged = [model for model in models if model.problem is not None]
    if as_json:
        _print_json(models)
    else:
        rows = [
            (
                model.id,
                size(None if model.problem else model.size_bytes),
                "damaged" if model.problem and not model.route else model.quant or "",
                ago(model.created_unix_s),
                _origin(model),
            )
            for model in models
        ]
        report.write_table(("NAME", "SIZE", "QUANT", "ADDED", "FROM"), rows)
    for each in damaged:
        report.say(f"localllm: {each.id} cannot be used: {each.problem}")
    return report.FAILURE if any(not each.route for each in damaged) else report.OK


def _origin(model: AvailableModel) -> str:
    if model.route:
        return f"leads to {', '.join(model.route)}"
    return _from(model.source) if model.base is None else f"{model.base} under {model.source or 'an adapter'}"


def remove_models(settings: Settings, names: list[str], *, keep_files: bool) -> int:
    """Remove models, and delete files that no other model needs, unless `keep_files`."""
    from localllm.registry import listing

    digests: set[str] = set()
    for name in names:
        removed = listing.remove(name, settings.data_dir)
        digests |= removed.digests
        report.say(f"localllm: removed {removed.name}")
    if not keep_files:
        found = listing.store_of(settings.data_dir).gc()
        report.say(f"localllm: {size(found.freed_bytes)} freed")
        for item in found.kept:
            if item.id in digests:
                report.say(f"localllm: kept {size(item.size_bytes)} for now: {item.reason}{_until(item.reason)}")
    return report.OK


def _until(reason: str | None) -> str:
    return "; freed when it is unloaded: localllm stop" if " is loaded " in (reason or "") else ""


def copy_model(settings: Settings, source: str, target: str) -> int:
    """Give a model a second name."""
    from localllm.registry import listing

    manifest = listing.copy(source, target, settings.data_dir)
    report.say(f"localllm: {manifest.name} is another name for {source}; it takes no disk space")
    return report.OK


def collect_garbage(settings: Settings, *, dry_run: bool, keep_partials_days: float, as_json: bool) -> int:
    """Delete files that no model needs."""
    from localllm.registry.listing import store_of

    found = store_of(settings.data_dir).gc(dry_run=dry_run, keep_partials_s=keep_partials_days * 86400)
    if as_json:
        _print_json({**msgspec.to_builtins(found), "freed_bytes": found.freed_bytes})
        return report.FAILURE if found.is_blocked else report.OK
    for item in found.removed:
        report.write(f"{size(item.size_bytes):>8}  {item.kind}  {item.id}")
    for item in found.kept:
        report.say(f"localllm: kept {item.kind} {item.id} ({size(item.size_bytes)}): {item.reason}")
    for each in found.damaged:
        kept = "no model files are deleted until it is repaired" if each.digests is None else "its files are kept"
        report.say(f"localllm: the manifest of {each.name} is damaged: {each.reason}; {kept}; {each.remedy}")
    report.say(f"localllm: {size(found.freed_bytes)} {'would be' if dry_run else 'are'} freed")
    return report.FAILURE if found.is_blocked else report.OK


def search_models(settings: Settings, words: str, *, offline: bool, limit: int, as_json: bool) -> int:
    """List models of the catalog, then repositories on Hugging Face."""
    from localllm.registry import catalog

    entries = catalog.load().search(words)
    hits: list[Any] = []
    failure: PullFailed | None = None
    if not offline:
        from localllm.registry.pull import Puller

        try:
            with Puller(settings) as puller:
                hits = puller.search(words, limit)
        except PullFailed as error:
            failure = error
    if as_json:
        _print_json({"catalog": entries, "hub": hits})
    else:
        _show_search(entries, hits)
        sys.stdout.flush()  # a full disk is reported before anything else
        if entries or hits:
            report.say("localllm: localllm fit NAME shows each quantization with its memory and predicted speed")
    if failure is not None:
        report.say(f"localllm: Hugging Face was not searched: {failure.message}")
        return report.OK if entries else report.FAILURE
    if not entries and not hits:
        report.say(f"localllm: nothing found for {words!r}")
        return report.NOT_FOUND
    return report.OK


def _show_search(entries: list[Any], hits: list[Any]) -> None:
    if entries:
        rows: list[tuple[str, ...]] = [
            (entry.id, entry.kind, size(entry.size_bytes), entry.license, entry.description) for entry in entries
        ]
        report.write_table(("NAME", "KIND", "SIZE", "LICENCE", "DESCRIPTION"), rows)
    if entries and hits:
        report.write("")
    if hits:
        rows = [
            (f"hf.co/{hit.id}", f"{hit.downloads:,}", _licence(hit.license, hit.gated), (hit.updated or "")[:10])
            for hit in hits
        ]
        report.write_table(("ON HUGGING FACE", "DOWNLOADS", "LICENCE", "CHANGED"), rows)


def _licence(license: str | None, gated: bool) -> str:
    return ", ".join([license or "", *["gated"] * gated]).removeprefix(", ")


def _from(source: str | None) -> str:
    """The source, with a commit or digest shortened."""
    if source is None:
        return ""
    name, at, revision = source.rpartition("@")
    return f"{name}@{revision.removeprefix('sha256:')[:12]}" if at and len(revision) >= 40 else source


def _print_json(value: Any) -> None:
    from localllm.registry.names.digest import encode_digest

    report.write_json(msgspec.json.encode(value, enc_hook=encode_digest))
