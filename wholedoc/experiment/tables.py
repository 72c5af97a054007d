"""The tables and figures of an experiment: those of the paper, then those that it lacks."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, partial
from math import fsum
from pathlib import Path
from statistics import fmean

from wholedoc.corpus.documents import Filters
from wholedoc.corpus.readers import read_corpus
from wholedoc.corpus.statistics import measure_corpus
from wholedoc.experiment.grid import BASELINE, CONTROLS, MEMORY_SYSTEMS, SYSTEMS, Job, SystemName
from wholedoc.experiment.results import Results, RunResults
from wholedoc.metrics.context_use import ContextUse, Reading
from wholedoc.metrics.discourse import Discourse
from wholedoc.metrics.evaluation import FEWEST_UNITS, Value, count_systems, describe_test
from wholedoc.metrics.phenomena import measure, read_key
from wholedoc.metrics.scores import METRICS, EvaluationSet, Unit, corpus_bleu
from wholedoc.metrics.significance import TestName
from wholedoc.metrics.words import Splitter
from wholedoc.rendering.charts import Chart, Figure, Series
from wholedoc.rendering.tables import Cell, Row, Table, mark_best, number_cell
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
    "more-dual": "S-NMT, more training, dropout of both",
    "longer": "S-NMT, four times the epochs",
    "fuzzy": "best match beside the source",
    "copy": "copy of the best match",
    "recall": "+recall",
    "approved": "+approved",
    "recall-approved": "+recall, +approved",
    "both-context-recall": "+both mems, to context, +recall",
    "both-output-recall": "+both mems, to output, +recall",
    "recall-other": "+recall, another domain",
    "recall-random": "+recall, random pairs",
    "recall-empty": "+recall, empty memory",
}
COLOURS = dict(
    zip(SYSTEMS, (0, 1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 7, 7, 6, 5, 1, 2, 3, 4, 4, 5, 6, 7), strict=True)
)
"""The same system has the same colour in all charts, a memory the same with either fusion."""
SPREAD = "± standard deviation over the seeds"
LOCAL: tuple[SystemName, ...] = ("jean2017", "wang2017", "prevtrg")
BLEU_METEOR = {"BLEU": "bleu", "METEOR": "meteor"}
Names = Collection[str]
Marks = Sequence[tuple[str, SystemName]]
"""Marks of what is significantly better than a system."""
MakeCells = Callable[[Sequence[RunResults]], Iterable[Cell]]
_OVER_BASELINE: Marks = (("†", BASELINE),)
_OVER_THREE: Marks = (("s", BASELINE), ("j", "jean2017"), ("w", "wang2017"))
_SUITS = {"s": "†", "sj": "♠", "sw": "♣", "sjw": "♦", "j": "", "w": "", "jw": ""}
_TEST: TestName = "randomisation"
_LEVEL = 0.05
_SEED = 1
_SIDES = ("source", "target")
_FAR = 10
_INFORMATION = {"sentence": "the sentence", "source": "the source", "both": "both sides"}


class CellMaker:
    """Measures and tests all systems that have finished runs, and makes cells and rows of that.

    A system is measured under its name, and in two further conditions: ``<system> larger``, with
    stage 1 on the larger corpus, and ``<system> shuffled``, reading another document's memory.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.config = results.experiment.config
        self.outputs: dict[str, list[Sequence[str]]] = defaultdict(list)
        for job, run in results.runs.items():
            self.outputs[f"{job.system}{' larger' if job.larger else ''}"].append(run.translations)
            if run.shuffled is not None and not job.larger:
                self.outputs[f"{job.system} shuffled"].append(run.shuffled)
        texts = (results.references, results.sizes, results.sources)
        data, trials = results.config.data, self.config.trials
        test_set = EvaluationSet(*texts, data.trg_language or "en", data.src_language)
        self.counts = count_systems(test_set, self.outputs)
        self.values = {name: self.counts.values(name) for name in self.outputs}
        self.unit: Unit = "document" if len(results.sizes) >= FEWEST_UNITS else "sentence"
        self._test = cache(partial(self.counts.test, trials=trials, seed=_SEED))
        test = f"{describe_test(_TEST, trials, _SEED)}|unit:{self.unit}|p<{_LEVEL}"
        self.signatures = {**self.counts.signatures, "significantly better": test}
        """How each number was computed."""

    def measured(self, name: str, metric: str) -> Value | None:
        """A measure of a system, as the paper prints it; None where there is none."""
        value = self.values.get(name, {}).get(metric)
        if value is None or metric != "meteor":
            return value
        # METEOR's own scale ends at 1, the paper's at 100.
        return Value(100 * value.mean, value.deviation and 100 * value.deviation)

    def tested(self, name: str, than: str, metric: str) -> tuple[float, float] | None:
        """The difference of two systems and its p-value; None where there is no test."""
        if name == than or not {name, than} <= self.outputs.keys():
            return None
        found = self._test(name, than).get(metric)
        p_value = found.p_values[_TEST][self.unit] if found else None
        return (found.difference, p_value) if found and p_value is not None else None

    def is_better(self, name: str, than: str, metric: str) -> bool:
        """Whether a system is significantly better than another."""
        difference, p_value = self.tested(name, than, metric) or (0.0, 1.0)
        if p_value >= _LEVEL:
            return False
        lower_is_better = any(m.lower_is_better for m in METRICS.values() if metric in m.names)
        return difference < 0 if lower_is_better else difference > 0

    def cell(self, name: str, metric: str, marks: str = "") -> Cell:
        """The mean over the seeds; what is missing is said."""
        found = self.measured(name, metric)
        if found is None:
            return Cell(self.absence(name) or "missing")
        seeds, runs = len(self.config.seeds), len(self.outputs[name])
        spread = f" ± {found.deviation:.2f}" if found.deviation is not None else ""
        fewer = f" ({runs} of {seeds} seeds)" if runs < seeds else ""
        return Cell(f"{found.mean:.2f}{spread}{marks}{fewer}", found.mean)

    def absence(self, name: str) -> str:
        """Why a system has no numbers; empty where it has some."""
        system = name.partition(" ")[0]
        if system not in self.config.systems:
            return "not asked for"
        if name in self.outputs:
            return ""
        jobs = [job for job in self.results.experiment.jobs() if job.system == system]
        failed = self.results.failed
        reasons = [failed[job.name] for job in jobs if job.name in failed and not job.larger]
        if not reasons:
            return "not finished"
        return "skipped" if reasons[0].startswith("skipped") else "failed"

    def scored(
        self, label: str, names: Names, metrics: Names, marks: Marks = (), block: int = 0
    ) -> Row:
        """A row of measures, each marked where it is significantly better than a system."""
        cells = []
        for name in names:
            for metric in metrics:
                better = [m for m, than in marks if self.is_better(name, than, metric)]
                mark = "".join(better)
                cells.append(self.cell(name, metric, _SUITS.get(mark, mark)))
        return Row(label, tuple(cells), block)

    def rows(self, systems: Sequence[SystemName], columns: int, cells: MakeCells) -> list[Row]:
        """A row for each system: ``cells`` of its finished runs, or why there are none."""
        rows = []
        for system in systems:
            runs = self.results.of(system)
            absent = (Cell(self.absence(system)), *(number_cell(None),) * (columns - 1))
            rows.append(Row(LABELS[system], tuple(cells(runs)) if runs else absent))
        return rows


