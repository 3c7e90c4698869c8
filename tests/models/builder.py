"""Writes one GGUF of seeded random weights. Knows keys and tensors, but not what any architecture needs.

A tensor's numbers depend on the seed and its name only, so that files which share a seed share equal tensors.
Shapes are given as ggml counts them: the row length first.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quants

TensorTypes = Mapping[str, GGMLQuantizationType]
"""Regular expression searched in a tensor's name -> its type; the first match wins."""


class Builder:
    """Collects keys and tensors, then writes the file in `close`; a context manager."""

    def __init__(
        self,
        path: Path,
        architecture: str,
        *,
        seed: int = 0,
        dtype: GGMLQuantizationType = GGMLQuantizationType.F32,
        tensor_types: TensorTypes | None = None,
        scale: float = 1.0,
        max_tensors_per_file: int = 0,
        given: Mapping[str, np.ndarray[Any, Any]] | None = None,
    ) -> None:
        """`given` are matrices that are not random: name -> float numbers, or uint8 blocks of the tensor's type.

        `max_tensors_per_file` splits the model into NAME-00001-of-0000N.gguf and so on.
        """
        self.architecture = architecture
        self.writer = GGUFWriter(path, architecture, split_max_tensors=max_tensors_per_file)
        self._seed = seed
        self._dtype = dtype
        self._tensor_types = dict(tensor_types or {})
        self._scale = scale
        self._given = dict(given or {})

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Write header, keys and tensors."""
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()

    def keys(self, values: Mapping[str, int | float | bool | str | list[Any]]) -> None:
        """Architecture keys by their name after the prefix; the GGUF type follows the Python type."""
        for name, value in values.items():
            self.key(f"{self.architecture}.{name}", value)

    def key(self, name: str, value: float | bool | str | list[Any]) -> None:
        """One key under its full name."""
        if isinstance(value, bool):
            self.writer.add_bool(name, value)
        elif isinstance(value, int):
            self.writer.add_uint32(name, value)
        elif isinstance(value, float):
            self.writer.add_float32(name, value)
        elif isinstance(value, str):
            self.writer.add_string(name, value)
        else:
            self.writer.add_array(name, value)

    def matrix(self, name: str, *shape: int, std: float | None = None) -> None:
        """Normal numbers of deviation `std`, by default scale / sqrt(row length), in the type asked for."""
        kind = self._type_of(name)
        if name in self._given:
            self._add(name, self._given[name], kind)
            return
        deviation = self._scale / shape[0] ** 0.5 if std is None else std
        self._add(name, self._normal(name, shape) * np.float32(deviation), kind)

    def vector(self, name: str, *shape: int, mean: float = 0.0, std: float = 0.1) -> None:
        """Numbers that stay F32 (norms, biases, small state tables): mean + std * normal."""
        self._add(name, np.float32(mean) + np.float32(std) * self._normal(name, shape), GGMLQuantizationType.F32)

    def array(self, name: str, values: np.ndarray[Any, Any]) -> None:
        """A tensor of given numbers, NumPy's axis order (row length last), as F32."""
        self._add(name, values.astype(np.float32), GGMLQuantizationType.F32)

    def _normal(self, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float32]]:
        generator = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        return generator.standard_normal(shape[::-1], dtype=np.float32)

    def _type_of(self, name: str) -> GGMLQuantizationType:
        for pattern, kind in self._tensor_types.items():
            if re.search(pattern, name):
                return kind
        return self._dtype

    def _add(self, name: str, values: np.ndarray[Any, Any], kind: GGMLQuantizationType) -> None:
        blocks = values if values.dtype == np.uint8 else quants.quantize(values, kind)
        self.writer.add_tensor(name, blocks, raw_dtype=kind)
