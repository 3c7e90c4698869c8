"""One conversation in one file: what its bytes mean, and how they are checked.

    magic  version  length of head  crc of all before and of head      20 bytes, little-endian
    head                                                               msgpack, `Head`
    tokens                                                             int32, little-endian
    the state, then each checkpoint                                    in chunks, each with a crc in the head

CRC-32, because it keeps up with the page cache (2.7 GB/s, blake2b 0.6), detects every single wrong byte and every burst
of up to 32 bits, and misses one in 2^32 of other damage. It protects against accidents, not against somebody who can
write to the folder. Knows nothing of names, folders or threads, except the one that checks while the next chunk is
read.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from localllm.kvdisk.fingerprint import FORMAT

MAGIC = b"LLMKV\r\n\0"
PREAMBLE = struct.Struct("<8sIII")
CHUNK_BYTES = 1024 * 1024
"""Read while the previous chunk is checked: 256 kB to 1 MB were fastest, 4 MB a third slower."""
MAX_HEAD_BYTES = 64 * 1024 * 1024
"""Enough for the checksums of 8 TB."""
MAX_TOKENS = 2**28
MAX_CHUNK_BYTES = 2**30
MAX_DOMAIN_CHARS = 64

Bytes = bytes | memoryview
"""A state to save, not changed afterwards by anybody; or one that was read, a writable view of `len` bytes."""


Extents = Sequence[tuple[int, int, int, bool]]
"""Of each stretch that is used whole or not at all: first index, index after the last, positions, whether several
tokens share one."""


class DiskCheckpoint(NamedTuple):
    """What a memory that cannot rewind contained after the first `position` tokens."""

    position: int
    state: Bytes


class SavedConversation(NamedTuple):
    """All that is saved of a conversation besides its tokens."""

    state: Bytes
    checkpoints: tuple[DiskCheckpoint, ...] = ()
    extents: Extents = ()

    @property
    def num_bytes(self) -> int:
        return len(self.state) + sum(len(checkpoint.state) for checkpoint in self.checkpoints)


class DamagedFile(Exception):
    """The bytes are not those that were written."""


class Foreign(Exception):
    """Not a file of this format, or one of another fingerprint."""


class Section(msgspec.Struct, frozen=True, array_like=True):
    """The state, or a checkpoint."""

    position: int
    num_bytes: int
    crcs: list[int]


class Head(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that must be known before anything else is read."""

    fingerprint: str
    num_tokens: int
    tokens_crc: int
    chunk_bytes: int
    sections: list[Section]
    domain: str = ""
    """The domain's digest, in at most `MAX_DOMAIN_CHARS` ASCII characters; absent in files of earlier versions."""
    extents: list[tuple[int, int, int, bool]] = []
    """Absent, too, there."""

    @property
    def num_bytes(self) -> int:
        """Size of all sections."""
        return sum(section.num_bytes for section in self.sections)

    @property
    def positions(self) -> tuple[int, ...]:
        """Positions of the checkpoints."""
        return tuple(section.position for section in self.sections[1:])


def encode(
    fingerprint: str,
    tokens: npt.NDArray[np.int32],
    saved: SavedConversation,
    chunk_bytes: int = CHUNK_BYTES,
    *,
    domain: str = "",
) -> tuple[bytes, list[memoryview]]:
    """Everything before the sections, and the sections. Reads all of it once for the checksums."""
    token_bytes = tokens.astype("<i4").tobytes()
    parts = [(len(tokens), saved.state), *saved.checkpoints]
    head = msgspec.msgpack.encode(
        Head(
            fingerprint=fingerprint,
            num_tokens=len(tokens),
            tokens_crc=zlib.crc32(token_bytes),
            chunk_bytes=chunk_bytes,
            sections=[
                Section(position, len(data), [zlib.crc32(chunk) for chunk in chunks(memoryview(data), chunk_bytes)])
                for position, data in parts
            ],
            domain=domain,
            extents=list(saved.extents),
        )
    )
    start = PREAMBLE.pack(MAGIC, FORMAT, len(head), 0)[:-4]
    crc = zlib.crc32(head, zlib.crc32(start))
    return start + struct.pack("<I", crc) + head + token_bytes, [memoryview(data) for _, data in parts]


