"""How the report of an experiment is written: one HTML page, Markdown, JSON."""

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from wholedoc.app.charts import draw
from wholedoc.evaluation.cells import LABELS
from wholedoc.evaluation.examples import Example
from wholedoc.evaluation.paper import Printed
from wholedoc.evaluation.report import Report
from wholedoc.evaluation.tables import Figure, Row, Table
from wholedoc.files import write_atomically

_WORD = re.compile(r"\w+|\W+")


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
        if isinstance(block, Table):
            parts.append(_markdown_table(block))
        else:
            parts += [_markdown_points(block)]
        parts.append(block.note)
        parts += [_markdown_printed(printed) for printed in block.printed]
    parts += ["## Table 7: Examples", *(_markdown_example(e) for e in report.examples)]
    parts += ["## Signatures", _bullets(report.signatures)]
    if report.missing:
        parts += ["## Missing measures", _bullets(report.missing)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heading(block: Table | Figure) -> str:
    return f"{block.name}: {block.title}" if block.title else block.name


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
    # Table 7 stands after the other tables and figures of the paper.
    place = 1 + [block.name for block in report.blocks].index("Figure 3")
    sections.insert(place, _html_examples(report.examples))
    titles = [_heading(block) for block in report.blocks]
    titles.insert(place, "Table 7: Examples")
    contents = "".join(
        f'<li><a href="#{_anchor(title)}">{html.escape(title)}</a></li>' for title in titles
    )
    return _PAGE.format(
        title=html.escape(report.title),
        facts=_html_facts(report.facts),
        failed=_html_failed(report.failed),
        contents=contents,
        sections="\n".join(sections),
        signatures=_html_facts(report.signatures | _missing(report)),
    )


def _missing(report: Report) -> dict[str, str]:
    return {name: f"missing: {reason}" for name, reason in report.missing.items()}


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.partition(":")[0].lower()).strip("-")


def _html_facts(facts: dict[str, str]) -> str:
    rows = (f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items())
    return f"<dl>{''.join(rows)}</dl>"


def _html_failed(failed: dict[str, str]) -> str:
    if not failed:
        return ""
    return f'<div class="failed"><h2>Failed runs</h2>{_html_facts(failed)}</div>'


def _html_block(block: Table | Figure) -> str:
    heading = _heading(block)
    if isinstance(block, Table):
        body = _html_table(block)
    else:
        figures = (
            f"<figure><figcaption>{html.escape(chart.title)}</figcaption>{draw(chart)}</figure>"
            for chart in block.charts
        )
        body = f'<div class="charts">{"".join(figures)}</div>'
    printed = "".join(_html_printed(table) for table in block.printed)
    if printed:
        printed = f"<details><summary>The paper’s numbers</summary>{printed}</details>"
    return (
        f'<section id="{_anchor(heading)}"><h2>{html.escape(heading)}</h2>{body}'
        f'<p class="note">{html.escape(block.note)}</p>{printed}</section>'
    )


def _html_table(table: Table) -> str:
    head = ""
    if any(group for group, _ in table.columns):
        cells = [
            f'<th colspan="{len(list(members))}">{html.escape(group)}</th>'
            for group, members in groupby(table.columns, key=lambda column: column[0])
        ]
        head = f'<tr class="groups"><th></th>{"".join(cells)}</tr>'
    names = "".join(f"<th>{html.escape(name)}</th>" for _, name in table.columns)
    blocks = groupby(table.rows, key=lambda row: row.block)
    bodies = (f"<tbody>{''.join(map(_html_row, rows))}</tbody>" for _, rows in blocks)
    return (
        f'<div class="wide"><table><thead>{head}<tr><th></th>{names}</tr></thead>'
        f"{''.join(bodies)}</table></div>"
    )


def _html_row(row: Row) -> str:
    cells = (
        f"<td{'' if cell.value is not None else ' class=none'}>"
        f"{f'<b>{html.escape(cell.text)}</b>' if cell.best else html.escape(cell.text)}</td>"
        for cell in row.cells
    )
    return f"<tr><th>{html.escape(row.label)}</th>{''.join(cells)}</tr>"


def _html_printed(printed: Printed) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in printed.columns)
    rows = "".join(
        f"<tr><th>{html.escape(label)}</th>{''.join(f'<td>{n}</td>' for n in numbers)}</tr>"
        for label, numbers in printed.rows
    )
    caption = f"<caption>{html.escape(printed.caption)}</caption>" if printed.caption else ""
    return f'<div class="wide"><table>{caption}<tr><th></th>{head}</tr>{rows}</table></div>'


