"""Server-sent events, decoded."""

from __future__ import annotations

import pytest

from localllm.client.sse import EventDecoder

STREAM = 'data: {"a":"é"}\n\n: comment\ndata:no space\r\n\r\nevent: x\ndata: two\ndata: lines\r\rdata: [DONE]'.encode()
EVENTS = ['{"a":"é"}', "no space", "two\nlines", "[DONE]"]


def _decode(*chunks: bytes) -> list[str]:
    decoder = EventDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.flush()


def test_events_are_the_same_wherever_the_bytes_are_split() -> None:
    for split in range(len(STREAM) + 1):
        assert _decode(STREAM[:split], STREAM[split:]) == EVENTS
    assert _decode(*(STREAM[index : index + 1] for index in range(len(STREAM)))) == EVENTS


def test_an_event_comes_out_as_soon_as_it_is_complete() -> None:
    decoder = EventDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == ["a"]
    assert decoder.flush() == []


@pytest.mark.parametrize("stream", [b"", b"\n\n", b": ping\n\n", b"event: x\n\n"])
def test_what_has_no_data_is_no_event(stream: bytes) -> None:
    assert _decode(stream) == []
