"""Drawings as plain SVG: bars for what is compared, lines for what should stay flat. No library, no script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

COLOURS = ("#1f6f8b", "#d1495b", "#edae49", "#66a182", "#6a4c93", "#8d6e63")
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'
GREY = "#ccc"

BAR, GAP = 14, 12
LABELS_WIDTH, BARS_WIDTH = 300, 520

PLOT_WIDTH, PLOT_HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 34, 56


@dataclass(frozen=True, slots=True)
class Bars:
    """One group: a title, and for each series how many times better it is. None: not measured."""

    title: str
    values: Mapping[str, float | None]


def ratios(title: str, groups: Sequence[Bars], series: Sequence[str]) -> str:
    """Bars to the right of 1 are better, those to the left worse: a factor has the same length either way."""
    known = [value for group in groups for value in group.values.values() if value]
    decades = max(1, math.ceil(max((abs(math.log10(value)) for value in known), default=1)))
    middle = LABELS_WIDTH + BARS_WIDTH / 2

    def place(value: float) -> float:
        return middle + math.log10(value) / decades * BARS_WIDTH / 2

    bottom = 60 + len(groups) * (len(series) * BAR + GAP)
    parts = [_text(10, 18, title, size=14), *_legend(series, 10, 38)]
    for exponent in range(-decades, decades + 1):
        x = place(10.0**exponent)
        parts += [_line(x, 50, x, bottom, "#333" if exponent == 0 else GREY),
                  _text(x, bottom + 16, f"{10.0**exponent:g}×", anchor="middle")]  # fmt: skip
    y = 60.0
    for group in groups:
        parts.append(_text(LABELS_WIDTH - 8, y + len(series) * BAR / 2 + 4, group.title, anchor="end"))
        for number, name in enumerate(series):
            value = group.values.get(name)
            if value:
                left, right = sorted((middle, place(value)))
                parts.append(
                    f'<rect x="{left:.1f}" y="{y:.1f}" width="{max(right - left, 1):.1f}" height="{BAR - 2}" '
                    f'fill="{_colour(number)}"><title>{escape(name)}: {value:.2f}×</title></rect>'
                )
            y += BAR
        y += GAP
    return _svg(LABELS_WIDTH + BARS_WIDTH + 20, bottom + 28, parts)


def lines(title: str, across: str, unit: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Logarithmic across, linear up from zero: what is flat looks flat, what is twice as much looks it."""
    points = [point for line in series.values() for point in line]
    lowest, highest = (math.log10(pick(x for x, _ in points)) for pick in (min, max))
    top = _round_up(max(y for _, y in points) * 1.15)

    def at(point: tuple[float, float]) -> tuple[float, float]:
        span = (highest - lowest) or 1.0
        x = LEFT + (math.log10(point[0]) - lowest) / span * (PLOT_WIDTH - LEFT - RIGHT)
        return x, PLOT_HEIGHT - BOTTOM - point[1] / top * (PLOT_HEIGHT - TOP - BOTTOM)

    parts = [_text(8, 18, f"{title}, {unit}", size=13)]
    for step in range(5):
        y = at((10**lowest, top * step / 4))[1]
        parts += [
            _line(LEFT, y, PLOT_WIDTH - RIGHT, y, GREY),
            _text(LEFT - 6, y + 4, f"{top * step / 4:g}", anchor="end"),
        ]
    for value in sorted({x for x, _ in points}):
        parts.append(_text(at((value, 0))[0], PLOT_HEIGHT - BOTTOM + 16, _short(value), anchor="middle"))
    parts.append(_text((LEFT + PLOT_WIDTH) / 2, PLOT_HEIGHT - BOTTOM + 32, across, anchor="middle"))
    for number, line in enumerate(series.values()):
        places = [at(point) for point in line]
        parts += [_line(*one, *other, _colour(number), 2) for one, other in pairwise(places)]
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_colour(number)}"/>' for x, y in places]
    return _svg(PLOT_WIDTH, PLOT_HEIGHT, [*parts, *_legend(list(series), LEFT, PLOT_HEIGHT - 8)])


def _legend(names: Sequence[str], x: float, y: float) -> list[str]:
    parts = []
    for number, name in enumerate(names):
        parts += [
            f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{_colour(number)}"/>',
            _text(x + 14, y, name),
        ]
        x += 34 + 7 * len(name)
    return parts


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    font = FONT.replace('"12"', f'"{size}"')
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {font}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: int = 1) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _round_up(value: float) -> float:
    """To one, two, four or eight of some power of ten: then quarters are round too."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 8, 10) if step * power >= value)


def _short(value: float) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
