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
STEP_FRAMES = 2
"""Of parts that are read together: 40 ms, which are one row of Gemma 4."""
LEAST_S = 0.1
"""What is shorter gets silence behind it: some encoders end their process over a few milliseconds."""
SILENCE = 1e-4
"""Root mean square of a frame up to which it is silent: -80 dB of full scale."""


def cut(samples: Samples, rate_hz: int, *, max_s: float) -> Iterator[Part]:
    """The parts of at most `max_s`, without those that are silent throughout."""
    energy = np.square(_frames(samples, rate_hz)).mean(axis=1)
    for start, end in _cuts(energy, int(1000 * max_s) // FRAME_MS):
        if energy[start:end].max() > SILENCE**2:
            yield start * FRAME_MS, end * FRAME_MS


def cut_all(samples: Samples, rate_hz: int, *, max_s: float) -> Iterator[Samples]:
    """The samples of all parts, those that are silent too. A part that others follow is a multiple of `STEP_FRAMES`."""
    if len(samples) <= max_s * rate_hz:
        yield samples
        return
    energy = np.square(_frames(samples, rate_hz)).mean(axis=1)
    size = round(rate_hz * FRAME_MS / 1000)
    for start, end in _cuts(energy, int(1000 * max_s) // FRAME_MS, STEP_FRAMES):
        part = samples[start * size : end * size]
        yield np.pad(part, (0, max(0, int(LEAST_S * rate_hz) - len(part))))


def _cuts(energy: Samples, most: int, step: int = 1) -> Iterator[tuple[int, int]]:
    """Frames: begin and end of each part of at most `most`."""
    pauses = np.convolve(energy, np.ones(PAUSE_FRAMES) / PAUSE_FRAMES, "same")
    start = 0
    while start < len(energy):
        end = len(energy)
        if end - start > most:
            first = start + most // 2 // step * step
            quiet = pauses[first : start + most + 1 : step]
            end = first + step * (len(quiet) - 1 - int(np.argmin(quiet[::-1])))  # the last of equal ones
        yield start, end
        start = end


def samples_of(samples: Samples, rate_hz: int, part: Part) -> Samples:
    """The samples of a part; the last one may be shorter than it says."""
    begin, end = (round(each * rate_hz / 1000) for each in part)
    return samples[begin:end]


def _frames(samples: Samples, rate_hz: int) -> Samples:
    """Shape (frames, samples of a frame); the last one is filled with silence."""
    size = round(rate_hz * FRAME_MS / 1000)
    return np.pad(samples, (0, -len(samples) % size)).reshape(-1, size)
