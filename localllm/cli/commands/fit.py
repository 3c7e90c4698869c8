"""`localllm fit`: the memory that a model needs per device, and what would fit; for repositories, per quantization."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from localllm.cli.render.speed_words import speed_cells, speed_object, speed_sentence, why_no_speed
from localllm.cli.render.units import size, table
from localllm.cli.shared import report
from localllm.cli.shared.devices import MachineReport, seen_of
from localllm.errors import ModelNotFound
from localllm.planning.speeds import NotPredicted, Speed
from localllm.planning.tuned import Tuning, Tunings, match, place_of
from localllm.registry.adapters.names import GivenAdapter, parse_all_given
from localllm.runtime.adapters import AdapterNames
from localllm.settings.config import Settings
from localllm.system import memory
from localllm.types import ModelInfo
from localllm.types.load_options import LoadOptions

if TYPE_CHECKING:
    from localllm.planning.draft_plan import DraftModel
    from localllm.planning.memory_fit import Fit
    from localllm.planning.projector_plan import Companion
    from localllm.registry.sources.headers import Offer

DOES_NOT_FIT = 1


def show_fit(settings: Settings, model: str, *, as_json: bool) -> int:
    """Print to stdout; returns 0 if it fits, else 1. Raises `ModelNotFound`, `InvalidParameter`, `PullFailed`."""
    settings.load_options()  # conflicting settings are an error before anything is looked up
    names = AdapterNames(settings)
    variant = names.variant(settings.sections().model_named(model))
    model = settings.sections().model_named(model) if variant is None else variant.base
    named = () if variant is None else variant.adapters
    adapters = [GivenAdapter(each.name, each.path, scale, each.layers) for each, scale in named if scale]
    adapters += [each for each in parse_all_given(settings.lora, settings.control_vector) if each.scale]
    try:
        here = _local(settings, model, adapters)
    except ModelNotFound:
        if adapters:
            raise
        found = _offers(settings, model)
        return _show_table(settings, found, as_json=as_json)
    own = settings.for_model(here.id)
    options = own.load_options()
    if options.ctx is None:
        options = msgspec.structs.replace(options, ctx=here.ctx)
    return _show_one(own, here, options, as_json=as_json)


class _Here(NamedTuple):
    """A model on this machine."""

    info: ModelInfo
    id: str
    ctx: int | None
    """The context length in its manifest."""
    tunings: tuple[Tuning, ...]
    companion: Companion
    adapter_bytes: int
    """Of its LoRA adapters."""


def _local(settings: Settings, model: str, adapters: Sequence[GivenAdapter]) -> _Here:
    """Reads a model on this machine, its projector, and adapters for it. Raises `ModelNotFound`, and as a load does."""
    from localllm.gguf import read_header
    from localllm.gguf.adapters import read_adapter
    from localllm.planning.dry_loads import completed
    from localllm.registry.foreign.header_facts import check_is_known, check_is_model
    from localllm.registry.header_reading import read_info
    from localllm.registry.projector_choice import find_projector
    from localllm.registry.resolve import resolve

    file = resolve(model, settings.data_dir)
    try:
        info = read_info(file)
        header = read_header(file.path)
        check_is_model(header)
        check_is_known(header)
        info = completed(info, file.path, settings.data_dir)
        companion = find_projector(file, info, settings.for_model(file.id).load_options())
        sizes: dict[Path, int] = {}
        for each in adapters:
            adapter = read_adapter(each.path, file.path, each.layers)
            each.check(adapter)
            sizes[each.path] = adapter.size_bytes
        tunings = Tunings(settings.data_dir).of(file.path)
        return _Here(info, file.id, file.ctx, tunings, companion, sum(sizes.values()))
    finally:
        file.release()


def _draft_of(settings: Settings, here: _Here, options: LoadOptions) -> DraftModel | None:
    """The draft model that a load would use; a line on stderr says why there is none. Raises as a load does."""
    if options.draft is None or options.speculation == "off" or not here.info.causal:
        return None
    from localllm.planning.draft_plan import DraftModel
    from localllm.registry.draft_choice import find_draft

    found = find_draft(options.draft, here.id, settings.data_dir)
    if found.draft is None:
        report.say(f"localllm: without a draft: {found.reason}")
        return None
    file, info = found.draft
    file.release()
    return DraftModel(file.id, file.path, info)


def _as_tuned(here: _Here, options: LoadOptions, seen: MachineReport) -> LoadOptions:
    """The options with the stored tuning that a load would apply; a line on stderr names it."""
    if not here.tunings:
        return options
    from localllm.planning.plan import context_of

    place = place_of(library=seen.fingerprint, backend=seen.backend, devices=seen.devices)
    found = match(here.tunings, place, options, context_of(here.info, options))
    report.say(f"localllm: tuned: {found.story()}")
    return found.applied(options)


def _offers(settings: Settings, model: str) -> list[Offer]:
    """The quantizations of a remote model. Raises `ModelNotFound`, `PullFailed`."""
    import threading

    from localllm.planning.memory_fit import measure
    from localllm.registry.names.model_names import PathName, parse
    from localllm.registry.pull import Puller

    if isinstance(parse(model), PathName):
        raise ModelNotFound(f"model file {model!r} does not exist", param="model")
    with Puller(settings, measure=measure(settings.load_options())) as puller:
        return puller.offers(model, threading.Event())


def _show_table(settings: Settings, offers: Sequence[Offer], *, as_json: bool) -> int:
    """Print one row per quantization; returns 0 if any fits."""
    from localllm.registry.offers.rating import rated

    rows = rated(settings, offers, seen_of(settings).devices)
    if as_json:
        _write_json([_row_object(*row) for row in rows])
    else:
        head = ("quantization", "download", "memory", "fits", "largest context", "tokens/s", "prompt tokens/s", "name")
        report.write_table(head, [_table_row(*row) for row in rows])
        first = next((row.fit for row in rows if not isinstance(row.fit, str)), None)
        free_bytes = memory.available_memory()
        free = f"; {size(free_bytes)} of memory is free" if free_bytes is not None else ""
        if first is not None:
            setup = _setup(first.ctx, first.slots, first.kv_type)
            report.write(f"With {setup}{free}.", *why_no_speed([row.speed for row in rows]))
        if len(rows) > 1 and any(row.offer.is_chosen for row in rows):
            report.write("* is what localllm pull takes if no quantization is named.")
    return report.OK if any(not isinstance(row.fit, str) and row.fit.fits for row in rows) else DOES_NOT_FIT


def _row_object(one: Offer, plan: Fit | str, speed: Speed | NotPredicted) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": one.name, "quant": one.quant, "size_bytes": one.size_bytes}
    shown |= {"files": one.num_files, "chosen": one.is_chosen, "license": one.license, "speed": speed_object(speed)}
    if one.info is None or isinstance(plan, str):
        return {**shown, "fit": None, "error": plan}
    return {**shown, "fit": as_object(one.info, plan), "error": None}


def _table_row(one: Offer, plan: Fit | str, speed: Speed | NotPredicted) -> tuple[str, ...]:
    start = (f"{one.quant or '?'}{' *' * one.is_chosen}", size(one.size_bytes))
    if isinstance(plan, str):
        return (*start, "?", plan, "", "", "", one.name)
    verdict = "yes" if plan.fits else "no"
    if plan.alternatives:
        other = plan.alternatives[0]
        verdict = f"with --ctx {other.ctx} --slots {other.slots} --kv-type {other.kv_type}"
    largest = "" if plan.largest_ctx is None else f"{plan.largest_ctx:,}"
    return (*start, size(plan.need_bytes), verdict, largest, *speed_cells(speed), one.name)


def _show_one(settings: Settings, here: _Here, options: LoadOptions, *, as_json: bool) -> int:
    from localllm.planning.memory_fit import fit_in_memory
    from localllm.planning.prediction import speeds
    from localllm.registry.offers.rating import chosen_options

    info, seen, free_bytes = here.info, seen_of(settings, whole=bool(here.tunings)), memory.available_memory()
    draft, projector = _draft_of(settings, here, options), here.companion.projector
    wanted = _as_tuned(here, chosen_options(info, options, free_bytes, draft, projector), seen)
    found = fit_in_memory(
        info,
        wanted,
        devices=seen.devices,
        free_bytes=free_bytes,
        draft=draft,
        projector=projector,
        adapter_bytes=here.adapter_bytes,
    )
    (speed,) = speeds(settings, options, [info], seen.devices)
    if as_json:
        _write_json({**as_object(info, found), "speed": speed_object(speed)})
    else:
        report.write(*story(info, found), *_of_pictures(here.companion), speed_sentence(speed))
    return report.OK if found.fits else DOES_NOT_FIT


def _of_pictures(companion: Companion) -> Iterator[str]:
    projector = companion.projector
    if projector is not None and projector.info.vision is not None:
        largest, rows = size(projector.info.compute_bytes), projector.info.vision.max_rows
        yield f"The projector needs {largest} for the largest picture ({rows:,} tokens); --image-max-tokens limits it."
    elif companion.is_unused:
        yield f"It reads text only: {companion.no_media}."


def as_object(info: ModelInfo, found: Fit) -> dict[str, Any]:
    """For scripts: the plan, and the weights per layer."""
    shown: dict[str, Any] = msgspec.to_builtins(found)
    for share, built in zip(found.shares, shown["shares"], strict=True):
        built["needs"]["total"] = share.needs.total
        built["fits"] = share.fits
    weights = {"layers": list(info.layer_bytes), "other": info.other_bytes}
    return {**shown, "need_bytes": found.need_bytes, "weights": weights}


def _write_json(shown: object) -> None:
    report.write_json(msgspec.json.encode(shown))


def story(info: ModelInfo, found: Fit) -> Iterator[str]:
    """The result as lines of text."""
    from localllm.registry.sources.source import clean  # text in a header is untrusted

    yield f"{clean(info.name or info.architecture)}: {_setup(found.ctx, found.slots, found.kv_type)}"
    head = (
        "device",
        "layers",
        "weights",
        "KV cache",
        "computing",
        "worker",
        "draft",
        "projector",
        "adapters",
        "together",
        "free",
        "",
    )
    yield table(head, [_row(share) for share in found.shares], report.screen_columns()).rstrip("\n")
    if info.layer_bytes:
        least, most = min(info.layer_bytes), max(info.layer_bytes)
        each = size(most) if least == most else f"{size(least)} to {size(most)}"
        yield f"{info.num_layers} layers of {each}, plus {size(info.other_bytes)} outside the layers"
    if found.cpu_experts:
        yield f"The experts of {found.cpu_experts} of the {info.num_layers} layers stay in main memory."
    if found.per_gb is not None:
        what = "layers' experts" if found.cpu_experts else "layers"
        yield f"Each further GB on a GPU would hold {found.per_gb:.2g} more {what}."
    verdict = "fits" if found.fits else "does not fit"
    yield f"It {verdict}: {size(found.need_bytes)} in total."
    if found.largest_ctx is not None:
        yield f"The largest context that fits is {found.largest_ctx:,} tokens in each of {found.slots} slots."
    elif info.causal:
        yield f"No context fits with {found.slots} slots."
    for one in found.alternatives:
        yield (f"  would fit: --ctx {one.ctx} --slots {one.slots} --kv-type {one.kv_type} ({size(one.need_bytes)})")


def _setup(ctx: int, slots: int, kv_type: str) -> str:
    if not slots:
        return f"texts of up to {ctx:,} tokens"
    return f"{slots} slot{'s' if slots > 1 else ''} of {ctx:,} tokens, {kv_type} KV cache"


def _row(share: Any) -> tuple[str, ...]:
    needs = share.needs
    parts = (
        needs.weights,
        needs.kv,
        needs.compute,
        needs.process,
        needs.draft,
        needs.projector,
        needs.adapters,
        needs.total,
        share.free_bytes,
    )
    return (share.device, str(share.layers), *map(size, parts), "" if share.fits else "too little")
