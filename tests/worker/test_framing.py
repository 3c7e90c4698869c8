"""Frames: what goes in comes out, at every way the pipe cuts it; what is broken says so."""

from __future__ import annotations

import contextlib
import io
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.types import Delta, GenerationRequest, Message, SamplingParams
from localllm.types.embeddings import EmbeddingRequest, RerankRequest
from localllm.worker import framing
from localllm.worker.framing import FrameReader, FrameWriter, FramingError, NotEncodable, UndecodableFrame, encode
from localllm.worker.messages import Call, Deltas, Down, Embed, Loading, Submit, Up, down_decoder, up_decoder


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


HALF = "\ud800"


def _replaced(params: SamplingParams, **given: object) -> SamplingParams:
    """As a caller may who looks at nothing: past the checks of the constructor."""
    for name, value in given.items():
        msgspec.structs.force_setattr(params, name, value)
    return params


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Submit(1, GenerationRequest(prompt=f"a{HALF}")), "prompt"),
        (Submit(1, GenerationRequest(prompt="a", suffix=HALF)), "suffix"),
        (Submit(1, GenerationRequest(messages=(Message("user", "x"), Message("user", HALF)))), "messages[1].content"),
        (Submit(1, GenerationRequest(prompt="a", params=SamplingParams(stop=("b", HALF)))), "stop[1]"),
        (Submit(1, GenerationRequest(prompt="a", params=SamplingParams(dry_sequence_breakers=(HALF,)))), "dry_"),
        (
            Submit(1, GenerationRequest(prompt="a", params=_replaced(SamplingParams(), logit_bias={2**64: 1}))),
            "logit_b",
        ),
        (Submit(1, GenerationRequest(prompt="a", params=_replaced(SamplingParams(), seed=2**64))), "seed"),
        (Embed(1, EmbeddingRequest(texts=("a",) * 999 + (HALF,)), None), "texts[999]"),
        (Embed(1, EmbeddingRequest(texts=("a",), dimensions=2**64), None), "dimensions"),
        (Embed(1, None, RerankRequest(query=HALF, documents=("a",))), "query"),
        (Embed(1, None, RerankRequest(query="a", documents=("a", HALF))), "documents[1]"),
        (Call(1, "tokenize", (HALF, False, True)), "args[0]"),
        (Call(1, "pieces", ((1, 2, 2**64), True)), "args[0][2]"),
        (Call(1, "pieces", ((object(),), True)), "args[0][0]"),
    ],
)
def test_what_fits_into_no_frame_is_named(message: Down, field: str) -> None:
    with pytest.raises(NotEncodable) as caught:
        encode(message)
    assert str(caught.value.field).startswith(field)
    assert len(str(caught.value)) < 200


def test_a_frame_over_the_limit_says_both_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "MAX_FRAME_BYTES", 1000)
    with pytest.raises(NotEncodable, match=r"takes 1\d\d\d bytes; at most 1000 are allowed"):
        encode(Call(1, "tokenize", ("x" * 1000, False, True)))


Values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=3) | st.builds(object)
    | st.text(st.characters(exclude_categories=()), max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@given(values=st.lists(Values, max_size=3))
def test_whatever_is_sent_is_encoded_or_refused_with_a_sentence(values: list[object]) -> None:
    with contextlib.suppress(NotEncodable):
        frame = encode(Call(1, "tokenize", tuple(values)))
        assert isinstance(FrameReader(io.BytesIO(frame), down_decoder).read(), Call)


def test_a_request_of_a_type_that_no_field_has_is_named_and_the_next_frame_can_be_read() -> None:
    wrong = GenerationRequest(prompt=5)  # type: ignore[arg-type]
    stream = io.BytesIO(encode(Submit(7, wrong)) + encode(Submit(8, GenerationRequest(prompt="x"))))
    reader = FrameReader(stream, down_decoder)
    with pytest.raises(UndecodableFrame) as caught:
        reader.read()
    assert (caught.value.id, caught.value.field) == (7, "prompt")
    assert reader.read() == Submit(8, GenerationRequest(prompt="x"))


def test_what_a_requests_own_checks_refuse_is_named_too() -> None:
    params = _replaced(SamplingParams(), temperature=float("nan"))
    with pytest.raises(UndecodableFrame, match="temperature must be") as caught:
        FrameReader(io.BytesIO(encode(Submit(7, GenerationRequest(prompt="x", params=params)))), down_decoder).read()
    assert (caught.value.id, caught.value.field) == (7, "temperature")
