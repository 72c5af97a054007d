"""Tables and figures that the paper does not have, or only tells of."""

from collections.abc import Sequence
from math import fsum
from pathlib import Path

from wholedoc.experiment.cells import (
    COLOURS,
    FUSIONS,
    LABELS,
    NONE,
    SPREAD,
    CellMaker,
    mean_cell,
    share_cell,
)
from wholedoc.experiment.grid import BASELINE, MEMORY_SYSTEMS, Job, SystemName
from wholedoc.experiment.results import RunResults
from wholedoc.experiment.scores import Entry
from wholedoc.metrics.discourse import Discourse
from wholedoc.metrics.metrics import DiscourseShares, Unknown, corpus_bleu
from wholedoc.metrics.phenomena import measure, read_key
from wholedoc.metrics.words import Splitter
from wholedoc.rendering.tables import Cell, Chart, Figure, Row, Series, Table, mark_best
from wholedoc.synthetic import INFORMATION, KINDS

_READERS: tuple[SystemName, ...] = (*MEMORY_SYSTEMS, "jean2017", "wang2017", "prevtrg")
_GAINS = ("cxmi", "over_sentence_model", "shuffled_change")
_FAR = 10
_DISCOURSE = (*DiscourseShares.names, *Unknown.names)
_INFORMATION = {"sentence": "the sentence", "source": "the source", "both": "both sides"}


def artificial_table(make: CellMaker, key: Path) -> Table:
    """The words of the artificial corpus that only the document settles."""
    items = read_key(key)
    rows = []
    best = measure(items, make.results.references).kinds
    entries = [Entry(system) for system in make.config.systems]
    for entry in entries:
        found = [measure(items, lines).kinds for lines in make.scores.translations(entry)]
        cells = []
        for kind in KINDS:
            values = [100 * kinds[kind].accuracy for kinds in found]
            cells.append(mean_cell(values) if values else Cell(make.absence(entry)))
        rows.append(Row(LABELS[entry.system], tuple(cells)))
    rows = mark_best(rows, range(len(KINDS)))
    for information in INFORMATION:
        bounds = [100 * best[kind].best[information].accuracy for kind in KINDS]
        cells = [Cell(f"{bound:.1f}", bound) for bound in bounds]
        rows.append(Row(f"best from {_INFORMATION[information]}", tuple(cells), 1))
    return Table(
        "Words that need their document",
        "Share translated right, %",
        tuple(("", name) for name in ("pronouns", "topic words", "names")),
        tuple(rows),
        "The corpus is artificial: below the rule stands the best that any translator can "
        "reach from the sentence, from the source document and from both sides.",
    )


def discourse_table(make: CellMaker) -> Table:
    """The paper's output analysis, counted instead of looked at."""
    data = make.results.config.data
    test = Discourse(
        make.results.sources,
        make.results.references,
        make.results.sizes,
        splitters=(Splitter(data.src_language), Splitter(data.trg_language)),
    )
    rows = [
        Row(LABELS[system], _discourse_cells(make, test, system)) for system in make.config.systems
    ]
    names = ("of source words", "÷ reference’s", "right", "names", "terms", "<unk>")
    groups = ("consistency", "consistency", "pronouns", "kept", "kept", "")
    errors_of = (("errors of S-NMT", "corrected"), ("errors of S-NMT", "new"))
    return Table(
        "Output analysis",
        "Consistency, pronouns, names, errors",
        (*zip(groups, names, strict=True), *errors_of),
        tuple(rows),
        f"Per cent, mean {SPREAD}; † significantly better than S-NMT. Consistency is "
        "the share of repeated source words translated alike, pronouns right and repeated names "
        "and terms kept are shares of the reference’s, new errors are per error of S-NMT. "
        f"How they are counted: {test.signature}. The paper looked at documents by hand: "
        "22 of 32 repeated words consistent against 16 of S-NMT; of 20 errors of S-NMT 85 % "
        "corrected, and 10 % new ones.",
    )


def _discourse_cells(make: CellMaker, test: Discourse, system: SystemName) -> tuple[Cell, ...]:
    """The discourse measures of a system, and what became of the errors of the sentence model."""
    entry, runs = Entry(system), make.results.of(system)
    if not runs:
        return Cell(make.absence(entry)), *(NONE,) * 7
    pairs = [(make.results.runs.get(Job(BASELINE, run.job.seed)), run) for run in runs]
    errors = [
        test.compare(base.translations, run.translations).total.all.rates()
        for base, run in pairs
        if base is not None and base is not run
    ]
    measures = make.scored("", entry, _DISCOURSE, {"†": BASELINE}).cells
    return (
        *measures,
        share_cell([rates["corrected_share"] for rates in errors]),
        share_cell([rates["new_share"] for rates in errors]),
    )


