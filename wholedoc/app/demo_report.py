"""How the tour is shown: a table and a document in the terminal, the same as a page."""

import re
from collections import defaultdict
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from wholedoc.app.demo import DemoMeasures, DemoSystem, Tour
from wholedoc.files import write_atomically
from wholedoc.rendering.page import escape, make_page, make_table
from wholedoc.synthetic.bounds import KINDS, Information, KeyItem

_LABELS = {"pronoun": "pronouns", "topic": "topic words", "name": "names"}
_BOUNDS: dict[Information, str] = {
    "sentence": "best: sentence",
    "source": "best: source",
    "both": "best: both sides",
}
_TOKEN = re.compile(r"\w+|\W+")


def print_tour(tour: Tour) -> None:
    """Show the measures and a sample document on standard output."""
    Console().print(Group("", _table(tour), "", *_sample_lines(tour)))


def _rows(tour: Tour) -> list[list[str]]:
    """The measures of each system and its control, then the bounds."""
    rows = []
    for system in tour.systems:
        rows.append([system.name, *_measured(system.measures)])
        if system.shuffled is not None:
            rows.append([f"{system.name}, shuffled", *_measured(system.shuffled)])
    kinds = tour.systems[0].measures.phenomena.kinds
    for information, label in _BOUNDS.items():
        best = [kinds[kind].best[information] for kind in KINDS]
        bounds = [f"{100 * b.accuracy:.1f} ± {100 * b.deviation:.1f}" for b in best]
        rows.append([label, "", *bounds, _percent(best[-1].consistency)])
    return rows


def _measured(measures: DemoMeasures) -> list[str]:
    kinds = measures.phenomena.kinds
    accuracies = [_percent(kinds[kind].accuracy) for kind in KINDS]
    return [f"{measures.bleu.value:.1f}", *accuracies, _percent(kinds["name"].consistency)]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


_COLUMNS = ["right, %", "BLEU", *_LABELS.values(), "consistency"]


def _table(tour: Tour) -> Table:
    table = Table(title="Words that only the rest of the document can settle")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == _COLUMNS[0] else "right")
    for row in _rows(tour):
        table.add_row(*row)
    return table


def _sample(tour: Tour) -> int:
    """The document to show: the shortest one with every kind of item."""
    kinds = defaultdict(set)
    for item in tour.key:
        kinds[item.document].add(item.kind)
    whole = [d for d, doc in enumerate(tour.documents) if len(kinds[doc.name]) == len(KINDS)]
    return min(whole or [0], key=lambda d: len(tour.documents[d]))


def _marked(tour: Tour, system: DemoSystem, d: int) -> list[list[tuple[str, str]]]:
    """The translation of a document in pieces, each with a mark: "", "right" or "wrong".

    Marked are the items of the key and, with a name, the particles that agree with its style.
    """
    items: defaultdict[int, list[KeyItem]] = defaultdict(list)
    for item in tour.key:
        if item.document == tour.documents[d].name:
            items[item.sentence].append(item)
    lines = []
    for t, line in enumerate(system.translations[d]):
        right = {item.expected for item in items[t]}
        wrong = {word for item in items[t] for word in item.alternatives}
        for item in items[t]:
            if item.kind == "name":
                style = item.renderings.index(item.expected)
                right.add(tour.particles[style])
                wrong.add(tour.particles[1 - style])
        lines.append(
            [
                (piece, "right" if piece in right else "wrong" if piece in wrong else "")
                for piece in _TOKEN.findall(line)
            ]
        )
    return lines


def _shown(tour: Tour) -> tuple[DemoSystem, DemoSystem]:
    """The systems whose translations stand side by side: without and with the document."""
    return tour.systems[0], tour.systems[-1]


def _sample_lines(tour: Tour) -> list[Text]:
    d = _sample(tour)
    styles = {"right": "bold green", "wrong": "bold red underline", "": ""}
    lines = [Text(f"Document {tour.documents[d].name}:", "bold")]
    marked = [(system.name, _marked(tour, system, d)) for system in _shown(tour)]
    width = max(len(name) for name, _ in marked)
    for t, pair in enumerate(tour.documents[d]):
        lines.append(Text(f"  {'':{width}}  {pair.src}", "dim"))
        for name, sentences in marked:
            pieces = ((text, styles[mark]) for text, mark in sentences[t])
            lines.append(Text.assemble(f"  {name:{width}}  ", *pieces))
    return lines


def write_report(path: Path, tour: Tour) -> None:
    """The tour as one HTML page that opens from disk."""
    rows = [[escape(cell) for cell in row] for row in _rows(tour)]
    measures = make_table(_COLUMNS, rows, "measures")
    body = _BODY.format(measures=measures, sample=_html_sample(tour))
    write_atomically(path, make_page("wholedoc demo", body))


def _html_sample(tour: Tour) -> str:
    d = _sample(tour)
    marked = [_marked(tour, system, d) for system in _shown(tour)]
    rows = []
    for t, pair in enumerate(tour.documents[d]):
        translations = [
            "".join(
                f'<mark class="{mark}">{escape(text)}</mark>' if mark else escape(text)
                for text, mark in sentences[t]
            )
            for sentences in marked
        ]
        rows.append([escape(pair.src), *translations, escape(pair.trg)])
    titles = ["source", *(escape(system.name) for system in _shown(tour)), "reference"]
    return make_table(titles, rows)


_BODY = """<h1>What the rest of the document changed</h1>
<p>The corpus is artificial: the gender behind a pronoun, the sense of an ambiguous word and the
rendering of a name are told elsewhere in the document. The generator knows the best accuracy any
translator can reach from each kind of knowledge; ± is one standard deviation on this test set.
<i>s-nmt</i> translates sentence by sentence; the others read the rest of the document through a
memory of its source, of its translations, or both. <i>Shuffled</i>, they read the memory of another
document instead: what is gained there is not gained from context. <i>Best</i> is what the sentence,
the source document, or both sides allow. Consistency is the share of pairs of names in a document
that are spelled in one style.</p>
{measures}
<h2>A document</h2>
<p>Words that depend on the document are marked: <mark class="right">right</mark> or
<mark class="wrong">wrong</mark>.</p>
{sample}"""
