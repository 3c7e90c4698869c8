"""`localllm lora`: lists, adds, converts, merges, shows and removes adapters. Data on stdout, messages on stderr."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from localllm.cli.render.units import size
from localllm.cli.shared import report
from localllm.errors import Cancelled, InvalidParameter, ModelNotFound
from localllm.gguf.adapters import adapter_info
from localllm.gguf.header import read_header
from localllm.registry.adapters.names import checked_layers, checked_scale, name_of
from localllm.registry.adapters.shelf import Shelf
from localllm.runtime.adapters import AdapterNames, KnownAdapter
from localllm.settings.config import Settings
from localllm.types import Layers

Action = Literal["list", "add", "show", "remove", "convert", "merge"]
NOTICEABLE_ROUNDING = 0.1
"""Share of the adapters' change from which on the merged model may answer otherwise
(benchmarks/log/adapters.md#merged-models)."""
_USAGE = {
    "add": ("MODEL", "NAME", "FILE|FOLDER|hf.co/USER/REPO"),
    "show": ("NAME",),
    "remove": ("NAME",),
    "convert": ("MODEL", "FOLDER", "FILE"),
    "merge": ("MODEL+NAME", "FILE"),
}


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One adapter, as `--json` shows it."""

    name: str
    base: str
    scale: float
    size_bytes: int
    digest: str
    path: str
    source: str = ""
    layers: str | None = None
    """The only ones that it changes, as FIRST-LAST."""


def manage_adapters(
    settings: Settings,
    action: Action,
    words: list[str],
    *,
    scale: float,
    type: str,
    as_json: bool,
    layers: str | None = None,
) -> int:
    """Carry out the action; returns the exit code. Raises `LocalLLMError`s."""
    wanted = _USAGE.get(action)
    if (wanted is None and len(words) > 1) or (wanted is not None and len(words) != len(wanted)):
        usage = "[MODEL]" if wanted is None else " ".join(wanted)
        raise InvalidParameter(f"write localllm lora {action} {usage}", param="action")
    if action == "list":
        return _list(settings, words[0] if words else None, as_json=as_json)
    if action == "show":
        return _show(settings, words[0], as_json=as_json)
    if action == "convert":
        return _convert(settings, *words)
    if action == "merge":
        return _merge(settings, words[0], Path(words[1]).expanduser(), type, as_json=as_json)
    shelf = Shelf(settings.data_dir)
    if action == "remove":
        removed = shelf.remove(words[0])
        report.say(f"localllm: removed {removed.name}, an adapter of {removed.base}")
        return report.OK
    wanted_layers = None if layers is None else checked_layers(layers)
    return _add(settings, *words, scale=checked_scale(str(scale)), layers=wanted_layers)


def _add(settings: Settings, model: str, name: str, source: str, *, scale: float, layers: Layers | None) -> int:
    from localllm.cli.chat.interrupts import stopped_by_ctrl_c
    from localllm.cli.render.bars import Bar
    from localllm.registry.names.model_names import HubFile, HubRepo, parse

    shelf, base = Shelf(settings.data_dir), settings.sections().model_named(model)
    wanted = None if Path(source).expanduser().exists() else parse(source)
    if not isinstance(wanted, HubRepo | HubFile):
        added = shelf.add(base, name, Path(source).expanduser(), scale, layers=layers)
    else:
        from localllm.registry.adapters.pulled import pulled_adapter

        shelf.check(base, name)
        cancel, done = threading.Event(), 0
        with Bar(source) as bar, stopped_by_ctrl_c(cancel):

            def count(num_bytes: int) -> None:
                nonlocal done
                done += num_bytes
                bar.show("downloading", done, None)

            try:
                with pulled_adapter(settings, wanted, on_bytes=count, cancel=cancel) as pulled:
                    added = shelf.add(base, name, pulled.path, scale, layers=layers, source=pulled.source)
            except Cancelled:
                return report.INTERRUPTED
    where = f", from its {len(added.invocation)} invocation tokens on" if added.invocation else ""
    report.say(
        f"localllm: {added.name} is {added.base} under this adapter (rank {added.rank}, {size(added.size_bytes)}"
        f"{where}): localllm run {added.name}"
    )
    return report.OK


def steer(settings: Settings, model: str, name: str, pairs: Path, *, layers: str | None, scale: float) -> int:
    """`localllm steer make`. Raises `LocalLLMError`s."""
    from localllm.registry.adapters.steering import make_vector

    made = make_vector(settings, model, name, pairs, layers=layers, scale=checked_scale(str(scale)))
    strengths, base = made.strengths, made.adapter.base
    most = max(range(len(strengths)), key=strengths.__getitem__)
    report.say(
        f"localllm: {name} is {base} under this control vector ({len(strengths)} layers; the pairs differ most behind "
        f"layer {made.first + most}, by {strengths[most]:.0%}): localllm run {name}; {base}+{name}:0.5 is half as "
        "strong, :-1 the opposite"
    )
    return report.OK


def _list(settings: Settings, model: str | None, *, as_json: bool) -> int:
    names = AdapterNames(settings)
    found = names.everything() if model is None else names.of(settings.sections().model_named(model))
    if as_json:
        report.write_json(msgspec.json.encode([_row(each) for each in found]))
    else:
        rows = [(each.name, each.base, _strength(each), size(each.size_bytes), each.source) for each in found]
        report.write_table(("NAME", "MODEL", "SCALE", "SIZE", "FROM"), rows)
    return report.OK


def _convert(settings: Settings, model: str, folder: str, target: str) -> int:
    from localllm.registry.peft.converting import convert
    from localllm.registry.resolve import resolve

    path = Path(target).expanduser()
    if path.exists():
        raise InvalidParameter(f"{target} exists already; name another file, or remove it", param="file")
    base = resolve(settings.sections().model_named(model), settings.data_dir)
    try:
        info = convert(Path(folder).expanduser(), base.path, path, name=name_of(path))
    finally:
        base.release()
    report.say(f"localllm: wrote {target}: {info.num_matrices} matrices, rank {info.rank}, {size(info.size_bytes)}")
    return report.OK


def _merge(settings: Settings, name: str, target: Path, type: str, *, as_json: bool) -> int:
    """Says how much rounding distorts the adapters' change: to merge and then quantize makes another model."""
    from localllm.cli.render.bars import Bar
    from localllm.registry.making.merging import Applied, merge
    from localllm.registry.resolve import resolve

    variant = AdapterNames(settings).variant(settings.sections().model_named(name))
    if variant is None:
        raise InvalidParameter(f"{name!r} names no adapter: write MODEL+NAME, or an adapter's name", param="model")
    base = resolve(variant.base, settings.data_dir)
    try:
        with Bar(target.name) as bar:
            adapters = [Applied(adapter.path, scale) for adapter, scale in variant.adapters]
            merged = merge(base.path, adapters, target, type, on_bytes=partial(bar.show, "merging"))
    finally:
        base.release()
    if as_json:
        report.write_json(msgspec.json.encode(merged))
        return report.OK
    types = ", ".join(f"{count} {type}" for type, count in merged.types.items())
    report.say(f"localllm: wrote {target} ({size(merged.size_bytes)}), with {merged.matrices} merged matrices: {types}")
    report.say(
        f"localllm: the adapters change these matrices by {merged.change:.2%}; rounding them distorts "
        f"{merged.rounding:.2%} of that change"
    )
    if merged.rounding > NOTICEABLE_ROUNDING:
        report.say(f"localllm: it may answer otherwise than {name} does; --type F16 keeps the change")
    return report.OK


def _show(settings: Settings, name: str, *, as_json: bool) -> int:
    found = next((each for each in AdapterNames(settings).everything() if each.name == name), None)
    if found is None:
        raise ModelNotFound(f"no adapter is called {name!r}; localllm lora list shows them", param="name")
    info = adapter_info(read_header(found.path))
    shown: dict[str, Any] = msgspec.to_builtins(_row(found)) | msgspec.to_builtins(info) | {"name": found.name}
    if as_json:
        report.write_json(msgspec.json.encode(shown))
    else:
        width = max(map(len, shown)) + 2
        report.write(*(f"{key:<{width}}{value}" for key, value in shown.items() if value not in (None, "", [])))
    return report.OK


def _strength(adapter: KnownAdapter) -> str:
    """Its scale, and the layers to which it is limited."""
    return f"{adapter.scale:g}" + ("" if adapter.layers is None else f":{adapter.layers}")


def _row(adapter: KnownAdapter) -> Row:
    return Row(
        name=adapter.name,
        base=adapter.base,
        scale=adapter.scale,
        size_bytes=adapter.size_bytes,
        digest=f"sha256:{adapter.digest}",
        path=str(adapter.path),
        source=adapter.source,
        layers=None if adapter.layers is None else str(adapter.layers),
    )
