"""A fake of the arithmetic only: a backend whose next token is a pure function of the tokens before it.

It keeps the KV cells of every slot as llama.cpp would and refuses what llama.cpp would refuse, so that a scheduler
that loses a token, reorders a batch or reads a stale slot is caught.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import BackendError, Segment, State
from localllm.engine.media import Extent, MediaRows, Planes, Span
from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet
from localllm.engine.requests.terms import Due, Ending, ReportOptions, Reuse, Shift
from localllm.engine.scheduling.cost import TILE
from localllm.engine.spans import begun, outside
from localllm.errors import LocalLLMError
from localllm.kvdisk.entry import DiskEntry
from localllm.kvdisk.file import Bytes, DiskCheckpoint, Extents, SavedConversation
from localllm.types.states import AdapterStatus

END = 0
"""The end-of-generation token."""


def grouped(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a `Request` by their own names, in the groups that it takes."""
    groups: dict[str, Any] = {
        "ending": Ending(),
        "reported": ReportOptions(),
        "reuse": Reuse(),
        "shift": Shift(),
        "due": Due(),
    }
    made, rest = dict(groups), dict(options)
    for name, group in groups.items():
        made[name] = group._replace(**{field: rest.pop(field) for field in group._fields if field in rest})
    return made | rest


def next_token(tokens: Sequence[int]) -> int:
    """A number from 1 to 96 that depends on every token and its position."""
    value = 7
    for token in tokens:
        value = (value * 31 + token) % 1_000_003
    return value % 96 + 1


def packed(tokens: Sequence[int]) -> bytes:
    """A byte for each token: media rows have ids from -128 on."""
    return np.array(tokens, np.int8).tobytes()


def unpacked(state: State) -> list[int]:
    tokens: list[int] = np.frombuffer(state, np.int8).tolist()
    return tokens


class _Saved(bytes):
    """A state that knows what its cells were computed under."""

    under: list[AdapterSet | None]


class FakeRows:
    """Implements `RowSource`: rows that say which they are, once they `come`."""

    def __init__(self, ids: Sequence[int], *, are_there: bool = True) -> None:
        self.ids = ids
        self.rows: npt.NDArray[np.float32] | None = None
        self.failure: LocalLLMError | None = None
        self._waiting: list[Callable[[], None]] = []
        self.num_wants = 0
        self.encode_s, self.was_cached = 0.0, False
        if are_there:
            self.come()

    def want(self, ready: Callable[[], None]) -> None:
        self.num_wants += 1
        if self.rows is None and self.failure is None:
            self._waiting.append(ready)
        else:
            ready()

    def come(self, failure: LocalLLMError | None = None) -> None:
        self.failure = failure
        if failure is None:
            self.rows = np.repeat(np.array(self.ids, np.float32)[:, None], 4, axis=1)
        waiting, self._waiting = self._waiting, []
        for ready in waiting:
            ready()


class GivenRows:
    """Implements `RowSource`: they are there."""

    failure: LocalLLMError | None = None
    encode_s, was_cached = 0.0, False

    def __init__(self, rows: npt.NDArray[np.float32]) -> None:
        self.rows = rows

    def want(self, ready: Callable[[], None]) -> None:  # noqa: ARG002
        raise AssertionError("rows that are there are not wanted")


def in_planes(times: npt.ArrayLike, down: npt.ArrayLike, right: npt.ArrayLike) -> Planes:
    """Positions of rows, all relative to their span's first; nothing in the last plane."""
    numbers = np.array([times, down, right, np.zeros_like(down)], np.int32)
    return Planes(numbers, np.repeat([[True], [True], [True], [False]], numbers.shape[1], axis=1))


PICTURES = (("causal", 5), ("whole", 4), ("plane", 6), ("causal", 11), ("plane", 2), ("whole", 3))
"""Kind and number of rows of each: in a `whole` one rows see each other, in a `plane` they share a position."""


