"""How the report of an experiment is written: one HTML page, Markdown, JSON."""

import json
import re
from collections.abc import Iterable, Sequence, Set
from itertools import groupby
from pathlib import Path

from wholedoc.experiment.cells import LABELS
from wholedoc.experiment.examples import Example, Examples
from wholedoc.experiment.paper import Printed
from wholedoc.experiment.report import Block, Report
from wholedoc.files import write_atomically
from wholedoc.rendering.charts import draw
from wholedoc.rendering.page import draw_heat_map, escape, make_page
from wholedoc.rendering.tables import Figure, Row, Table

_PIECE = re.compile(r"\w+|\W+")


def write_reports(report: Report, out: Path) -> list[Path]:
    """Write ``report.html``, ``report.md`` and ``report.json`` into a directory."""
    texts = {
        "report.html": format_html(report),
        "report.md": format_markdown(report),
        "report.json": json.dumps(report.to_json(), ensure_ascii=False, indent=1) + "\n",
    }
    for name, text in texts.items():
        write_atomically(out / name, text)
    return [out / name for name in texts]


def format_markdown(report: Report) -> str:
    """The report as Markdown; figures as tables of their points."""
    parts = [f"# {report.title}", _bullets(report.facts)]
    if report.failed:
        parts += ["## Failed runs", _bullets(report.failed)]
    for block in report.blocks:
        parts.append(f"## {_heading(block)}")
        if isinstance(block, Examples):
            parts += [block.note, *map(_markdown_example, block.chosen)]
        else:
            found = _markdown_table(block) if isinstance(block, Table) else _markdown_points(block)
            parts.append(found)
            parts += [block.note, *map(_markdown_printed, block.printed)]
    parts += ["## Signatures", _bullets(report.signatures)]
    if report.missing:
        parts += ["## Missing measures", _bullets(report.missing)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heading(block: Block) -> str:
    return f"{block.name}: {block.title}"


def _bullets(values: dict[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in values.items())


def _markdown_table(table: Table) -> str:
    names = [f"{group} {name}".strip() for group, name in table.columns]
    rows = [
        [row.label, *(f"**{cell.text}**" if cell.best else cell.text for cell in row.cells)]
        for row in table.rows
    ]
    return _markdown_rows(["", *names], rows)


def _markdown_rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in head[1:])]
    lines = [[cell.replace("|", "\\|") for cell in row] for row in (head, rule, *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_points(figure: Figure) -> str:
    parts = []
    for chart in figure.charts:
        xs = sorted({x for line in chart.series for x, _ in line.points})
        names = [chart.groups[int(x)] if chart.groups else f"{chart.x} {x:g}" for x in xs]
        rows = []
        for line in chart.series:
            found = dict(line.points)
            rows.append([line.label, *(f"{found[x]:.2f}" if x in found else "–" for x in xs)])
        caption = f"{chart.title}, {chart.y}:" if chart.title else f"{chart.y}:"
        parts.append(f"{caption}\n\n{_markdown_rows(['', *names], rows)}")
    return "\n\n".join(parts)


def _markdown_printed(printed: Printed) -> str:
    caption = f"The paper's numbers{f' ({printed.caption})' if printed.caption else ''}:"
    rows = [[label, *numbers] for label, numbers in printed.rows]
    return f"{caption}\n\n{_markdown_rows(['', *printed.columns], rows)}"


def _markdown_example(example: Example) -> str:
    rows = [["Source", example.src], ["Target", example.trg]]
    rows += [[LABELS[system], text] for system, text in example.translations.items()]
    return f"{_choice(example)}\n\n{_markdown_rows(['', ''], rows)}"


def _choice(example: Example) -> str:
    """Why a sentence is shown."""
    return (
        f"{example.kind.capitalize()}: sentence {example.sentence + 1} of {example.document_name}, "
        f"chrF {example.change:+.1f} ({LABELS[example.system]} over S-NMT, seed {example.seed})."
    )


# HTML.


def format_html(report: Report) -> str:
    """The report as one page that needs nothing else."""
    sections = [_html_block(block) for block in report.blocks]
    contents = "".join(
        f'<li><a href="#{_anchor(block)}">{escape(_heading(block))}</a></li>'
        for block in report.blocks
    )
    body = (
        f"<h1>{escape(report.title)}</h1>\n{_html_facts(report.facts)}\n"
        f"{_html_failed(report.failed)}\n<nav><h2>Contents</h2><ol>{contents}</ol></nav>\n"
        f"{''.join(sections)}\n"
        '<section id="signatures"><h2>Signatures</h2><p class="note">All that repeats the numbers '
        f"above.</p>{_html_facts(report.signatures | _missing(report))}</section>"
    )
    return make_page(report.title, body, style="experiment.css")


def _missing(report: Report) -> dict[str, str]:
    return {name: f"missing: {reason}" for name, reason in report.missing.items()}


def _anchor(block: Block) -> str:
    return block.name.lower().replace(" ", "-")


def _html_facts(facts: dict[str, str]) -> str:
    rows = (f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    return f"<dl>{''.join(rows)}</dl>"


def _html_failed(failed: dict[str, str]) -> str:
    if not failed:
        return ""
    return f'<div class="failed"><h2>Failed runs</h2>{_html_facts(failed)}</div>'


def _html_block(block: Block) -> str:
    note = f'<p class="note">{escape(block.note)}</p>'
    if isinstance(block, Examples):
        body = note + _html_examples(block.chosen)
    else:
        body = _html_table(block) if isinstance(block, Table) else _html_figure(block)
        body += note
        if block.printed:
            printed = "".join(_html_printed(table) for table in block.printed)
            body += f"<details><summary>The paper’s numbers</summary>{printed}</details>"
    return f'<section id="{_anchor(block)}"><h2>{escape(_heading(block))}</h2>{body}</section>'


def _html_figure(figure: Figure) -> str:
    charts = (
        f"<figure><figcaption>{escape(chart.title)}</figcaption>{draw(chart)}</figure>"
        for chart in figure.charts
    )
    return f'<div class="charts">{"".join(charts)}</div>'


def _html_table(table: Table) -> str:
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
        f'<div class="wide"><table><thead>{head}<tr><th></th>{names}</tr></thead>'
        f"{''.join(bodies)}</table></div>"
    )


def _html_row(row: Row) -> str:
    cells = (
        f"<td{'' if cell.value is not None else ' class=none'}>"
        f"{f'<b>{escape(cell.text)}</b>' if cell.best else escape(cell.text)}</td>"
        for cell in row.cells
    )
    return f"<tr><th>{escape(row.label)}</th>{''.join(cells)}</tr>"


def _html_printed(printed: Printed) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in printed.columns)
    rows = "".join(
        f"<tr><th>{escape(label)}</th>{''.join(f'<td>{n}</td>' for n in numbers)}</tr>"
        for label, numbers in printed.rows
    )
    caption = f"<caption>{escape(printed.caption)}</caption>" if printed.caption else ""
    return f'<div class="wide"><table>{caption}<tr><th></th>{head}</tr>{rows}</table></div>'


def _html_examples(examples: Sequence[Example]) -> str:
    if not examples:
        return "<p>No translation differs.</p>"
    return (
        '<p class="note"><mark class="right">Blue</mark> words stand in the reference and not in '
        'every translation shown, <mark class="wrong">red</mark> ones not in the reference. The '
        "maps show whom each sentence of the document reads in the last pass; the framed row is "
        f"the sentence shown.</p>{''.join(map(_html_example, examples))}"
    )


def _html_example(example: Example) -> str:
    rows = [("Source", escape(example.src)), ("Target", escape(example.trg))]
    everywhere = _words(example.trg).intersection(*map(_words, example.translations.values()))
    for system, text in example.translations.items():
        rows.append((LABELS[system], _marked(text, example.trg, everywhere)))
    body = "".join(f"<tr><th>{escape(name)}</th><td>{text}</td></tr>" for name, text in rows)
    maps = "".join(
        draw_heat_map(weights, f"{side.capitalize()} memory", side, example.sentence)
        for side, weights in example.weights.items()
    )
    return (
        f"<h3>{escape(_choice(example))}</h3>"
        f'<div class="wide"><table class="example">{body}</table></div>'
        f'<div class="maps">{maps}</div>'
    )


def _marked(text: str, reference: str, everywhere: Set[str]) -> str:
    """A translation with the words marked that tell it from the reference and from others."""
    known = _words(reference)
    pieces = []
    for piece in _PIECE.findall(text):
        word, shown = piece.lower(), escape(piece)
        if not piece[0].isalnum() or word in everywhere:
            pieces.append(shown)
        else:
            kind = "right" if word in known else "wrong"
            pieces.append(f'<mark class="{kind}">{shown}</mark>')
    return "".join(pieces)


def _words(text: str) -> set[str]:
    return set(_PIECE.findall(text.lower()))
