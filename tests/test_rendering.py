"""Tables and pages: what they hold in every format, and that they can be read on any screen."""

import csv
import re
from itertools import product

import pytest

from wholedoc.rendering.charts import Chart, Series
from wholedoc.rendering.tables import (
    Cell,
    Row,
    Table,
    make_page,
    make_table,
    mark_best,
    read_asset,
)

TABLE = Table(
    "Table 2",
    "Scores",
    {"": ["BLEU"], "kept": ["a|b", "terms_x"]},
    (
        Row("S-NMT", (Cell("1.50", 1.5), Cell("–"), Cell("30.0 ± 1", 30.04))),
        Row("<both> & 5 %", (Cell("2.25†", 2.25, best=True), Cell("12", 12), Cell("x<y"))),
        Row("control", (Cell("1", 1.0), Cell("2", 2.0), Cell("3", 3.0)), block=1),
    ),
)


def test_text_holds_every_cell_in_columns() -> None:
    assert TABLE.to_text(80).split("\n") == [
        "                     kept      kept",
        "               BLEU   a|b   terms_x",
        "S-NMT          1.50     –  30.0 ± 1",
        "<both> & 5 %  2.25†    12       x<y",
        "control           1     2         3",
        "",
    ]


@pytest.mark.parametrize("width", [1, 24, 30])
def test_what_does_not_fit_follows_below(width: int) -> None:
    text = TABLE.to_text(width)
    assert text.count("control") == {1: 3, 24: 3, 30: 2}[width]
    for row in TABLE.rows:
        assert all(cell.text in text for cell in row.cells)
    if width > 20:
        assert max(map(len, text.split("\n"))) <= width


def test_markdown_latex_and_html_escape_what_they_must() -> None:
    assert TABLE.to_markdown().split("\n")[:4] == [
        "|  | BLEU | kept a\\|b | kept terms_x |",
        "| --- | ---: | ---: | ---: |",
        "| S-NMT | 1.50 | – | 30.0 ± 1 |",
        "| <both> & 5 % | **2.25†** | 12 | x<y |",
    ]
    latex = TABLE.to_latex().split("\n")
    assert latex[2] == r" & BLEU & kept a|b & kept terms\_x \\"
    assert latex[4] == r"S-NMT & 1.50 & -- & 30.0 $\pm$ 1 \\"
    assert latex[5] == r"$<$both$>$ \& 5 \% & \textbf{2.25†} & 12 & x$<$y \\"
    assert latex[6:8] == [r"\midrule", r"control & 1 & 2 & 3 \\"]  # a rule between blocks
    html = TABLE.to_html()
    assert "<th>&lt;both&gt; &amp; 5 %</th><td><b>2.25†</b></td>" in html
    assert '<th colspan="2">kept</th>' in html
    assert html.count("<tbody>") == 2


def test_csv_holds_unrounded_numbers() -> None:
    rows = list(csv.reader(TABLE.to_csv().split("\n")[:-1]))
    assert rows[0] == ["", "BLEU", "kept a|b", "kept terms_x"]
    assert rows[1] == ["S-NMT", "1.5", "–", "30.04"]
    assert rows[2] == ["<both> & 5 %", "2.25", "12", "x<y"]


def test_the_best_of_a_column_is_marked_unless_all_are_equal() -> None:
    rows = [Row(str(x), (Cell(str(x), x), Cell("1", 1.0), Cell("–"))) for x in (1.0, 3.0, 2.0)]
    highest = [[cell.best for cell in row.cells] for row in mark_best(rows, range(3))]
    assert highest == [[False] * 3, [True, False, False], [False] * 3]
    assert [row.cells[0].best for row in mark_best(rows, (0,), lowest=True)] == [True, False, False]


def test_a_chart_is_a_table_too() -> None:
    lines = (Series("one", ((0.0, 1.0), (2.0, 3.0))), Series("two", ((2.0, 4.5),)))
    found = Chart("Loss", "epoch", "nats", lines).to_table()
    assert found.headings == ["epoch 0", "epoch 2"]
    assert [[cell.text for cell in row.cells] for row in found.rows] == [
        ["1.00", "3.00"],
        ["–", "4.50"],
    ]
    bars = Chart("", "", "BLEU", lines[:1], ("small", "b", "large")).to_table()
    assert bars.headings == ["small", "large"]


# Screens: dark ones, and narrow ones.

STYLES = {name: read_asset(f"{name}.css") for name in ("page", "explain", "experiment")}


def theme(dark: bool) -> dict[str, str]:
    """The colours of a page, by their names."""
    light, _, rest = STYLES["page"].partition("@media (prefers-color-scheme: dark)")
    found = re.findall(r"--(\w+): (#[0-9a-f]{6})\b", light)
    return dict(found) | (dict(re.findall(r"--(\w+): (#[0-9a-f]{6})\b", rest)) if dark else {})


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2, between 1 and 21."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_links_can_be_read_in_both_themes(dark: bool) -> None:
    colours = theme(dark)
    for text, ground in product(("ink", "quiet", "link"), ("back", "panel")):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert (contrast(colours["back"], "#000000") < 2) == dark


def test_links_and_controls_follow_the_theme() -> None:
    assert re.search(r":root \{ color-scheme: light dark;", STYLES["page"])
    assert "a { color: var(--link); }" in STYLES["page"]
    assert re.search(
        r"select, button \{[^}]*color: inherit; background: var\(--panel\);", STYLES["page"]
    )
    for name, style in STYLES.items():  # a fixed ground would stay white in the dark
        grounds = re.findall(r"background: (#[0-9a-f]+)", style)
        assert set(grounds) <= {"#d3f2d9", "#ffdcd7"}, name  # of words marked, with their own ink


def test_wide_tables_scroll() -> None:
    assert ".wide { overflow-x: auto; }" in STYLES["page"]
    page = make_page("x", make_table(["a"], [["b"]]) + TABLE.to_html())
    assert len(re.findall(r'<div class="wide"><table', page)) == page.count("<table") == 2
