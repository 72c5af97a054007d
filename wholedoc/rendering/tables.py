"""Tables and charts as values: numbers and words, no drawing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from wholedoc.experiment.paper import Printed


@dataclass(frozen=True)
class Cell:
    """A place in a table."""

    text: str
    """What is shown, marks included."""
    value: float | None = None
    """The number in it, unrounded."""
    best: bool = False
    """Whether it is the best of its column."""


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    label: str
    cells: tuple[Cell, ...]
    block: int = 0
    """Rows of one block stand together; a rule is drawn between blocks."""


@dataclass(frozen=True)
class Table:
    """A table, named as in the paper where it is one of the paper's."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]
    """For each column its group and its name."""
    rows: tuple[Row, ...]
    note: str = ""
    """How to read it, and what the paper had there."""
    printed: tuple[Printed, ...] = ()
    """The paper's numbers."""

    def to_json(self) -> dict[str, Any]:
        """The numbers of the table, row by row; None where there is none."""
        rows = [
            {
                "label": row.label,
                "values": [cell.value for cell in row.cells],
                "texts": [cell.text for cell in row.cells],
            }
            for row in self.rows
        ]
        columns = [f"{group} {name}".strip() for group, name in self.columns]
        return {"name": self.name, "title": self.title, "columns": columns, "rows": rows}


@dataclass(frozen=True)
class Series:
    """A line, or a colour of bars."""

    label: str
    points: tuple[tuple[float, float], ...]
    """x and y; of bars x is the number of the group."""
    colour: int = 0
    """The number of its colour: the same system has the same one in all charts."""
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines or groups of bars."""

    kind: Literal["lines", "bars"]
    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    groups: tuple[str, ...] = ()
    """The names of groups of bars."""

    def to_json(self) -> dict[str, Any]:
        """The points of each series."""
        series = {line.label: [list(point) for point in line.points] for line in self.series}
        names = {"x": self.x, "y": self.y, "groups": list(self.groups)}
        return {"title": self.title, **names, "series": series}


@dataclass(frozen=True)
class Figure:
    """Charts that belong together."""

    name: str
    title: str
    charts: tuple[Chart, ...]
    note: str = ""
    printed: tuple[Printed, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The points of each chart."""
        charts = [chart.to_json() for chart in self.charts]
        return {"name": self.name, "title": self.title, "charts": charts}


def mark_best(rows: Sequence[Row], columns: Sequence[int], lowest: bool = False) -> list[Row]:
    """The rows with the best value of each of some columns marked, as the paper's bold does."""
    marked = list(rows)
    for column in columns:
        values = [row.cells[column].value for row in rows]
        known = [value for value in values if value is not None]
        if len(set(known)) < 2:  # none is better than the others
            continue
        best = min(known) if lowest else max(known)
        for number, value in enumerate(values):
            if value == best:
                cells = list(marked[number].cells)
                cells[column] = replace(cells[column], best=True)
                marked[number] = replace(marked[number], cells=tuple(cells))
    return marked
