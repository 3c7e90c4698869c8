"""Text out of token bytes: whole characters, no stop strings, the same at every split."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.engine.answers.text import TextStream

ALPHABET = "ab\né漢🙂"


def stream(data: bytes, cuts: list[int], stop: tuple[str, ...]) -> tuple[str, bool]:
    text_stream = TextStream(stop)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    shown = "".join(text_stream.feed(data[a:b]) for a, b in itertools.pairwise(edges))
    return shown + text_stream.flush(), text_stream.stopped


def whole(data: bytes, stop: tuple[str, ...]) -> tuple[str, bool]:
    text = data.decode("utf-8", "replace")
    for end in range(len(text) + 1):
        starts = [end - len(one) for one in stop if text[:end].endswith(one)]
        if starts:
            return text[: min(starts)], True
    return text, False


@given(
    text=st.text(ALPHABET, max_size=40),
    stop=st.lists(st.text(ALPHABET, min_size=1, max_size=5), max_size=3).map(tuple),
    cuts=st.lists(st.integers(0, 200), max_size=20),
)
def test_streamed_text_equals_whole_text_at_every_split(text: str, stop: tuple[str, ...], cuts: list[int]) -> None:
    data = text.encode()
    assert stream(data, cuts, stop) == whole(data, stop)


@given(data=st.binary(max_size=60), cuts=st.lists(st.integers(0, 200), max_size=20))
def test_broken_bytes_become_replacement_characters_as_in_one_go(data: bytes, cuts: list[int]) -> None:
    assert stream(data, cuts, ())[0] == data.decode("utf-8", "replace")


def test_the_number_of_stop_strings_costs_a_token_nothing() -> None:
    """With 50,000, of up to 250 characters; to search for each of them takes 10 ms a token."""
    text_stream = TextStream([f"<{number:06}{'x' * (number % 240)}>" for number in range(50_000)])
    began_s = time.thread_time()
    shown = "".join(text_stream.feed(b"0123x <04999") for _ in range(1000))
    assert time.thread_time() - began_s < 1
    assert shown == ("0123x <04999" * 1000).removesuffix("<04999")
    assert text_stream.feed(b" and <000042") == "<04999 and "
    assert [text_stream.feed(b"x") for _ in range(42)] == [""] * 42
    assert (text_stream.feed(b">!"), text_stream.stopped_by) == ("", f"<000042{'x' * 42}>")


def test_a_partial_stop_string_is_held_back_and_then_released() -> None:
    text_stream = TextStream(["</end>"])
    assert text_stream.feed(b"Hello </e") == "Hello "
    assert text_stream.feed(b"mpty>") == "</empty>"
    assert not text_stream.stopped


def test_half_a_character_is_never_shown() -> None:
    text_stream = TextStream()
    assert text_stream.feed("🙂".encode()[:3]) == ""
    assert text_stream.feed("🙂".encode()[3:]) == "🙂"


@pytest.mark.parametrize("at_once", [True, False])
def test_nothing_after_a_stop_string_is_shown(at_once: bool) -> None:
    text_stream = TextStream(["\n"])
    parts = [b"one\ntwo"] if at_once else [b"one", b"\n", b"two"]
    assert "".join(text_stream.feed(part) for part in parts) + text_stream.flush() == "one"
