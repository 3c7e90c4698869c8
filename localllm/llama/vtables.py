"""Replaces one function pointer in a table of ggml's (its C "interfaces"), and puts the original back.

ggml has no other way to change what a device or a buffer type reports. The layout of these tables is not part of its
API, so a caller proves before and after that the slot is the function it takes it for. Knows none of the tables.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

NEAR_BYTES = 16 * 1024 * 1024
"""Functions of one table lie in one library: its code is smaller than this."""

TakeBack = Callable[[], None]


def slots(table: int, count: int) -> list[int]:
    """The first pointers of the table at this address; 0 stands for NULL."""
    pointers = (ctypes.c_void_p * count).from_address(table)
    return [pointer or 0 for pointer in pointers]


def are_functions(pointers: list[int]) -> bool:
    """Whether all of them may be functions of one library. Numbers, NULL and pointers to data elsewhere may not."""
    return min(pointers) > NEAR_BYTES and max(pointers) - min(pointers) < NEAR_BYTES


def replace(table: int, slot: int, function: Any, works: Callable[[], bool]) -> TakeBack | None:
    """Put `function`, a ctypes callback, into the slot. Returns what puts the original back; that keeps the callback
    alive, and must be called before Python ends.

    None if `works` then denies that ggml calls it: the original is back already.
    """
    pointers = (ctypes.c_void_p * (slot + 1)).from_address(table)
    original = pointers[slot]

    def take_back(_keeps: object = function) -> None:
        pointers[slot] = original

    pointers[slot] = ctypes.cast(function, ctypes.c_void_p).value
    if works():
        return take_back
    take_back()
    return None