def context_use_table(make: CellMaker) -> Table:
    """What the references gain from the document, in bits per word."""
    rows = []
    for system in _READERS:
        runs = [run for run in make.results.of(system) if run.figures["context_use"]]
        found = [run.figures["context_use"] for run in runs]
        if not found:
            rows.append(Row(LABELS[system], (Cell(make.absence(Entry(system))), *(NONE,) * 4)))
            continue
        shown = [_bits([use[gain] for use in found]) for gain in _GAINS]
        for side in ("source", "target"):
            read = [use[side]["effective"] for use in found if use[side] is not None]
            shown.append(mean_cell(read) if read else NONE)
        rows.append(Row(LABELS[system], tuple(shown)))
    return Table(
        "Use of context",
        "Does a system use the document?",
        (
            ("bits per word", "CXMI"),
            ("bits per word", "over S-NMT"),
            ("bits per word", "shuffled"),
            ("sentences read", "source"),
            ("sentences read", "target"),
        ),
        tuple(rows),
        "Of the references of the test set, mean over the seeds. CXMI: what the document is worth "
        "to a system, against reading nothing; over S-NMT: against the sentence model it began "
        "with; shuffled: the change if another document is read, below 0 where the right one "
        "helps. Sentences read: 2 to the entropy of the weights, how many others a sentence reads "
        "in effect.",
    )


def distance_figure(make: CellMaker) -> Figure:
    """How far from a sentence stand those that it reads."""
    charts = []
    for side in ("source", "target"):
        series = []
        uniform: dict[str, float] = {}
        for system in MEMORY_SYSTEMS:
            uses = [run.figures["context_use"] for run in make.results.of(system)]
            read = [use[side] for use in uses if use and use[side] is not None]
            if read:
                points = _distances([reading["distances"] for reading in read])
                dashed = system.endswith("output")
                series.append(Series(LABELS[system], points, COLOURS[system], dashed))
                uniform = read[0]["uniform_distances"]
        if series:
            series.insert(0, Series("all others alike", _distances([uniform])))
            title = f"{side.capitalize()} memory"
            charts.append(Chart("lines", title, "distance", "weight, %", tuple(series)))
    return Figure(
        "Distances",
        "How far from a sentence stand those that it reads",
        tuple(charts),
        f"Share of all weight by distance in sentences, mean over the seeds; below 0 is before. "
        f"Up to {_FAR} sentences on either side.",
    )


def metric_table(make: CellMaker) -> Table:
    """Every system under every metric."""
    names = {
        "bleu": "BLEU",
        "document_bleu": "doc BLEU",
        "chrf": "chrF",
        "ter": "TER ↓",
        "meteor": "METEOR",
    }
    against: dict[str, SystemName] = {"†": BASELINE}
    rows = [make.scored(LABELS[s], Entry(s), tuple(names), against) for s in make.config.systems]
    rows = mark_best(mark_best(rows, (0, 1, 2, 4)), (3,), lowest=True)
    return Table(
        "All systems",
        "Every system under every measure",
        tuple(("", name) for name in names.values()),
        tuple(rows),
        f"Mean {SPREAD}. Bold: the best; † significantly better than S-NMT.",
    )


def learning_figure(make: CellMaker) -> Figure:
    """Dev perplexity, epoch by epoch."""
    first = [
        Series(f"S-NMT, seed {run.job.seed}", tuple(_curve(run, "stage1")), n % 8)
        for n, run in enumerate(make.results.of(BASELINE))
    ]
    charts = [Chart("lines", "Stage 1", "epoch", "dev perplexity", tuple(first))]
    groups: dict[str, Sequence[SystemName]] = {
        f"Stage 2, {title}": tuple(systems.values()) for title, systems in FUSIONS.items()
    }
    groups["Stage 2, local context"] = ["jean2017", "wang2017", "prevtrg"]
    for title, systems in groups.items():
        series = [
            Series(LABELS[system], _mean_curve(make.results.of(system)), COLOURS[system])
            for system in (*systems, "more")
            if make.results.of(system)
        ]
        charts.append(Chart("lines", title, "epoch", "dev perplexity", tuple(series)))
    return Figure(
        "Learning curves",
        "Perplexity of the dev set after each epoch",
        tuple(chart for chart in charts if chart.series),
        "Mean over the seeds. Stage 2 begins, at 0, with the sentence model of stage 1.",
    )