def _html_examples(examples: Sequence[Example]) -> str:
    shown = "".join(_html_example(example) for example in examples)
    return (
        '<section id="table-7"><h2>Table 7: Examples</h2>'
        '<p class="note">Chosen by rule, not by hand as in the paper: of all sentences of the test '
        "set, those whose chrF rises and falls most from S-NMT to the system with both memories. "
        '<mark class="right">Blue</mark> words stand in the reference and not in every '
        'translation shown, <mark class="wrong">red</mark> ones not in the reference.</p>'
        f"{shown or '<p>No translation differs.</p>'}</section>"
    )


def _html_example(example: Example) -> str:
    rows = [("Source", html.escape(example.src)), ("Target", html.escape(example.trg))]
    everywhere = Counter(_WORD.findall(example.trg.lower()))
    for text in example.translations.values():
        everywhere &= Counter(_WORD.findall(text.lower()))
    for system, text in example.translations.items():
        rows.append((LABELS[system], _marked(text, example.trg, everywhere)))
    body = "".join(f"<tr><th>{html.escape(name)}</th><td>{text}</td></tr>" for name, text in rows)
    return (
        f"<h3>{html.escape(_choice(example))}</h3>"
        f'<div class="wide"><table class="example">{body}</table></div>'
    )


def _marked(text: str, reference: str, everywhere: Counter[str]) -> str:
    """A translation with the words marked that tell it from the reference and from others."""
    known = Counter(_WORD.findall(reference.lower()))
    pieces = []
    for piece in _WORD.findall(text):
        word, shown = piece.lower(), html.escape(piece)
        if not piece.strip() or not (piece[0].isalnum() or piece.strip() not in ".,;:!?"):
            pieces.append(shown)
        elif not known[word]:
            pieces.append(f'<mark class="wrong">{shown}</mark>')
        elif not everywhere[word]:
            pieces.append(f'<mark class="right">{shown}</mark>')
        else:
            pieces.append(shown)
    return "".join(pieces)


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem;
         padding: 0 1rem; color: #1b1f24; background: #fff; }}
  h1 {{ margin-bottom: .2rem; }}
  h2 {{ font-size: 1.2rem; margin: 0 0 .5rem; }}
  h3 {{ font-size: 1rem; font-weight: 600; margin: 1.2rem 0 .3rem; }}
  section {{ margin: 2.2rem 0; }}
  dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .5rem 0; }}
  dt {{ color: #57606a; }} dd {{ margin: 0; overflow-wrap: anywhere; }}
  nav ol {{ columns: 2; padding-left: 1.2rem; margin: 0; }}
  .wide {{ overflow-x: auto; }}
  table {{ border-collapse: collapse; }}
  th, td {{ padding: .25rem .8rem; text-align: right; font-variant-numeric: tabular-nums;
         white-space: nowrap; }}
  tr > th:first-child {{ text-align: left; font-weight: 500; padding-left: 0; }}
  thead th {{ font-weight: 600; border-bottom: 1px solid #1b1f24; }}
  thead .groups th {{ border-bottom: 0; text-align: center; }}
  thead .groups th + th {{ border-bottom: 1px solid #d8dee4; }}
  tbody + tbody tr:first-child > * {{ border-top: 1px solid #1b1f24; }}
  section > .wide > table {{ border-top: 2px solid #1b1f24; border-bottom: 2px solid #1b1f24; }}
  td.none {{ color: #8b949e; }}
  .note {{ color: #57606a; max-width: 52rem; margin: .5rem 0; }}
  details {{ margin: .4rem 0; color: #57606a; font-size: .87rem; }}
  summary {{ cursor: pointer; }}
  caption {{ text-align: left; padding-top: .5rem; }}
  .charts {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr));
         gap: 1rem; }}
  figure {{ margin: 0; }}
  figcaption {{ font-weight: 600; }}
  svg {{ width: 100%; max-width: 34rem; height: auto; font: 11px system-ui, sans-serif; }}
  svg text {{ fill: currentColor; }} svg .grid {{ stroke: #d8dee4; }}
  .legend span {{ display: inline-block; margin-right: 1rem; font-size: .85rem; }}
  .legend i {{ display: inline-block; width: 1.6em; vertical-align: middle;
         margin-right: .35em; }}
  .example th, .example td {{ text-align: left; white-space: normal; vertical-align: top; }}
  mark {{ background: none; font-weight: 600; }}
  mark.right {{ color: #0b57b0; }}
  mark.wrong {{ color: #b3261e; }}
  .failed {{ border-left: 4px solid #b3261e; padding: .2rem 1rem; margin: 1.5rem 0; }}
  @media print {{
    body {{ margin: 0; max-width: none; font-size: 11px; }}
    section, figure, tr {{ break-inside: avoid; }}
    nav {{ display: none; }}
  }}
</style>
<h1>{title}</h1>
{facts}
{failed}
<nav><h2>Contents</h2><ol>{contents}</ol></nav>
{sections}
<section id="signatures"><h2>Signatures</h2>
<p class="note">All that repeats the numbers above.</p>{signatures}</section>
</html>
"""
