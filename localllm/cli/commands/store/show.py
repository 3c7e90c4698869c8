"""`localllm show`: a model's GGUF header, chat format and settings, as a table or as JSON. Loads nothing."""

from __future__ import annotations

from typing import Any

import msgspec

from localllm.chat.template_note import template_note
from localllm.cli.render.units import labelled, size
from localllm.cli.shared import report
from localllm.errors import InvalidParameter
from localllm.gguf.architectures import needs
from localllm.settings.config import Settings
from localllm.system.printable import one_line
from localllm.types import ChatFormat, ModelInfo


def show_model(settings: Settings, model: str, *, modelfile: bool, as_json: bool) -> int:
    """Print to stdout. Raises `ModelNotFound`, `InvalidModelFile`, `InvalidParameter`."""
    from localllm.cli.commands.store.model_settings import own_rows
    from localllm.cli.shared import formats
    from localllm.cli.shared.show_media import as_media_object, media_rows
    from localllm.cli.shared.tuned import as_object, rows_for
    from localllm.registry.adapters.names import spelled
    from localllm.registry.header_reading import read_info
    from localllm.registry.projector_choice import useful_projector
    from localllm.registry.resolve import resolve
    from localllm.runtime.adapters import AdapterNames

    model = settings.sections().model_named(model)
    variant = AdapterNames(settings).variant(model)
    model = model if variant is None else variant.base
    manifest = _manifest(settings, model)
    if modelfile:
        report.write_text(_modelfile(model, manifest))
        return report.OK
    file = resolve(model, settings.data_dir)
    try:
        info = read_info(file)
        format = formats.format_of(file.path, info)
        options = settings.for_model(file.id).load_options()
        if options.ctx is None:
            options = msgspec.structs.replace(options, ctx=file.ctx)
        companion = useful_projector(file, info, options)
    finally:
        file.release()
    reads = () if companion.projector is None else companion.projector.info.reads
    if as_json:
        from localllm.registry.names.digest import encode_digest

        shown: dict[str, Any] = msgspec.to_builtins(info)
        del shown["tensors"]
        shown["capabilities"] = formats.abilities(info, format, reads)
        shown["projector"] = as_media_object(companion)
        if format is not None:
            shown["chat_format"] = formats.as_json(format)
        if manifest is not None:
            shown["manifest"] = msgspec.to_builtins(manifest, enc_hook=encode_digest)
            shown["version"] = manifest.digest
        if variant is not None:
            shown["base"] = file.id
            shown["adapters"] = {adapter.name: scale for adapter, scale in variant.adapters}
        own = settings.sections().of(file.id)
        if own:
            shown["settings"] = {key: each.value for key, each in own.items()}
        if tunings := as_object(settings, file.path):
            shown["tuned"] = tunings
        report.write_json(msgspec.json.encode(shown))
        return report.OK
    rows = table(info, format) + ([] if format is None else formats.rows(format))
    given = () if manifest is None or options.mmproj else manifest.files
    projector_name = next((each.file_name for each in given if each.role == "projector"), "")
    rows += media_rows(settings, info, options, companion, projector_name)
    abilities = ", ".join(formats.abilities(info, format, reads))
    rows.append(("capabilities", abilities or "none by itself: it guesses for the model it was made for (--draft)"))
    rows += [] if manifest is None else _manifest_rows(manifest)
    if variant is not None:
        rows.append(("adapters", ", ".join(spelled(each.name, scale, each.layers) for each, scale in variant.adapters)))
    rows += own_rows(settings, file.id) + rows_for(settings, file.path)
    width = max(len(name) for name, _ in rows)
    columns = report.screen_columns()
    report.write(*(labelled(one_line(name), value, width + 2, columns) for name, value in rows))
    return report.OK


def _manifest(settings: Settings, model: str) -> Any:
    """The manifest in the store; None for the bundled model and for files."""
    from localllm.cli.shared.model_names import is_name
    from localllm.registry.listing import store_of
    from localllm.registry.names.model_names import Demo, parse
    from localllm.registry.resolve import find

    if not is_name(model) or isinstance(name := parse(model), Demo):
        return None
    return find(name, store_of(settings.data_dir))


def _modelfile(model: str, manifest: Any) -> str:
    from localllm.registry.making.create import modelfile_of

    if manifest is None:
        raise InvalidParameter(f"{model} has no Modelfile: only models in localllm list have one", param="model")
    return modelfile_of(manifest)


def _manifest_rows(manifest: Any) -> list[tuple[str, str]]:
    from localllm.registry.resolve import SHOWN_DIGITS

    rows: list[tuple[str, Any]] = [
        ("version", manifest.digest[:SHOWN_DIGITS]),
        ("from", manifest.source),
        ("licence", manifest.license),
        ("added", manifest.created_at),
        ("files", ", ".join(f"{file.file_name} {file.digest.short}" for file in manifest.files)),
        ("context set", manifest.ctx),
        ("system message", manifest.system),
        ("stop", ", ".join(map(repr, manifest.stop))),
        *msgspec.to_builtins(manifest.params).items(),
    ]
    return [(name, str(value)) for name, value in rows if value not in (None, "")]


def table(info: ModelInfo, format: ChatFormat | None = None) -> list[tuple[str, str]]:
    """The rows of known values, formatted with units."""
    heads = f"{info.num_heads}, {info.num_kv_heads} for keys and values" if info.num_heads else None
    sampling = ", ".join(f"{name} {value:g}" for name, value in info.sampling.items())
    layer_bytes = sum(info.layer_bytes)
    rows: list[tuple[str, str | int | None]] = [
        ("name", info.name),
        ("architecture", _architecture(info)),
        ("parameters", _count(info.num_parameters)),
        ("quantization", info.file_type),
        ("tensor types", ", ".join(f"{kind} {size(num_bytes)}" for kind, num_bytes in info.quantization.items())),
        ("size", size(info.size_bytes)),
        ("files", info.split_count if info.split_count > 1 else None),
        ("context length", info.context_length),
        ("layers", f"{info.num_layers} ({size(layer_bytes)}, and {size(info.other_bytes)} outside)"),
        ("embedding", info.embedding_length),
        ("feed forward", info.feed_forward_length),
        ("heads", heads),
        ("vocabulary", f"{info.vocabulary_size} tokens" + (f", {info.tokenizer}" if info.tokenizer else "")),
        ("sampling", sampling),
        ("chat template", _templates(info, format)),
    ]
    return [(name, str(value)) for name, value in rows if value not in (None, "")]


def _architecture(info: ModelInfo) -> str:
    if needs(info.architecture):
        return f"{info.architecture} (unknown to every llama.cpp that this localllm can use)"
    return info.architecture if info.causal else f"{info.architecture} (encoder)"


def _templates(info: ModelInfo, format: ChatFormat | None) -> str:
    names, note = ", ".join(info.chat_templates), template_note(info, format)
    if not names:
        return f"none: `run` continues text{f' ({note})' if info.causal and note else ''}"
    return f"{names}{f' ({note})' if note else ''}"


def _count(number: int) -> str:
    for limit, unit in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if number >= limit:
            return f"{number / limit:.3g} {unit}"
    return str(number)
