"""Videos become times and pictures: frames evenly spread, read whatever a header claims, kept as pictures are."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from localllm.engine.media import MediaRows
from localllm.llama.library import Library
from localllm.worker.media.decoding_child import Decoded, DecodeRequest, DecodingChild
from localllm.worker.prompts.prompt_parts import MediaPieces, MissingFiles
from tests.models.media import MediaModel, MediaModelKind
from tests.pictures import video
from tests.worker.media_readers import answer, as_file, open_test_reader, read, rows_of, spans

COLORS = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)]


@pytest.fixture(scope="module")
def child() -> Iterator[DecodingChild]:
    made = DecodingChild()
    yield made
    made.close()


def _frames(child: DecodingChild, data: bytes, rate_hz: float = 1.0, max_frames: int = 32) -> Decoded:
    return child.decode(DecodeRequest("video", data, "auto", 10**6, 1000.0, rate_hz, max_frames))


def _patched(data: bytes, box: bytes, at: int, *numbers: int) -> bytes:
    """An MP4 with these numbers at a place in a box, behind its version."""
    begin = data.index(box) + 8 + at
    return data[:begin] + struct.pack(f">{len(numbers)}I", *numbers) + data[begin + 4 * len(numbers) :]


@pytest.mark.parametrize(
    ("data", "rate_hz", "max_frames", "expected"),
    [
        (video(COLORS), 1.0, 32, [(0, 0), (1000, 1), (2000, 2), (3000, 3)]),
        (video(COLORS, format="webm"), 1.0, 32, [(0, 0), (1000, 1), (2000, 2), (3000, 3)]),
        (video(COLORS), 0.5, 32, [(0, 0), (2000, 2)]),
        (video(COLORS), 60.0, 32, [(0, 0), (1000, 1), (2000, 2), (3000, 3)]),
        (video(COLORS), 1.0, 2, [(0, 0), (3000, 3)]),
        (video([COLORS[number // 25] for number in range(100)]), 1.0, 4, [(0, 0), (33000, 1), (66000, 2), (99000, 3)]),
        (video([COLORS[number % 4] for number in range(40)], rate=4), 1.0, 3, [(0, 0), (4750, 3), (9750, 3)]),
    ],
)
def test_frames_are_evenly_spread_and_know_their_times(
    child: DecodingChild,
    data: bytes,
    rate_hz: float,
    max_frames: int,
    expected: list[tuple[int, int]],
) -> None:
    decoded = _frames(child, data, rate_hz, max_frames)
    assert decoded.problem == ""
    assert [frame.time_ms for frame in decoded.frames] == [at for at, _ in expected]
    for frame, (_, color) in zip(decoded.frames, expected, strict=True):
        pixels = np.frombuffer(frame.data, np.uint8).reshape(32, 64, 3)
        assert np.abs(pixels.astype(int) - COLORS[color]).max() < 8


def test_a_telephones_video_is_upright(child: DecodingChild) -> None:
    [first, *_] = _frames(child, video(COLORS, turned=90)).frames
    assert (first.width, first.height) == (32, 64)


SHORT = video(COLORS)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (SHORT[: len(SHORT) // 2], "has no pictures"),
        (video(COLORS, format="webm")[:200], "is broken"),
        (b"\0\0\0\x20ftypisom" + bytes(2000), "is broken"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "is of no format"),
        (_patched(_patched(SHORT, b"stts", 4, 10**6), b"stsz", 0, 1, 10**6), ""),
        (_patched(SHORT, b"stts", 8, 0), ""),
        (video([COLORS[0]] * 1002), "is longer than 1000 s"),
        (_patched(SHORT, b"stsz", 4, 0), "has no frames"),
    ],
)
def test_a_hostile_video_is_refused_in_words_or_read_as_far_as_it_goes_and_soon(
    child: DecodingChild,
    data: bytes,
    says: str,
) -> None:
    began = time.perf_counter()
    decoded = _frames(child, data)
    assert says in decoded.problem
    assert bool(says) or len(decoded.frames) <= 4
    assert time.perf_counter() - began < 10
    assert len(_frames(child, SHORT).frames) == 4


def _texts(pieces: MediaPieces) -> list[str]:
    """What stands before, between and behind the rows; the reader's tokens of a stamp are its bytes."""
    return [bytes(each).decode("ascii", "replace") for each in pieces if not isinstance(each, MediaRows)]


def test_a_model_reads_times_and_pictures_and_a_restart_decodes_nothing(
    loaded: Library, media_model: Callable[[MediaModelKind], MediaModel], tmp_path: Path
) -> None:
    model, film = media_model("mlp"), as_file("video", SHORT)
    reader = open_test_reader(loaded, model, tmp_path)
    [pieces] = read(reader, film)
    assert [text for text in _texts(pieces) if text.startswith("[")] == ["[0:00]", "[0:01]", "[0:02]", "[0:03]"]
    rows = [rows_of(span) for span in reversed(spans(pieces))][::-1]
    assert len(rows) == len({each.tobytes() for each in rows}) == 4
    assert reader.counters.encodes == 4
    assert reader.counters.decodes == 1

    restarted = open_test_reader(loaded, model, tmp_path)
    [again] = read(restarted, film, sent={})
    assert [span.ids for span in spans(again)] == [span.ids for span in spans(pieces)]
    assert all(np.array_equal(rows_of(span), one) for span, one in zip(spans(again), rows, strict=True))
    assert (restarted.counters.decodes, restarted.counters.encodes, restarted.encoder_pid) == (0, 0, None)

    fewer = open_test_reader(loaded, model, tmp_path, max_video_frames=2)
    assert answer(fewer, film, sent={}) == MissingFiles((film.media.digest,))
    [two] = read(fewer, film)
    assert [span.ids for span in spans(two)] == [spans(pieces)[0].ids, spans(pieces)[3].ids]
    assert np.array_equal(rows_of(spans(two)[1]), rows[3])
    assert fewer.counters.encodes == 0
