"""The tables and figures of an experiment: those of the paper, then those that it lacks."""

from collections.abc import Sequence
from math import fsum
from pathlib import Path

from wholedoc.corpus.documents import Filters
from wholedoc.corpus.readers import read_corpus
from wholedoc.corpus.statistics import measure_corpus
from wholedoc.experiment import paper
from wholedoc.experiment.grid import BASELINE, MEMORY_SYSTEMS, SYSTEMS, Job, SystemName
from wholedoc.experiment.results import Entry, Results, RunResults, Scores
from wholedoc.metrics.context_use import ContextUse, Reading
from wholedoc.metrics.discourse import Discourse
from wholedoc.metrics.phenomena import measure, read_key
from wholedoc.metrics.scores import DiscourseShares, Unknown, corpus_bleu
from wholedoc.metrics.words import Splitter
from wholedoc.rendering.charts import Chart, Figure, Series
from wholedoc.rendering.tables import Cell, Row, Table, mark_best
from wholedoc.synthetic.bounds import INFORMATION, KINDS

MEMORIES = ("src", "trg", "both")
FUSIONS: dict[str, dict[str, SystemName]] = {
    "Memory-to-Context": {"src": "src-context", "trg": "trg-context", "both": "both-context"},
    "Memory-to-Output": {"src": "src-output", "trg": "trg-output", "both": "both-output"},
}
LABELS: dict[SystemName, str] = {
    "s-nmt": "S-NMT",
    "src-context": "+src mem, to context",
    "trg-context": "+trg mem, to context",
    "both-context": "+both mems, to context",
    "src-output": "+src mem, to output",
    "trg-output": "+trg mem, to output",
    "both-output": "+both mems, to output",
    "jean2017": "Jean et al. (2017)",
    "wang2017": "Wang et al. (2017)",
    "prevtrg": "+prev trg",
    "more": "S-NMT, more training",
}
COLOURS = dict(zip(SYSTEMS, (0, 1, 2, 3, 1, 2, 3, 4, 5, 6, 7), strict=True))
"""The same system has the same colour in all charts, a memory the same with either fusion."""
NONE = Cell("–")
SPREAD = "± standard deviation over the seeds"
LOCAL: tuple[SystemName, ...] = ("jean2017", "wang2017", "prevtrg")
_BESIDE_LOCAL: dict[str, SystemName] = {
    **{LABELS[system]: system for system in LOCAL[:2]},
    "S-NMT": BASELINE,
    "+src mem": "src-context",
    "+both mems": "both-context",
}
_LETTERS: dict[str, SystemName] = {"s": BASELINE, "j": "jean2017", "w": "wang2017"}
_SUITS = {"s": "†", "sj": "♠", "sw": "♣", "sjw": "♦"}
_READERS: tuple[SystemName, ...] = (*MEMORY_SYSTEMS, *LOCAL)
_SIDES = ("source", "target")
_FAR = 10
_DISCOURSE = (*DiscourseShares.names, *Unknown.names)
_INFORMATION = {"sentence": "the sentence", "source": "the source", "both": "both sides"}


