"""Who has to go so that a model can be loaded: decided on numbers alone."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import LoadFailed
from localllm.planning.needs import need_bytes
from localllm.supervisor.eviction import AvailableMemory, Evict, Load, MemoryHolder, WaitFor, decide
from localllm.types.load_options import LoadOptions
from tests.worker.conftest import INFO

ROOM = AvailableMemory(max_models=0, max_bytes=100, free_bytes=100)


def held(
    id: str, need: int, *, busy: bool = False, stays: bool = False, used: float = 0.0, leaving: bool = False
) -> MemoryHolder:
    return MemoryHolder(id, need, busy or leaving, stays and not leaving, used, leaving)


def test_what_fits_is_loaded_beside_the_others() -> None:
    assert decide("new", 40, [held("a", 60, busy=True)], ROOM._replace(free_bytes=40)) == Load()


def test_the_least_recently_used_idle_model_goes_first() -> None:
    there = [held("a", 30, used=5), held("b", 30, used=3), held("c", 30, busy=True, used=1)]
    assert decide("new", 20, there, ROOM) == Evict("b")


def test_memory_that_others_use_counts_too() -> None:
    assert decide("new", 40, [held("a", 10)], ROOM._replace(free_bytes=20)) == Evict("a")


def test_busy_models_are_waited_for_and_only_as_many_as_needed() -> None:
    there = [held("a", 50, busy=True, used=1), held("b", 50, busy=True, used=2)]
    assert decide("new", 40, there, ROOM) == WaitFor(("a",))
    assert decide("new", 80, there, ROOM) == WaitFor(("a", "b"))


def test_one_that_is_being_unloaded_is_waited_for_before_any_other_goes() -> None:
    there = [held("a", 30), held("b", 30, leaving=True), held("c", 30, busy=True)]
    assert decide("new", 40, there, ROOM) == WaitFor(("b",))
    assert decide("new", 60, there, ROOM) == Evict("a"), "it is not enough"
    assert decide("new", 60, there[1:], ROOM._replace(free_bytes=0)) == WaitFor(("b", "c"))
    with pytest.raises(LoadFailed, match=r"a .*is pinned"):
        decide("new", 60, [held("a", 50, stays=True), held("b", 30, leaving=True)], ROOM)


def test_a_model_that_stays_is_never_put_out() -> None:
    there = [held("a", 90, stays=True)]
    with pytest.raises(LoadFailed, match=r"new needs about .* a .*is pinned; unload it first"):
        decide("new", 20, there, ROOM)
    assert decide("new", 20, [*there, held("b", 10)], ROOM) == Evict("b")


def test_the_number_of_models_is_bounded_too() -> None:
    room = ROOM._replace(max_models=1)
    assert decide("new", 1, [held("a", 1)], room) == Evict("a")
    with pytest.raises(LoadFailed, match="max_loaded_models is 1"):
        decide("new", 1, [held("a", 1, stays=True)], room)


def test_a_model_alone_is_loaded_whatever_is_reckoned() -> None:
    assert decide("new", 1000, [], ROOM) == Load()


HOW: list[dict[str, bool]] = [
    {}, {"busy": True}, {"stays": True}, {"busy": True, "stays": True}, {"leaving": True},
]  # fmt: skip


@given(
    st.integers(1, 120),
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from(HOW), st.floats(0, 9)), max_size=5),
)
def test_following_the_decisions_always_ends(need: int, others: list[tuple[int, dict[str, bool], float]]) -> None:
    there = [held(str(n), size, used=used, **how) for n, (size, how, used) in enumerate(others)]
    for _ in range(2 * len(others) + 2):
        room = ROOM._replace(free_bytes=100 - sum(one.need_bytes for one in there))
        try:
            decision = decide("new", need, there, room)
        except LoadFailed:
            assert any(one.stays for one in there)
            return
        if isinstance(decision, Load):
            assert not there or need <= room.free_bytes
            return
        gone = (decision.id,) if isinstance(decision, Evict) else decision.ids
        assert gone, "nobody would ever go"
        assert not any(one.stays for one in there if one.id in gone)
        there = [one for one in there if one.id not in gone]
    raise AssertionError("it goes on for ever")


def test_what_a_model_needs_grows_with_its_slots_and_their_context() -> None:
    small, large = (need_bytes(INFO, LoadOptions(ctx=256, slots=slots)) for slots in (1, 16))
    rows = 4 * 15 * INFO.vocabulary_size  # of logits that are read
    assert large - small == (256 * 16 - 256) * 2 * 2 * 32 + rows


def test_without_flash_attention_a_steps_scores_need_memory_too() -> None:
    """64, 512, 512 and 4,096 MiB; masks are larger then, too, and with a million cells 1 GiB with flash attention."""
    info = msgspec.structs.replace(INFO, context_length=1 << 20, num_heads=32)

    def scores_mb(ctx: int) -> int:
        with_it, without = (need_bytes(info, LoadOptions(ctx=ctx, flash_attn=mode)) for mode in ("on", "off"))
        return round((without - with_it) / 2**20)

    assert [scores_mb(ctx) for ctx in (1024, 8192, 32_768, 1 << 20)] == [69, 524, 497, 3200]
