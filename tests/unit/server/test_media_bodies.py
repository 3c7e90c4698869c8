"""Pictures are taken out of bodies wherever they stand, and those that come again are not decoded again."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Iterator

import msgspec
import pytest

from localllm.chat import media_files
from localllm.chat.media_files import REFERENCE
from localllm.server.requests.media_bodies import MIN_RUN, take_out
from localllm.types import MediaFile

HEAD = b"\x89PNG"
_STRING = re.compile(rb'(?<!\\)"(data:[^,"\\]{0,200},)?([A-Za-z0-9+/=\\_-]{%d,}+)(?<!\\)"' % MIN_RUN)
_TEXT_KEY = re.compile(rb'"(?:text|content|prompt|system|input|arguments|output)"\s*:\s*\Z')


def plainly(body: bytes) -> Iterator[bytes]:
    """The files in a body, found by looking at every byte."""
    for match in _STRING.finditer(body):
        if not _TEXT_KEY.search(body[max(0, match.start() - 40) : match.start()]):
            data = media_files.decoded(match[2])
            if data is not None and (match[1] or media_files.kind_of(data)):
                yield data


def base64_of(size: int, rng: random.Random) -> str:
    """That many characters of a picture's file."""
    return base64.b64encode(HEAD + rng.randbytes(size))[: size // 4 * 4].decode()


def strings(rng: random.Random) -> Iterator[str]:
    """What may stand in a body."""
    for _ in range(rng.randrange(1, 12)):
        size = rng.choice(
            [0, 3, 100, MIN_RUN - 4, MIN_RUN, MIN_RUN + 4, 2 * MIN_RUN, 5 * MIN_RUN + rng.randrange(4000)]
        )
        coded = base64_of(size, rng)
        yield rng.choice(
            [
                coded,
                f"data:image/png;base64,{coded}",
                f"data:text/plain;base64,{base64.b64encode(rng.randbytes(size)).decode()}",
                base64.b64encode(rng.randbytes(size)).decode(),
                f"a {coded}",
                json.dumps({"data": coded}),
                "word " * (size // 5),
                f"{coded}\\",
                "x" * size + "\n",
            ]
        )


@pytest.mark.parametrize("seed", range(60))
def test_files_are_found_wherever_they_stand(seed: int) -> None:
    rng = random.Random(seed)
    keys = ["url", "data", "text", "content", "image", "input"]
    values = [{rng.choice(keys): each} if rng.random() < 0.7 else each for each in strings(rng)]
    body = json.dumps(values, indent=rng.choice([None, 1])).encode()
    if seed % 3 == 0:
        body = body.replace(b"/", rb"\/").replace(b"+", rb"\u002B")
    taken = take_out(bytearray(body))
    assert {file.data for file in taken.files} == {*plainly(body)}
    back = taken.rest.decode()
    for file in taken.files:
        assert f"{REFERENCE}{file.digest}" in back
    given, rest = json.loads(body), msgspec.json.decode(taken.rest)
    assert len(rest) == len(given), "it is still JSON"


def test_what_comes_again_is_found_without_being_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    plain = media_files.decoded

    def counting(given: bytes) -> bytes | None:
        decoded.append(given)
        return plain(given)

    monkeypatch.setattr(media_files, "decoded", counting)
    pictures = [base64_of(3 * MIN_RUN, random.Random(number)) for number in range(100, 103)]
    digests = []
    for turn in (2, 3, 3):
        body = json.dumps([f"data:image/png;base64,{each}" for each in pictures[:turn]]).encode()
        files: tuple[MediaFile, ...] = ()  # those of the turn before are gone
        files = take_out(body).files
        digests.append([file.digest for file in files])
        assert [file.num_bytes for file in files] == [9216] * turn
        assert all(file.head.startswith(HEAD) for file in files)
    assert len(decoded) == 3, "each once"
    assert digests[1] == digests[2]
    assert [file.is_loaded for file in files] == [False] * 3
    assert [base64.b64encode(file.data).decode() for file in files] == pictures
    assert len(decoded) == 6, "now that somebody wanted them"


def test_a_file_that_is_kept_keeps_no_body() -> None:
    coded = base64_of(3 * MIN_RUN, random.Random(7))
    body = json.dumps({"url": f"data:image/png;base64,{coded}"}).encode()
    take_out(body)
    (seen,) = take_out(body).files
    assert not seen.is_loaded
    kept = media_files.file_of(base64.b64decode(coded))
    assert kept.is_loaded
    assert kept is not seen
    assert take_out(body).files[0] is kept
