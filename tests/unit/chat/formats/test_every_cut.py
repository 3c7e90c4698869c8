"""The answers of the other tests, cut in two at every place: where those try many places, this tries all."""

from __future__ import annotations

import pytest

from localllm.chat.formats import odd
from localllm.types.formats import ChatFormat
from tests.each import each
from tests.unit.chat.formats.answers import at_all_cuts
from tests.unit.chat.formats.test_odd_answers import CASES as ODD_CASES
from tests.unit.chat.formats.test_raw_answers import CASES as RAW_CASES

ANSWERS = [(format, raw) for format, raw, _ in (*ODD_CASES, *RAW_CASES)]


@pytest.mark.exhaustive
@each("format, raw", ANSWERS, ids=lambda case: f"{case[0].name} {case[1][:60]!r}")
def test_an_answer_is_read_alike_wherever_it_is_cut(format: ChatFormat, raw: str) -> None:
    at_all_cuts(format, raw, in_thought=format is odd.KIMI_K3)
