"""Tables as values, and how they are written: plain text, HTML, Markdown, CSV, LaTeX."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from wholedoc.rendering.page import escape

_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "↓": "$\\downarrow$",
    "±": "$\\pm$",
    "Δ": "$\\Delta$",
    "–": "--",
}


@dataclass(frozen=True)
class Cell:
    """A place in a table."""

    text: str
    """What is shown, marks included."""
    value: float | None = None
    """The number in it, unrounded."""
    best: bool = False
    """Whether it is the best of its column."""


def number_cell(value: float | None, form: str, before: str = "", after: str = "") -> Cell:
    """A number as ``form`` has it, such as ``.2f``; a dash where there is none."""
    return Cell("–") if value is None else Cell(f"{before}{value:{form}}{after}", value)


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
    printed: tuple["Table", ...] = ()
    """The paper's numbers."""

    @property
    def headings(self) -> list[str]:
        """The group and the name of each column."""
        return [f"{group} {name}".strip() for group, name in self.columns]

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
        return {"name": self.name, "title": self.title, "columns": self.headings, "rows": rows}

    def to_html(self) -> str:
        """The table, its note, and the paper's numbers behind a fold."""
        return format_html(self) + note_html(self.note, self.printed)

    def to_markdown(self) -> str:
        """The table, its note, and the paper's numbers."""
        return join_parts([format_markdown(self), note_markdown(self.note, self.printed)])


def mark_best(rows: Sequence[Row], columns: Sequence[int], lowest: bool = False) -> list[Row]:
    """The rows with the best value of each of some columns marked, as the paper's bold does."""
    best = {}
    for n in columns:
        known = {value for row in rows if (value := row.cells[n].value) is not None}
        if len(known) > 1:  # else none is better than the others
            best[n] = min(known) if lowest else max(known)
    marked = []
    for row in rows:
        cells = [
            replace(cell, best=True) if n in best and cell.value == best[n] else cell
            for n, cell in enumerate(row.cells)
        ]
        marked.append(replace(row, cells=tuple(cells)))
    return marked


def format_text(table: Table, width: int) -> str:
    """A table for a terminal; columns that do not fit into ``width`` follow below.

    Nothing is cut off: a single column may be wider than the terminal.
    """
    labels = ["", "", *(row.label for row in table.rows)]
    margin = max(map(len, labels))
    parts: list[list[list[str]]] = []
    used = width
    for n, heading in enumerate(table.columns):
        column = [*heading, *(row.cells[n].text for row in table.rows)]
        size = max(map(len, column))
        if not parts or used + size + 2 > width:
            parts.append([[f"{label:<{margin}}" for label in labels]])
            used = margin
        parts[-1].append([f"{text:>{size}}" for text in column])
        used += size + 2
    lines = []
    for part in parts:
        groups, *rows = ["  ".join(cells).rstrip() for cells in zip(*part, strict=True)]
        lines += [*([groups] if groups else []), *rows, ""]
    return "\n".join(lines)


def format_html(table: Table) -> str:
    """A table that scrolls where it is wider than the page."""
    head = ""
    if any(group for group, _ in table.columns):
        cells = [
            f'<th colspan="{len(list(members))}">{escape(group)}</th>'
            for group, members in groupby(table.columns, key=lambda column: column[0])
        ]
        head = f'<tr class="groups"><th></th>{"".join(cells)}</tr>'
    names = "".join(f"<th>{escape(name)}</th>" for _, name in table.columns)
    blocks = groupby(table.rows, key=lambda row: row.block)
    bodies = (f"<tbody>{''.join(map(_html_row, rows))}</tbody>" for _, rows in blocks)
    return (
        f'<div class="wide"><table class="numbers"><thead>{head}<tr><th></th>{names}</tr></thead>'
        f"{''.join(bodies)}</table></div>"
    )


def note_html(note: str, printed: Sequence[Table]) -> str:
    """What stands below a table or a figure."""
    shown = f'<p class="note">{escape(note)}</p>'
    if printed:
        tables = "".join(f"<p>{escape(table.title)}</p>{format_html(table)}" for table in printed)
        shown += f"<details><summary>The paper’s numbers</summary>{tables}</details>"
    return shown


def note_markdown(note: str, printed: Sequence[Table]) -> str:
    """What stands below a table or a figure."""
    parts = [note]
    for table in printed:
        caption = f" ({table.title})" if table.title else ""
        parts += [f"The paper's numbers{caption}:", format_markdown(table)]
    return join_parts(parts)


def join_parts(parts: Sequence[str]) -> str:
    """Paragraphs of Markdown; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def _html_row(row: Row) -> str:
    cells = (
        f"<td{'' if cell.value is not None else ' class=none'}>"
        f"{f'<b>{escape(cell.text)}</b>' if cell.best else escape(cell.text)}</td>"
        for cell in row.cells
    )
    return f"<tr><th>{escape(row.label)}</th>{''.join(cells)}</tr>"


def _texts(table: Table, bold: str, escaped: Callable[[str], str]) -> list[list[str]]:
    """The headings, then each row, with the best values put into ``bold``."""
    lines = [["", *map(escaped, table.headings)]]
    for row in table.rows:
        texts = [(escaped(cell.text), cell.best) for cell in row.cells]
        marked = [bold.format(text) if best else text for text, best in texts]
        lines.append([escaped(row.label), *marked])
    return lines


def format_markdown(table: Table) -> str:
    """A table with the best values in bold."""
    head, *rows = _texts(table, "**{}**", lambda text: text.replace("|", "\\|"))
    rule = ["---", *("---:" for _ in table.columns)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows))


def format_csv(table: Table) -> str:
    """A header line, then a line for each row: unrounded numbers, texts where there are none."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["", *table.headings])
    for row in table.rows:
        cells = [cell.text if cell.value is None else cell.value for cell in row.cells]
        writer.writerow([row.label, *cells])
    return stream.getvalue()


def format_latex(table: Table) -> str:
    """A ``tabular`` with the rules of the package booktabs."""
    texts = _texts(table, "\\textbf{{{}}}", escape_latex)
    head, *rows = [" & ".join(line) + r" \\" for line in texts]
    lines = [f"\\begin{{tabular}}{{l{'r' * len(table.columns)}}}", "\\toprule", head]
    for _, block in groupby(zip(table.rows, rows, strict=True), key=lambda row: row[0].block):
        lines += ["\\midrule", *(line for _, line in block)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def escape_latex(text: str) -> str:
    """Text as LaTeX."""
    return "".join(_LATEX.get(character, character) for character in text)
