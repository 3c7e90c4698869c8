"""Which models are recommended: the best of those that fit and are fast enough, in an order that can be explained."""

from __future__ import annotations

import msgspec
import pytest

from localllm.planning.speeds import NotPredicted, Speed
from localllm.registry.catalog import CatalogEntry, Kind, Score
from localllm.registry.offers.recommending import (
    LEAST_TOKENS_PER_S,
    Recommended,
    Room,
    Use,
    considered,
    recommended,
)

GB = 10**9


def entry(name: str, billions: float, score: float | None = None, kind: Kind = "chat") -> CatalogEntry:
    """Half a byte for each parameter, and little for keys and values."""
    quality = () if score is None else (Score(measure="MMLU-Pro", score=score, source="https://a.example/b"),)
    return CatalogEntry(
        name=name, tag="x", kind=kind, repo="a/b", quant="Q4_0", size_bytes=int(billions * GB / 2),
        num_parameters=int(billions * GB), context_length=32_768, kv_bytes_per_token=4096, license="MIT",
        description="", quality=quality,
    )  # fmt: skip


def speed_of(one: CatalogEntry) -> Speed:
    """30 tokens/s with 10**9 parameters."""
    rate = 30 * GB / (one.active_parameters or one.num_parameters)
    return Speed(prompt_tokens_per_s=10 * rate, answer_tokens_per_s=rate, error=0.3)


def names(found: list[Recommended]) -> list[str]:
    return [each.entry.name for each in found]


ENTRIES = [entry("small", 1, 20), entry("good", 2, 60), entry("big", 4, 50), entry("huge", 12, 90), entry("old", 4)]


def test_the_best_that_fit_come_first_and_slow_ones_last_by_name() -> None:
    found = recommended(ENTRIES, "chat", Room(20 * GB), speed_of)
    assert names(found) == ["good", "big", "old", "small", "huge"]
    assert [each.fits for each in found] == ["yes"] * 4 + ["slow"]
    assert found[-1].tokens_per_s == pytest.approx(2.5)
    assert LEAST_TOKENS_PER_S > 2.5


def test_what_does_not_fit_into_memory_is_not_recommended() -> None:
    assert names(recommended(ENTRIES, "chat", Room(2 * GB), speed_of)) == ["good", "small"]
    assert recommended(ENTRIES, "chat", Room(GB // 2), speed_of) == []
    assert len(recommended(ENTRIES, "chat", Room(None), speed_of)) == 5, "where memory is unknown, all may fit"


def test_a_model_that_a_gpu_takes_has_no_predicted_speed_and_fits() -> None:
    found = recommended(ENTRIES, "chat", Room(2 * GB, gpu_bytes=20 * GB), speed_of)
    assert names(found)[0] == "huge"
    assert all(each.fits == "yes" and isinstance(each.speed, NotPredicted) for each in found)


def test_a_model_without_a_score_stands_behind_those_of_its_size_and_larger() -> None:
    """Nothing is known that would put `old` before `big`, nor before a larger one with a poor score."""
    assert [each.name for each in considered(ENTRIES, "chat")] == ["huge", "good", "big", "old", "small"]
    poor = entry("poor", 30, 10)
    assert [each.name for each in considered([*ENTRIES, poor], "chat")][-3:] == ["small", "poor", "old"]
    largest = [entry("small", 1, 20), entry("big", 4)]
    assert [each.name for each in considered(largest, "chat")] == ["small", "big"]


def test_models_of_another_kind_are_considered_where_they_have_the_score() -> None:
    seeing = entry("sees", 2, 55, kind="vision")
    coding = msgspec.structs.replace(entry("codes", 2, kind="code"), quality=())
    assert [each.name for each in considered([*ENTRIES, seeing, coding], "chat")][:3] == ["huge", "good", "sees"]
    assert [each.name for each in considered([*ENTRIES, coding], "code")] == ["codes"]


@pytest.mark.parametrize(("use", "context", "is_considered"), [("code", 8192, False), ("code", 16_384, True)])
def test_a_model_needs_a_useful_context(use: Use, context: int, is_considered: bool) -> None:
    one = msgspec.structs.replace(entry("codes", 2, kind="code"), context_length=context)
    assert bool(considered([one], use)) == is_considered


def test_a_model_that_embeds_is_as_fast_as_it_reads_and_keeps_no_context() -> None:
    one = msgspec.structs.replace(entry("embeds", 1, kind="embedding"), context_length=512)
    (found,) = recommended([one], "embed", Room(2 * GB), speed_of)
    assert (found.ctx, found.tokens_per_s, found.fits) == (512, 300.0, "yes")
