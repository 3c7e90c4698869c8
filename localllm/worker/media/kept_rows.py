"""Least recently used values up to a number of bytes, in memory. Thread-safe; knows nothing of what they are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Kept(Generic[Key, Value]):
    """A value larger than the bound is not kept."""

    def __init__(self, max_bytes: int, size_of: Callable[[Value], int]) -> None:
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()
        self.num_bytes = 0

    def get(self, key: Key) -> Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def pop(self, key: Key) -> Value | None:
        """Take it out."""
        with self._lock:
            value = self._values.pop(key, None)
            self.num_bytes -= 0 if value is None else self._size_of(value)
            return value

    def put(self, key: Key, value: Value) -> None:
        size = self._size_of(value)
        if size > self._max_bytes:
            return
        self.pop(key)
        with self._lock:
            self._values[key] = value
            self.num_bytes += size
            while self.num_bytes > self._max_bytes:
                self.num_bytes -= self._size_of(self._values.popitem(last=False)[1])
