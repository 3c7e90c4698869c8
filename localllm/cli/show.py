"""`localllm show`: a GGUF header as a table or as JSON. Loads nothing and needs no llama.cpp."""

from __future__ import annotations

import sys

import msgspec

from localllm.cli import report
from localllm.types import ModelInfo


def show_model(model: str, *, as_json: bool) -> int:
    """Print to stdout. Raises `ModelNotFound`, `InvalidModelFile`."""
    from localllm.gguf import read_model_info
    from localllm.registry.resolve import resolve

    info = read_model_info(resolve(model).path)
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(info)).decode() + "\n")
    else:
        rows = table(info)
        width = max(len(name) for name, _ in rows)
        sys.stdout.writelines(f"{name:<{width}}  {value}\n" for name, value in rows)
    return report.OK


def table(info: ModelInfo) -> list[tuple[str, str]]:
    """The rows that are known, in words and units."""
    heads = f"{info.num_heads}, {info.num_kv_heads} for keys and values" if info.num_heads else None
    sampling = ", ".join(f"{name} {value:g}" for name, value in info.sampling.items())
    layer_bytes = sum(info.layer_bytes)
    rows: list[tuple[str, str | int | None]] = [
        ("name", info.name),
        ("architecture", info.architecture if info.causal else f"{info.architecture} (encoder)"),
        ("parameters", _count(info.num_parameters)),
        ("quantization", info.file_type),
        ("tensor types", ", ".join(f"{kind} {_size(size)}" for kind, size in info.quantization.items())),
        ("size", _size(info.size_bytes)),
        ("files", info.split_count if info.split_count > 1 else None),
        ("context length", info.context_length),
        ("layers", f"{info.num_layers} ({_size(layer_bytes)}, and {_size(info.other_bytes)} outside)"),
        ("embedding", info.embedding_length),
        ("feed forward", info.feed_forward_length),
        ("heads", heads),
        ("vocabulary", f"{info.vocabulary_size} tokens" + (f", {info.tokenizer}" if info.tokenizer else "")),
        ("sampling", sampling),
        ("chat template", ", ".join(info.chat_templates) or "none: run continues text"),
    ]
    return [(name, str(value)) for name, value in rows if value not in (None, "")]


def _count(number: int) -> str:
    for limit, unit in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if number >= limit:
            return f"{number / limit:.3g} {unit}"
    return str(number)


def _size(size_bytes: int) -> str:
    for limit, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= limit:
            return f"{size_bytes / limit:.2f} {unit}"
    return f"{size_bytes} B"
