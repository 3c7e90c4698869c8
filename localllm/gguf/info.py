"""Turns checked headers into a `ModelInfo`. Knows what the metadata keys mean (ggml/docs/gguf.md, llama-arch.cpp).

A key of the wrong type is an error that names its byte; a missing one is None. If a number is given per layer (hybrid
models have 0 heads in recurrent layers), the largest is used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from localllm.gguf.cursor import invalid_file
from localllm.gguf.header import Header, TensorInfo, read_header
from localllm.gguf.purpose import Purpose, purpose_of
from localllm.gguf.rules.assistants import shared_keys
from localllm.gguf.rules.draft_heads import draft_head
from localllm.gguf.rules.encoders import has_ranking_head, is_causal, pooling_of
from localllm.gguf.rules.fill_in_middle import fills_in_middle
from localllm.gguf.rules.memory import layer_memory, sliding_window
from localllm.gguf.rules.nextn import heads
from localllm.gguf.rules.products import products
from localllm.gguf.shards import read_all_shards
from localllm.gguf.values import MetadataValue, UndecodedValue
from localllm.types import ModelInfo
from localllm.types.upstream import FILE_TYPES, GUESSED_FILE_TYPE, MAX_EXPERTS, MAX_LAYERS

MAPPED_ALIGNMENT = 32
"""TENSOR_ALIGNMENT of ggml-backend.cpp and ggml-cpu.cpp: tensors that are mapped begin at multiples of it."""
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
"""LLAMA_ROPE_SCALING_TYPES of llama-model.cpp."""
MAX_SIZE = 2**24
"""Limit on the size of a head, a window or a state; no real model comes close, and larger values break plans."""

_SAMPLING_KEYS = {
    "temperature": ("general.sampling.temp", 0.0, 100.0),
    "top_k": ("general.sampling.top_k", 0.0, 2.0**31 - 1),
    "top_p": ("general.sampling.top_p", 0.0, 1.0),
    "min_p": ("general.sampling.min_p", 0.0, 1.0),
    "xtc_probability": ("general.sampling.xtc_probability", 0.0, 1.0),
    "xtc_threshold": ("general.sampling.xtc_threshold", 0.0, 1.0),
    "repeat_penalty": ("general.sampling.penalty_repeat", 0.01, 100.0),
    "repeat_last_n": ("general.sampling.penalty_last_n", -1.0, 2.0**31 - 1),
    "mirostat": ("general.sampling.mirostat", 0.0, 2.0),
    "mirostat_tau": ("general.sampling.mirostat_tau", 0.0, 100.0),
    "mirostat_eta": ("general.sampling.mirostat_eta", 0.0, 10.0),
}
"""Our name -> the GGUF key, and the range that `SamplingParams` accepts."""

_TEMPLATE = "tokenizer.chat_template"
_BLOCK_NAME = re.compile(r"(?:(?:enc|dec)\.)?blk\.(\d{1,4})\.")


def read_model_info(path: Path) -> ModelInfo:
    """Reads the headers of all of a model's shards. Raises `ModelNotFound`, `LoadFailed` or `InvalidModelFile`."""
    headers = read_all_shards(read_header(path))
    for header in headers:
        if header.data_start % MAPPED_ALIGNMENT:  # llama.cpp would end its process
            reason = f"general.alignment {header.alignment} puts its tensors where llama.cpp cannot map them"
            raise invalid_file(header.path, reason, header.data_start)
    return model_info(headers, fills_in_middle=fills_in_middle(headers[0]))


