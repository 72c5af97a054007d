"""Charts as values, and as SVG: lines, bars, and heat maps of attention weights.

The value of every point and bar can be read: on it, or where the mouse rests.
"""

import math
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import avg_pool2d

from wholedoc.rendering.tables import Row, Table, escape, join_parts, number_cell

COLOURS = ("#6b7280", "#1f5fa8", "#c2541b", "#2a7d4f", "#8b3a8f", "#8a6d00", "#3b7f8c", "#a02c4a")
_SQUARES = 100  # of a heat map on either side
_SHADES = 12
_MOST_TICKS = 8
_WIDTH, _HEIGHT = 460.0, 260.0
_LEFT, _RIGHT, _TOP, _FLOOR = 52.0, 12.0, 14.0, 220.0


@dataclass(frozen=True)
class Series:
    """A line, or a colour of bars."""

    label: str
    points: tuple[tuple[float, float], ...]
    """x and y; of bars x is the index of the group."""
    colour: int = 0
    """The index of its colour: the same system has the same one in all charts."""
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines or groups of bars."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    groups: tuple[str, ...] = ()
    """The names of groups of bars; lines have none."""

    def to_json(self) -> dict[str, Any]:
        """The points of each series."""
        series = {line.label: [list(point) for point in line.points] for line in self.series}
        names = {"x": self.x, "y": self.y, "groups": list(self.groups)}
        return {"title": self.title, **names, "series": series}

    def to_table(self) -> Table:
        """The same points as a table: a row for each series."""
        xs = sorted({x for line in self.series for x, _ in line.points})
        names = [self.groups[int(x)] if self.groups else f"{self.x} {x:g}" for x in xs]
        rows = []
        for line in self.series:
            ys = dict(line.points)
            rows.append(Row(line.label, tuple(number_cell(ys.get(x), ".2f") for x in xs)))
        return Table(self.title, self.y, {"": names}, rows)


