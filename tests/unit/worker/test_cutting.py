"""Where long sounds are cut."""

from __future__ import annotations

import numpy as np
import pytest

from localllm.worker.media.cutting import LEAST_S, STEP_FRAMES, Samples, cut, cut_all, samples_of

RATE = 16_000
SECONDS = RATE


def speech(length_s: float, *pauses_s: float) -> Samples:
    """Noise with pauses of half a second."""
    samples = (np.random.default_rng(0).standard_normal(int(length_s * SECONDS)) / 10).astype(np.float32)
    for at in pauses_s:
        samples[int(at * SECONDS) : int((at + 0.5) * SECONDS)] = 0
    return samples


def test_a_sound_is_cut_at_its_pauses() -> None:
    samples = speech(70, 25, 50)
    parts = [len(part) / SECONDS for part in cut_all(samples, RATE, max_s=30)]
    assert parts == [pytest.approx(25.25, abs=0.3), pytest.approx(25, abs=0.6), pytest.approx(19.75, abs=0.3)]
    assert np.array_equal(np.concatenate([*cut_all(samples, RATE, max_s=30)]), samples)


@pytest.mark.parametrize("num_samples", [1, 30 * RATE, 30 * RATE + 1, 60 * RATE + 5, 95 * RATE + 321])
def test_parts_are_no_longer_than_allowed_and_no_shorter_than_encoders_bear(num_samples: int) -> None:
    for samples in (speech(num_samples / RATE), np.zeros(num_samples, np.float32)):
        parts = [*cut_all(samples, RATE, max_s=30)]
        assert max(map(len, parts)) <= 30 * RATE
        assert num_samples == 1 or min(map(len, parts)) >= LEAST_S * RATE
        assert all(len(part) % (STEP_FRAMES * RATE // 50) == 0 for part in parts[:-1])
        assert 0 <= sum(map(len, parts)) - num_samples < LEAST_S * RATE


def test_silent_parts_are_left_out_of_transcripts_only() -> None:
    samples = np.concatenate([speech(20), np.zeros(40 * SECONDS, np.float32), speech(20)])
    heard = [*cut(samples, RATE, max_s=30)]
    assert len(heard) < len([*cut_all(samples, RATE, max_s=30)])
    assert sum(float(np.square(samples_of(samples, RATE, part)).sum()) for part in heard) == pytest.approx(
        float(np.square(samples).sum())
    )