def model_info(headers: Sequence[Header], *, fills_in_middle: bool = False) -> ModelInfo:
    """Facts from the headers of a model's shards, in order. `fills_in_middle` is not in the headers.

    Raises `InvalidModelFile`.
    """
    first = headers[0]
    tensors = [tensor for header in headers for tensor in header.tensors]
    keys = _Keys(first)
    keys.check_finite(
        "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon", "rope.freq_base", "rope.scaling.factor"
    )
    num_layers = keys.num_layers(tensors)
    keys.check_experts()
    keys.check_scaling()
    keys.check_most("nextn_predict_layers", num_layers, "the number of layers")
    layer_bytes, other_bytes = _bytes_per_layer(tensors, num_layers)
    of_heads, no_heads = heads(keys, {tensor.name for tensor in tensors}, num_layers)
    vocabulary_size = keys.vocabulary_size(tensors)
    return ModelInfo(
        architecture=keys.architecture,
        name=keys.text("general.name"),
        num_parameters=sum(tensor.num_elements for tensor in tensors),
        size_bytes=sum(tensor.n_bytes for tensor in tensors),
        quantization=_quantization(tensors),
        file_type=keys.file_type(),
        context_length=keys.context_length(),
        num_layers=num_layers,
        embedding_length=keys.model_count("embedding_length"),
        deepstack_layers=keys.deepstack_layers(),
        feed_forward_length=keys.model_count("feed_forward_length"),
        num_heads=keys.model_count("attention.head_count"),
        num_kv_heads=keys.num_kv_heads(),
        vocabulary_size=vocabulary_size,
        tokenizer=keys.text("tokenizer.ggml.model"),
        chat_templates=keys.chat_templates(),
        purpose=keys.purpose(),
        sampling=keys.sampling(),
        layer_bytes=layer_bytes,
        other_bytes=other_bytes,
        tensors={tensor.name: tensor.n_bytes for tensor in tensors},
        split_count=len(headers),
        causal=is_causal(keys.architecture, keys.flag("attention.causal")),
        pooling=pooling_of(keys.model_count("pooling_type")),
        has_ranking_head=has_ranking_head({tensor.name for tensor in tensors}),
        layer_memory=layer_memory(keys, num_layers),
        heads=of_heads,
        no_heads=no_heads,
        draft_head=draft_head(keys, tensors, num_layers=num_layers, vocabulary_size=vocabulary_size),
        shared_keys=shared_keys(keys, num_layers),
        sliding_window=sliding_window(keys, num_layers),
        experts_used=keys.size("expert_used_count") or 0,
        expert_feed_forward_length=keys.size("expert_feed_forward_length"),
        fills_in_middle=fills_in_middle,
        products=products(tensors),
    )