def chunks(data: memoryview, chunk_bytes: int = CHUNK_BYTES) -> Iterator[memoryview]:
    """Consecutive pieces of `chunk_bytes`; the last one may be shorter."""
    for start in range(0, len(data), chunk_bytes):
        yield data[start : start + chunk_bytes]


def read_head(file: FileIO) -> Head:
    """Reads from the start of an unbuffered file and also checks the file's length.

    Raises `DamagedFile`, `Foreign`, `OSError`.
    """
    preamble = bytes(_read(file, PREAMBLE.size))
    magic, version, head_bytes, crc = PREAMBLE.unpack(preamble)
    if magic != MAGIC:
        raise Foreign("it is not a saved conversation")
    if version != FORMAT:
        raise Foreign(f"it has format {version}, expected {FORMAT}")
    size_bytes = os.fstat(file.fileno()).st_size
    if head_bytes > min(MAX_HEAD_BYTES, size_bytes):
        raise DamagedFile(f"its head has {head_bytes} bytes")
    data = _read(file, head_bytes)
    if zlib.crc32(data, zlib.crc32(preamble[:-4])) != crc:
        raise DamagedFile("the head's checksum is wrong")
    try:
        head = msgspec.msgpack.decode(data, type=Head)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedFile(f"the head cannot be read: {error}") from error
    _check(head, size_bytes - PREAMBLE.size - head_bytes)
    return head


def read_tokens(file: FileIO, head: Head) -> npt.NDArray[np.int32]:
    """The tokens that follow the head: int32 [num_tokens]. Raises `DamagedFile`, `OSError`."""
    data = _read(file, 4 * head.num_tokens)
    if zlib.crc32(data) != head.tokens_crc:
        raise DamagedFile("the tokens' checksum is wrong")
    return np.frombuffer(data, "<i4").astype(np.int32)


def read_saved(file: FileIO, head: Head) -> SavedConversation:
    """The sections after the tokens, checked on a second thread while reading. Raises `DamagedFile`, `OSError`."""
    with ThreadPoolExecutor(1, "kv-check") as checker:
        state, *checkpoints = [_read_section(file, section, head.chunk_bytes, checker) for section in head.sections]
    return SavedConversation(state, tuple(map(DiskCheckpoint, head.positions, checkpoints)), head.extents)


def _read_section(file: FileIO, section: Section, chunk_bytes: int, checker: ThreadPoolExecutor) -> memoryview:
    # Not a bytearray: zeroing one first takes as long as reading.
    data = np.empty(section.num_bytes, np.uint8).data
    crcs: list[Future[int]] = []
    for chunk in chunks(data, chunk_bytes):
        _fill(file, chunk)
        crcs.append(checker.submit(zlib.crc32, chunk))
    if [crc.result() for crc in crcs] != section.crcs:
        raise DamagedFile("a checksum is wrong")
    return data


def _check(head: Head, following_bytes: int) -> None:
    """Rejects numbers that contradict each other or the file, before anything is allocated."""
    if not (0 < head.num_tokens <= MAX_TOKENS and 0 < head.chunk_bytes <= MAX_CHUNK_BYTES and head.sections):
        raise DamagedFile("the head's numbers are out of range")
    if len(head.domain) > MAX_DOMAIN_CHARS or not head.domain.isascii():
        raise DamagedFile("the head's domain is malformed")
    for (_, before, *_), (start, end, num_positions, _) in pairwise([(0, 0, 0, False), *head.extents]):
        if start < before or start >= min(end, head.num_tokens) or num_positions < 1:
            raise DamagedFile("the head's extents are out of range")
    for section in head.sections:
        num_chunks = -(-section.num_bytes // head.chunk_bytes)
        if section.num_bytes < 0 or len(section.crcs) != num_chunks or not 0 <= section.position <= head.num_tokens:
            raise DamagedFile("the head's numbers contradict each other")
    if 4 * head.num_tokens + head.num_bytes != following_bytes:
        raise DamagedFile(f"{following_bytes} bytes follow the head, not {4 * head.num_tokens + head.num_bytes}")


def _read(file: FileIO, num_bytes: int) -> bytearray:
    data = bytearray(num_bytes)
    _fill(file, memoryview(data))
    return data


def _fill(file: FileIO, view: memoryview) -> None:
    while len(view):
        count = file.readinto(view)
        if not count:
            raise DamagedFile("it is truncated")
        view = view[count:]
