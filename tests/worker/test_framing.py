"""Frames: what goes in comes out, at every way the pipe cuts it; what is broken says so."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.types import Delta
from localllm.worker.framing import FrameReader, FrameWriter, FramingError
from localllm.worker.messages import Deltas, Loading, Up, up_decoder


class Trickle(io.RawIOBase):
    """Gives at most `step` bytes a read, as a pipe may."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data = io.BytesIO(data)
        self._step = step

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, self._step))


def framed(*messages: Up) -> bytes:
    sink = io.BytesIO()
    for message in messages:
        FrameWriter(sink).write(message)
    return sink.getvalue()


@given(texts=st.lists(st.text(max_size=50), max_size=8), step=st.integers(1, 40))
def test_messages_survive_any_cutting_of_the_stream(texts: list[str], step: int) -> None:
    messages = [Deltas(i, ((7, Delta(text, 1)),)) for i, text in enumerate(texts)]
    reader = FrameReader(Trickle(framed(*messages), step), up_decoder)  # type: ignore[arg-type]
    assert [reader.read() for _ in messages] == messages
    assert reader.read() is None


@pytest.mark.parametrize("keep", [2, 6])
def test_a_stream_that_ends_inside_a_frame_is_an_error_not_an_end(keep: int) -> None:
    reader = FrameReader(io.BytesIO(framed(Loading(0.5))[:keep]), up_decoder)
    with pytest.raises(FramingError, match="inside a frame"):
        reader.read()


def test_a_length_over_the_limit_is_refused_before_anything_is_read() -> None:
    with pytest.raises(FramingError, match="over the limit"):
        FrameReader(io.BytesIO(struct.pack("<I", 2**31) + b"x"), up_decoder).read()


def test_a_frame_that_is_no_message_is_refused() -> None:
    with pytest.raises(FramingError, match="not a message"):
        FrameReader(io.BytesIO(struct.pack("<I", 3) + b"abc"), up_decoder).read()
