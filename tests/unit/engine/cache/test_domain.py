"""Different salts share nothing that was computed: not in slots, not in main memory, not on the disk, not by name."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from collections.abc import Sequence as Many
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localllm.engine.backend import Segment, State
from localllm.engine.building import build_engine
from localllm.engine.cache.domain import COMMON, Domain
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.cache.residency import Residency
from localllm.engine.cache.tiers import OpenDisk
from localllm.engine.engine import Engine
from localllm.engine.media import Extent
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Request, Reuse
from localllm.kvdisk.cache import DiskCache
from localllm.kvdisk.entry import DiskEntry
from localllm.kvdisk.file import SavedConversation, encode
from localllm.kvdisk.folder import Folder
from localllm.kvdisk.named import NamedStates
from localllm.worker.messages import Call, Reply, Up
from localllm.worker.states.slot_files import SlotFiler
from tests.draining import drain
from tests.fakes import FakeBackend, FakeDiskCache, alone
from tests.kvdisks import MIB, PARTS, files, holds, opened, put
from tests.unit.engine.test_engine import GREEDY, Collector, text_of
from tests.unit.engine.test_liveness import LAYOUTS

PROMPT = [7] * 150


class Labelled(bytes):
    """A state that knows for whom each of its cells was computed."""

    labels: list[str]


class LabellingBackend(FakeBackend):
    """Knows for whom each cell was computed, wherever it was copied, saved and restored since."""

    engine: Engine

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.labels: list[list[str]] = [[] for _ in range(self.num_slots)]

    def decode(self, segments: Many[Segment], *, within_s: float | None = None) -> bool:
        owners = {sequence.slot: sequence.request.reuse.domain.digest for sequence in self.engine.scheduler.running}
        is_whole = super().decode(segments, within_s=within_s)
        for segment in segments:
            self.labels[segment.slot] += [owners[segment.slot]] * len(segment.tokens)
            assert set(self.labels[segment.slot]) == {owners[segment.slot]}, "computed on what another one computed"
        return is_whole

    def truncate(self, slot: int, length: int) -> None:
        super().truncate(slot, length)
        del self.labels[slot][length:]

    def rewind(self, slot: int, state: State, length: int) -> None:
        super().rewind(slot, state, length)
        del self.labels[slot][length:]

    def copy(self, source: int, slot: int, length: int) -> None:
        super().copy(source, slot, length)
        self.labels[slot] = self.labels[source][:length]

    def save(self, slot: int) -> bytes:
        state = Labelled(super().save(slot))
        state.labels = list(self.labels[slot])
        return state

    def restore(self, slot: int, state: State, length: int, extents: Many[Extent] = ()) -> None:
        super().restore(slot, state, length, extents)
        assert isinstance(state, Labelled)
        self.labels[slot] = list(state.labels)


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 8),  # steps before it comes
        st.sampled_from(["", "a", "b"]),  # its salt
        st.integers(1, 110),  # how much it has in common with everybody
        st.lists(st.integers(1, 3), max_size=5),
        st.sampled_from([None, None, "take", "put", "keep"]),
    ),
    min_size=2,
    max_size=20,
)


@settings(max_examples=150)
@given(
    arrivals=ARRIVALS,
    slots=st.integers(1, 4),
    layout=st.sampled_from(LAYOUTS),
    host=st.sampled_from([0, 2000]),
    disk=st.booleans(),
)
def test_no_cell_is_ever_used_for_another_salt(
    arrivals: list[tuple[int, str, int, list[int], str | None]],
    slots: int,
    layout: dict[str, Any],
    host: int,
    disk: bool,
) -> None:
    backend, collector = LabellingBackend(num_slots=slots, slot_capacity=128, batch_capacity=64, **layout), Collector()
    tier: OpenDisk | None = (lambda _: cast(Any, FakeDiskCache())) if disk else None
    engine = backend.engine = build_engine(backend, collector, tiers=Tiers(host, 3, tier))
    if backend.num_cells is None:
        engine.kv.residency.copy_tokens = 2
    taken, prompts = [], []
    for id, (steps, salt, common, tail, action) in enumerate(arrivals):
        for _ in range(steps):
            engine.step()
            engine.check_integrity()
        idle = [slot for slot in range(slots) if all(slot != one.slot for one in engine.scheduler.running)]
        if action == "keep" and engine.writeback is not None:
            engine.writeback.store_next()
        elif action == "take" and idle and backend.held[idle[0]]:
            taken.append(engine.slots.save(idle[0]))
        elif action == "put" and idle and taken and engine.scheduler.to_restore(idle[-1], taken[-1]) is not None:
            engine.slots.restore(idle[-1], taken[-1])
        prompts.append([9] * common + tail)
        engine.submit(
            Sequence(
                Request(id, prompts[-1], sampling=GREEDY, max_tokens=5, reuse=Reuse(domain=Domain.of(cache_salt=salt)))
            )
        )
    drain(engine)
    for id, prompt in enumerate(prompts):
        assert collector.text[id] == text_of(alone(prompt, 5))


def ask(engine: Engine, id: int, salt: str) -> None:
    engine.submit(
        Sequence(Request(id, PROMPT, sampling=GREEDY, max_tokens=3, reuse=Reuse(domain=Domain.of(cache_salt=salt))))
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cached_tokens_tell_nobody_what_another_salt_asked(layout: dict[str, Any]) -> None:
    """Nor does waiting: of three that come at once each salt computes its own."""
    layout = layout | ({"num_cells": 1024} if "num_cells" in layout else {})
    backend, collector = FakeBackend(slot_capacity=256, batch_capacity=64, **layout), Collector()
    engine = build_engine(backend, collector, tiers=Tiers(10_000))
    for id, salt in enumerate(["", "a", "b"]):
        ask(engine, id, salt)
    engine.step()
    assert len(engine.scheduler.running) == 3
    drain(engine)
    for id, salt in enumerate(["", "a", "b", "c"], 3):
        ask(engine, id, salt)
        drain(engine)
    cached = [collector.finish[id].usage.cached_tokens for id in range(7)]
    assert cached == [0, 0, 0, 149, 149, 149, 0]


def test_a_slot_of_another_salt_is_emptied_and_main_memory_gives_each_its_own() -> None:
    engine = build_engine(FakeBackend(num_slots=1, slot_capacity=256), collector := Collector(), tiers=Tiers(10_000))
    for id, salt in enumerate(["a", "b", "a", "b", ""]):
        ask(engine, id, salt)
        drain(engine)
    assert [collector.finish[id].usage.cached_tokens for id in range(5)] == [0, 0, 149, 149, 0]
    assert len({entry.domain for entry in engine.kv.host.entries}) == len(engine.kv.host.entries)


def test_the_disk_gives_each_salt_its_own_and_does_not_know_the_salt(tmp_path: Path) -> None:
    def life(*salts: str) -> list[int]:
        backend, collector = FakeBackend(num_slots=1, slot_capacity=256), Collector()

        def tier(on_read: Callable[[DiskEntry], None]) -> DiskCache:
            return DiskCache(Folder(tmp_path, model="m", parts=PARTS, max_bytes=MIB), on_read=on_read)

        engine = build_engine(backend, collector, tiers=Tiers(open_disk=tier))
        for id, salt in enumerate(salts):
            ask(engine, id, salt)
            while id not in collector.finish:
                engine.step()
        engine.stop()
        engine.run()
        return [collector.finish[id].usage.cached_tokens for id in range(len(salts))]

    assert life("somebody's secret") == [0]
    assert life("") == [0]
    assert life("another's") == [0]
    assert len(files(tmp_path)) == 3, "equal tokens of three domains"
    for salt in ("somebody's secret", "", "another's"):
        assert life(salt) == [149]
    assert life("nobody's") == [0]
    for file in files(tmp_path):
        assert b"secret" not in file.read_bytes()
        assert b"somebody" not in file.name.encode()


def test_a_longer_conversation_replaces_none_of_another_domain(tmp_path: Path) -> None:
    one, longer = np.arange(70, dtype=np.int32), np.arange(80, dtype=np.int32)
    with opened(tmp_path) as cache:
        for domain in ("", "ab"):
            put(cache, one, domain=domain)
        put(cache, longer, domain="ab")
        assert sorted((entry.domain, len(entry.tokens)) for entry in cache.entries) == [("", 70), ("ab", 80)]
        assert holds(cache, longer, "ab")
        assert not holds(cache, longer)
    with opened(tmp_path) as cache:
        assert sorted((entry.domain, len(entry.tokens)) for entry in cache.entries) == [("", 70), ("ab", 80)]


def test_what_was_saved_before_there_were_salts_is_everybodys() -> None:
    """A file without a domain is byte for byte what it was."""
    tokens, saved = np.arange(5, dtype=np.int32), SavedConversation(b"state")
    head, _ = encode("f" * 64, tokens, saved)
    assert b"domain" not in head
    assert b"domain" in encode("f" * 64, tokens, saved, domain="ab")[0]
    assert Domain.of(cache_salt="") == COMMON == Domain("")


def test_a_client_that_saves_and_restores_a_slot_does_not_move_it_to_another_domain(tmp_path: Path) -> None:
    """Whoever may do that need not know the salt."""
    engine = build_engine(FakeBackend(num_slots=1, slot_capacity=256), collector := Collector())
    named = NamedStates(tmp_path / "slots", tmp_path / "kv", model="m", parts=PARTS, max_bytes=MIB)
    replies: queue.SimpleQueue[Up] = queue.SimpleQueue()
    filer = SlotFiler(engine, named, replies.put)
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        collector.expected = 1
        ask(engine, 0, "a")
        assert collector.all_done.wait(60)
        calls: list[tuple[str, tuple[Any, ...]]] = [
            ("save_slot", (0, "mine")),
            ("erase_slot", (0,)),
            ("restore_slot", (0, "mine")),
        ]
        for number, (method, arguments) in enumerate(calls):
            filer.call(Call(number, method, arguments))
            reply = replies.get(timeout=60)
            assert isinstance(reply, Reply)
            assert reply.error is None
        collector.all_done.clear()
        collector.expected = 2
        ask(engine, 1, "a")
        assert collector.all_done.wait(60)
    finally:
        engine.stop()
        thread.join(60)
    assert collector.finish[1].usage.cached_tokens == 149
    assert engine.kv.residency.held[0].domain == Domain.of(cache_salt="a")


def test_a_slot_that_is_restored_by_name_is_the_salts_that_it_was_saved_of(tmp_path: Path) -> None:
    engine = build_engine(FakeBackend(num_slots=2, slot_capacity=256), collector := Collector())
    ask(engine, 1, "a")
    drain(engine)
    entry = engine.slots.save(0)
    named = NamedStates(tmp_path / "slots", tmp_path / "kv", model="m", parts=PARTS, max_bytes=MIB)
    named.write("mine", entry.tokens, SavedConversation(entry.state), entry.domain.digest)
    assert Domain(named.read("mine").domain) == entry.domain == Domain.of(cache_salt="a")
    engine.slots.erase(0)
    for id, salt in ((2, ""), (3, "b"), (4, "a")):
        engine.slots.restore(0, entry)
        engine.slots.erase(1)
        ask(engine, id, salt)
        drain(engine)
    assert [collector.finish[id].usage.cached_tokens for id in (2, 3, 4)] == [0, 0, 149]


@given(one=st.text(st.characters(), max_size=5), other=st.text(st.characters(), max_size=5))
def test_equal_salts_are_one_domain_and_others_are_not(one: str, other: str) -> None:
    assert (Domain.of(cache_salt=one) == Domain.of(cache_salt=other)) == (one == other)


def test_a_slot_is_not_given_away_with_what_it_holds() -> None:
    residency = Residency(num_slots=1, slot_capacity=8, can_rewind=True)
    residency.given(0, Domain("a"))
    residency.written(0, 0, [1])
    with pytest.raises(AssertionError, match="another domain"):
        residency.given(0, Domain("b"))
