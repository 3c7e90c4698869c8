"""One sound: from the bytes of a file to samples of one channel at the wanted rate, read block by block.

Runs in `decoding_child` only: libsndfile is native code that reads what strangers send.
"""

from __future__ import annotations

import io

import numpy as np
import soundfile

from localllm.worker.media.container import format_of, read_container
from localllm.worker.media.picture import Unreadable
from localllm.worker.media.resampling import Resampler, Samples

NAMES = "WAV, MP3, FLAC, Ogg (Vorbis, Opus), AIFF, AU; with PyAV M4A and WebM"
MIN_HZ, MAX_HZ = 4_000, 384_000
MAX_CHANNELS = 32
BLOCK_SAMPLES = 256 * 1024
LEAST_S = 0.1
"""What is shorter gets silence behind it."""


def read_sound(data: bytes, *, rate_hz: int, max_s: float) -> bytes:
    """float32 in native byte order. Raises `Unreadable`."""
    if (container := format_of(data)) is not None:
        return read_container(data, container, rate_hz=rate_hz, max_s=max_s)
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            return _made(file, rate_hz, max_s)
    except MemoryError:
        raise Unreadable("needs too much memory to be decoded; make it shorter") from None
    except Unreadable:
        raise
    except soundfile.LibsndfileError as error:
        if "not recogni" in str(error):
            raise Unreadable(f"is of no format that is read here ({NAMES})") from None
        raise Unreadable(f"is broken: {error.error_string}") from None
    except Exception as error:  # noqa: BLE001  the binding may raise anything on a broken file
        raise Unreadable(f"is broken: {error}") from None


def _made(file: soundfile.SoundFile, rate_hz: int, max_s: float) -> bytes:
    if not MIN_HZ <= file.samplerate <= MAX_HZ:
        raise Unreadable(f"has {file.samplerate:,} samples a second; {MIN_HZ:,} to {MAX_HZ:,} are read")
    if not 1 <= file.channels <= MAX_CHANNELS:
        raise Unreadable(f"has {file.channels} channels; 1 to {MAX_CHANNELS} are read")
    resampler, num_read = Resampler(file.samplerate, rate_hz), 0
    made: list[Samples] = []
    most, size = int(max_s * file.samplerate), max(1, BLOCK_SAMPLES // file.channels)
    # Headers of streams give no length, and those of others may lie: what counts is what is read.
    while len(block := file.read(size, dtype="float32", always_2d=True)):
        num_read += len(block)
        if num_read > most:
            raise Unreadable(f"is longer than {max_s:g} s, the most that is read (setting max_media_s); cut it")
        made += resampler.feed(np.clip(np.nan_to_num(block.mean(axis=1)), -1, 1))
    if not num_read:
        raise Unreadable("has no samples")
    samples = np.concatenate([np.zeros(0, np.float32), *made, *resampler.flush()])
    missing = max(0, int(LEAST_S * rate_hz) - len(samples))
    return np.pad(samples, (0, missing)).astype(np.float32, copy=False).tobytes()
