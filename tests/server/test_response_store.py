"""What is kept of responses: bounded in number and bytes, least recently used first out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from localllm.server.apis.responses.store import OVERHEAD_BYTES, ResponseStore, StoredResponse
from localllm.types import MediaFile


def _kept(size_bytes: int, owner: str = "") -> StoredResponse:
    return StoredResponse(b"", bytes(size_bytes - OVERHEAD_BYTES), owner)


def test_what_was_used_last_stays_longest() -> None:
    store = ResponseStore(2, 10_000)
    store.put("a", _kept(600))
    store.put("b", _kept(600))
    assert store.get("a") is not None
    store.put("c", _kept(600))
    assert store.get("b") is None
    assert store.get("a") is not None
    assert store.get("c") is not None


def test_bytes_are_a_limit_of_their_own() -> None:
    store = ResponseStore(1000, 2000)
    for id in "abc":
        assert store.put(id, _kept(900))
    assert store.get("a") is None
    assert (len(store), store.size_bytes) == (2, 1800)


def test_a_picture_of_many_responses_counts_once_for_each_owner_until_the_last_of_them_is_gone() -> None:
    unloaded = MediaFile.unloaded("digest", 4000, b"", lambda: bytes(4000))
    store, picture = ResponseStore(1000, 10_000), (unloaded,)
    for id in "abc":
        assert store.put(id, _kept(600, "ann")._replace(files=picture))
    assert unloaded.is_loaded, "it keeps no body"
    assert store.size_bytes == 3 * 600 + 4000
    assert store.put("d", _kept(600, "ben")._replace(files=picture))
    assert (len(store), store.size_bytes) == (3, 2 * 600 + 4000 + 600 + 4000)
    for id in "abcd":
        store.delete(id)
    assert (len(store), store.size_bytes) == (0, 0)
    assert not store.put("e", _kept(600)._replace(files=(MediaFile("large", bytes(9_500)),)))


def test_what_is_larger_than_everything_may_be_is_not_kept_and_displaces_nothing() -> None:
    store = ResponseStore(10, 1000)
    store.put("a", _kept(600))
    assert not store.put("b", _kept(1001))
    assert store.get("a") is not None


def test_a_limit_of_zero_switches_it_off() -> None:
    for store in (ResponseStore(0, 1000), ResponseStore(1000, 0)):
        assert not store.is_on
        assert not store.put("a", _kept(600))
        assert store.get("a") is None


def test_another_owner_finds_nothing_and_keeps_nothing_alive() -> None:
    store = ResponseStore(2, 10_000)
    store.put("a", _kept(600, "ann"))
    store.put("b", _kept(600, "ann"))
    assert store.get("a", "ben") is None
    store.put("c", _kept(600, "ann"))
    assert store.get("a", "ann") is None, "it was the least recently used, whatever others asked for"


def test_nobody_loses_responses_because_somebody_else_keeps_many_or_large_ones() -> None:
    store = ResponseStore(10, 10_000)
    store.put("mine", _kept(2000, "ann"))
    for number in range(50):
        store.put(f"small-{number}", _kept(600, "ben"))
    assert (len(store), store.size_bytes) == (10, 2000 + 9 * 600)
    for number in range(5):
        store.put(f"large-{number}", _kept(4500, "cid"))
    assert store.get("mine", "ann") is not None
    assert store.get("large-4", "cid") is not None


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["put", "get", "delete"]), st.sampled_from("abcdef"), st.integers(512, 1500)), max_size=60
)


@given(OPERATIONS, st.integers(1, 4), st.integers(600, 4000))
def test_it_holds_what_a_plain_list_in_order_of_use_would_hold(
    operations: list[tuple[str, str, int]], max_responses: int, max_bytes: int
) -> None:
    store = ResponseStore(max_responses, max_bytes)
    model: list[tuple[str, int]] = []  # the least recently used first
    for what, id, size_bytes in operations:
        held = dict(model)
        if what == "put" and size_bytes <= max_bytes:
            assert store.put(id, _kept(size_bytes))
            model = [*(pair for pair in model if pair[0] != id), (id, size_bytes)]
            while len(model) > max_responses or sum(size for _, size in model) > max_bytes:
                model.pop(0)
        elif what == "get":
            kept = store.get(id)
            assert (kept.size_bytes if kept else None) == held.get(id)
            model.sort(key=lambda pair: pair[0] == id)
        elif what == "delete":
            assert store.delete(id) == (id in held)
            model = [pair for pair in model if pair[0] != id]
        assert (len(store), store.size_bytes) == (len(model), sum(size for _, size in model))


def test_an_item_is_found_by_its_owner_for_as_long_as_its_response_is_kept() -> None:
    store = ResponseStore(2, 2**20)
    mine = StoredResponse(b"a", b"", "me", ("rs_1", "msg_1"))
    store.put("1", mine)
    assert store.holder("msg_1", "me") == mine
    assert store.holder("msg_1", "you") is None
    assert store.holder("msg_2", "me") is None
    store.put("2", StoredResponse(b"b", b"", "me", ("msg_2",)))
    assert store.holder("rs_1", "me") == mine, "which is thereby the most recently used"
    store.put("3", StoredResponse(b"c", b"", "me"))
    assert store.holder("msg_2", "me") is None
    store.delete("1")
    assert store.holder("msg_1", "me") is None
    assert store.size_bytes == store.get("3", "me").size_bytes  # type: ignore[union-attr]
