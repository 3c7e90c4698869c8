"""What `ps` says about parked requests, and about a model that reads pictures or sounds."""

from __future__ import annotations

import msgspec
import pytest

from localllm.cli.commands.processes import adapter_note, batch_note, media_note, requests_of
from localllm.types.states import AdapterStatus, BatchWork, MediaStatus
from localllm.types.wire import Process

PROCESS = Process(
    model="m",
    status="ready",
    memory_bytes=10**9,
    requests=0,
    idle_s=0.0,
    expires_in_s=None,
    pid=1,
    ctx=4096,
    slots=1,
    layers_per_device={},
    media_bytes=10**8,
    reads=["image"],
)
RESERVED = "100 MB are reserved for that, and used from the first one on"


@pytest.mark.parametrize(
    ("media", "says"),
    [
        (msgspec.UNSET, RESERVED),
        (MediaStatus(), RESERVED),
        (
            MediaStatus(pictures=1, sounds=2, encoded_rows=300, encode_s=1.234, is_running=True),
            "100 MB are in use; 1 picture and 2 sounds encoded in 1.23 s (300 tokens)",
        ),
        (
            MediaStatus(pictures=90, encoded_rows=9000, encode_s=125, memory_rows=200, disk_rows=56, restarts=1),
            f"{RESERVED}; 90 pictures encoded in 2 min 5 s (9000 tokens); 256 tokens from the cache; "
            "encoder restarted: 1",
        ),
    ],
)
def test_it_says_what_memory_is_for_and_what_was_encoded(media: MediaStatus | msgspec.UnsetType, says: str) -> None:
    assert media_note(msgspec.structs.replace(PROCESS, media=media)) == f"m reads image: {says}"


def test_it_says_what_adapters_take_and_how_often_they_take_turns() -> None:
    loaded = AdapterStatus(loaded=1, loaded_bytes=240_000, limit_bytes=10**9, switches=2, loads=4)
    said = adapter_note(PROCESS, loaded)
    assert said == "m: 1 adapter loaded (240 kB of at most 1 GB), 2 changes of the set in force"
    assert adapter_note(PROCESS, msgspec.structs.replace(loaded, evictions=3)) == f"{said}, 3 freed for others"


def test_it_says_how_many_requests_are_parked_if_any() -> None:
    assert requests_of(msgspec.structs.replace(PROCESS, requests=3)) == "3"
    assert requests_of(msgspec.structs.replace(PROCESS, requests=7, parked=2)) == "7 (2 parked)"
    assert requests_of(msgspec.structs.replace(PROCESS, requests=7, batch_requests=5, parked=2)) == (
        "7 (5 of batches, 2 parked)"
    )
    assert batch_note(BatchWork(1, 1200, 0, 0)) == "1 batch under way; lines: 1,200 answered"
    assert batch_note(BatchWork(0, 7, 2, 1)) == "0 batches under way; lines: 7 answered, 2 failed, 1 not sent"