@dataclass(frozen=True)
class Figure:
    """Charts that belong together."""

    name: str
    title: str
    charts: tuple[Chart, ...]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The points of each chart."""
        charts = [chart.to_json() for chart in self.charts]
        return {"name": self.name, "title": self.title, "charts": charts}

    def to_html(self) -> str:
        """The charts side by side."""
        charts = "".join(
            f"<figure><figcaption>{escape(chart.title)}</figcaption>{draw(chart)}</figure>"
            for chart in self.charts
        )
        return f'<div class="charts">{charts}</div>'

    def to_markdown(self) -> str:
        """The points of the charts as tables."""
        parts = []
        for chart in self.charts:
            parts.append(f"{chart.title}, {chart.y}:" if chart.title else f"{chart.y}:")
            parts.append(chart.to_table().to_markdown())
        return join_parts(parts)


def draw(chart: Chart) -> str:
    """A chart with its legend, as HTML."""
    scale = _Scale(chart)
    marks = _draw_bars(chart, scale) if chart.groups else _draw_lines(chart, scale)
    legend = "".join(
        f'<span><i style="border-top: 3px {"dashed" if line.dashed else "solid"} '
        f'{COLOURS[line.colour]}"></i>{escape(line.label)}</span>'
        for line in chart.series
    )
    label = escape(f"{chart.title}: {chart.y}")
    return (
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{label}">'
        f'{"".join([*_frame(scale, chart), *marks])}</svg><div class="legend">{legend}</div>'
    )


def _draw_lines(chart: Chart, scale: "_Scale") -> list[str]:
    """Lines through points, a mark on each."""
    parts = [_text(scale.x(tick), _FLOOR + 15, str(tick)) for tick in scale.x_ticks]
    for line in chart.series:
        places = [(f"{scale.x(x):.1f}", f"{scale.y(y):.1f}", y) for x, y in line.points]
        points = " ".join(f"{x},{y}" for x, y, _ in places)
        dash = "6 3" if line.dashed else "none"
        colour = COLOURS[line.colour]
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>'
        )
        parts += [
            f'<circle cx="{x}" cy="{y}" r="2.6" fill="{colour}">'
            f"<title>{escape(line.label)}: {value:.4g}</title></circle>"
            for x, y, value in places
        ]
    return parts


def _draw_bars(chart: Chart, scale: "_Scale") -> list[str]:
    """Groups of bars, the value on each."""
    room = (_WIDTH - _LEFT - _RIGHT) / len(chart.groups)
    width = 0.8 * room / max(len(chart.series), 1)
    parts = [
        _text(_LEFT + (place + 0.5) * room, _FLOOR + 15, name)
        for place, name in enumerate(chart.groups)
    ]
    for n, bars in enumerate(chart.series):
        for x, y in bars.points:
            left, top = _LEFT + (x + 0.1) * room + n * width, scale.y(y)
            parts.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{width * 0.9:.1f}" '
                f'height="{_FLOOR - top:.1f}" fill="{COLOURS[bars.colour]}">'
                f"<title>{escape(bars.label)}: {y:.2f}</title></rect>"
            )
            parts.append(_text(left + width * 0.45, top - 3, f"{y:.1f}", size=9.5))
    return parts


class _Scale:
    """From values to places in the drawing; bars begin at zero."""

    def __init__(self, chart: Chart) -> None:
        points = [point for line in chart.series for point in line.points] or [(0.0, 0.0)]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        self.x_low, self.x_high = min(xs), max(max(xs), min(xs) + 1)
        low, high = (0.0 if chart.groups else min(ys)), max(ys)
        self.ticks = _ticks(low, high if high > low else low + 1)
        self.low, self.high = self.ticks[0], max(self.ticks[-1], high)
        step = max(1, math.ceil((self.x_high - self.x_low) / 10))  # epochs and passes are whole
        self.x_ticks = range(math.ceil(self.x_low), math.floor(self.x_high) + 1, step)

    def x(self, value: float) -> float:
        """The place of a value from the left."""
        share = (value - self.x_low) / (self.x_high - self.x_low)
        return _LEFT + 8 + share * (_WIDTH - _LEFT - _RIGHT - 16)

    def y(self, value: float) -> float:
        """The place of a value from the top."""
        return _FLOOR - (value - self.low) / (self.high - self.low) * (_FLOOR - _TOP)


def _ticks(low: float, high: float) -> list[float]:
    """Round values around a range, four to nine of them."""
    step = 10 ** math.floor(math.log10(high - low))
    while (high - low) / step < 3:
        step /= 2
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(n * step, 10) for n in range(first, last + 1)]


def _frame(scale: _Scale, chart: Chart) -> list[str]:
    """Grid lines, their values, and the names of the axes."""
    right, middle = _WIDTH - _RIGHT, (_FLOOR + _TOP) / 2
    parts = []
    for tick in scale.ticks:
        y = scale.y(tick)
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(_text(_LEFT - 6, y + 3.5, f"{tick:g}", "end"))
    parts.append(_text((_LEFT + right) / 2, _HEIGHT - 6, chart.x))
    parts.append(
        f'<text x="13" y="{middle}" text-anchor="middle" '
        f'transform="rotate(-90 13 {middle})">{escape(chart.y)}</text>'
    )
    return parts


def _text(x: float, y: float, text: str, anchor: str = "middle", size: float = 11) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f"<text {place}>{escape(text)}</text>"


def draw_heat_map(
    weights: Float[Tensor, "reader read"], label: str, kind: str = "", row: int | None = None
) -> str:
    """Weights as coloured squares, a row for each sentence that reads; ``kind`` is its class.

    The frame around a row is shown at ``row``, or left to a script.
    Beyond a hundred sentences a square is the mean over a block of them, and the caption says so.
    """
    readers, read = weights.shape
    block = max(1, math.ceil(max(readers, read) / _SQUARES))
    squares = weights.double().cpu()
    if block > 1:
        # With ceil_mode, what lies beyond the edge counts in no mean.
        squares = avg_pool2d(squares[None], block, ceil_mode=True, count_include_pad=False)[0]
    largest = squares.max().item() if squares.numel() else 0.0
    height, width = squares.shape
    margin = 0.09 * max(height, width, 1)
    caption = f"{escape(label)}: row t reads column t'. Full colour: {largest:.3f}."
    if block > 1:
        means = f"the mean over {block} × {block} sentences"
        caption += f" Each square is {means}, since there are {max(readers, read):,}."
    frame = 'visibility="hidden"' if row is None else f'y="{row // block}"'
    box = f"{-margin:.3f} {-margin:.3f} {width + margin:.3f} {height + margin:.3f}"
    return (
        f'<figure class="map {kind}"><svg viewBox="{box}" data-block="{block}" role="img" '
        f'aria-label="{escape(label)}"><rect class="frame" width="{width}" height="{height}"/>'
        f"{_shade(squares, largest)}{_sentence_ticks(readers, read, block, margin)}"
        f'<rect class="row" width="{width}" height="1" {frame}/></svg>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _shade(squares: Tensor, largest: float) -> str:
    """One path for all squares of the same shade: short, however many there are."""
    shades = (squares / (largest or 1.0) * _SHADES).round().int().tolist()
    paths: dict[int, list[str]] = {}
    for y, row in enumerate(shades):
        x = 0
        for shade, alike in groupby(row):
            width = len(list(alike))
            paths.setdefault(shade, []).append(f"M{x} {y}.5h{width}")
            x += width
    return "".join(
        f'<path opacity="{shade / _SHADES:.2f}" d="{"".join(found)}"/>'
        for shade, found in sorted(paths.items())
        if shade
    )


def _sentence_ticks(readers: int, read: int, block: int, margin: float) -> str:
    """Numbers of sentences, from 1, along both sides: no more than there is room for."""
    sentences = max(readers, read)
    steps = (digit * 10**power for power in count() for digit in (1, 2, 5))
    step = next(step for step in steps if sentences <= _MOST_TICKS * step)
    places = sorted({0, *range(step - 1, sentences, step)})
    size = 0.4 * margin
    marks = ""
    for t in places:
        at = t // block + 0.5
        y, number = at + 0.35 * size, f"{t + 1}</text>"
        if t < read:
            marks += f'<text x="{at}" y="{-0.3 * margin:.3f}" text-anchor="middle">{number}'
        if t < readers:
            marks += f'<text x="{-0.2 * margin:.3f}" y="{y:.3f}" text-anchor="end">{number}'
    return f'<g font-size="{size:.3f}">{marks}</g>'
