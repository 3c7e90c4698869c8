"""Line charts side by side as one SVG document, written by hand. Pure; knows nothing of what the lines mean.

It has its own light background and colours, so that it looks the same in a dark viewer; it uses the viewer's font and
runs no script.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

PANEL_WIDTH, PANEL_HEIGHT = 480, 300
"""Size of a plotting area in pixels, without the labels around it."""
LEFT, RIGHT, TOP, BOTTOM = 78, 26, 106, 72
"""Room around each plotting area."""
TICK_ROOM = 24
"""Minimum pixels between the labels of two ticks; labels that are closer are left out."""
_INK, _FAINT, _GRID, _GROUND, _ALARM = "#222222", "#555555", "#dddddd", "#ffffff", "#b00020"


class Series(NamedTuple):
    """A line through points (x, y), in ascending order of x; values are above 0."""

    name: str
    colour: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


class Panel(NamedTuple):
    """One chart. The x axis is logarithmic, with a tick at each of `x_ticks`."""

    title: str
    y_label: str
    x_label: str
    x_ticks: tuple[float, ...]
    series: tuple[Series, ...]
    x_notes: Mapping[float, str] = {}
    """Tick -> a warning below it."""
    logarithmic: bool = False
    """Whether the y axis is logarithmic; otherwise it is linear, from 0."""


class Axis(NamedTuple):
    """Maps values to pixels: `low` to `start`, `high` to `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def at(self, value: float) -> float:
        low, high, value = map(math.log, (self.low, self.high, value)) if self.logarithmic else (*self[:2], value)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


def linear_ticks(highest: float) -> list[float]:
    """From 0 to at least `highest` in about five steps of 1, 2 or 5 times a power of ten."""
    step = _nice_step(highest / 5) if highest > 0 else 0.2
    return [index * step for index in range(math.ceil(round(highest / step, 9)) + 1)] if highest > 0 else [0.0, step]


def logarithmic_ticks(lowest: float, highest: float) -> list[float]:
    """1, 2 and 5 times powers of ten around the values; only powers of ten if those would be too many."""
    first, last = math.floor(math.log10(lowest)), math.ceil(math.log10(highest))
    mantissas = (1, 2, 5) if last - first <= 4 else (1,)
    ticks = [mantissa * 10.0**power for power in range(first, last + 1) for mantissa in mantissas]
    below = max((tick for tick in ticks if tick <= lowest), default=ticks[0])
    above = min((tick for tick in ticks if tick >= highest), default=ticks[-1])
    kept = [tick for tick in ticks if below <= tick <= above]
    return kept if len(kept) > 1 else [kept[0], kept[0] * 10]


def draw(headline: Sequence[str], panels: Sequence[Panel]) -> str:
    """The SVG document, as large as its panels; a viewer scales it."""
    width = len(panels) * (LEFT + PANEL_WIDTH + RIGHT)
    height = TOP + PANEL_HEIGHT + BOTTOM
    label = quoteattr(_printable("; ".join(headline)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' role="img" aria-label={label} font-family="system-ui, sans-serif" font-size="13" fill="{_INK}">',
        f'<rect width="{width}" height="{height}" fill="{_GROUND}"/>',
    ]
    for number, line in enumerate(headline):
        size, colour = (15, _INK) if number == 0 else (12, _FAINT)
        parts.append(_text(LEFT, 24 + 19 * number, line, size=size, colour=colour))
    for number, panel in enumerate(panels):
        parts += _panel(panel, number * (LEFT + PANEL_WIDTH + RIGHT) + LEFT)
    return "\n".join([*parts, "</svg>", ""])


def axes(panel: Panel, left: float) -> tuple[Axis, Axis, list[float]]:
    """The x axis, the y axis and the y ticks of a panel whose plotting area begins at `left`."""
    values = [y for series in panel.series for _, y in series.points]
    if panel.logarithmic:
        y_ticks = logarithmic_ticks(min(values, default=1.0), max(values, default=10.0))
    else:
        y_ticks = linear_ticks(max(values, default=1.0))
    inset = 18  # keeps a line's first point off the frame
    x = Axis(min(panel.x_ticks), max(panel.x_ticks), left + inset, left + PANEL_WIDTH - inset, logarithmic=True)
    y = Axis(y_ticks[0], y_ticks[-1], TOP + PANEL_HEIGHT, TOP, panel.logarithmic)
    return x, y, y_ticks


def _panel(panel: Panel, left: float) -> list[str]:
    x_axis, y_axis, y_ticks = axes(panel, left)
    right, bottom = left + PANEL_WIDTH, TOP + PANEL_HEIGHT
    middle_y = TOP + PANEL_HEIGHT / 2
    parts = ["<g>", _text(left, TOP - 34, panel.title, size=14, bold=True), *_legend(panel.series, left, TOP - 13)]
    for tick in y_ticks:
        y = y_axis.at(tick)
        parts.append(_line(left, y, right, y, _GRID))
        parts.append(_text(left - 8, y + 4, _number(tick), anchor="end", size=12))
    parts.append(_line(left, bottom, right, bottom, _INK))
    parts += _ticks(panel, x_axis, bottom)
    parts.append(_text(left + PANEL_WIDTH / 2, bottom + 60, panel.x_label, anchor="middle", colour=_FAINT))
    turn = f' transform="rotate(-90 {_pixel(left - 56)} {_pixel(middle_y)})"'
    parts.append(_text(left - 56, middle_y, panel.y_label, anchor="middle", colour=_FAINT, more=turn))
    for series in panel.series:
        parts += _series(series, x_axis, y_axis)
    return [*parts, "</g>"]


def _ticks(panel: Panel, x_axis: Axis, bottom: float) -> list[str]:
    """Ticks of the x axis, labels where there is room, and notes in the first of two rows that has room."""
    parts = []
    label_end, note_ends = -math.inf, {34: -math.inf, 44: -math.inf}
    for tick in panel.x_ticks:
        x = x_axis.at(tick)
        parts.append(_line(x, bottom, x, bottom + 5, _INK))
        if x - label_end >= TICK_ROOM:
            label_end = x
            parts.append(_text(x, bottom + 20, _number(tick), anchor="middle", size=12))
        note = panel.x_notes.get(tick, "")
        half_width = 2.8 * len(note) + 2  # letters of 10 pixels are less than 6 wide
        for row in [row for row, end in note_ends.items() if note and x - half_width >= end][:1]:
            note_ends[row] = x + half_width
            parts.append(_text(x, bottom + row, note, anchor="middle", size=10, colour=_ALARM))
    return parts


def _series(series: Series, x_axis: Axis, y_axis: Axis) -> list[str]:
    places = [(x_axis.at(x), y_axis.at(y)) for x, y in series.points]
    path = " ".join(f"{_pixel(x)},{_pixel(y)}" for x, y in places)
    parts = [f'<polyline points="{path}" fill="none" {_stroke(series)}/>'] if places else []
    for (x, y), (x_value, y_value) in zip(places, series.points, strict=True):
        title = escape(_printable(f"{series.name}, {x_value:g}: {y_value:.4g}"))
        fill = _GROUND if series.dashed else series.colour
        parts.append(
            f'<circle cx="{_pixel(x)}" cy="{_pixel(y)}" r="3.5" fill="{fill}" stroke="{series.colour}"'
            f' stroke-width="1.5"><title>{title}</title></circle>'
        )
    return parts


def _legend(series: Sequence[Series], left: float, y: float) -> list[str]:
    parts, x = [], left
    for each in series:
        parts.append(f'<path d="M{_pixel(x)} {_pixel(y - 4)}h26" fill="none" {_stroke(each)}/>')
        parts.append(_text(x + 32, y, each.name, size=12))
        x += 32 + 6.6 * len(each.name) + 20  # the approximate width of 12-pixel letters
    return parts


def _stroke(series: Series) -> str:
    dashes = ' stroke-dasharray="6 4"' if series.dashed else ""
    return f'stroke="{series.colour}" stroke-width="2"{dashes}'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 13,
    colour: str = _INK,
    anchor: str = "start",
    bold: bool = False,
    more: str = "",
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{_pixel(x)}" y="{_pixel(y)}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
        f"{weight}{more}>{escape(_printable(text))}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<path d="M{_pixel(x1)} {_pixel(y1)}L{_pixel(x2)} {_pixel(y2)}" stroke="{colour}" fill="none"/>'


def _printable(text: str) -> str:
    """Replaces control characters, which XML does not allow even if escaped."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _pixel(value: float) -> str:
    return f"{round(value, 2):g}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
