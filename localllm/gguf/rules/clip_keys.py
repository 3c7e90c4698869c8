"""Numbers among a projector's `clip.*` keys, checked as libmtmd would: it ends its process over some wrong ones."""

from __future__ import annotations

from typing import NoReturn

from localllm.gguf.cursor import invalid_file
from localllm.gguf.header import Header
from localllm.gguf.tables import ARRAY, BOOL, INT32, STRING, UINT32

MAX_IMAGE_SIZE = 8192
"""Of a side in pixels: libmtmd's own limit."""
MOST = 2**31 - 1


class ClipKeys:
    """The keys of one file. Every method raises `InvalidModelFile` for a value of the wrong type or size."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.names = {tensor.name for tensor in header.tensors}

    def text(self, key: str) -> str:
        """Empty: it has no such key."""
        value = self._value(key, STRING, "a text")
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        return bool(self._value(key, BOOL, "true or false"))

    def number(self, key: str, default: int | None = None, *, least: int = 1, most: int = MOST) -> int:
        """`default`: if there is no such key; None: there must be one."""
        kind = INT32 if key == "clip.minicpmv_version" else UINT32
        value = self._value(key, kind, f"a 32-bit {'' if kind == INT32 else 'unsigned '}number")
        if value is None and default is None:
            self.fail(f"it has no {key}")
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or not least <= value <= most:
            self.fail(f"{key} is {value}; allowed are {least:,} to {most:,}", key)
        return value

    def numbers(self, key: str) -> tuple[int, ...]:
        """Empty: it has no such key, or too many numbers."""
        value = self._value(key, ARRAY, "an array")
        return tuple(each for each in value if type(each) is int) if isinstance(value, tuple) else ()

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Empty: it has no such tensor."""
        return next((each.dims for each in self.header.tensors if each.name == tensor), ())

    def count(self, tensor: str) -> int:
        """Numbers of it; 0: there is no such tensor."""
        return next((each.num_elements for each in self.header.tensors if each.name == tensor), 0)

    def fail(self, reason: str, key: str = "") -> NoReturn:
        entry = self.header.metadata.get(key)
        raise invalid_file(self.header.path, reason, None if entry is None else entry.offset)

    def _value(self, key: str, kind: int, what: str) -> object:
        entry = self.header.metadata.get(key)
        if entry is not None and entry.type != kind:
            self.fail(f"{key} is not {what}", key)
        return None if entry is None else entry.value
