"""What is written within one turn of the loop goes out together; nothing is lost, reordered or late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from localllm.server.joined import MAX_HELD_BYTES, JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Recorder(asyncio.Transport):
    """What a socket would be given, call by call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes | str] = []
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self._closing
        self.calls.append(bytes(data))

    def write_eof(self) -> None:
        self.calls.append("eof")

    def close(self) -> None:
        self.calls.append("close")
        self._closing = True

    def abort(self) -> None:
        self.calls.append("abort")
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return 1000


def in_one_turn(*steps: Callable[[JoinedWrites], object]) -> list[bytes | str]:
    """The calls that the transport below sees, a turn after all of them."""

    async def play() -> list[bytes | str]:
        under = Recorder()
        joined = JoinedWrites(under, asyncio.get_running_loop())
        for step in steps:
            step(joined)
        await asyncio.sleep(0)
        return under.calls

    return asyncio.run(play())


def test_a_head_goes_out_with_what_follows_it_and_alone_if_nothing_does() -> None:
    assert in_one_turn(lambda t: t.write(HEAD), lambda t: t.write(b"a"), lambda t: t.write(b"b")) == [HEAD + b"ab"]
    assert in_one_turn(lambda t: t.write(HEAD)) == [HEAD]


def test_a_token_does_not_wait_and_the_rest_of_a_stream_goes_out_at_once() -> None:
    assert in_one_turn(*(lambda t, part=part: t.write(part) for part in (b"token", b"finish", b"", b"done"))) == [
        b"token",
        b"finishdone",
    ]


def test_who_closes_has_written_everything_and_who_aborts_nothing_more() -> None:
    held = lambda t: t.write(HEAD)  # noqa: E731
    assert in_one_turn(held, lambda t: t.close()) == [HEAD, "close"]
    assert in_one_turn(held, lambda t: t.write_eof()) == [HEAD, "eof"]
    assert in_one_turn(held, lambda t: t.abort()) == ["abort"]


def test_what_is_large_does_not_pile_up_within_a_turn() -> None:
    parts = [b"x" * 10_000] * 100
    calls = in_one_turn(*(lambda t, part=part: t.write(part) for part in parts))
    assert b"".join(call for call in calls if isinstance(call, bytes)) == b"".join(parts)
    assert max(map(len, calls)) <= MAX_HELD_BYTES + 10_000


def test_what_is_held_counts_as_not_taken() -> None:
    sizes: list[int] = []
    in_one_turn(lambda t: t.write(HEAD), lambda t: sizes.append(t.get_write_buffer_size()))
    assert sizes == [1000 + len(HEAD)]


@given(st.lists(st.lists(st.sampled_from([HEAD, b"x", b"yy", b""]), max_size=5), max_size=6))
def test_every_byte_goes_out_in_order_at_most_two_calls_a_turn(turns: list[list[bytes]]) -> None:
    async def play() -> None:
        under = Recorder()
        joined = JoinedWrites(under, asyncio.get_running_loop())
        for turn in turns:
            before = len(under.calls)
            for part in turn:
                joined.write(part)
            await asyncio.sleep(0)
            assert len(under.calls) - before <= 2
            assert b"".join(call for call in under.calls[before:] if isinstance(call, bytes)) == b"".join(turn)

    asyncio.run(play())
