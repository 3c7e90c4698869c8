"""What this machine tells others of its memory: one function of ggml's is replaced for it, and put back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from localllm.llama.devices import CPU
from localllm.llama.library import Library
from localllm.llama.remote import devices
from localllm.llama.vtables import slots
from localllm.system import memory as system_memory

AVAILABLE = 1_000_000


@pytest.fixture
def cpu(loaded_library: Library) -> int:
    return next(
        each for each in loaded_library.ggml.device_pointers() if loaded_library.ggml.backend_dev_type(each) == CPU
    )


def test_the_cpu_reports_what_the_system_can_give_until_it_is_taken_back(
    loaded_library: Library, cpu: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_memory, "available_memory", lambda: AVAILABLE)
    ggml = loaded_library.ggml
    before, table = devices._memory(ggml.backend_dev_memory, cpu), slots(cpu, 4)
    with devices.available_memory_reported(ggml, [cpu]) as is_reported:
        assert is_reported
        assert devices._memory(ggml.backend_dev_memory, cpu) == (AVAILABLE, before[1])
        assert [number for number, pair in enumerate(zip(slots(cpu, 4), table, strict=True)) if pair[0] != pair[1]] == [
            2
        ]
    assert slots(cpu, 4) == table
    assert devices._memory(ggml.backend_dev_memory, cpu)[0] > AVAILABLE


NAME, MEMORY, TYPE = (
    ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p),
    devices._MEMORY,
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p),
)


class OtherGgml:
    """A device whose table has a function more at `gap`, and a library that calls the functions where they are."""

    def __init__(self, gap: int) -> None:
        def memory(_: int, free: Any, total: Any) -> None:
            free[0] = total[0] = 2 * AVAILABLE

        self._texts = [ctypes.create_string_buffer(text) for text in (b"CPU", b"a CPU")]
        name, description = map(ctypes.addressof, self._texts)
        self._functions = [NAME(lambda _: name), NAME(lambda _: description), MEMORY(memory), TYPE(lambda _: CPU)]
        pointers = [ctypes.cast(function, ctypes.c_void_p).value for function in self._functions]
        pointers.insert(gap, pointers[1])
        self.table = (ctypes.c_void_p * 8)(*pointers)
        self.device = ctypes.addressof(self.table)

    def backend_dev_name(self, _: int) -> bytes:
        return b"CPU"

    def backend_dev_type(self, _: int) -> int:
        return CPU

    def backend_dev_memory(self, device: int, free: Any, total: Any) -> None:
        kind = ctypes.POINTER(ctypes.c_size_t)
        self._functions[2](device, ctypes.cast(free, kind), ctypes.cast(total, kind))


def numbers(ggml: OtherGgml) -> None:
    for place in range(len(ggml.table)):
        ggml.table[place] = place + 1


def elsewhere(ggml: OtherGgml) -> None:
    ggml.table[1] = 1 << 62


@pytest.mark.parametrize("spoil", [numbers, elsewhere, None])
def test_another_table_is_left_as_it_was(spoil: Callable[[OtherGgml], None] | None) -> None:
    other = OtherGgml(gap=0)
    if spoil is not None:
        spoil(other)
    before = list(other.table)
    ggml: Any = other
    with devices.available_memory_reported(ggml, [other.device]) as is_reported:
        assert not is_reported
        assert list(other.table) == before
    assert list(other.table) == before


def test_a_table_that_ggml_does_not_use_is_put_back() -> None:
    """All functions are where they are expected, but ggml calls others."""
    other = OtherGgml(gap=4)
    before = list(other.table)
    ggml: Any = other
    assert devices.report_available_memory(ggml, other.device) is None
    assert list(other.table) == before