class CellMaker:
    """Makes the cells and rows of tables from what an experiment has left."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.config = results.experiment.config
        self.scores = Scores(results)

    def cell(self, entry: Entry, metric: str, marks: str = "") -> Cell:
        """The mean over the seeds; what is missing is said."""
        found = self.scores.measured(entry, metric)
        if found is None:
            return Cell(self.absence(entry) or "missing")
        seeds, runs = len(self.config.seeds), len(self.scores.runs(entry))
        spread = f" ± {found.deviation:.2f}" if found.deviation is not None else ""
        fewer = f" ({runs} of {seeds} seeds)" if runs < seeds else ""
        return Cell(f"{found.mean:.2f}{spread}{marks}{fewer}", found.mean)

    def absence(self, entry: Entry) -> str:
        """Why a system has no numbers; empty where it has some."""
        if entry.system not in self.config.systems:
            return "not asked for"
        if self.scores.runs(entry):
            return ""
        names = [job.name for job in entry.jobs(self.config.seeds)]
        reasons = [self.results.failed[name] for name in names if name in self.results.failed]
        if not reasons:
            return "not finished"
        return "skipped" if reasons[0].startswith("skipped") else "failed"

    def scored(
        self,
        label: str,
        entry: Entry,
        metrics: Sequence[str],
        against: dict[str, SystemName] | None = None,
        block: int = 0,
    ) -> Row:
        """A row of measures, each marked where it is significantly better than a system."""
        cells = []
        for metric in metrics:
            marks = [
                mark
                for mark, system in (against or {}).items()
                if self.scores.is_better(entry, system, metric)
            ]
            cells.append(self.cell(entry, metric, "".join(marks)))
        return Row(label, tuple(cells), block)

    def row(self, system: SystemName, cells: Sequence[Cell], columns: int) -> Row:
        """A row of given cells, or why there are none."""
        absent = (Cell(self.absence(Entry(system))), *(NONE,) * (columns - 1))
        return Row(LABELS[system], tuple(cells) or absent)


def grouped(groups: dict[str, tuple[str, ...]]) -> tuple[tuple[str, str], ...]:
    """The columns of a table, by group."""
    return tuple((group, name) for group, names in groups.items() for name in names)


def series(system: SystemName, points: Sequence[tuple[float, float]]) -> Series:
    """The line of a system; that of a memory to output is dashed."""
    return Series(LABELS[system], tuple(points), COLOURS[system], system.endswith("output"))


def count_cell(number: int) -> Cell:
    """A whole number."""
    return Cell(f"{number:,}", number)


def mean_cell(values: Sequence[float], digits: int = 1) -> Cell:
    """The mean of some values."""
    value = fsum(values) / len(values)
    return Cell(f"{value:,.{digits}f}", value)


def share_cell(values: Sequence[float | None]) -> Cell:
    """The mean of shares, in per cent; those that do not exist do not count."""
    known = [100 * value for value in values if value is not None]
    return mean_cell(known) if known else NONE


# The paper's.


def corpora_table(make: CellMaker) -> Table:
    """Table 1."""
    data = make.results.config.data
    sets = {"train": data.train, "dev": data.dev, "test": data.test}
    filters = {"train": Filters(data.min_sentences, data.max_words, data.max_ratio)}
    if make.config.has_larger:
        job = Job(BASELINE, make.config.seeds[0], larger=True)
        sets["larger, beside train"] = make.results.experiment.job_config(job).data.extra
        filters["larger, beside train"] = Filters(1, data.max_words, data.max_ratio)
    rows = []
    for name, files in sets.items():
        corpus = read_corpus(files, data.src_language, data.trg_language)
        found = measure_corpus(corpus, filters.get(name))
        cells = [
            count_cell(found.documents),
            count_cell(found.sentences),
            Cell(f"{found.sentences_per_document:.1f}", found.sentences_per_document),
            count_cell(found.src_words),
            count_cell(found.trg_words),
            *(_vocabulary(make) if name == "train" else (NONE, NONE)),
        ]
        rows.append(Row(name, tuple(cells)))
    names = ("documents", "sentences", "doc len", "src words", "trg words")
    return Table(
        "Table 1",
        "The corpora",
        grouped({"": names, "vocabulary": ("src", "trg")}),
        tuple(rows),
        "As training sees them, after its filters. Doc len is sentences per document; words "
        "are what white space separates; the vocabulary is the model's. The paper counts "
        "documents by the hundred, sentences and vocabulary by the thousand.",
        (paper.TABLE_1,),
    )


def _vocabulary(make: CellMaker) -> tuple[Cell, Cell]:
    runs = make.results.of(BASELINE)
    if not runs:
        return NONE, NONE
    figures = runs[0].figures
    return count_cell(figures.src_vocabulary), count_cell(figures.trg_vocabulary)


def main_table(make: CellMaker) -> Table:
    """Table 2, and the controls."""
    against: dict[str, SystemName] = {"†": BASELINE, "‡": "more"}
    rows = [_fused(make, "S-NMT", [Entry(BASELINE)] * 2)]
    for memory in MEMORIES:
        entries = [Entry(systems[memory]) for systems in FUSIONS.values()]
        rows.append(_fused(make, f"+{memory}", entries, against))
    rows = mark_best(rows, range(4))
    rows.append(_fused(make, "S-NMT, more training", [Entry("more")] * 2, block=1))
    for memory in MEMORIES if make.config.shuffled else ():
        entries = [Entry(systems[memory], "shuffled") for systems in FUSIONS.values()]
        rows.append(_fused(make, f"+{memory}, shuffled", entries, block=1))
    return Table(
        "Table 2",
        "The sentence model and the memories",
        grouped(dict.fromkeys(FUSIONS, ("BLEU", "METEOR"))),
        tuple(rows),
        f"Mean {SPREAD}. Bold: the best of the four; † significantly better than S-NMT, "
        "‡ than S-NMT with more training. Below the rule, the controls that the paper does "
        "not have: S-NMT trained as long as the others, and memories of another document.",
        (paper.TABLE_2_CONTEXT, paper.TABLE_2_OUTPUT),
    )


def _fused(
    make: CellMaker,
    label: str,
    entries: Sequence[Entry],
    against: dict[str, SystemName] | None = None,
    block: int = 0,
) -> Row:
    """A row with BLEU and METEOR of a system in both fusions."""
    rows = [make.scored(label, entry, ("bleu", "meteor"), against, block) for entry in entries]
    return Row(label, tuple(cell for row in rows for cell in row.cells), block)


def parameter_table(make: CellMaker) -> Table:
    """Table 3."""
    base = make.results.of(BASELINE)
    small = bool(base) and base[0].figures.parameters < 1_000_000
    unit = 1_000 if small else 1_000_000

    def cell(system: SystemName) -> Cell:
        runs = make.results.of(system)
        if not runs:
            return Cell(make.absence(Entry(system)))
        value = runs[0].figures.parameters / unit
        return Cell(f"{value:.1f}", value)

    rows = [Row("S-NMT", (cell(BASELINE),) * 2)]
    rows += [
        Row(label, tuple(cell(systems[memory]) for systems in FUSIONS.values()))
        for memory, label in zip(MEMORIES, ("+src mem", "+trg mem", "+both mems"), strict=True)
    ]
    rows += [Row(LABELS[system], (cell(system), NONE), 1) for system in LOCAL]
    return Table(
        "Table 3",
        f"Parameters, in {'thousands' if small else 'millions'}",
        tuple(("", fusion) for fusion in FUSIONS),
        tuple(rows),
        "Trainable ones; the frozen language models behind the source memory do not count. "
        "The baselines below the rule, which the paper does not list, add to the decoder's "
        "state, as Memory-to-Context does.",
        (paper.TABLE_3,),
    )


def local_context_table(make: CellMaker) -> Table:
    """Table 4."""
    return Table(
        "Table 4",
        "Memory-to-Context and the local baselines",
        grouped({"": ("BLEU", "METEOR")}),
        tuple(_beside_local(make, ("bleu", "meteor"), marked=True)),
        f"Mean {SPREAD}. Bold: the best; significantly better than † S-NMT only, ♠ S-NMT and "
        "Jean et al., ♣ S-NMT and Wang et al., ♦ all three.",
        (paper.TABLE_4,),
    )


def _beside_local(make: CellMaker, metrics: Sequence[str], marked: bool) -> list[Row]:
    """The rows of Tables 4 and 5; one mark says which of three baselines a memory beats."""
    rows = []
    for label, system in _BESIDE_LOCAL.items():
        entry, cells = Entry(system), []
        for metric in metrics:
            beaten = "".join(
                letter
                for letter, other in _LETTERS.items()
                if marked
                and system in MEMORY_SYSTEMS
                and make.scores.is_better(entry, other, metric)
            )
            cells.append(make.cell(entry, metric, _SUITS.get(beaten, "")))
        rows.append(Row(label, tuple(cells), block=0 if system in LOCAL else 1))
    return mark_best(rows, range(len(metrics)))


def unigram_table(make: CellMaker) -> Table:
    """Table 5."""
    return Table(
        "Table 5",
        "Unigram BLEU of the same systems",
        grouped({"": ("BLEU-1",)}),
        tuple(_beside_local(make, ("bleu1",), marked=False)),
        f"Mean {SPREAD}. Bold: the best.",
        (paper.TABLE_5,),
    )


def target_context_table(make: CellMaker) -> Table:
    """Table 6."""
    metrics = ("bleu", "meteor")
    against: dict[str, SystemName] = {"†": BASELINE}
    rows = [
        make.scored("S-NMT", Entry(BASELINE), metrics),
        make.scored("+prev trg", Entry("prevtrg"), metrics, against),
        make.scored("+trg mem", Entry("trg-context"), metrics, against),
    ]
    return Table(
        "Table 6",
        "Target context: the translation just before, or all of them",
        grouped({"": ("BLEU", "METEOR")}),
        tuple(mark_best(rows, range(2))),
        f"Mean {SPREAD}. Bold: the best; † significantly better than S-NMT (the paper marks "
        "nothing here). Memory-to-Context.",
        (paper.TABLE_6,),
    )


def larger_corpus_figure(make: CellMaker) -> Figure:
    """Figure 3."""
    metric = "meteor" if make.scores.measured(Entry(BASELINE), "meteor") else "bleu"
    charts = []
    for title, fused in FUSIONS.items() if make.config.has_larger else ():
        systems = {"S-NMT": BASELINE, **{f"S-NMT+{memory}": fused[memory] for memory in MEMORIES}}
        bars = [
            Series(label, _sizes(make, system, metric), COLOURS[system])
            for label, system in systems.items()
        ]
        names = ("smaller corpus", "larger corpus")
        charts.append(Chart("bars", title, "", metric.upper(), tuple(bars), names))
    return Figure(
        "Figure 3",
        "The sentence model trained on more sentence pairs",
        tuple(charts),
        "Stage 1 is trained on a smaller and on a larger corpus, stage 2 on the same documents."
        if charts
        else "This experiment has no larger corpus: name one in its section [larger].",
        (paper.FIGURE_3,),
    )


def _sizes(make: CellMaker, system: SystemName, metric: str) -> tuple[tuple[float, float], ...]:
    """A measure on the smaller and on the larger corpus, where there is one."""
    entries = (Entry(system), Entry(system, "larger"))
    found = [make.scores.measured(entry, metric) for entry in entries]
    return tuple((float(n), m.mean) for n, m in enumerate(found) if m is not None)


# Further ones.


def artificial_table(make: CellMaker, key: Path) -> Table:
    """The words of the artificial corpus that only the document settles."""
    items = read_key(key)
    rows = []
    best = measure(items, make.results.references).kinds
    for system in make.config.systems:
        found = [measure(items, run.translations).kinds for run in make.results.of(system)]
        cells = [share_cell([kinds[kind].accuracy for kinds in found]) for kind in KINDS if found]
        rows.append(make.row(system, cells, len(KINDS)))
    rows = mark_best(rows, range(len(KINDS)))
    for information in INFORMATION:
        bounds = [100 * best[kind].best[information].accuracy for kind in KINDS]
        cells = [Cell(f"{bound:.1f}", bound) for bound in bounds]
        rows.append(Row(f"best from {_INFORMATION[information]}", tuple(cells), 1))
    return Table(
        "Words that need their document",
        "Share translated right, %",
        grouped({"": ("pronouns", "topic words", "names")}),
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
    columns = {
        "consistency": ("of source words", "÷ reference’s"),
        "pronouns": ("right",),
        "kept": ("names", "terms"),
        "": ("<unk>",),
        "errors of S-NMT": ("corrected", "new"),
    }
    rows = [make.row(s, _discourse_cells(make, test, s), 8) for s in make.config.systems]
    return Table(
        "Output analysis",
        "Consistency, pronouns, names, errors",
        grouped(columns),
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
    runs = make.results.of(system)
    if not runs:
        return ()
    pairs = [(make.results.runs.get(Job(BASELINE, run.job.seed)), run) for run in runs]
    errors = [
        test.compare(base.translations, run.translations).rates()
        for base, run in pairs
        if base is not None and base is not run
    ]
    measures = make.scored("", Entry(system), _DISCOURSE, {"†": BASELINE}).cells
    return (
        *measures,
        share_cell([rates["corrected_share"] for rates in errors]),
        share_cell([rates["new_share"] for rates in errors]),
    )


def context_use_table(make: CellMaker) -> Table:
    """What the references gain from the document, in bits per word."""
    rows = []
    for system in _READERS:
        found = _context_uses(make, system)
        read = [[r.effective for r in _readings(found, side)] for side in _SIDES]
        cells = [
            _bits([use.gain.cxmi for use in found]),
            _bits([use.gain.over_sentence_model for use in found]),
            _bits([use.gain.shuffled_change for use in found]),
            *(mean_cell(values) if values else NONE for values in read),
        ]
        rows.append(make.row(system, cells if found else (), 5))
    return Table(
        "Use of context",
        "Does a system use the document?",
        grouped({"bits per word": ("CXMI", "over S-NMT", "shuffled"), "sentences read": _SIDES}),
        tuple(rows),
        "Of the references of the test set, mean over the seeds. CXMI: what the document is worth "
        "to a system, against reading nothing; over S-NMT: against the sentence model it began "
        "with; shuffled: the change if another document is read, below 0 where the right one "
        "helps. Sentences read: 2 to the entropy of the weights, how many others a sentence reads "
        "in effect.",
    )


def _context_uses(make: CellMaker, system: SystemName) -> list[ContextUse]:
    """How the runs of a system use context, where they read the document."""
    uses = [run.figures.context_use for run in make.results.of(system)]
    return [use for use in uses if use is not None]


def _readings(uses: Sequence[ContextUse], side: str) -> list[Reading]:
    """How one of the memories is read, where there is one."""
    found = [use.source if side == "source" else use.target for use in uses]
    return [reading for reading in found if reading is not None]


def distance_figure(make: CellMaker) -> Figure:
    """How far from a sentence stand those that it reads."""
    charts = []
    for side in _SIDES:
        lines: list[Series] = []
        for system in MEMORY_SYSTEMS:
            read = _readings(_context_uses(make, system), side)
            if read and not lines:
                lines.append(Series("all others alike", _distances([read[0].uniform_distances])))
            if read:
                lines.append(series(system, _distances([r.distances for r in read])))
        if lines:
            title = f"{side.capitalize()} memory"
            charts.append(Chart("lines", title, "distance", "weight, %", tuple(lines)))
    return Figure(
        "Distances",
        "How far from a sentence stand those that it reads",
        tuple(charts),
        f"Share of all weight by distance in sentences, mean over the seeds; below 0 is before. "
        f"Up to {_FAR} sentences on either side.",
    )


def metric_table(make: CellMaker) -> Table:
    """Every system under every metric."""
    metrics = ("bleu", "document_bleu", "chrf", "ter", "meteor")
    against: dict[str, SystemName] = {"†": BASELINE}
    rows = [make.scored(LABELS[s], Entry(s), metrics, against) for s in make.config.systems]
    rows = mark_best(mark_best(rows, (0, 1, 2, 4)), (3,), lowest=True)
    return Table(
        "All systems",
        "Every system under every measure",
        grouped({"": ("BLEU", "doc BLEU", "chrF", "TER ↓", "METEOR")}),
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
    groups["Stage 2, local context"] = LOCAL
    for title, systems in groups.items():
        lines = [
            Series(LABELS[system], _mean_curve(make.results.of(system)), COLOURS[system])
            for system in (*systems, "more")
            if make.results.of(system)
        ]
        charts.append(Chart("lines", title, "epoch", "dev perplexity", tuple(lines)))
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
    lines = []
    for system in systems:
        runs = make.results.of(system)
        count = min((len(run.passes) for run in runs), default=0)
        points = []
        for number in range(count):
            found = [corpus_bleu(run.passes[number], references).value for run in runs]
            points.append((float(number), fsum(found) / len(found)))
        if points:
            lines.append(series(system, points))
    return Figure(
        "Passes",
        "BLEU after each pass over the document",
        (Chart("lines", "", "passes", "BLEU", tuple(lines)),),
        "Mean over the seeds; 0 is the sentence model. What reads no translations is settled "
        "after one pass. The paper updates the translations once, and found more passes of no "
        "help.",
    )


def resource_table(make: CellMaker) -> Table:
    """Speed and memory of every system."""
    rows = []
    for system in make.config.systems:
        runs = make.results.of(system)
        stage = "stage1" if system == BASELINE else "stage2"
        spent = [_spent(run, stage) for run in runs]
        figures = [run.figures for run in runs]
        values = (
            ([seconds for seconds, _ in spent], 1),
            ([words / max(seconds, 1e-9) for seconds, words in spent], 0),
            ([found.translation_seconds for found in figures], 1),
            ([found.words_per_second for found in figures], 0),
            ([found.peak_rss_mb for found in figures], 0),
        )
        cells = [mean_cell(numbers, digits) for numbers, digits in values if numbers]
        rows.append(make.row(system, cells, len(values)))
    return Table(
        "Speed and memory",
        "What each system takes on this machine",
        grouped(
            {
                "training": ("seconds", "words/s"),
                "translation": ("seconds", "words/s"),
                "": ("peak MB",),
            }
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


def _distances(shares: Sequence[dict[int, float]]) -> tuple[tuple[float, float], ...]:
    """The mean share of weight at each distance, in per cent."""
    return tuple(
        (float(d), 100 * fsum(found.get(d, 0.0) for found in shares) / len(shares))
        for d in range(-_FAR, _FAR + 1)
        if d
    )


def _curve(run: RunResults, stage: str) -> list[tuple[float, float]]:
    """Dev perplexity by epoch."""
    epochs = run.figures.stage_epochs(stage)
    return [(float(epoch.epoch), epoch.dev_perplexity) for epoch in epochs]


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
    epochs = run.figures.stage_epochs(stage)
    return epochs[-1].seconds, sum(epoch.words for epoch in epochs)
