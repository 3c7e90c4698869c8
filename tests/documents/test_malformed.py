"""Documents that are broken anywhere do no harm: one child reads them all, and says of each what it is."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Iterator

import pytest

from localllm.documents.kinds import kind_of
from localllm.documents.reading_child import ReadingChild, ReadRequest
from tests.documents import made

NUM_EACH = 34


def damaged(data: bytes, num: int, seed: int) -> Iterator[bytes]:
    """The file itself, or every second time a file within the archive, whose checksum is right again."""
    draw = random.Random(seed)
    for number, changed in enumerate(mutations(data, num, seed)):
        if number % 2 or not data.startswith(b"PK"):
            yield changed
            continue
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
        name = draw.choice([name for name in entries if entries[name]])
        yield made.zipped(**{**entries, name: next(mutations(entries[name], 1, draw.randrange(10**6)))})


def mutations(data: bytes, num: int, seed: int) -> Iterator[bytes]:
    """Cut off, with bytes changed, swapped, repeated or made large."""
    draw = random.Random(seed)
    for number in range(num):
        changed = bytearray(data)
        for _ in range(draw.choice((1, 3, 20))):
            at = draw.randrange(max(1, len(changed) - 1))
            how = (number + seed) % 5
            if how == 0:
                changed[at] = draw.randrange(256)
            elif how == 1:
                del changed[at : at + draw.choice((1, 10, 100))]
            elif how == 2:
                changed[at:at] = changed[max(0, at - 50) : at] * draw.choice((1, 30))
            elif how == 3:
                changed[at : at + 4] = b"\xff" * 4
            else:
                changed = changed[: max(4, at)]
        yield bytes(changed)


def _read_all(num_each: int) -> tuple[int, list[str]]:
    child = ReadingChild(10.0)
    texts, problems = 0, list[str]()
    try:
        for seed, data in enumerate(made.all_kinds().values()):
            for each in damaged(data, num_each, seed):
                kind = kind_of(each)
                if kind == "text":
                    continue
                contents = child.read(ReadRequest(kind, each, "", 100, 100_000))
                texts += not contents.problem
                problems += [contents.problem] if contents.problem else []
    finally:
        child.close()
    return texts, problems


def test_malformed_documents_are_refused_in_words_by_a_child_that_goes_on() -> None:
    texts, problems = _read_all(NUM_EACH)
    assert texts + len(problems) > 150
    assert texts > 20
    _assert_harmless(problems)


@pytest.mark.exhaustive
def test_thousands_of_malformed_documents() -> None:
    _assert_harmless(_read_all(500)[1])


def _assert_harmless(problems: list[str]) -> None:
    assert all(problem.startswith(("is ", "has ", "would ", "needed ", "needs ")) for problem in problems), problems
    assert not [problem for problem in problems if problem.startswith("needed")], "a reader crashed or hung"