class _Keys:
    """Typed access to the metadata of a model's first file."""

    def __init__(self, header: Header) -> None:
        self._header = header
        architecture = self.text("general.architecture")
        if not architecture:
            raise invalid_file(header.path, "general.architecture is missing")
        self.architecture = architecture

    def text(self, key: str) -> str | None:
        value = self._value(key)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(key, "a text of reasonable length")

    def number(self, key: str) -> float | None:
        value = self._value(key)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        raise self._wrong(key, "a number")

    def check_finite(self, *keys: str) -> None:
        """Raises `InvalidModelFile` for a value with which llama.cpp ends its process or computes no numbers."""
        for key in keys:
            full = f"{self.architecture}.{key}"
            value = self._value(full)
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
                raise self._wrong(full, "a finite number from 0 on")

    def count(self, key: str) -> int | None:
        """A count, or the largest one if there is one per layer."""
        value = self._value(key)
        if value is None:
            return None
        values = value if isinstance(value, tuple) else (value,)
        counts = [item for item in values if isinstance(item, int) and not isinstance(item, bool) and item >= 0]
        if not counts or len(counts) != len(values):
            raise self._wrong(key, "a count or one count per layer")
        return max(counts)

    def model_count(self, key: str) -> int | None:
        """As `count`, at most `MAX_SIZE`."""
        found = self.count(f"{self.architecture}.{key}")
        if found is not None and found > MAX_SIZE:
            raise self._wrong(f"{self.architecture}.{key}", f"a count up to {MAX_SIZE:,}")
        return found

    def context_length(self) -> int | None:
        """None also for 0, which says nothing."""
        key = f"{self.architecture}.context_length"
        found = self.count(key)
        if found is not None and found >= 2**32:
            raise self._wrong(key, "a 32-bit number")
        return found or None

    def size(self, key: str) -> int | None:
        """One count for all layers, at most `MAX_SIZE`; None if it is missing or given per layer."""
        value = self._value(f"{self.architecture}.{key}")
        if value is None or isinstance(value, tuple):
            return None
        return self._bounded(key, value)

    def sizes(self, key: str, num_layers: int) -> tuple[int, ...] | None:
        """One count per layer; a list that is too short continues with its largest value."""
        value = self._value(f"{self.architecture}.{key}")
        if value is None:
            return None
        values = value if isinstance(value, tuple) else (value,) * num_layers
        counts = tuple(self._bounded(key, int(item) if isinstance(item, bool) else item) for item in values)
        return counts[:num_layers] + (max(counts, default=0),) * (num_layers - len(counts))

    def deepstack_layers(self) -> int:
        """Either their number, or for each layer which part of a row it gets, with -1 for none."""
        key = f"{self.architecture}.deepstack_mapping"
        mapping = self._value(key)
        if mapping is None:
            return self.size("n_deepstack_layers") or 0
        values = mapping if isinstance(mapping, tuple) else (mapping,)
        parts = [each for each in values if isinstance(each, int) and -1 <= each <= len(values)]
        if len(parts) != len(values):
            raise self._wrong(key, "a list of parts, one for each layer")
        return len({each for each in parts if each >= 0})

    def listed(self, key: str) -> tuple[int, ...]:
        """All counts of a list; empty if it is missing."""
        value = self._value(f"{self.architecture}.{key}")
        values = value if isinstance(value, tuple) else () if value is None else (value,)
        return tuple(self._bounded(key, item) for item in values)

    def listed_flags(self, key: str) -> tuple[bool, ...]:
        """All truth values of a list, which may be numbers; empty if it is missing."""
        value = self._value(f"{self.architecture}.{key}")
        values = value if isinstance(value, tuple) else ()
        return tuple(bool(self._bounded(key, int(item) if isinstance(item, bool) else item)) for item in values)

    def flag(self, key: str) -> bool | None:
        value = self._value(f"{self.architecture}.{key}")
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong(f"{self.architecture}.{key}", "true or false")

    def _bounded(self, key: str, value: MetadataValue) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
            raise self._wrong(f"{self.architecture}.{key}", f"a count up to {MAX_SIZE:,}, or one for each layer")
        return value

    def num_layers(self, tensors: list[TensorInfo]) -> int:
        """`block_count`; if missing (adapters, projectors), one more than the highest block among the tensors."""
        layers = self.model_count("block_count")
        if layers is None:
            blocks = (_block_of(tensor.name) for tensor in tensors)
            layers = max((block + 1 for block in blocks if block is not None), default=0)
        elif not 1 <= layers <= MAX_LAYERS:
            raise self._wrong(f"{self.architecture}.block_count", f"from 1 to {MAX_LAYERS}")
        return layers

    def check_experts(self) -> None:
        """What llama.cpp asserts of them, which would end the process."""
        num_experts = self.check_most("expert_count", MAX_EXPERTS)
        if num_experts == 1 and self.architecture.startswith("hunyuan"):
            return  # these take it for none
        num_used = self.check_most("expert_used_count", num_experts, "expert_count")
        if num_experts and not num_used:
            raise self._wrong(f"{self.architecture}.expert_count", "0, as expert_used_count is")
        num_groups = self.check_most("expert_group_count", max(0, num_experts - 1), "less than expert_count")
        if num_groups > 1 and num_experts % num_groups:
            raise self._wrong(f"{self.architecture}.expert_group_count", "a divisor of expert_count")
        if num_groups > 1 and not 0 < (self.model_count("expert_group_used_count") or 0) < num_groups:
            raise self._wrong(f"{self.architecture}.expert_group_used_count", "from 1 to less than expert_group_count")

    def check_scaling(self) -> None:
        """Another type would end the process."""
        key = f"{self.architecture}.rope.scaling.type"
        if self.text(key) not in (None, *_ROPE_SCALINGS):
            raise self._wrong(key, f"one of {', '.join(_ROPE_SCALINGS)}")

    def check_most(self, key: str, most: int, what: str = "") -> int:
        """The largest of the counts, or 0. Raises `InvalidModelFile` if it is above `most`."""
        found = self.model_count(key) or 0
        if found > most:
            raise self._wrong(f"{self.architecture}.{key}", f"up to {most:,}{f' ({what})' if what else ''}")
        return found

    def num_kv_heads(self) -> int | None:
        """The number of KV heads; if missing, the number of heads, as in llama.cpp."""
        heads = self.model_count("attention.head_count_kv")
        return self.model_count("attention.head_count") if heads is None else heads

    def vocabulary_size(self, tensors: list[TensorInfo]) -> int:
        """The number of listed tokens, else `vocab_size`, else the rows of the embedding, else 0."""
        tokens = self._value("tokenizer.ggml.tokens")
        if isinstance(tokens, UndecodedValue):
            return tokens.count
        if isinstance(tokens, tuple):
            return len(tokens)
        size = self.model_count("vocab_size")
        if size is not None:
            return size
        rows = (tensor.dims[-1] for tensor in tensors if tensor.name == "token_embd.weight" and len(tensor.dims) == 2)
        return next(rows, 0)

    def file_type(self) -> str | None:
        number = self.count("general.file_type")
        if number is None:
            return None
        return FILE_TYPES.get(number & ~GUESSED_FILE_TYPE, f"unknown ({number})")

    def chat_templates(self) -> dict[str, str]:
        """Chat templates by name: `tokenizer.chat_template` is `default`, `tokenizer.chat_template.NAME` is NAME."""
        found: dict[str, str] = {}
        for key in self._header.metadata:
            name = "default" if key == _TEMPLATE else key.removeprefix(f"{_TEMPLATE}.")
            template = self.text(key) if name != key else None
            if template is not None and template.strip():  # a blank one would leave out every message
                found[name] = template
        return found

    def purpose(self) -> Purpose:
        """What the names in the header and the file's own name say."""
        values = [self._value(f"general.{key}") for key in ("name", "basename", "finetune", "size_label")]
        tags = self._value("general.tags")
        return purpose_of(
            [value for value in (*values, self._header.path.name) if isinstance(value, str)],
            [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, tuple) else (),
        )

    def sampling(self) -> dict[str, float]:
        """Recommended sampling parameters, except those out of range."""
        values = ((name, self.number(key), low, high) for name, (key, low, high) in _SAMPLING_KEYS.items())
        return {name: value for name, value, low, high in values if value is not None and low <= value <= high}

    def _value(self, key: str) -> MetadataValue | None:
        entry = self._header.metadata.get(key)
        return None if entry is None else entry.value

    def _wrong(self, key: str, wanted: str) -> Exception:
        entry = self._header.metadata.get(key)
        return invalid_file(self._header.path, f"{key} is not {wanted}", None if entry is None else entry.offset)


def _quantization(tensors: list[TensorInfo]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for tensor in tensors:
        sizes[tensor.type] = sizes.get(tensor.type, 0) + tensor.n_bytes
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def _block_of(name: str) -> int | None:
    match = _BLOCK_NAME.match(name)
    return None if match is None else int(match[1])


def _bytes_per_layer(tensors: list[TensorInfo], num_layers: int) -> tuple[tuple[int, ...], int]:
    """Bytes per block, and of everything else, which includes blocks beyond `num_layers`."""
    layers = [0] * num_layers
    other = 0
    for tensor in tensors:
        block = _block_of(tensor.name)
        if block is not None and block < num_layers:
            layers[block] += tensor.n_bytes
        else:
            other += tensor.n_bytes
    return tuple(layers), other