@cache
def read_printed() -> dict[str, tuple[Table, ...]]:
    """The numbers that the paper prints, which ``paper.md`` holds, by table or figure."""
    printed: dict[str, tuple[Table, ...]] = {}
    text = (Path(__file__).parent / "paper.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        heading, *lines = section.split("\n")
        name, _, caption = heading.partition(": ")
        head, _, *body = [line.strip("|").split("|") for line in lines if line]
        columns = [column.strip() for column in head[1:]]
        rows = [Row(label.strip(), tuple(Cell(n.strip()) for n in cells)) for label, *cells in body]
        printed[name] = (*printed.get(name, ()), Table("", caption, {"": columns}, rows))
    return printed


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of those values that exist."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _series(system: SystemName, points: Iterable[tuple[float, float]]) -> Series:
    """The line of a system; that of a memory to output is dashed."""
    return Series(LABELS[system], tuple(points), COLOURS[system], system.endswith("output"))


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
    figures = [run.figures for run in make.results.of(BASELINE)[:1]]
    rows = []
    for name, files in sets.items():
        corpus = read_corpus(files, data.src_language, data.trg_language)
        found = measure_corpus(corpus, filters.get(name))
        known = figures if name == "train" else []
        cells = (
            number_cell(found.documents, ","),
            number_cell(found.sentences, ","),
            number_cell(found.sentences_per_document, ".1f"),
            number_cell(found.src_words, ","),
            number_cell(found.trg_words, ","),
            number_cell(known[0].src_vocabulary if known else None, ","),
            number_cell(known[0].trg_vocabulary if known else None, ","),
        )
        rows.append(Row(name, cells))
    names = ("documents", "sentences", "doc len", "src words", "trg words")
    return Table(
        "Table 1",
        "The corpora",
        {"": names, "vocabulary": ("src", "trg")},
        rows,
        "As training sees them, after its filters. Doc len is sentences per document; words "
        "are what white space separates; the vocabulary is the model's. The paper counts "
        "documents by the hundred, sentences and vocabulary by the thousand.",
    )


def main_table(make: CellMaker) -> Table:
    """Table 2, and the controls."""
    metrics = BLEU_METEOR.values()
    systems = make.config.systems
    rows = [make.scored("S-NMT", [BASELINE] * 2, metrics)]
    for memory in MEMORIES:
        control: SystemName = "more-dual" if memory == "both" and "more-dual" in systems else "more"
        marks: Marks = (*_OVER_BASELINE, ("‡", control))
        fused_systems = [fused[memory] for fused in FUSIONS.values()]
        rows.append(make.scored(f"+{memory}", fused_systems, metrics, marks))
    rows = mark_best(rows, range(4))
    for control in CONTROLS if "more-dual" in systems else CONTROLS[:1]:
        rows.append(make.scored(LABELS[control], [control] * 2, metrics, block=1))
    for memory in MEMORIES if make.config.shuffled else ():
        names = [f"{fused[memory]} shuffled" for fused in FUSIONS.values()]
        rows.append(make.scored(f"+{memory}, shuffled", names, metrics, block=1))
    return Table(
        "Table 2",
        "The sentence model and the memories",
        dict.fromkeys(FUSIONS, BLEU_METEOR),
        rows,
        f"Mean {SPREAD}. Bold: the best of the four; † significantly better than S-NMT, "
        "‡ than S-NMT with more training, for +both with its dropout where that was asked for. "
        "Below the rule, the controls that the paper does not have: S-NMT trained as long as the "
        "others, and memories of another document.",
    )


def parameter_table(make: CellMaker) -> Table:
    """Table 3."""
    base = make.results.of(BASELINE)
    small = bool(base) and base[0].figures.parameters < 1_000_000
    unit = 1_000 if small else 1_000_000

    def cell(system: SystemName) -> Cell:
        runs = make.results.of(system)
        if not runs:
            return Cell(make.absence(system))
        return number_cell(runs[0].figures.parameters / unit, ".1f")

    rows = [Row("S-NMT", (cell(BASELINE),) * 2)]
    for memory, label in zip(MEMORIES, ("+src mem", "+trg mem", "+both mems"), strict=True):
        rows.append(Row(label, tuple(cell(fused[memory]) for fused in FUSIONS.values())))
    rows += [Row(LABELS[system], (cell(system), number_cell(None)), 1) for system in LOCAL]
    return Table(
        "Table 3",
        f"Parameters, in {'thousands' if small else 'millions'}",
        {"": FUSIONS},
        rows,
        "Trainable ones; the frozen language models behind the source memory do not count. "
        "The baselines below the rule, which the paper does not list, add to the decoder's "
        "state, as Memory-to-Context does.",
    )


def local_context_tables(make: CellMaker) -> list[Table]:
    """Tables 4, 5 and 6: Memory-to-Context beside systems that read the sentences just before."""

    def beside_local(metrics: Sequence[str], marks: Marks = ()) -> list[Row]:
        rows = [
            *(make.scored(LABELS[system], [system], metrics) for system in LOCAL[:2]),
            make.scored("S-NMT", [BASELINE], metrics, block=1),
            make.scored("+src mem", ["src-context"], metrics, marks, block=1),
            make.scored("+both mems", ["both-context"], metrics, marks, block=1),
        ]
        return mark_best(rows, range(len(metrics)))

    metrics = tuple(BLEU_METEOR.values())
    target_rows = [
        make.scored("S-NMT", [BASELINE], metrics),
        make.scored("+prev trg", ["prevtrg"], metrics, _OVER_BASELINE),
        make.scored("+trg mem", ["trg-context"], metrics, _OVER_BASELINE),
    ]
    return [
        Table(
            "Table 4",
            "Memory-to-Context and the local baselines",
            {"": BLEU_METEOR},
            beside_local(metrics, _OVER_THREE),
            f"Mean {SPREAD}. Bold: the best; significantly better than † S-NMT only, ♠ S-NMT and "
            "Jean et al., ♣ S-NMT and Wang et al., ♦ all three.",
        ),
        Table(
            "Table 5",
            "Unigram BLEU of the same systems",
            {"": ("BLEU-1",)},
            beside_local(("bleu1",)),
            f"Mean {SPREAD}. Bold: the best.",
        ),
        Table(
            "Table 6",
            "Target context: the translation just before, or all of them",
            {"": BLEU_METEOR},
            mark_best(target_rows, range(2)),
            f"Mean {SPREAD}. Bold: the best; † significantly better than S-NMT (the paper marks "
            "nothing here). Memory-to-Context.",
        ),
    ]


def larger_corpus_figure(make: CellMaker) -> Figure:
    """Figure 3."""
    metric = "meteor" if make.measured(BASELINE, "meteor") else "bleu"
    charts = []
    for title, fused in FUSIONS.items() if make.config.has_larger else ():
        systems = {"S-NMT": BASELINE, **{f"S-NMT+{memory}": fused[memory] for memory in MEMORIES}}
        bars = []
        for label, system in systems.items():
            found = [make.measured(name, metric) for name in (system, f"{system} larger")]
            points = tuple((float(n), m.mean) for n, m in enumerate(found) if m is not None)
            bars.append(Series(label, points, COLOURS[system]))
        names = ("smaller corpus", "larger corpus")
        charts.append(Chart(title, "", metric.upper(), tuple(bars), names))
    return Figure(
        "Figure 3",
        "The sentence model trained on more sentence pairs",
        tuple(charts),
        "Stage 1 is trained on a smaller and on a larger corpus, stage 2 on the same documents."
        if charts
        else "This experiment has no larger corpus: name one in its section [larger].",
    )


# Further ones.


def artificial_table(make: CellMaker) -> Table:
    """The words of the artificial corpus that only the document settles."""
    items = read_key(make.results.experiment.corpus / "test.key.jsonl")

    def cells(runs: Sequence[RunResults]) -> list[Cell]:
        found = [measure(items, run.translations) for run in runs]
        return [
            number_cell(mean_of(100 * kinds[kind].accuracy for kinds in found)) for kind in KINDS
        ]

    rows = mark_best(make.rows(make.config.systems, len(KINDS), cells), range(len(KINDS)))
    best = measure(items, make.results.references)
    for information in INFORMATION:
        bounds = tuple(number_cell(100 * best[kind].best[information].accuracy) for kind in KINDS)
        rows.append(Row(f"best from {_INFORMATION[information]}", bounds, 1))
    return Table(
        "Words that need their document",
        "Share translated right, %",
        {"": ("pronouns", "topic words", "names")},
        rows,
        "The corpus is artificial: below the rule stands the best that any translator can "
        "reach from the sentence, from the source document and from both sides.",
    )


def discourse_table(make: CellMaker) -> Table:
    """The paper's output analysis, counted instead of looked at."""
    results, data = make.results, make.results.config.data
    splitters = (Splitter(data.src_language), Splitter(data.trg_language))
    test = Discourse(results.sources, results.references, results.sizes, splitters=splitters)
    metrics = (*METRICS["consistency"].names, *METRICS["unknown"].names)

    def cells(runs: Sequence[RunResults]) -> list[Cell]:
        errors = []
        for run in runs:
            base = results.runs.get(Job(BASELINE, run.job.seed))
            if base is not None and base is not run:
                errors.append(test.compare(base.translations, run.translations))
        counts = ([e.corrected for e in errors], [e.new for e in errors])
        shares = [[100 * c.rate for c in found if c.rate is not None] for found in counts]
        measured = make.scored("", [runs[0].job.system], metrics, _OVER_BASELINE).cells
        return [*measured, *(number_cell(mean_of(found)) for found in shares)]

    columns: dict[str, Names] = {
        "consistency": ("of source words", "÷ reference’s"),
        "pronouns": ("right",),
        "kept": ("names", "terms"),
        "": ("<unk>",),
        "errors of S-NMT": ("corrected", "new"),
    }
    return Table(
        "Output analysis",
        "Consistency, pronouns, names, errors",
        columns,
        make.rows(make.config.systems, 8, cells),
        f"Per cent, mean {SPREAD}; † significantly better than S-NMT. Consistency is "
        "the share of repeated source words translated alike, pronouns right and repeated names "
        "and terms kept are shares of the reference’s, new errors are per error of S-NMT. "
        f"How they are counted: {test.signature}. The paper looked at documents by hand: "
        "22 of 32 repeated words consistent against 16 of S-NMT; of 20 errors of S-NMT 85 % "
        "corrected, and 10 % new ones.",
    )


def context_use_table(make: CellMaker) -> Table:
    """What the references gain from the document, in bits per word."""

    def cells(runs: Sequence[RunResults]) -> list[Cell]:
        found = _context_uses(runs)
        effective = [mean_of(read.effective for read in _readings(runs, side)) for side in _SIDES]
        return [
            number_cell(mean_of(use.gain.cxmi for use in found), "+.3f"),
            number_cell(mean_of(use.gain.over_sentence_model for use in found), "+.3f"),
            number_cell(mean_of(use.gain.shuffled_change for use in found), "+.3f"),
            *map(number_cell, effective),
        ]

    return Table(
        "Use of context",
        "Does a system use the document?",
        {"bits per word": ("CXMI", "over S-NMT", "shuffled"), "sentences read": _SIDES},
        make.rows((*MEMORY_SYSTEMS, *LOCAL), 5, cells),
        "Of the references of the test set, mean over the seeds. CXMI: what the document is worth "
        "to a system, against reading nothing; over S-NMT: against the sentence model it began "
        "with; shuffled: the change if another document is read, below 0 where the right one "
        "helps. Sentences read: 2 to the entropy of the weights, how many others a sentence reads "
        "in effect.",
    )


def _context_uses(runs: Sequence[RunResults]) -> list[ContextUse]:
    """How runs use context, where they read the document."""
    return [run.figures.context_use for run in runs if run.figures.context_use is not None]


def _readings(runs: Sequence[RunResults], side: str) -> list[Reading]:
    """How one of the memories is read, where there is one."""
    found = [use.source if side == "source" else use.target for use in _context_uses(runs)]
    return [reading for reading in found if reading is not None]


def distance_figure(make: CellMaker) -> Figure:
    """How far from a sentence stand those that it reads."""
    charts = []
    for side in _SIDES:
        lines: list[Series] = []
        for system in MEMORY_SYSTEMS:
            read = _readings(make.results.of(system), side)
            if read and not lines:
                lines.append(Series("all others alike", _distances([read[0].uniform_distances])))
            if read:
                lines.append(_series(system, _distances([r.distances for r in read])))
        if lines:
            title = f"{side.capitalize()} memory"
            charts.append(Chart(title, "distance", "weight, %", tuple(lines)))
    return Figure(
        "Distances",
        "How far from a sentence stand those that it reads",
        tuple(charts),
        f"Share of all weight by distance in sentences, mean over the seeds; below 0 is before. "
        f"Up to {_FAR} sentences on either side.",
    )


def _distances(shares: Sequence[dict[int, float]]) -> tuple[tuple[float, float], ...]:
    """The mean share of weight at each distance, in per cent."""
    distances = (*range(-_FAR, 0), *range(1, _FAR + 1))
    sums = [fsum(found.get(distance, 0.0) for found in shares) for distance in distances]
    return tuple((float(d), 100 * s / len(shares)) for d, s in zip(distances, sums, strict=True))


def metric_table(make: CellMaker) -> Table:
    """Every system under every metric."""
    metrics = ("bleu", "document_bleu", "chrf", "ter", "meteor")
    rows = [make.scored(LABELS[s], [s], metrics, _OVER_BASELINE) for s in make.config.systems]
    return Table(
        "All systems",
        "Every system under every measure",
        {"": ("BLEU", "doc BLEU", "chrF", "TER ↓", "METEOR")},
        mark_best(mark_best(rows, (0, 1, 2, 4)), (3,), lowest=True),
        f"Mean {SPREAD}. Bold: the best; † significantly better than S-NMT.",
    )


def learning_figure(make: CellMaker) -> Figure:
    """Dev perplexity, epoch by epoch."""
    first = [
        Series(f"S-NMT, seed {run.job.seed}", tuple(_curve(run, "stage1")), n % 8)
        for n, run in enumerate(make.results.of(BASELINE))
    ]
    charts = [Chart("Stage 1", "epoch", "dev perplexity", tuple(first))]
    fusions = {title: tuple(fused.values()) for title, fused in FUSIONS.items()}
    for title, systems in {**fusions, "local context": LOCAL}.items():
        lines = [
            Series(LABELS[system], _mean_curve(make.results.of(system)), COLOURS[system])
            for system in (*systems, *CONTROLS)
            if make.results.of(system)
        ]
        charts.append(Chart(f"Stage 2, {title}", "epoch", "dev perplexity", tuple(lines)))
    return Figure(
        "Learning curves",
        "Perplexity of the dev set after each epoch",
        tuple(chart for chart in charts if chart.series),
        "Mean over the seeds. Stage 2 begins, at 0, with the sentence model of stage 1.",
    )


def _curve(run: RunResults, stage: str) -> list[tuple[float, float]]:
    """Dev perplexity by epoch."""
    epochs = run.figures.stage_epochs(stage)
    return [(float(epoch.epoch), epoch.dev_perplexity) for epoch in epochs]


def _mean_curve(runs: Sequence[RunResults]) -> tuple[tuple[float, float], ...]:
    """Stage 2 from where stage 1 left off, mean over runs; as long as the shortest.

    Without epochs of stage 1, it begins with the first one of stage 2.
    """
    curves = [
        [(0.0, y) for y in sorted(y for _, y in _curve(run, "stage1"))[:1]] + _curve(run, "stage2")
        for run in runs
    ]
    epochs = zip(*curves, strict=False)
    return tuple((points[0][0], fmean(y for _, y in points)) for points in epochs)


def passes_figure(make: CellMaker) -> Figure:
    """BLEU after each pass."""
    systems: list[SystemName] = [*MEMORY_SYSTEMS, "prevtrg"]
    references, data = make.results.references, make.results.config.data
    lines = []
    for system in systems:
        passes = [run.passes for run in make.results.of(system)]
        scores = [
            fmean(corpus_bleu(found, references, data.trg_language or "en").value for found in same)
            for same in zip(*passes, strict=False)
        ]
        if scores:
            lines.append(_series(system, ((float(n), score) for n, score in enumerate(scores))))
    return Figure(
        "Passes",
        "BLEU after each pass over the document",
        (Chart("", "passes", "BLEU", tuple(lines)),),
        "Mean over the seeds; 0 is the sentence model. What reads no translations is settled "
        "after one pass. The paper updates the translations once, and found more passes of no "
        "help.",
    )


def resource_table(make: CellMaker) -> Table:
    """Speed and memory of every system."""

    def cells(runs: Sequence[RunResults]) -> list[Cell]:
        stage = "stage1" if runs[0].job.system in (BASELINE, "longer", "fuzzy") else "stage2"
        figures = [run.figures for run in runs]
        stages = [found for run in figures if (found := run.stage_epochs(stage))]
        epochs = mean_of(float(found[-1].epoch) for found in stages)
        speeds = [sum(e.words for e in found) / max(found[-1].seconds, 1e-9) for found in stages]
        return [
            number_cell(epochs, "g"),
            number_cell(mean_of(found[-1].seconds for found in stages)),
            number_cell(mean_of(speeds), ",.0f"),
            number_cell(fmean(found.translation_seconds for found in figures)),
            number_cell(fmean(found.words_per_second for found in figures), ",.0f"),
            number_cell(fmean(found.peak_rss_mb for found in figures), ",.0f"),
        ]

    speed = ("seconds", "words/s")
    return Table(
        "Speed and memory",
        "What each system takes on this machine",
        {"training": ("epochs", *speed), "translation": speed, "": ("peak MB",)},
        make.rows(make.config.systems, 6, cells),
        "Mean over the seeds, one thread each. Training is stage 1 for sentence models and stage 2 "
        "for the others, dev set included, and none for what recalls; patience may end it early. "
        "Translation is that of the test set, all passes. The paper tells of 3 and 4.5 hours per "
        "epoch on a P100 for the largest corpus.",
    )