def picture_at(start: int, which: int, *, are_there: bool = True) -> Span:
    kind, size = PICTURES[which]
    ids = tuple(range(-1 - 20 * which, -1 - 20 * which - size, -1))
    planes = in_planes([0] * size, [0] * size, range(size)) if kind == "plane" else None
    return Span(start, MediaRows(ids, size, planes, kind != "whole", FakeRows(ids, are_there=are_there)))


def illustrated(
    tokens: Sequence[int], pictures: Sequence[tuple[int, int]], *, are_there: bool = True
) -> tuple[list[int], list[Span]]:
    """A prompt of these tokens and `pictures`, given as how many tokens come before it and which it is."""
    ids, spans, done = list[int](), list[Span](), 0
    for place, which in sorted(pictures):
        ids += tokens[done:place]
        done = max(done, min(place, len(tokens)))
        spans.append(picture_at(len(ids), which, are_there=are_there))
        ids += spans[-1].of.ids
    return ids + list(tokens[done:]), spans


class FakeBackend:
    """Implements `localllm.engine.backend.Backend`, and is all three parts of it."""

    def __init__(
        self,
        *,
        num_slots: int = 4,
        slot_capacity: int = 64,
        batch_capacity: int = 16,
        ends_at: int | None = None,
        fails_at_step: int | None = None,
        poison: int | None = None,
        broken_at: int | None = None,
        nonsense: float = math.nan,
        can_rewind: bool = True,
        window: int | None = None,
        slack: int = 4,
        snapshots: int = 0,
        num_cells: int | None = None,
        ubatch_capacity: int | None = None,
        max_outputs: int | None = None,
        is_asynchronous: bool = False,
    ) -> None:
        """`window`: a sliding one, of a memory that can lose `slack` tokens; `can_rewind` is False then.

        `snapshots`: of a recurrent memory, which goes back once to a state behind one of the last decode's tokens.

        `is_asynchronous`: a decode goes on until `synchronize`, which raises what `fails_at_step` says; until then
        neither logits nor cells may be touched.
        `ubatch_capacity`: a decode may be interrupted, and is computed in ubatches of so many tokens.
        """
        self.num_slots = num_slots
        self.slot_capacity = slot_capacity
        self.batch_capacity = batch_capacity
        self.ubatch_capacity = ubatch_capacity or batch_capacity
        self.can_be_interrupted = ubatch_capacity is not None and (can_rewind or window is not None)
        self.num_nodes = 0
        self.lost_s = 0.0
        self.token_s = 0.0
        """What computing a token takes, of `now_s`."""
        self.now_s = 0.0
        self.during: Callable[[], None] = lambda: None
        """Called after each token of a decode that may be interrupted."""
        self._ends_s = math.inf
        """When somebody wants the decode to end at the latest."""
        self.was_asked = False
        self.num_rests = 0
        self.tile = self.grain = TILE
        self.max_outputs = max_outputs or batch_capacity
        self.can_rewind = can_rewind and window is None
        self.wants_dense = not can_rewind and window is None
        self.held: list[list[int]] = [[] for _ in range(num_slots)]
        self.extents: list[tuple[Extent, ...]] = [()] * num_slots
        self._window, self._slack = window, slack
        self._snapshots = snapshots
        self._snapshots_of = [0] * num_slots
        """States of each slot that can be gone back to."""
        self._padding: dict[int, int] = {}
        """Of such a memory, tokens behind a slot's own that go with the next cut or decode."""
        self.max_rollback = batch_capacity if self.can_rewind else snapshots if window is None else slack
        self.rolls_back_equals = snapshots > 0
        self.num_cells = num_cells
        self._ids: list[list[int]] = [[] for _ in range(num_slots)]
        """Of a unified cache, one number for each cell that a slot has."""
        self._next_id = 0
        self._seen_from = [0] * num_slots
        """The first position in each slot's window that is still there."""
        self.copies: list[tuple[int, int, int]] = []
        self.pending: list[tuple[int, int]] = []
        """Copies since the last decode: llama.cpp moves their cells only then."""
        self.batches: list[list[Segment]] = []
        self.in_force: AdapterSet = NO_ADAPTERS
        self.num_switches = 0
        self.missing_adapter = ""
        self.sets: list[AdapterSet] = []
        """What was in force in each batch."""
        self.under: list[list[AdapterSet | None]] = [[] for _ in range(num_slots)]
        """What each cell was computed under, as far as that is known; there may be more than the slot has cells."""
        self.has_activations = False
        """Whether sets may change within a slot."""
        self._ends_at = ends_at
        self._fails_at_step = fails_at_step
        self._poison = poison
        self._broken_at, self._nonsense = broken_at, nonsense
        self.is_asynchronous = is_asynchronous
        self._computes = self._fails_late = False

    @property
    def decoder(self) -> FakeBackend:
        return self

    @property
    def cells(self) -> FakeBackend:
        return self

    @property
    def vocab(self) -> FakeBackend:
        return self

    threads = num_frees = 0

    def free(self) -> None:
        self.num_frees += 1

    def set_threads(self, threads: int) -> None:
        self.threads = threads

    def use_adapters(self, adapters: AdapterSet) -> bool:
        if any(each.digest == self.missing_adapter for each in adapters):
            raise BackendError("this adapter cannot be loaded")
        changes, self.in_force = adapters != self.in_force, adapters
        self.num_switches += changes
        return changes

    @property
    def adapter_status(self) -> AdapterStatus | None:
        return AdapterStatus(switches=self.num_switches) if self.num_switches else None

    def length(self, slot: int) -> int:
        return len(self.held[slot])

    def least(self, slot: int) -> int:
        if self.can_rewind:
            return 0
        if self._window is None:
            return len(self.held[slot]) + self._padding.get(slot, 0) - self._snapshots_of[slot]
        return self._seen_from[slot] + self._window if self._seen_from[slot] else 0

    @property
    def can_shift(self) -> bool:
        return self.can_rewind and self.num_cells is None

    def shift(self, slot: int, keep: int, drop: int) -> None:
        assert not self._computes
        assert self.can_shift
        assert not any(slot in copy for copy in self.pending), "its cells are not there yet"
        del self.held[slot][keep : keep + drop]
        del self._ids[slot][keep : keep + drop]
        del self.under[slot][keep : keep + drop]
        assert keep == outside(keep, self.extents[slot]), "half a picture"
        assert keep + drop == outside(keep + drop, self.extents[slot]), "half a picture"
        behind = [one for one in self.extents[slot] if one.start >= keep + drop]
        moved = [one._replace(start=one.start - drop, end=one.end - drop) for one in behind]
        self.extents[slot] = (*begun(self.extents[slot], keep), *moved)

    def truncate(self, slot: int, length: int) -> None:
        assert not self._computes
        assert length == 0 or length >= min(self.least(slot), len(self.held[slot])), "this memory cannot lose that"
        if length < len(self.held[slot]):
            assert length == outside(length, self.extents[slot]), "a part of a picture cannot go"
            self.extents[slot] = begun(self.extents[slot], length)
        if length < len(self.held[slot]) + self._padding.pop(slot, 0):
            self._snapshots_of[slot] = 0
        del self.held[slot][length:]
        del self._ids[slot][length:]
        if length == 0:
            self._seen_from[slot] = 0

    def scrub(self) -> None:
        assert not self.pending, "a copy is still to come"

    def copy(self, source: int, slot: int, length: int) -> None:
        assert not self._computes
        assert source != slot
        assert length <= len(self.held[source])
        self.copies.append((source, slot, length))
        self.under[slot] = self.under[source][:length]
        if self.can_rewind:
            self._ids[slot] = self._ids[source][:length]
            if self.num_cells is None:
                self.pending.append((source, slot))
            self.held[slot] = self.held[source][:length]
            self.extents[slot] = begun(self.extents[source], length)
            assert length == len(self.held[source]) or length == outside(length, self.extents[source])
        else:
            assert length == len(self.held[source]), "this memory is copied whole"
            self.restore(slot, self.save(source), length, self.extents[source])

    def save(self, slot: int) -> bytes:
        assert not self._computes
        assert not any(target == slot for _, target in self.pending), "its cells are not there yet"
        saved = _Saved(packed(self.held[slot]))
        saved.under = self.under[slot][: len(self.held[slot])]
        return saved

    def state_bytes(self, slot: int) -> int:
        return len(self.held[slot])

    def restore(self, slot: int, state: State, length: int, extents: Sequence[Extent] = ()) -> None:
        assert not self._computes
        assert not any(source == slot for source, _ in self.pending), "a copy from there is still to come"
        assert len(state) == length
        self._replaced(slot)
        self.under[slot] = list(state.under) if isinstance(state, _Saved) else [None] * length
        self.held[slot] = unpacked(state)
        self.extents[slot] = tuple(extents)
        assert [token < 0 for token in self.held[slot]].count(True) >= sum(
            min(one.end, length) - one.start for one in extents
        ), "extents of something else"
        self._ids[slot] = []
        self._take_cells(slot, length)
        self._seen_from[slot] = 0 if self._window is None else max(0, length - self._window)

    def checkpoint(self, slot: int) -> bytes:
        assert not self._computes
        assert not self.can_rewind
        return packed(self.held[slot][-self._window if self._window else 0 :])

    def rewind(self, slot: int, state: State, length: int) -> None:
        assert not self._computes
        assert not self.can_rewind
        seen_from = 0 if self._window is None else max(0, length - self._window)
        assert 0 < length <= len(self.held[slot])
        assert unpacked(state) == self.held[slot][seen_from:length], "a checkpoint of something else"
        assert length == outside(length, self.extents[slot]), "a checkpoint within a picture"
        self.extents[slot] = begun(self.extents[slot], length)
        del self.held[slot][length:]
        self._replaced(slot)
        self._seen_from[slot] = seen_from

    def _replaced(self, slot: int) -> None:
        self._snapshots_of[slot] = 0
        self._padding.pop(slot, None)

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        assert not self._computes
        self.pending.clear()
        for slot in list(self._padding):
            self.truncate(slot, len(self.held[slot]))
        self._snapshots_of = [0] * self.num_slots
        if self._fails_at_step == len(self.batches):
            self._fails_at_step = None
            for segment in segments:  # as llama.cpp may: some of the batch is in the cache already
                self.held[segment.slot].extend(segment.tokens[:1])
            self._computes = self._fails_late = self.is_asynchronous
            if self._fails_late:
                return True
            raise BackendError("no room in the KV cache")
        if any(self._poison in segment.tokens for segment in segments):
            raise BackendError("a token that nobody can compute")
        assert 0 < sum(len(segment.tokens) + segment.num_padding for segment in segments) <= self.batch_capacity
        num_outputs = sum(segment.num_outputs for segment in segments)
        assert num_outputs <= self.max_outputs, "llama.cpp aborts the process"
        slots = [segment.slot for segment in segments]
        assert slots == sorted(set(slots)), "llama.cpp wants ascending slots"
        for segment in segments:
            self._check_rows(segment, len(segments), is_interruptible=within_s is not None)
        if within_s is None:
            computed = segments
            self.now_s += self.token_s * sum(len(segment.tokens) for segment in segments)
        else:
            computed = self._until_interrupted(segments, within_s)
        for segment in computed:
            cells, under = self.held[segment.slot], self.under[segment.slot]
            assert segment.start == len(cells), "a gap or an overlap in the positions"
            del under[len(cells) :]
            same = not under or under[-1] in (None, self.in_force)
            assert same or self.has_activations, "a prefix that was computed under other adapters"
            under += [self.in_force] * len(segment.tokens)
            cells.extend(segment.tokens)
            extent = segment.media and segment.media.extent
            if extent and extent.start == segment.start and segment.tokens:
                self.extents[segment.slot] += (extent,)
            assert 0 <= segment.num_outputs <= len(segment.tokens)
            assert len(cells) + segment.num_padding <= self.slot_capacity
            num_rows = len(segment.tokens) + segment.num_padding
            assert not segment.num_padding or self.num_cells is None
            assert not segment.num_padding or num_rows <= 1 + self.max_rollback
            self._take_cells(segment.slot, len(segment.tokens))
            if self._window is not None:
                seen_from = max(0, len(cells) + segment.num_padding - self._window - self._slack)
                self._seen_from[segment.slot] = max(seen_from, self._seen_from[segment.slot])
            assert len(cells) <= self.slot_capacity
        if computed is not segments:
            return False
        if self._snapshots:
            self._keep_snapshots(segments)
        self.batches.append(list(segments))
        self.sets.append(self.in_force)
        self._computes = self.is_asynchronous
        return True

    def _check_rows(self, segment: Segment, num_segments: int, *, is_interruptible: bool) -> None:
        """As llama.cpp would, or as answers would be wrong without an error."""
        assert all((token < 0) == (segment.media is not None) for token in segment.tokens), "tokens in place of rows"
        if segment.media is None:
            return
        media, extent = segment.media, segment.media.extent
        assert num_segments == 1, "a batch of tokens and rows"
        assert not segment.num_padding
        assert media.rows[:, 0].tolist() == list(segment.tokens), "rows of something else"
        if extent is not None and extent.shares_positions:
            assert not is_interruptible, "nobody could tell what was computed"
        if not media.is_causal:
            assert extent is not None
            whole = (extent.start, extent.end) == (segment.start, segment.start + len(segment.tokens))
            assert whole, "rows that do not see each other"
            assert len(segment.tokens) <= self.ubatch_capacity, "llama.cpp aborts the process"

    def _keep_snapshots(self, segments: Sequence[Segment]) -> None:
        """Of what is computed in one pass: as many rows of consecutive slots."""
        rows = [len(segment.tokens) + segment.num_padding for segment in segments]
        slots = [segment.slot for segment in segments]
        is_one_pass = len(set(rows)) == 1 and slots == [*range(slots[0], slots[0] + len(slots))]
        for segment, num_rows in zip(segments, rows, strict=True):
            if segment.num_padding:
                self._padding[segment.slot] = segment.num_padding
            if is_one_pass:
                self._snapshots_of[segment.slot] = min(self._snapshots, num_rows - 1)

    def synchronize(self) -> None:
        self._computes = False
        if self._fails_late:
            self._fails_late = False
            raise BackendError("no room in the KV cache")

    def rest(self) -> None:
        self.num_rests += 1

    def interrupt(self, within_s: float) -> None:
        self.was_asked = True
        self._ends_s = min(self._ends_s, self.now_s + within_s)

    def clear_interrupts(self) -> None:
        self.was_asked = False
        self._ends_s = math.inf

    def _until_interrupted(self, segments: Sequence[Segment], within_s: float) -> Sequence[Segment]:
        """The segments; or what whole ubatches computed of them before somebody interrupted that.

        As llama.cpp does: as many tokens of each segment in each ubatch.
        """
        num_done = [0] * len(segments)
        self._ends_s = min(self._ends_s, self.now_s + (0 if self.was_asked else within_s))
        while together := [i for i, segment in enumerate(segments) if num_done[i] < len(segment.tokens)]:
            together = together[: self.ubatch_capacity]
            most = min(len(segments[i].tokens) - num_done[i] for i in together)
            count = min(most, self.ubatch_capacity // len(together))
            began_s = self.now_s
            for number in range(count * len(together)):
                self.now_s += self.token_s
                self.num_nodes += 1
                self.during()
                is_first_of_next = number == 0 and any(num_done)
                if self.now_s >= self._ends_s or (is_first_of_next and self.was_asked):
                    self.lost_s = self.now_s - began_s
                    parts = zip(segments, num_done, strict=True)
                    return [segment._replace(tokens=segment.tokens[:done], num_outputs=0) for segment, done in parts]
            for i in together:
                num_done[i] += count
        return segments

    def _take_cells(self, slot: int, count: int) -> None:
        self._ids[slot] += range(self._next_id, self._next_id + count)
        self._next_id += count
        assert self.num_cells is None or self.used_cells() <= self.num_cells, "the unified cache is full"

    def used_cells(self) -> int:
        return len(set().union(*self._ids))

    def logits(self, index: int) -> list[npt.NDArray[np.float32]]:
        assert not self._computes
        segment = self.batches[-1][index]
        cells, end = self.held[segment.slot], segment.start + len(segment.tokens)
        return [self._row(cells[: last + 1]) for last in range(end - segment.num_outputs, end)]

    def _row(self, cells: list[int]) -> npt.NDArray[np.float32]:
        row = np.zeros(97, np.float32)
        if self._broken_at is not None and self._broken_at in cells:
            row[5] = self._nonsense
        row[END if self._ends_at is not None and len(cells) >= self._ends_at else next_token(cells)] += 1
        return row

    def spelled(self, token: int) -> bytes:
        return b"<end>" if token == END else bytes([31 + token])

    def token_bytes(self, token: int) -> bytes:
        return b"" if token == END else bytes([31 + token])

    def ends_generation(self, token: int) -> bool:
        return token == END


class FakeDiskCache:
    """As `kvdisk.cache.DiskCache`, in memory: what is wanted is there after so many looks at its status."""

    def __init__(
        self,
        max_entries: int = 100,
        *,
        looks: int = 1,
        num_prefetched: int = 100,
        hangs: bool = False,
        fails: bool = False,
    ) -> None:
        """`num_prefetched`: what was read first is dropped beyond so many; `hangs`: no read ends; `fails`: each."""
        self.entries: tuple[DiskEntry, ...] = ()
        self.max_entries = max_entries
        self.num_reads: dict[DiskEntry, int] = {}
        self._looks = looks
        self._is_timed = False
        self._num_prefetched = num_prefetched
        self._hangs, self._fails = hangs, fails
        self._saved: dict[DiskEntry, SavedConversation] = {}
        self._reading: dict[DiskEntry, int] = {}
        self._there: list[DiskEntry] = []

    def store(
        self,
        tokens: npt.NDArray[np.int32],
        state: Bytes,
        checkpoints: Sequence[DiskCheckpoint] = (),
        *,
        domain: str = "",
        extents: Extents = (),
    ) -> None:
        saved = SavedConversation(state, tuple(checkpoints), extents)
        entry = DiskEntry(tokens, saved.num_bytes, tuple(one.position for one in checkpoints), domain, extents)
        self.entries = (*self.entries, entry)[-self.max_entries :] if self.max_entries else ()
        self._saved[entry] = saved

    def status(self, entry: DiskEntry) -> str:
        if entry in self._reading:
            if not self._is_timed:
                self._reading[entry] -= 1
            if self._hangs or self._reading[entry] > 0:
                return "reading"
            del self._reading[entry]
            if self._fails:
                self.entries = tuple(other for other in self.entries if other is not entry)
                return "gone"
            self._there = [*self._there, entry][-self._num_prefetched :]
        if entry in self._there:
            return "memory"
        return "disk" if entry in self.entries else "gone"

    def tick(self) -> None:
        """From now on this makes reads go on, and looks do not."""
        self._is_timed = True
        self._reading = {entry: looks - 1 for entry, looks in self._reading.items()}

    def prefetch(self, entry: DiskEntry) -> bool:
        self.num_reads[entry] = self.num_reads.get(entry, 0) + 1
        self._reading[entry] = self._looks
        return True

    def drop(self, entry: DiskEntry) -> None:
        self._reading.pop(entry, None)
        self._there = [other for other in self._there if other is not entry]

    @property
    def num_held(self) -> int:
        """How many entries were read, or are being read, that nobody took."""
        return len(self._reading) + len(self._there)

    def load(self, entry: DiskEntry) -> SavedConversation | None:
        if entry in self._there:
            self._there.remove(entry)
            return self._saved[entry]
        return None

    def flush(self, timeout_s: float) -> bool:
        return timeout_s > 0

    def close(self, timeout_s: float) -> bool:
        return timeout_s > 0


def alone(prompt: Sequence[int], count: int) -> list[int]:
    """What `count` tokens of a prompt must be, computed without any engine."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]
