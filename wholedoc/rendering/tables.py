"""Tables as values and how they are written: text, HTML, Markdown, CSV, LaTeX; HTML pages."""

import csv
import html
import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import groupby
from typing import Any

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


def number_cell(value: float | None, form: str = ",.1f", before: str = "", after: str = "") -> Cell:
    """A number as ``form`` has it; a dash where there is none."""
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
    columns: Mapping[str, Collection[str]]
    """The names of its columns, by group."""
    rows: Sequence[Row]
    note: str = ""
    """How to read it, and what the paper had there."""

    @property
    def headings(self) -> list[str]:
        """The group and the name of each column."""
        return [f"{group} {name}".strip() for group, name in self._columns]

    @property
    def _columns(self) -> list[tuple[str, str]]:
        return [(group, name) for group, names in self.columns.items() for name in names]

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

    def to_text(self, width: int) -> str:
        """The table for a terminal; columns that do not fit into ``width`` follow below.

        Nothing is cut off: a single column may be wider than the terminal.
        """
        labels = ["", "", *(row.label for row in self.rows)]
        margin = max(map(len, labels))
        parts: list[list[list[str]]] = []
        used = width
        for n, heading in enumerate(self._columns):
            column = [*heading, *(row.cells[n].text for row in self.rows)]
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

    def to_html(self) -> str:
        """The table, which scrolls where it is wider than the page."""
        head = ""
        if any(self.columns):
            cells = [
                f'<th colspan="{len(names)}">{escape(group)}</th>'
                for group, names in self.columns.items()
            ]
            head = f'<tr class="groups"><th></th>{"".join(cells)}</tr>'
        names = "".join(f"<th>{escape(name)}</th>" for _, name in self._columns)
        blocks = groupby(self.rows, key=lambda row: row.block)
        bodies = (f"<tbody>{''.join(map(_html_row, rows))}</tbody>" for _, rows in blocks)
        return (
            '<div class="wide"><table class="numbers">'
            f"<thead>{head}<tr><th></th>{names}</tr></thead>{''.join(bodies)}</table></div>"
        )

    def to_markdown(self) -> str:
        """The table with the best values in bold."""
        head, *rows = self._texts("**{}**", lambda text: text.replace("|", "\\|"))
        rule = ["---", *("---:" for _ in self.headings)]
        return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows))

    def to_csv(self) -> str:
        """A header line, then the rows: unrounded numbers, texts where there are none."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["", *self.headings])
        for row in self.rows:
            cells = [cell.text if cell.value is None else cell.value for cell in row.cells]
            writer.writerow([row.label, *cells])
        return stream.getvalue()

    def to_latex(self) -> str:
        """A ``tabular`` with the rules of the package booktabs."""
        texts = self._texts("\\textbf{{{}}}", escape_latex)
        head, *rows = [" & ".join(line) + r" \\" for line in texts]
        lines = [f"\\begin{{tabular}}{{l{'r' * len(self.headings)}}}", "\\toprule", head]
        for _, block in groupby(zip(self.rows, rows, strict=True), key=lambda row: row[0].block):
            lines += ["\\midrule", *(line for _, line in block)]
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])

    def _texts(self, bold: str, escaped: Callable[[str], str]) -> list[list[str]]:
        """The headings, then each row, with the best values put into ``bold``."""
        lines = [["", *map(escaped, self.headings)]]
        for row in self.rows:
            texts = [(escaped(cell.text), cell.best) for cell in row.cells]
            marked = [bold.format(text) if best else text for text, best in texts]
            lines.append([escaped(row.label), *marked])
        return lines


def _html_row(row: Row) -> str:
    cells = (
        f"<td{'' if cell.value is not None else ' class=none'}>"
        f"{f'<b>{escape(cell.text)}</b>' if cell.best else escape(cell.text)}</td>"
        for cell in row.cells
    )
    return f"<tr><th>{escape(row.label)}</th>{''.join(cells)}</tr>"


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


def join_parts(parts: Sequence[str]) -> str:
    """Paragraphs of Markdown; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def escape_latex(text: str) -> str:
    """Text as LaTeX."""
    return "".join(_LATEX.get(character, character) for character in text)


# Pages.


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
