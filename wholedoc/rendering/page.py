"""HTML pages that open from disk: one look for all of them, and how weights are drawn."""

import html
import math
from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import count

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import avg_pool2d

_SQUARES = 100  # of a heat map on either side
_SHADES = 12
_TICKS = 8


def make_page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """A page that needs nothing else: ``style`` and ``script`` name assets of their own."""
    styles = "".join(read_asset(name) for name in ("page.css", style) if name)
    code = f"<script>\n{read_asset(script)}</script>\n" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{styles}</style>\n{body}\n{code}</html>\n"
    )


def read_asset(name: str) -> str:
    """The text of a file that ships with the pages."""
    return (files("wholedoc.rendering") / "assets" / name).read_text(encoding="utf-8")


def escape(text: str) -> str:
    """Text as HTML, in an attribute too; half a surrogate pair becomes a question mark."""
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))


def make_table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table of given HTML that scrolls where it is too wide; ``kind`` is its class."""
    titles = "".join(f"<th>{title}</th>" for title in head)
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    opening = f'<table class="{kind}">' if kind else "<table>"
    table = f"{opening}<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


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
        caption += (
            f" Each square is the mean over {block} × {block} sentences, "
            f"since there are {max(readers, read):,}."
        )
    frame = 'visibility="hidden"' if row is None else f'y="{row // block}"'
    box = f"{-margin:.3f} {-margin:.3f} {width + margin:.3f} {height + margin:.3f}"
    return (
        f'<figure class="map {kind}"><svg viewBox="{box}" data-block="{block}" role="img" '
        f'aria-label="{escape(label)}"><rect class="frame" width="{width}" height="{height}"/>'
        f"{_shade(squares, largest)}{_ticks(readers, read, block, margin)}"
        f'<rect class="row" width="{width}" height="1" {frame}/></svg>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _shade(squares: Tensor, largest: float) -> str:
    """One path for all squares of the same shade: short, however many there are."""
    shades = (squares / (largest or 1.0) * _SHADES).round().int().tolist()
    paths: dict[int, list[str]] = {}
    for y, row in enumerate(shades):
        start = 0
        for x in range(1, len(row) + 1):
            if x == len(row) or row[x] != row[start]:
                paths.setdefault(row[start], []).append(f"M{start} {y}.5h{x - start}")
                start = x
    return "".join(
        f'<path opacity="{shade / _SHADES:.2f}" d="{"".join(found)}"/>'
        for shade, found in sorted(paths.items())
        if shade
    )


def _ticks(readers: int, read: int, block: int, margin: float) -> str:
    """Numbers of sentences, from 1, along both sides: no more than there is room for."""
    sentences = max(readers, read)
    steps = (digit * 10**power for power in count() for digit in (1, 2, 5))
    step = next(step for step in steps if sentences <= _TICKS * step)
    places = sorted({0, *range(step - 1, sentences, step)})
    size = 0.4 * margin
    texts = []
    for t in places:
        at = t // block + 0.5
        if t < read:
            texts.append(f'<text x="{at}" y="{-0.3 * margin:.3f}" text-anchor="middle">{t + 1}')
        if t < readers:
            y = at + 0.35 * size
            texts.append(f'<text x="{-0.2 * margin:.3f}" y="{y:.3f}" text-anchor="end">{t + 1}')
    marks = "".join(f"{text}</text>" for text in texts)
    return f'<g font-size="{size:.3f}">{marks}</g>'
