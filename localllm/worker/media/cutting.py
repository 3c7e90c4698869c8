"""Where a long sound is cut: at its quietest places, into parts that a projector reads as one piece each.

    samples   [part.................)[part..............)[part......)     cuts in the quietest place of the second half
              0                     ^                                     of what one part may have

Energy only, no model of speech. Knows nothing of files or prompts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]
Part = tuple[int, int]
"""Milliseconds: begin and end."""

FRAME_MS = 20
PAUSE_FRAMES = 15
"""Frames over which energy is averaged: 0.3 s, a pause between sentences rather than within a word."""
SILENCE = 1e-4
"""Root mean square of a frame up to which it is silent: -80 dB of full scale."""


def cut(samples: Samples, rate_hz: int, *, max_s: float) -> Iterator[Part]:
    """The parts of at most `max_s`, without those that are silent throughout."""
    frames = _frames(samples, rate_hz)
    energy = np.square(frames).mean(axis=1)
    pauses = np.convolve(energy, np.ones(PAUSE_FRAMES) / PAUSE_FRAMES, "same")
    most, start = int(1000 * max_s) // FRAME_MS, 0
    while start < len(frames):
        end = len(frames)
        if end - start > most:
            first = start + most // 2
            quiet = pauses[first : start + most]
            end = first + len(quiet) - 1 - int(np.argmin(quiet[::-1]))  # the last of equal ones
        if energy[start:end].max() > SILENCE**2:
            yield start * FRAME_MS, end * FRAME_MS
        start = end


def samples_of(samples: Samples, rate_hz: int, part: Part) -> Samples:
    """The samples of a part; the last one may be shorter than it says."""
    begin, end = (round(each * rate_hz / 1000) for each in part)
    return samples[begin:end]


def _frames(samples: Samples, rate_hz: int) -> Samples:
    """Shape (frames, samples of a frame); the last one is filled with silence."""
    size = round(rate_hz * FRAME_MS / 1000)
    return np.pad(samples, (0, -len(samples) % size)).reshape(-1, size)
