"""The bookkeeping of received bytes, compared with a plain set of integers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.registry.fetch.ranges import (
    MAX_CHUNK_BYTES,
    MIN_CHUNK_BYTES,
    ContentRange,
    Ranges,
    next_chunk,
    parse_content_range,
    parse_unsatisfied,
)

SIZE = 40
pairs = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda pair: (min(pair), max(pair))))


@given(pairs)
def test_ranges_are_the_set_of_what_was_added(added: list[tuple[int, int]]) -> None:
    ranges, numbers = Ranges(), set[int]()
    for start, end in added:
        ranges.add(start, end)
        numbers |= set(range(start, end))
    found = list(ranges)
    assert {number for start, end in found for number in range(start, end)} == numbers
    assert ranges.num_bytes == len(numbers)
    assert all(first[1] < second[0] for first, second in pairwise(found))
    assert ranges.front == next(number for number in range(SIZE + 1) if number not in numbers)
    assert Ranges(found) == ranges


@given(pairs, st.integers(0, SIZE + 5))
def test_what_is_missing_and_what_is_there_make_the_whole(added: list[tuple[int, int]], size: int) -> None:
    ranges = Ranges(added)
    missing = ranges.missing(size)
    there = ranges.within(size)
    assert there.num_bytes + sum(end - start for start, end in missing) == size
    whole = Ranges(there)
    for start, end in missing:
        assert start < end
        whole.add(start, end)
    assert list(whole) == ([(0, size)] if size else [])


def test_a_range_that_is_none_is_a_defect() -> None:
    for start, end in ((3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="not a range"):
            Ranges().add(start, end)


@given(pairs, st.integers(1, 64), st.sampled_from([1, 3 * 1024 * 1024, 500 * 1024 * 1024]))
def test_chunks_in_turn_fetch_every_missing_byte_once(
    added: list[tuple[int, int]], connections: int, scale: int
) -> None:
    held = Ranges((start * scale, end * scale) for start, end in added)
    size, before, fetched = SIZE * scale, Ranges(held), 0
    while (chunk := next_chunk(held, size, connections)) is not None:
        start, end = chunk
        assert start == held.front or start >= held.front
        assert chunk == held.missing(size)[0] if connections == 1 else 0 < end - start <= MAX_CHUNK_BYTES
        held.add(start, end)
        fetched += end - start
    assert held.front == size
    assert fetched == size - before.num_bytes


def test_chunks_get_smaller_towards_the_end_but_not_tiny() -> None:
    size = 1 << 30
    assert next_chunk(Ranges(), size, 8) == (0, MAX_CHUNK_BYTES)
    near = size - 5 * MIN_CHUNK_BYTES
    assert next_chunk(Ranges([(0, near)]), size, 8) == (near, near + MIN_CHUNK_BYTES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes 0-0/1", ContentRange(0, 1, 1)),
        ("Bytes 5-9/10", ContentRange(5, 10, 10)),
        ("bytes 5-9/*", ContentRange(5, 10, None)),
        ("bytes 5-10/10", None),
        ("bytes 5-4/10", None),
        ("bytes -5-9/10", None),
        ("bytes 5-9", None),
        ("bytes 0-9/10, 20-29/30", None),
        ("bytes 0-9/99999999999999999999", None),
        ("bytes \u0660-\u0669/10", None),
        ("bytes */10", None),
        ("", None),
        (None, None),
    ],
)
def test_a_content_range_is_read_strictly(text: str | None, expected: ContentRange | None) -> None:
    assert parse_content_range(text) == expected


@given(st.text(max_size=60))
def test_no_text_makes_reading_a_content_range_fail(text: str) -> None:
    found = parse_content_range(text)
    assert found is None or (0 <= found.start < found.end and (found.total is None or found.end <= found.total))
    parse_unsatisfied(text)


def test_the_size_that_a_416_tells_is_read() -> None:
    assert parse_unsatisfied("bytes */0") == 0
    assert parse_unsatisfied("bytes 0-1/2") is None
    assert parse_unsatisfied(None) is None
