"""Which attention is used follows from what was measured, whatever was measured."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.llama.probes.flash_attention import (
    MARGIN,
    Figures,
    Point,
    choose,
    fastest,
    gain_without,
    merged,
    spread,
)
from localllm.measuring.repeated import MAX_ATTEMPTS

CTX = st.integers(1024, 2**20)
SECONDS = st.floats(1e-5, 10)
FIELDS = ("decode_with_s", "decode_without_s", "prompt_with_s", "prompt_without_s")


@st.composite
def points(draw: st.DrawFn) -> tuple[Point, ...]:
    depths = draw(st.sampled_from([(192, 512), (192, 4096), (4096,)]))
    return tuple(Point(depth, *(draw(SECONDS) for _ in FIELDS)) for depth in depths)


def scaled_by(point: Point, factors: dict[str, float]) -> Point:
    return msgspec.structs.replace(point, **{field: getattr(point, field) * by for field, by in factors.items()})


def scaled(point: Point, factor: float, *fields: str) -> Point:
    return scaled_by(point, dict.fromkeys(fields, factor))


def measured(*, decode: float, prompt: float, **given: float) -> Figures:
    """`decode` and `prompt`: how many times as fast it is without flash attention behind much."""
    return Figures(points=(Point(192, 1, 1, 1, 1), Point(4096, decode, 1, prompt, 1)), **given)  # type: ignore[arg-type]


@given(points(), CTX, st.floats(0, 2))
def test_a_slower_machine_chooses_the_same(figures: tuple[Point, ...], ctx: int, noise: float) -> None:
    slower = tuple(scaled(point, 16, *FIELDS) for point in figures)
    assert choose(Figures(points=slower, spread=noise), ctx) == choose(Figures(points=figures, spread=noise), ctx)


@given(points(), CTX, st.floats(1, 10), st.sampled_from(FIELDS))
def test_what_gets_slower_is_chosen_no_more_than_before(
    figures: tuple[Point, ...], ctx: int, factor: float, field: str
) -> None:
    """Slower by the same factor behind little and behind much."""
    gain = gain_without(figures, ctx)
    changed = gain_without(tuple(scaled(point, factor, field) for point in figures), ctx)
    if "without" in field:
        assert changed <= gain * (1 + 1e-9)
    else:
        assert changed >= gain * (1 - 1e-9)


@given(points(), CTX, st.floats(0, 2))
def test_flash_attention_is_used_unless_it_is_slower_by_more_than_the_noise(
    figures: tuple[Point, ...], ctx: int, noise: float
) -> None:
    chosen = choose(Figures(points=figures, spread=noise), ctx).flash
    assert chosen is (gain_without(figures, ctx) <= MARGIN * (1 + noise))
    as_fast = tuple(
        msgspec.structs.replace(point, decode_without_s=point.decode_with_s, prompt_without_s=point.prompt_with_s)
        for point in figures
    )
    assert choose(Figures(points=as_fast, spread=noise), ctx).flash


def test_a_clear_gain_behind_much_decides_for_long_slots_and_not_for_short_ones() -> None:
    figures = measured(decode=2, prompt=1.4)
    assert not choose(figures, 8192).flash
    assert not choose(figures, 131_072).flash
    assert (
        gain_without(figures.points, 1024) < gain_without(figures.points, 8192) < gain_without(figures.points, 65_536)
    )
    assert choose(measured(decode=1.08, prompt=1 / 1.39), 8192).flash, "prompts lose more than decoding gains"


def test_what_was_measured_is_said_as_speed_with_flash_attention() -> None:
    reason = choose(measured(decode=1 / 1.24, prompt=1.25), 8192).reason
    assert "prompts 0.80 x, decoding 1.24 x as fast behind 4,096 tokens" in reason
    assert "prompts 1.00 x, decoding 1.00 x as fast behind 192 tokens" in reason
    assert "too slow" in choose(Figures(), 8192).reason
    assert "too slow" not in choose(Figures(obstacle="busy"), 8192).reason
    assert "too little memory" in choose(fastest(Figures(obstacle="memory"), Figures()), 8192).reason


def test_a_noisy_measurement_is_made_again_but_not_for_ever() -> None:
    noisy, quiet = (
        measured(decode=2, prompt=2, spread=Figures.NOISY_SPREAD * 2),
        measured(decode=1, prompt=1, spread=0.01),
    )
    assert not noisy.is_final
    assert "measures again" in choose(noisy, 8192).reason
    assert quiet.is_final
    assert not Figures().is_final, "too slow may have been the machine's minute"
    assert merged(None, noisy, 8192) == noisy
    assert merged(noisy, Figures(), 8192) == msgspec.structs.replace(noisy, attempts=2)
    last = noisy
    for _ in range(MAX_ATTEMPTS - 1):
        last = merged(last, noisy, 8192)
    assert last.is_final
    assert "measures again" not in choose(last, 8192).reason


@given(points(), points(), st.floats(0.2, 2), st.floats(0, 2), CTX)
def test_another_measurement_reverses_a_choice_only_if_it_is_clearer_and_another_way_is_faster(
    before: tuple[Point, ...], now: tuple[Point, ...], noise_before: float, noise_now: float, ctx: int
) -> None:
    """Conversations on the disk are of use to the same kind of attention only."""
    first, second = Figures(points=before, spread=noise_before), Figures(points=now, spread=noise_now)
    last = merged(first, second, ctx)
    assert last.attempts == 2
    if choose(last, ctx).flash != choose(first, ctx).flash:
        assert noise_now <= noise_before / 2
        gain = gain_without(now, ctx)
        assert gain > MARGIN or gain < 1 / MARGIN
    elif choose(second, ctx).flash == choose(first, ctx).flash:
        assert last.spread == min(noise_before, noise_now)


def test_a_clear_measurement_reverses_the_choice_of_a_noisy_one() -> None:
    flash_is_faster = Figures(points=(Point(192, 1, 1, 1, 1), Point(4096, 1, 2, 1, 2)))
    cases = [
        (measured(decode=9, prompt=9, spread=0.3), flash_is_faster),
        (measured(decode=1, prompt=1, spread=0.3), measured(decode=2, prompt=2)),
        (Figures(), measured(decode=2, prompt=2)),
    ]
    for noisy, clear in cases:
        assert choose(noisy, 8192).flash != choose(clear, 8192).flash
        assert merged(noisy, clear, 8192).points == clear.points


def test_a_choice_stays_where_a_clear_measurement_finds_no_difference() -> None:
    off = measured(decode=9, prompt=9, spread=0.3)
    assert merged(off, measured(decode=1, prompt=1), 8192).points == off.points


def test_the_spread_is_what_the_second_fastest_took_more_so_that_a_single_slow_pass_is_no_noise() -> None:
    assert spread([[1.0, 1.0, 9.0], [2.0, 2.2, 2.4]]) == pytest.approx(0.05)


@given(points(), CTX, st.floats(0, 2), st.floats(0, 2), st.data())
def test_of_two_measurements_the_fastest_passes_count_whichever_was_disturbed(
    true: tuple[Point, ...], ctx: int, noise: float, other_noise: float, data: st.DataObject
) -> None:
    slower = st.floats(1, 10)
    one, other = [], []
    for point in true:
        first = {field: data.draw(slower) for field in FIELDS}
        hit = {field: data.draw(st.booleans()) for field in FIELDS}
        one.append(scaled_by(point, {field: factor for field, factor in first.items() if hit[field]}))
        other.append(scaled_by(point, {field: factor for field, factor in first.items() if not hit[field]}))
    both = fastest(Figures(points=tuple(one), spread=noise), Figures(points=tuple(other), spread=other_noise))
    assert both.points == true
    assert both.spread == max(noise, other_noise)
    assert fastest(Figures(), both) == fastest(both, Figures()) == Figures(), "what was not measured decides nothing"