def passes_figure(make: CellMaker) -> Figure:
    """BLEU after each pass."""
    systems: list[SystemName] = [*MEMORY_SYSTEMS, "prevtrg"]
    references = make.results.references
    series = []
    for system in systems:
        runs = make.results.of(system)
        count = min((len(run.passes) for run in runs), default=0)
        points = []
        for number in range(count):
            found = [corpus_bleu(run.passes[number], references).value for run in runs]
            points.append((float(number), fsum(found) / len(found)))
        if points:
            dashed = system.endswith("output")
            series.append(Series(LABELS[system], tuple(points), COLOURS[system], dashed))
    return Figure(
        "Passes",
        "BLEU after each pass over the document",
        (Chart("lines", "", "passes", "BLEU", tuple(series)),),
        "Mean over the seeds; 0 is the sentence model. What reads no translations is settled "
        "after one pass. The paper updates the translations once, and found more passes of no "
        "help.",
    )


def resource_table(make: CellMaker) -> Table:
    """Speed and memory of every system."""
    rows = []
    for system in make.config.systems:
        runs = make.results.of(system)
        if not runs:
            absent = Cell(make.absence(Entry(system)))
            rows.append(Row(LABELS[system], (absent, *(NONE,) * 4)))
            continue
        stage = "stage1" if system == BASELINE else "stage2"
        spent = [_spent(run, stage) for run in runs]
        cells = [
            mean_cell([seconds for seconds, _ in spent]),
            mean_cell([words / max(seconds, 1e-9) for seconds, words in spent], 0),
            mean_cell([run.figures["translation_seconds"] for run in runs]),
            mean_cell([run.figures["words_per_second"] for run in runs], 0),
            mean_cell([run.figures["peak_rss_mb"] for run in runs], 0),
        ]
        rows.append(Row(LABELS[system], tuple(cells)))
    return Table(
        "Speed and memory",
        "What each system takes on this machine",
        (
            ("training", "seconds"),
            ("training", "words/s"),
            ("translation", "seconds"),
            ("translation", "words/s"),
            ("", "peak MB"),
        ),
        tuple(rows),
        "Mean over the seeds, one thread each. Training is stage 1 for S-NMT and stage 2 for "
        "the others, dev set included; translation is that of the test set, all passes. The "
        "paper tells of 3 and 4.5 hours per epoch on a P100 for the largest corpus.",
    )


def _bits(values: Sequence[float | None]) -> Cell:
    """The mean of differences, with its sign."""
    known = [value for value in values if value is not None]
    if not known:
        return NONE
    mean = fsum(known) / len(known)
    return Cell(f"{mean:+.3f}", mean)


def _distances(shares: Sequence[dict[str, float]]) -> tuple[tuple[float, float], ...]:
    """The mean share of weight at each distance, in per cent."""
    return tuple(
        (float(d), 100 * fsum(found.get(str(d), 0.0) for found in shares) / len(shares))
        for d in range(-_FAR, _FAR + 1)
        if d
    )


def _curve(run: RunResults, stage: str) -> list[tuple[float, float]]:
    """Dev perplexity by epoch."""
    return [
        (float(line["epoch"]), line["dev_perplexity"])
        for line in run.figures["epochs"]
        if line["stage"] == stage
    ]


def _mean_curve(runs: Sequence[RunResults]) -> tuple[tuple[float, float], ...]:
    """Stage 2 from where stage 1 left off, mean over runs; as long as the shortest."""
    curves = [
        [(0.0, min(y for _, y in _curve(run, "stage1"))), *_curve(run, "stage2")] for run in runs
    ]
    return tuple(
        (points[0][0], fsum(y for _, y in points) / len(points))
        for points in zip(*curves, strict=False)
    )


def _spent(run: RunResults, stage: str) -> tuple[float, int]:
    """Seconds and words of a stage."""
    lines = [line for line in run.figures["epochs"] if line["stage"] == stage]
    return lines[-1]["seconds"], sum(line["words"] for line in lines)
