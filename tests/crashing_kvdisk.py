"""A process whose children die by SIGKILL while they save conversations in one folder; it prints what was wrong then.

`python -m tests.crashing_kvdisk FOLDER SEED`. A child notes what it was told is written, before it goes on; it dies at
a step as in `crashing_store`, or between two pieces of a file. Nothing is flushed: the machine goes on.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
import sys
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from localllm.kvdisk import folder as kv_folder
from localllm.kvdisk.cache import DiskCache
from localllm.kvdisk.file import DiskCheckpoint
from localllm.kvdisk.folder import Folder, all_items
from localllm.kvdisk.survey import clear
from tests.crashing_store import die_at_step, in_child, no_flush
from tests.kvdisks import OTHER_PARTS, PARTS, TIMEOUT_S, complaints, holds

ROUNDS = 24
WORKERS = 3
STEPS_TO_LIVE = 500
PIECE_BYTES = 3000
MUCH, LITTLE = 100_000_000, 60_000


def state_of(tokens: npt.NDArray[np.int32]) -> bytes:
    """What is saved of them, up to 20 kB."""
    chance = random.Random(tokens.tobytes())
    return chance.randbytes(chance.randrange(20_000))


def open_cache(folder: Path, parts_number: int, max_bytes: int, warnings: list[str]) -> DiskCache:
    parts = (PARTS, OTHER_PARTS)[parts_number]
    root = Folder(folder / "kv", model="tiny", parts=parts, max_bytes=max_bytes)
    return DiskCache(root, warn=complaints(warnings))


def work(folder: Path, seed: float, max_bytes: int) -> None:
    """Until it is killed."""
    chance = random.Random(seed)
    die_at_step(chance.randrange(STEPS_TO_LIVE))
    number = chance.randrange(2)
    cache = open_cache(folder, number, max_bytes, [])
    notes = os.open(folder / f"notes-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    conversation: list[int] = []
    for _ in itertools.count():
        if not conversation or chance.random() < 0.4:
            conversation = [chance.randrange(2**31) for _ in range(chance.randrange(1, 30))]
        conversation = [*conversation, chance.randrange(2**31)]
        tokens = np.array(conversation, np.int32)
        entry = cache.store(tokens, state_of(tokens), [DiskCheckpoint(1, state_of(tokens[:1]))])
        if cache.flush(TIMEOUT_S) and entry is not None and cache.status(entry) == "disk":
            os.write(notes, (" ".join(map(str, conversation)) + "\n").encode())
        if cache.entries:
            cache.load(chance.choice(cache.entries))
        if max_bytes == LITTLE and chance.random() < 0.02:
            clear(folder)


def check(folder: Path, max_bytes: int, when: str) -> int:
    """The number of conversations that are there."""
    count = 0
    for number in range(2):
        warnings: list[str] = []
        cache = open_cache(folder, number, max_bytes, warnings)
        for entry in cache.entries:
            saved = cache.load(entry)
            if saved is None or bytes(saved.state) != state_of(entry.tokens):
                print(f"{when}: another state")
            elif [bytes(state) for _, state in saved.checkpoints] != [state_of(entry.tokens[:1])]:
                print(f"{when}: other checkpoints")
            count += 1
        notes = folder / f"notes-{number}"
        lines = notes.read_text().splitlines() if notes.exists() and max_bytes == MUCH else []
        for tokens in (np.array(line.split(), np.int32) for line in lines):
            if not holds(cache, tokens):
                print(f"{when}: a conversation that was written is not there")
        cache.store(tokens := np.array([number], np.int32), state_of(tokens), [DiskCheckpoint(1, state_of(tokens))])
        cache.close(TIMEOUT_S)
        if warnings:
            print(f"{when}: {warnings}")
    items = all_items(folder / "kv")
    if any(item.is_temporary for item in items):
        print(f"{when}: something was left behind")
    if sum(item.size_bytes for item in items) > max_bytes:
        print(f"{when}: too much")
    return count


def main(folder: Path, seed: int) -> None:
    """Prints the number of conversations that were there in the end of all rounds."""
    chance = random.Random(seed)
    seen = 0
    for number in range(ROUNDS):
        place, max_bytes = folder / str(number), (MUCH, LITTLE)[number % 2]
        place.mkdir(parents=True)
        works = [functools.partial(work, place, chance.random(), max_bytes) for _ in range(WORKERS)]
        for child in [in_child(one) for one in works]:
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                print(f"round {number} of seed {seed}: a child ended with {status}")
        seen += check(place, max_bytes, f"round {number} of seed {seed}")
    print(f"{seen} conversations")


def in_pieces(write: Callable[..., None]) -> Callable[..., None]:
    """So that a process can die between two."""

    def write_pieces(file: FileIO, data: memoryview, stopping: Callable[[], bool]) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            sys.audit("os.piece")
            write(file, data[start : start + PIECE_BYTES], stopping)

    return write_pieces


if __name__ == "__main__":
    os.fsync = no_flush
    kv_folder._write = in_pieces(kv_folder._write)
    main(Path(sys.argv[1]), int(sys.argv[2]))
