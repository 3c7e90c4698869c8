"""One owner of the KV cache: what an operation does to the cells is what is believed of them, whatever else goes on."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.cache.checkpoints import Checkpoint
from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.cache.hostcache import HostEntry
from localllm.engine.cache.kvcache import KvCache, Tiers
from localllm.engine.cache.operations import Assign, Compact, Copy, Operation, Restore, Rewind, Save, Truncate
from localllm.engine.cache.tiers import OpenDisk
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request, Reuse
from localllm.engine.spans import outside
from localllm.errors import InternalError
from tests.draining import drain
from tests.fakes import FakeBackend, FakeDiskCache, alone, illustrated, packed, unpacked
from tests.unit.engine.test_engine import GREEDY, Collector, text_of

MEMORIES: list[dict[str, Any]] = [
    {},
    {"can_rewind": False},
    {"can_rewind": False, "snapshots": 3},
    {"window": 8},
    {"num_cells": 256},
]
SALTED = Domain("ab")


def filled(*slots: list[int], **options: Any) -> tuple[KvCache, FakeBackend]:
    """Slots that have computed these tokens."""
    backend = FakeBackend(num_slots=4, slot_capacity=128, batch_capacity=512, **options)
    kv = KvCache(backend, Tiers(10_000))
    for slot, tokens in enumerate(slots):
        compute(kv, slot, tokens)
    return kv, backend


def decode(kv: KvCache, segment: Segment) -> None:
    kv.begin_step()
    cast(FakeBackend, kv._cells).decode([segment])


def compute(kv: KvCache, slot: int, tokens: list[int]) -> None:
    start = kv.residency.held[slot].length
    decode(kv, Segment(slot, start, tokens, False))
    kv.written(slot, start, tokens)


def entry_of(*tokens: int, domain: Domain = COMMON) -> HostEntry:
    return HostEntry(np.array(tokens, np.int32), packed(tokens), (), domain)


def assert_sound(kv: KvCache, backend: FakeBackend) -> None:
    kv.check_integrity()
    for held, cells in zip(kv.residency.held, backend.held, strict=True):
        assert held.tokens.tolist() == cells
        assert held.extents == backend.extents[held.slot or 0]
    assert kv.num_bytes <= kv.host.max_bytes
    assert all(unpacked(entry.state) == entry.tokens.tolist() for entry in kv.host.entries)


@pytest.mark.parametrize("memory", MEMORIES, ids=["rewinds", "recurrent", "snapshots", "window", "unified"])
def test_each_operation_is_carried_out_and_believed_in_order(memory: dict[str, Any]) -> None:
    kv, backend = filled([1, 2, 3, 4], [5, 6], **memory)
    operations: list[tuple[Operation, list[list[int]]]] = [
        (Save(1), [[1, 2, 3, 4], [5, 6], []]),
        (Copy(0, 2, 4, COMMON), [[1, 2, 3, 4], [5, 6], [1, 2, 3, 4]]),
        (Truncate(0, 0), [[], [5, 6], [1, 2, 3, 4]]),
        (Restore(1, entry_of(7, 8, 9, domain=SALTED), SALTED), [[], [7, 8, 9], [1, 2, 3, 4]]),
        (Truncate(1, 0), [[], [], [1, 2, 3, 4]]),
    ]
    for operation, cells in operations:
        kv.apply([operation])
        assert backend.held[:3] == cells
        assert_sound(kv, backend)
    assert [entry.tokens.tolist() for entry in kv.host.entries] == [[5, 6]]


def test_a_slot_goes_back_to_a_checkpoint_and_forgets_later_ones() -> None:
    kv, backend = filled([1, 2, 3], can_rewind=False)
    kv.checkpoint(0)
    compute(kv, 0, [4, 5])
    kv.checkpoint(0)
    compute(kv, 0, [6])
    kv.apply([Rewind(0, Checkpoint(3, bytes([1, 2, 3])))])
    assert [checkpoint.length for checkpoint in kv.residency.held[0].checkpoints] == [3]
    assert_sound(kv, backend)


@pytest.mark.parametrize(
    ("memory", "asked", "kept"),
    [({}, 4, 4), ({}, 9, 6), ({"num_cells": 256}, 1, 1), ({"can_rewind": False}, 5, 3), ({"can_rewind": False}, 2, 0),
     ({"can_rewind": False}, 6, 6)],
)  # fmt: skip
def test_rolling_back_keeps_as_much_as_the_memory_can_go_back_to(memory: dict[str, Any], asked: int, kept: int) -> None:
    kv, backend = filled([1, 2, 3], **memory)
    if not kv.can_rewind:
        kv.checkpoint(0)
    compute(kv, 0, [4, 5, 6])
    assert kv.cut(0, asked) == kept
    assert backend.held[0] == [1, 2, 3, 4, 5, 6][:kept]
    assert_sound(kv, backend)


@pytest.mark.parametrize("length", [None, 3, 9])
def test_rolling_back_drops_what_a_decode_left_behind_what_was_written(length: int | None) -> None:
    kv, backend = filled([1, 2, 3])
    decode(kv, Segment(0, 3, [4, 5], False))
    assert kv.cut(0, length) == 3
    assert backend.held[0] == [1, 2, 3]
    assert_sound(kv, backend)


@pytest.mark.parametrize(
    "operation",
    [Save(2), Restore(0, entry_of(7), COMMON), Restore(2, entry_of(7), COMMON), Compact((2,)), Compact((0,)),
     Rewind(2, Checkpoint(1, b"\x01"))],
    ids=["saved from its target", "restored into its source", "restored into its target", "compacted",
         "its source compacted", "gone back in its target"],
)  # fmt: skip
def test_while_a_copy_is_pending_no_state_goes_into_its_slots_or_comes_out_of_its_target(operation: Operation) -> None:
    """The cells move with the next decode; then everything may happen again."""
    kv, backend = filled([1, 2, 3, 4], [5, 6])
    with pytest.raises(AssertionError, match=r"copied|copy is pending"):
        kv.apply([Copy(0, 2, 3, COMMON), operation])
    assert_sound(kv, backend)
    kv.apply([Save(0), Truncate(0, 2), Restore(1, entry_of(8), COMMON)])
    compute(kv, 3, [9])
    if not isinstance(operation, Rewind):
        kv.apply([operation])
    assert_sound(kv, backend)


@pytest.mark.parametrize("memory", [{"can_rewind": False}, {"num_cells": 256}])
def test_a_copy_that_is_made_at_once_is_not_pending(memory: dict[str, Any]) -> None:
    kv, backend = filled([1, 2, 3], **memory)
    kv.apply([Copy(0, 1, 3, COMMON), Save(1), Restore(0, entry_of(7), COMMON)])
    assert kv.pending.any
    assert_sound(kv, backend)


@pytest.mark.parametrize(
    "operation",
    [Copy(0, 1, 2, SALTED), Restore(1, entry_of(7), SALTED), Restore(1, entry_of(7, domain=SALTED), COMMON),
     Assign(0, SALTED), Copy(0, 1, 4, COMMON)],
    ids=["copied", "restored", "restored from a salt", "assigned", "more than there is"],
)  # fmt: skip
def test_no_operation_gives_a_domain_what_is_anothers(operation: Operation) -> None:
    kv, backend = filled([1, 2, 3])
    with pytest.raises(AssertionError):
        kv.apply([operation])
    assert backend.held == [[1, 2, 3], [], [], []]
    assert_sound(kv, backend)


def test_a_shifted_slot_is_cut_to_what_is_as_if_computed_before_it_is_saved() -> None:
    kv, backend = filled([1, 2, 3, 4, 5, 6])
    kv.shift(0, 2, 2)
    assert backend.held[0] == [1, 2, 5, 6]
    with pytest.raises(AssertionError, match="shifted"):
        kv.apply([Save(0)])
    assert kv.cut(0, kv.residency.held[0].sound) == 2
    kv.apply([Save(0)])
    assert_sound(kv, backend)


def test_of_two_idle_slots_that_hold_the_same_one_is_saved_when_both_make_room() -> None:
    """Each is elsewhere, as long as the other is."""
    backend, collector = FakeBackend(num_slots=3, slot_capacity=256, num_cells=256), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(10_000))
    same = entry_of(*[5] * 80)
    for slot in (0, 1):
        engine.slots.restore(slot, same)
    engine.submit(Sequence(Request(1, [6] * 200, sampling=GREEDY, max_tokens=2)))
    drain(engine)
    assert [len(cells) for cells in backend.held] == [0, 0, 201]
    assert [entry.tokens.tolist() for entry in engine.kv.host.entries] == [[5] * 80]
    assert_sound(engine.kv, backend)


def picture(kv: KvCache, backend: FakeBackend) -> object:
    """All that is believed and all that is so."""
    slots = [
        (one.tokens.tolist(), one.sound, one.least, one.domain, one.checkpoints, one.changed_at)
        for one in kv.residency.held
    ]
    pool = kv.residency.pool
    cells = [list(cells) for cells in backend.held]
    return slots, cells, kv.residency.changes, kv.host.entries, None if pool is None else pool.num_used


POISON = 120


class Owner(RuleBasedStateMachine):
    """Requests come, stop, fail and are cancelled, while anything that may happen to idle slots happens to them."""

    @initialize(slots=st.integers(2, 4), batch=st.integers(4, 40), memory=st.sampled_from(MEMORIES),
                host=st.sampled_from([0, 200, 2000]), disk=st.booleans(),
                fails_at=st.none() | st.integers(0, 20))  # fmt: skip
    def start(
        self, slots: int, batch: int, memory: dict[str, Any], host: int, disk: bool, fails_at: int | None
    ) -> None:
        self.backend = FakeBackend(
            num_slots=slots, slot_capacity=128, batch_capacity=batch, poison=POISON, fails_at_step=fails_at, **memory
        )
        self.collector = Collector()
        tier: OpenDisk | None = (lambda _: cast(Any, FakeDiskCache())) if disk else None
        self.engine = build_engine(
            self.backend, self.collector, tiers=Tiers(host, open_disk=tier), context_shift=self.backend.can_shift
        )
        self.kv = self.engine.kv
        if not self.kv.is_unified:
            self.kv.residency.copy_tokens = 2
        admitter = self.engine.scheduler._admitter
        admit = admitter.admit

        def decided(*arguments: Any) -> Any:
            before = picture(self.kv, self.backend)
            answer = admit(*arguments)
            assert picture(self.kv, self.backend) == before, "deciding changed something"
            return answer

        admitter.admit = decided  # type: ignore[method-assign, assignment]
        self.asked: dict[int, tuple[list[int], int]] = {}
        self.fails = fails_at is not None
        self.entries: list[HostEntry] = []
        self.spans: list[Any] = []
        """Those whose rows may still be to come."""

    @rule(family=st.integers(1, 3), common=st.integers(1, 100), tail=st.lists(st.integers(1, 5), max_size=4),
          count=st.integers(1, 60), salt=st.sampled_from(["", "", "a"]), stops=st.booleans(), fails=st.integers(0, 9),
          pause=st.integers(1, 100), pictures=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 5)), max_size=2),
          are_there=st.booleans())  # fmt: skip
    def arrives(
        self, family: int, common: int, tail: list[int], count: int, salt: str, stops: bool, fails: int, pause: int,
        pictures: list[tuple[int, int]], are_there: bool,
    ) -> None:  # fmt: skip
        id, tokens = len(self.asked), [family] * common + tail + [POISON] * (fails == 0)
        prompt, spans = illustrated(tokens[:100], pictures, are_there=are_there)
        self.spans += spans
        text = text_of(alone(prompt, count))
        stop = (text[len(text) // 2 :][:2],) if stops else ()
        self.asked[id] = prompt, count
        self.engine.submit(
            Sequence(
                Request(
                    id,
                    prompt,
                    spans=spans,
                    sampling=GREEDY,
                    max_tokens=count,
                    reuse=Reuse(domain=Domain.of(cache_salt=salt), pauses=(pause,)),
                    ending=Ending(stop=stop),
                )
            )
        )

    @precondition(lambda self: self.asked)
    @rule(which=st.integers(0, 10**6))
    def is_cancelled(self, which: int) -> None:
        self.engine.cancel(which % len(self.asked))

    @precondition(lambda self: self.spans)
    @rule(which=st.integers(0, 10**6), fails=st.integers(0, 5))
    def rows_come(self, which: int, fails: int) -> None:
        self.spans.pop(which % len(self.spans)).of.source.come(InternalError("no rows") if fails == 0 else None)

    @rule(count=st.integers(1, 6))
    def steps(self, count: int) -> None:
        for _ in range(count):
            self.engine.step()

    @rule(slot=st.integers(0, 3), source=st.integers(0, 3), kind=st.sampled_from(["save", "copy", "restore", "cut"]),
          length=st.integers(0, 128))  # fmt: skip
    def something_happens_to_an_idle_slot(self, slot: int, source: int, kind: str, length: int) -> None:
        slot, source = slot % self.kv.num_slots, source % self.kv.num_slots
        if any(sequence.slot == slot for sequence in self.engine.scheduler.running):
            return
        held, giver = self.kv.residency.held[slot], self.kv.residency.held[source]
        if kind == "cut":
            assert self.kv.cut(slot, length) <= length
        elif kind == "save" and self.kv.pending.can_save(slot):
            self.entries.append(self.kv.save(slot))
            self.kv.apply([Save(slot)] if held.length and self.kv.host.max_bytes else [])
        elif kind == "copy" and slot != source:
            length = min(length, giver.length) if self.kv.can_rewind else giver.length
            length = length if length == giver.length else outside(length, giver.extents)
            self.kv.apply([Copy(source, slot, length, giver.domain)])
        elif kind == "restore" and self.entries:
            entry = self.entries[length % len(self.entries)]
            operations = self.engine.scheduler.to_restore(slot, entry)
            if operations is not None and self.kv.pending.can_write(slot):
                self.kv.apply(operations)

    @rule()
    def slots_are_stored(self) -> None:
        if self.engine.writeback is not None and not self.kv.pending.any:
            self.engine.writeback.store_while(lambda: True)

    @invariant()
    def what_is_believed_is_so(self) -> None:
        if hasattr(self, "engine"):
            self.engine.check_integrity()
            assert_sound(self.kv, self.backend)

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        for span in self.spans:
            span.of.source.come()
        drain(self.engine)
        for id, (prompt, count) in self.asked.items():
            if POISON in prompt:
                assert id in self.collector.failures or self.collector.finish[id].reason == "cancelled"
            elif id in self.collector.failures:
                assert str(self.collector.failures[id]) == "no rows" or self.fails
            elif len(prompt) + count <= 128 and id in self.collector.finish:
                assert text_of(alone(prompt, count)).startswith(self.collector.text[id])


TestOwner = Owner.TestCase
TestOwner.settings = settings(max_examples=60, stateful_step_count=30)
