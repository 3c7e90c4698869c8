"""Files of pictures and sounds in the decoding child: what is hostile is refused in words, within time and memory."""

from __future__ import annotations

import io
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from localllm.llama.library import Library
from localllm.types import ImageDetail, MediaKind
from localllm.worker.media.decoding_child import Decoded, DecodeRequest, DecodingChild
from localllm.worker.media.process_limits import DecodingLimits
from localllm.worker.media.resampling import Resampler
from tests.models.media import MediaModel, MediaModelKind
from tests.worker.media_readers import as_file, encoded, open_test_reader, read, rows_of, spans

RED, WHITE = (255, 0, 0), (255, 255, 255)
NOISE = np.random.default_rng(0)
SAMPLES = (NOISE.standard_normal(16000) * 3000).astype("<i2").tobytes()


@pytest.fixture(scope="module")
def child() -> Iterator[DecodingChild]:
    made = DecodingChild()
    yield made
    made.close()


def _ask(child: DecodingChild, data: bytes, kind: MediaKind = "image", detail: ImageDetail = "auto") -> Decoded:
    return child.decode(DecodeRequest(kind, data, detail, 64 * 10**6, 60.0, 16000))


def _bytes_of_png(width: int, height: int, rows: int | None = None) -> bytes:
    """One bit a pixel, all black; `rows`: how many there are."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" * (1 + (width + 7) // 8)
    pixels = zlib.compress(row * (height if rows is None else rows))
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _wav(rate_hz: int, channels: int, samples: bytes = SAMPLES, size: int | None = None) -> bytes:
    num = len(samples) if size is None else size
    rate_bytes = (rate_hz * channels * 2) & 0xFFFFFFFF
    head = b"RIFF" + struct.pack("<I", (36 + num) & 0xFFFFFFFF) + b"WAVEfmt "
    head += struct.pack("<IHHIIHH", 16, 1, channels, rate_hz, rate_bytes, channels * 2, 16)
    return head + b"data" + struct.pack("<I", num) + samples


def _audio(format: str, subtype: str | None = None, seconds: float = 2, rate_hz: int = 48000) -> bytes:
    """A tone of 440 Hz on two channels."""
    tone = np.sin(np.arange(int(seconds * rate_hz)) * (2 * np.pi * 440 / rate_hz)).astype(np.float32)
    file = io.BytesIO()
    soundfile.write(file, np.stack([tone, tone], 1), rate_hz, format=format, subtype=subtype)
    return file.getvalue()


NO_FORMAT = "is of no format that is read here"
GIF_65535 = b"GIF89a\xff\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02\x02D\x01\x00;"


@pytest.mark.parametrize(
    ("kind", "make", "reason"),
    [
        ("image", lambda: _bytes_of_png(16_000, 16_000, 1), "256.0 megapixels; at most 64"),
        ("image", lambda: _bytes_of_png(30_000, 30_000, 1), "900.0 megapixels"),
        ("image", lambda: GIF_65535, "megapixels"),
        ("image", lambda: _bytes_of_png(64, 64)[:45], "is broken"),
        ("image", lambda: encoded(Image.new("RGB", (64, 64)), "JPEG")[:300], "is broken"),
        ("image", lambda: b"", NO_FORMAT),
        ("image", lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", NO_FORMAT),
        ("image", lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", NO_FORMAT),
        ("image", lambda: _wav(16000, 1), NO_FORMAT),
        ("audio", lambda: _wav(1, 1), "1 samples a second"),
        ("audio", lambda: _wav(4 * 10**9, 1), "is broken"),
        ("audio", lambda: _wav(16000, 0), "is broken"),
        ("audio", lambda: _wav(16000, 33), "33 channels"),
        ("audio", lambda: _wav(16000, 1, b""), "no samples"),
        ("audio", lambda: b"\xff\xfb\x90\x00" + NOISE.bytes(20_000), "is broken"),
        ("audio", lambda: b"fLaC" + NOISE.bytes(20_000), "is broken"),
        ("audio", lambda: _audio("FLAC", seconds=61, rate_hz=8000), "longer than 60 s"),
        ("audio", lambda: _bytes_of_png(8, 8), NO_FORMAT),
        ("audio", lambda: b"\0\0\0\x20ftypM4A " + NOISE.bytes(2_000), "is broken"),
        ("audio", lambda: b"\x1aE\xdf\xa3" + NOISE.bytes(2_000), "is broken"),
        ("audio", lambda: b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", NO_FORMAT),
    ],
)
def test_a_hostile_file_is_refused_in_words_and_soon(
    child: DecodingChild, kind: MediaKind, make: Callable[[], bytes], reason: str
) -> None:
    data, began = make(), time.process_time()
    decoded = _ask(child, data, kind)
    assert reason in decoded.problem
    assert decoded.data == b""
    assert time.process_time() - began < 1


def test_a_file_that_lies_about_its_length_is_read_as_far_as_it_goes(child: DecodingChild) -> None:
    assert len(_ask(child, _wav(16000, 1, size=0xFFFFFFFF), "audio").data) >= 4 * 16000


def test_a_child_that_is_killed_costs_one_file(child: DecodingChild) -> None:
    assert child._child is not None
    child._child._process.kill()
    child._child._process.wait()
    assert _ask(child, encoded(Image.new("RGB", (8, 8)))).width == 8


def _turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.new("RGB", (40, 20), "white")
    image.paste(RED, (0, 0, 20, 20))
    return encoded(image, "JPEG", exif=exif, quality=100)


@pytest.mark.parametrize(
    ("make", "size", "first"),
    [
        *((lambda format=format: encoded(Image.new("RGB", (40, 20), RED), format), (40, 20), RED)
          for format in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "PPM")),
        (lambda: encoded(Image.new("RGBA", (40, 20), (255, 0, 0, 0))), (40, 20), WHITE),
        (lambda: encoded(Image.new("LA", (40, 20), (0, 0))), (40, 20), WHITE),
        (lambda: encoded(Image.new("CMYK", (40, 20), (0, 255, 255, 0)), "JPEG"), (40, 20), RED),
        (lambda: encoded(Image.fromarray(np.full((20, 40), 65535, np.uint16))), (40, 20), WHITE),
        (lambda: encoded(Image.new("1", (40, 20), 1)), (40, 20), WHITE),
        (_turned, (20, 40), RED),
        (lambda: encoded(Image.new("RGB", (40, 20), RED), "GIF", save_all=True,
                         append_images=[Image.new("RGB", (40, 20), WHITE)]), (40, 20), RED),
        (lambda: _bytes_of_png(2_100, 1), (2_100, 42), WHITE),
        (lambda: _bytes_of_png(1, 1), (1, 1), (0, 0, 0)),
        (lambda: encoded(Image.new("RGB", (8_000, 8_000), RED), "JPEG"), (4_000, 4_000), RED),
    ],
)  # fmt: skip
def test_a_picture_is_upright_opaque_and_of_a_bounded_size(
    child: DecodingChild, make: Callable[[], bytes], size: tuple[int, int], first: tuple[int, int, int]
) -> None:
    decoded = _ask(child, make())
    assert decoded.problem == ""
    assert (decoded.width, decoded.height) == size
    assert len(decoded.data) == 3 * size[0] * size[1]
    assert np.abs(np.array(list(decoded.data[:3])) - first).max() <= 3


def test_a_picture_of_low_detail_is_small(child: DecodingChild) -> None:
    decoded = _ask(child, encoded(Image.new("RGB", (1920, 1080))), detail="low")
    assert (decoded.width, decoded.height) == (512, 288)


@pytest.mark.parametrize(
    ("format", "subtype", "tolerance"),
    [
        ("WAV", "PCM_16", 1e-3),
        ("FLAC", None, 1e-3),
        ("OGG", "VORBIS", 0.05),
        ("OGG", "OPUS", 0.05),
        ("AIFF", None, 1e-3),
    ],
)
def test_a_sound_is_one_channel_at_the_wanted_rate(
    child: DecodingChild, format: str, subtype: str | None, tolerance: float
) -> None:
    decoded = _ask(child, _audio(format, subtype), "audio")
    assert decoded.problem == ""
    made = np.frombuffer(decoded.data, np.float32)
    assert len(made) == 32000
    tone = np.sin(np.arange(32000) * (2 * np.pi * 440 / 16000))
    assert np.abs(made - tone)[1000:-1000].max() < tolerance


def _recording(format: str, codec: str, seconds: float = 2) -> bytes:
    """A tone of 440 Hz as a browser or a phone records it."""
    file = io.BytesIO()
    with av.open(file, "w", format=format) as container:
        stream = container.add_stream(codec, rate=48000, layout="stereo")
        tone = np.sin(np.arange(int(seconds * 48000)) * (2 * np.pi * 440 / 48000)).astype(np.float32)
        for start in range(0, len(tone), 960):
            part = tone[start : start + 960]
            frame = av.AudioFrame.from_ndarray(np.stack([part, part]), format="fltp", layout="stereo")
            frame.sample_rate = 48000
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


@pytest.mark.parametrize(("format", "codec"), [("webm", "libopus"), ("ipod", "aac")])
def test_recordings_of_browsers_and_phones_are_heard(child: DecodingChild, format: str, codec: str) -> None:
    made = np.frombuffer(_ask(child, _recording(format, codec), "audio").data, np.float32)
    assert abs(len(made) - 32000) < 1600
    assert np.argmax(np.abs(np.fft.rfft(made[8000:24000]))) == 440
    assert "longer than 60 s" in _ask(child, _recording(format, codec, 61), "audio").problem
    assert "is broken" in _ask(child, _recording(format, codec)[:200], "audio").problem


def test_an_mp3_has_its_tone(child: DecodingChild) -> None:
    made = np.frombuffer(_ask(child, _audio("MP3"), "audio").data, np.float32)
    assert np.argmax(np.abs(np.fft.rfft(made[:16000]))) == 440


@settings(max_examples=30)
@given(
    from_hz=st.sampled_from((8000, 11025, 16000, 44100, 48000, 96000)),
    cuts=st.lists(st.integers(0, 30000), max_size=6),
    num=st.integers(1, 30000),
)
def test_a_sound_fed_in_pieces_is_the_sound_fed_whole(from_hz: int, cuts: list[int], num: int) -> None:
    samples = np.random.default_rng(num).standard_normal(num).astype(np.float32)

    def resampled(pieces: list[Any]) -> Any:
        resampler = Resampler(from_hz, 16000)
        made = [part for piece in pieces for part in resampler.feed(piece)]
        return np.concatenate([samples[:0], *made, *resampler.flush()])

    whole = resampled([samples])
    assert len(whole) == round(num * 16000 / from_hz)
    assert np.array_equal(resampled(np.split(samples, sorted(min(cut, num) for cut in cuts))), whole)


@pytest.mark.parametrize(
    ("limits", "setting"),
    [(DecodingLimits(memory_mb=200), "media_decode_mb"), (DecodingLimits(cpu_s=0.01), "media_decode_s")],
)
def test_a_picture_that_takes_more_than_is_set_is_refused_by_the_name_of_the_setting(
    limits: DecodingLimits, setting: str
) -> None:
    child, data = DecodingChild(limits), _bytes_of_png(8000, 8000)
    assert setting in _ask(child, data).problem
    child.close()


@pytest.mark.parametrize(
    "kind", ["idefics3", *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in ("mlp", "gemma3", "qwen2vl"))]
)
def test_pictures_of_extreme_sizes_end_no_encoder(
    loaded: Library, media_model: Callable[[MediaModelKind], MediaModel], kind: MediaModelKind, tmp_path: Path
) -> None:
    """72 bytes of 2,100 x 1 pixels end llama-server with this idefics3 projector."""
    reader = open_test_reader(loaded, media_model(kind), tmp_path)
    for size in ((2_100, 1), (1, 1)):
        [pieces] = read(reader, as_file("image", _bytes_of_png(*size)))
        for span in spans(pieces)[:2]:
            assert np.isfinite(rows_of(span)).all()
    assert reader.counters.crashes == 0
