"""How many tiles one call of the encoder computes."""

from __future__ import annotations

import pytest

from localllm.worker.media.tile_batches import LAST_CALLS, TileBatches

TILES = [64] * 16
MAX_CALL_S = 2.0


@pytest.mark.parametrize(("seconds", "count"), [(10, 1), (0.9, 2), (MAX_CALL_S / 4, 4), (0.001, 16)])
def test_the_first_tile_is_alone_and_then_as_many_as_fit_the_time(seconds: float, count: int) -> None:
    batches = TileBatches(MAX_CALL_S)
    assert batches.count(TILES, 2) == 1
    batches.learn(64, 2, seconds)
    assert batches.count(TILES, 2) == count
    assert batches.count([], 2) == 1


def test_fewer_threads_get_fewer_tiles() -> None:
    batches = TileBatches(MAX_CALL_S)
    batches.learn(4 * 64, 4, MAX_CALL_S)
    assert [batches.count(TILES, threads) for threads in (4, 2, 1)] == [4, 2, 1]


def test_a_slow_call_counts_until_as_many_others_followed() -> None:
    batches = TileBatches(MAX_CALL_S)
    for seconds in (MAX_CALL_S, *[0.1] * LAST_CALLS):
        batches.learn(64, 1, seconds)
    assert batches.count(TILES, 1) == 16
    batches.learn(64, 1, MAX_CALL_S)
    assert batches.count(TILES, 1) == 1
