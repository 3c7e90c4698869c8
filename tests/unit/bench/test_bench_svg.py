"""The plot of `localllm bench`: well-formed, with every point where its value belongs."""

from __future__ import annotations

import itertools
import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.bench.svg import Panel, Series, axes, draw, linear_ticks, logarithmic_ticks

SVG = "{http://www.w3.org/2000/svg}"
positive = st.floats(1e-6, 1e9)


def panel(*series: Series, logarithmic: bool = False, ticks: tuple[float, ...] = (1, 2, 4), **more: object) -> Panel:
    return Panel("Title", "y", "x", ticks, series, logarithmic=logarithmic, **more)  # type: ignore[arg-type]


def parse(*panels: Panel, headline: tuple[str, ...] = ("One", "Two")) -> ElementTree.Element:
    return ElementTree.fromstring(draw(headline, panels))


def labels(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    return {element.text or "": element for element in root.iter(f"{SVG}text")}


def centres(root: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(circle.attrib["cx"]), float(circle.attrib["cy"])) for circle in root.iter(f"{SVG}circle")]


def test_points_are_where_the_labels_of_the_axes_say() -> None:
    root = parse(panel(Series("a", "#123456", ((1, 100), (2, 50), (4, 200)))))
    found = labels(root)
    x_of = {tick: float(found[tick].attrib["x"]) for tick in ("1", "2", "4")}
    y_of = {tick: float(found[tick].attrib["y"]) - 4 for tick in ("0", "100", "200")}  # a label's foot is 4 px lower
    (first, second, third) = centres(root)
    assert first == pytest.approx((x_of["1"], y_of["100"]))
    assert third == pytest.approx((x_of["4"], y_of["200"]))
    assert second == pytest.approx((x_of["2"], (y_of["0"] + y_of["100"]) / 2))
    assert x_of["2"] == pytest.approx((x_of["1"] + x_of["4"]) / 2)  # concurrency doubles in equal steps
    line = next(root.iter(f"{SVG}polyline"))
    assert line.attrib["points"].split() == [f"{x:g},{y:g}" for x, y in centres(root)]


def test_on_a_logarithmic_axis_ten_times_as_much_is_always_as_far() -> None:
    root = parse(panel(Series("a", "#123456", ((1, 10), (2, 100), (4, 1000))), logarithmic=True))
    (_, low), (_, middle), (_, high) = centres(root)
    assert low - middle == pytest.approx(middle - high)
    assert low > high


def test_a_second_panel_stands_beside_the_first() -> None:
    one = panel(Series("a", "#123456", ((1, 1), (4, 2))))
    (a, b, c, d) = centres(parse(one, one))
    assert a[0] < b[0] < c[0] < d[0]
    assert (a[1], b[1]) == (c[1], d[1])


def test_names_that_look_like_markup_are_text() -> None:
    name = '<script>alert("x")</script> & \x1b[31m\x00'
    root = parse(panel(Series(name, "#123456", ((1, 1),))), headline=(name,))
    assert not list(root.iter(f"{SVG}script"))
    assert any('<script>alert("x")</script> &' in text for text in labels(root))
    assert '<script>alert("x")' in root.attrib["aria-label"]


def test_it_brings_its_own_ground_and_asks_for_nothing_from_outside() -> None:
    text = draw(("One",), (panel(Series("a", "#123456", ((1, 1),))),))
    root = ElementTree.fromstring(text)
    ground = next(root.iter(f"{SVG}rect"))
    assert (ground.attrib["width"], ground.attrib["fill"]) == (root.attrib["width"], "#ffffff")
    assert all(element.attrib.get("fill") for element in root.iter(f"{SVG}text"))
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert "href" not in text
    assert "<style" not in text


def test_a_tick_with_trouble_is_marked() -> None:
    root = parse(panel(Series("a", "#123456", ((1, 1),)), x_notes={4.0: "3 failed"}))
    found = labels(root)
    assert found["3 failed"].attrib["x"] == found["4"].attrib["x"]


def test_labels_of_near_ticks_do_not_overlap() -> None:
    ticks = tuple(float(tick) for tick in range(1, 65))
    root = parse(panel(ticks=ticks))
    places = [float(text.attrib["x"]) for text in root.iter(f"{SVG}text") if (text.text or "").isdecimal()]
    below = sorted(place for place in places if place > 90)  # the others are those of the y axis
    assert 10 < len(below) < 64
    assert all(later - earlier >= 20 for earlier, later in itertools.pairwise(below))


@pytest.mark.parametrize("logarithmic", [False, True])
def test_one_level_or_none_answered_is_still_a_plot(logarithmic: bool) -> None:
    assert centres(parse(panel(Series("a", "#123456", ()), logarithmic=logarithmic, ticks=(8,)))) == []
    (only,) = centres(parse(panel(Series("a", "#123456", ((8, 3),)), logarithmic=logarithmic, ticks=(8,))))
    assert all(map(math.isfinite, only))


@given(positive)
def test_linear_ticks_reach_from_zero_over_the_values(highest: float) -> None:
    ticks = linear_ticks(highest)
    assert ticks[0] == 0
    assert ticks[-1] >= highest * (1 - 1e-9)
    assert 3 <= len(ticks) <= 8


@given(positive, positive)
def test_logarithmic_ticks_enclose_the_values_without_a_crowd(one: float, other: float) -> None:
    lowest, highest = sorted((one, other))
    ticks = logarithmic_ticks(lowest, highest)
    assert ticks[0] <= lowest * (1 + 1e-9)
    assert ticks[-1] >= highest * (1 - 1e-9)
    assert 2 <= len(ticks) <= 20


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=8), st.booleans())
def test_every_point_is_inside_the_plotting_area(points: list[tuple[float, float]], logarithmic: bool) -> None:
    one = panel(
        Series("a", "#123456", tuple(sorted(points))),
        logarithmic=logarithmic,
        ticks=tuple(sorted({x for x, _ in points})),
    )
    x_axis, y_axis, _ = axes(one, 78)
    for x, y in centres(parse(one)):
        assert x_axis.start - 0.01 <= x <= x_axis.end + 0.01
        assert y_axis.end - 0.01 <= y <= y_axis.start + 0.01
