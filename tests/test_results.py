"""The tables of docs/results.md say what the kept reports say."""

import json
import re
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "recall" / "results"
PAPER = ROOT / "bench" / "documents" / "results"
FIRST, SECOND = "paper-europarl-et-en.json", "paper-europarl-et-en/report.json"
PRINTED = {
    "S-NMT": (SECOND, "S-NMT"),
    "control": (FIRST, "S-NMT, more training"),
    "Memory-to-Context, +both": (FIRST, "+both mems, to context"),
    "Memory-to-Context, +src": (SECOND, "+src mem, to context"),
}
PAGE = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
SYSTEMS = {
    "sentence model": "S-NMT",
    "the target of the best match, copied": "copy of the best match",
    "+ recall from the memory": "+recall",
    "+ recall from approved sentences": "+approved",
    "+ both": "+recall, +approved",
    "control: a memory of another domain": "+recall, another domain",
    "control: random pairs of the memory": "+recall, random pairs",
    "control: an empty memory": "+recall, empty memory",
}
NUMBER = re.compile(r"[+−-]?\d*\.\d+")


def read_table(heading: str) -> dict[str, dict[str, str]]:
    """A table of the page by the first words of its heading: cells by row and column."""
    lines = PAGE[PAGE.index(f"| {heading}") :].split("\n\n")[0].splitlines()
    rows = [[cell.strip().replace("**", "") for cell in line.split("|")[1:-1]] for line in lines]
    names = rows[0][1:]
    return {label: dict(zip(names, cells, strict=True)) for label, *cells in rows[2:]}


def read_report(corpus: str, table: str) -> dict[str, list[str]]:
    report = json.loads((RESULTS / f"{corpus}.json").read_text(encoding="utf-8"))
    (found,) = (each for each in report["tables"] if each["name"] == table)
    return {row["label"]: row["texts"] for row in found["rows"]}


def numbers(text: str) -> list[float]:
    return [float(found.replace("−", "-")) for found in NUMBER.findall(text)]


def cells(heading: str) -> list[Any]:
    table = read_table(heading)
    return [
        pytest.param(label, corpus, cell, id=f"{corpus}, {label}")
        for label, row in table.items()
        for corpus, cell in row.items()
        if NUMBER.search(cell)
    ]


@pytest.mark.parametrize(("label", "corpus", "cell"), cells("BLEU (difference, p)"))
def test_what_recall_gains(label: str, corpus: str, cell: str) -> None:
    bleu, *_, difference, p = read_report(corpus, "What people have translated")[SYSTEMS[label]]
    mean, spread = numbers(bleu)
    said, *rest = numbers(cell)
    assert said == mean
    if label == "sentence model":
        assert (fmean(rest), stdev(rest)) == pytest.approx((mean, spread), abs=0.011)
    elif rest:
        assert abs(rest[0] - float(difference)) < 0.005
        digits = len(NUMBER.findall(cell)[2].partition(".")[2])
        assert rest[1] == round(float(p), digits)


@pytest.mark.parametrize(("label", "corpus", "cell"), cells("characters that a translator"))
def test_what_is_left_to_change(label: str, corpus: str, cell: str) -> None:
    left, _, saved, *_ = read_report(corpus, "Effort")[SYSTEMS[label]]
    assert cell.split()[0] == left
    if "saved" in cell:
        share = cell.split("(")[1].split()[0]
        assert float(share) == round(float(saved), len(share.partition(".")[2]))


@pytest.mark.parametrize(("label", "model", "cell"), cells("BLEU (p over documents"))
def test_what_a_neighbour_is_worth(label: str, model: str, cell: str) -> None:
    models = json.loads((RESULTS / "gnome-help-de-en.json").read_text(encoding="utf-8"))["models"]
    run = {"the neighbour's model": "dynamics365-de-en", "its own model": "gnome-help-de-en"}[model]
    names = {
        "the neighbour’s memory": "neighbour",
        "its own memory": "own",
        "both memories": "own + neighbour",
        "approved sentences alone": "approved",
        "both memories and approved sentences": "own + neighbour + approved",
    }
    (found,) = (s for s in models[run]["systems"] if s["name"] == names.get(label, label))
    bleu, *p = numbers(cell)
    assert bleu == round(found["scores"]["bleu"], 2)
    if p:
        digits = len(NUMBER.findall(cell)[1].partition(".")[2])
        tests = found["against"]["bleu"]["randomisation"]
        assert p[0] == round(tests["document"], digits)


@pytest.mark.parametrize(("label", "column", "cell"), cells("the paper as printed"))
def test_the_paper_as_printed(label: str, column: str, cell: str) -> None:
    if column == "the paper's BLEU":
        return
    file, name = next(found for start, found in PRINTED.items() if label.startswith(start))
    report = json.loads((PAPER / file).read_text(encoding="utf-8"))
    (table,) = (each for each in report["tables"] if each["name"] == "All systems")
    (row,) = (each for each in table["rows"] if each["label"] == name)
    values = dict(zip(table["columns"], row["values"], strict=True))
    (curves,) = (each for each in report["figures"] if each["name"] == "Learning curves")
    series = {k: v for chart in curves["charts"] for k, v in chart["series"].items()}
    points = series.get(name) or series[f"{name}, seed 1"]
    values |= {"TER": values["TER ↓"], "dev perplexity": min(y for _, y in points)}
    assert cell == f"{values[column]:.2f}"


@pytest.mark.parametrize(
    ("file", "label", "bleu"),
    [(SECOND, "+src, shuffled", "9.93"), (FIRST, "+both, shuffled", "7.50")],
)
def test_what_another_document_gives(file: str, label: str, bleu: str) -> None:
    report = json.loads((PAPER / file).read_text(encoding="utf-8"))
    (table,) = (each for each in report["tables"] if each["name"] == "Table 2")
    (row,) = (each for each in table["rows"] if each["label"] == label)
    assert row["texts"][0] == bleu
    assert f"{bleu} BLEU" in PAGE
