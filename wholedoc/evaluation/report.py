"""What an experiment has shown, as the tables and figures of the paper.

A report is a function of what lies on disk. HTML, Markdown and JSON are made from the same values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from wholedoc.corpus.filters import Filters
from wholedoc.corpus.readers import read_corpus
from wholedoc.corpus.statistics import measure_corpus
from wholedoc.corpus.synth import INFORMATION, KINDS
from wholedoc.evaluation import paper
from wholedoc.evaluation.discourse import Discourse
from wholedoc.evaluation.examples import Example, choose_examples
from wholedoc.evaluation.experiment import BASELINE, MEMORY_SYSTEMS, SystemName
from wholedoc.evaluation.metrics import corpus_bleu
from wholedoc.evaluation.phenomena import measure, read_key
from wholedoc.evaluation.results import Results, RunResults
from wholedoc.evaluation.scores import Entry, Scores
from wholedoc.evaluation.tables import Cell, Chart, Figure, Row, Series, Table, mark_best
from wholedoc.evaluation.words import Splitter

FUSIONS = {"context": "Memory-to-Context", "output": "Memory-to-Output"}
MEMORIES = ("src", "trg", "both")
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
_NONE = Cell("–")
_COLOURS: dict[SystemName, int] = {
    "s-nmt": 0,
    "src-context": 1,
    "trg-context": 2,
    "both-context": 3,
    "src-output": 1,
    "trg-output": 2,
    "both-output": 3,
    "jean2017": 4,
    "wang2017": 5,
    "prevtrg": 6,
    "more": 7,
}


@dataclass(frozen=True)
class Report:
    """All that the page shows, in order."""

    title: str
    facts: dict[str, str]
    """What was done, for the head of the page."""
    failed: dict[str, str]
    """The runs that failed, and why."""
    blocks: list[Table | Figure]
    examples: list[Example]
    signatures: dict[str, str]
    """How each measure was computed."""
    missing: dict[str, str]
    """Measures that could not be computed, and why."""

    def to_json(self) -> dict[str, Any]:
        """Every number of the report."""
        return {
            "title": self.title,
            "facts": self.facts,
            "failed": self.failed,
            "tables": [block.to_json() for block in self.blocks if isinstance(block, Table)],
            "figures": [block.to_json() for block in self.blocks if isinstance(block, Figure)],
            "examples": [example.to_json() for example in self.examples],
            "signatures": self.signatures,
            "missing": self.missing,
        }


def build_report(results: Results) -> Report:
    """Measure everything and put it where the paper has it."""
    scores = Scores(results)
    experiment = results.experiment
    builder = _Builder(results, scores)
    blocks: list[Table | Figure] = [
        builder.corpora(),
        builder.main(),
        builder.parameters(),
        builder.local_context(),
        builder.unigrams(),
        builder.target_context(),
        builder.larger_corpus(),
    ]
    if experiment.key is not None:
        blocks.append(builder.artificial())
    blocks += [
        builder.discourse(),
        builder.all_metrics(),
        builder.learning(),
        builder.passes(),
        builder.resources(),
    ]
    return Report(
        experiment.config.title or experiment.out.name,
        builder.facts(),
        results.failed,
        blocks,
        choose_examples(results),
        scores.signatures,
        dict(scores.counts.missing),
    )


class _Builder:
    """The parts of a report."""

    def __init__(self, results: Results, scores: Scores) -> None:
        self.results = results
        self.scores = scores
        self.config = results.experiment.config

    def facts(self) -> dict[str, str]:
        """What was done."""
        jobs = self.results.experiment.jobs()
        config, data = self.results.config, self.results.config.data
        vocabulary = config.vocabulary
        return {
            "runs": f"{len(self.results.runs)} of {len(jobs)} finished",
            "seeds": ", ".join(map(str, self.config.seeds)),
            "configuration": self.config.config,
            "model": f"{config.model.hidden} hidden, {config.model.embedding} embedding, "
            f"{config.model.alignment} alignment",
            "vocabulary": f"{vocabulary.kind}s, "
            + ("shared" if vocabulary.shared else "one for each side"),
            "test set": "artificial" if self.config.synth else data.test.src,
            "translation": f"beam {config.search.beam}, {config.search.passes} "
            f"pass{'es' if config.search.passes != 1 else ''} after the first translations",
        }

    # Cells.

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

    # Tables of the paper.

    def corpora(self) -> Table:
        """Table 1."""
        data = self.results.config.data
        sets = {"train": data.train, "dev": data.dev, "test": data.test}
        filters = Filters(data.min_sentences, data.max_words, data.max_ratio)
        rows = []
        for name, files in sets.items():
            corpus = read_corpus(files, data.src_language, data.trg_language)
            found = measure_corpus(corpus, filters if name == "train" else None)
            cells = [
                _count(found.documents),
                _count(found.sentences),
                Cell(f"{found.sentences_per_document:.1f}", found.sentences_per_document),
                _count(found.src_words),
                _count(found.trg_words),
                *(self._vocabulary() if name == "train" else (_NONE, _NONE)),
            ]
            rows.append(Row(name, tuple(cells)))
        names = ("documents", "sentences", "doc len", "src words", "trg words")
        vocabulary = (("vocabulary", "src"), ("vocabulary", "trg"))
        return Table(
            "Table 1",
            "The corpora",
            (*(("", name) for name in names), *vocabulary),
            tuple(rows),
            "As training sees them, after its filters. Doc len is sentences per document; words "
            "are what white space separates; the vocabulary is the model's. The paper counts "
            "documents by the hundred, sentences and vocabulary by the thousand.",
            (paper.TABLE_1,),
        )

    def _vocabulary(self) -> tuple[Cell, Cell]:
        runs = self.results.of(BASELINE)
        if not runs:
            return _NONE, _NONE
        figures = runs[0].figures
        return _count(figures["src_vocabulary"]), _count(figures["trg_vocabulary"])

    def main(self) -> Table:
        """Table 2, and the controls."""
        against: dict[str, SystemName] = {"†": BASELINE, "‡": "more"}
        rows = [self._fused("S-NMT", lambda _: Entry(BASELINE))]
        rows += [self._fused(f"+{m}", _memory(m), against) for m in MEMORIES]
        rows = mark_best(rows, range(4))
        rows.append(self._fused("S-NMT, more training", lambda _: Entry("more"), block=1))
        if self.config.shuffled:
            rows += [self._fused(f"+{m}, shuffled", _memory(m, True), block=1) for m in MEMORIES]
        columns = [(fusion, metric) for fusion in FUSIONS.values() for metric in ("BLEU", "METEOR")]
        return Table(
            "Table 2",
            "The sentence model and the memories",
            tuple(columns),
            tuple(rows),
            f"Mean {_SPREAD}. Bold: the best of the four; † significantly better than S-NMT, "
            "‡ than S-NMT with more training. Below the rule, the controls that the paper does "
            "not have: S-NMT trained as long as the others, and memories of another document.",
            (paper.TABLE_2_CONTEXT, paper.TABLE_2_OUTPUT),
        )

    def _fused(
        self,
        label: str,
        entry: "Callable[[str], Entry]",
        against: dict[str, SystemName] | None = None,
        block: int = 0,
    ) -> Row:
        """A row with BLEU and METEOR of a system in both fusions."""
        halves = [
            self.scored(label, entry(fusion), ("bleu", "meteor"), against, block)
            for fusion in FUSIONS
        ]
        return Row(label, (*halves[0].cells, *halves[1].cells), block)

    def parameters(self) -> Table:
        """Table 3."""
        base = self.results.of(BASELINE)
        small = bool(base) and base[0].figures["parameters"] < 1_000_000
        unit = 1_000 if small else 1_000_000

        def cell(system: SystemName) -> Cell:
            runs = self.results.of(system)
            if not runs:
                return Cell(self.absence(Entry(system)))
            value = runs[0].figures["parameters"] / unit
            return Cell(f"{value:.1f}", value)

        rows = [Row("S-NMT", (cell(BASELINE),) * 2)]
        rows += [
            Row(label, tuple(cell(_memory(m)(fusion).system) for fusion in FUSIONS))
            for m, label in zip(MEMORIES, ("+src mem", "+trg mem", "+both mems"), strict=True)
        ]
        local: tuple[SystemName, ...] = ("jean2017", "wang2017", "prevtrg")
        rows += [Row(LABELS[system], (cell(system), _NONE), 1) for system in local]
        return Table(
            "Table 3",
            f"Parameters, in {'thousands' if small else 'millions'}",
            tuple(("", fusion) for fusion in FUSIONS.values()),
            tuple(rows),
            "Trainable ones; the frozen language models behind the source memory do not count. "
            "The baselines below the rule, which the paper does not list, add to the decoder's "
            "state, as Memory-to-Context does.",
            (paper.TABLE_3,),
        )

    def local_context(self) -> Table:
        """Table 4."""
        metrics = ("bleu", "meteor")
        rows = [
            self.scored(LABELS["jean2017"], Entry("jean2017"), metrics),
            self.scored(LABELS["wang2017"], Entry("wang2017"), metrics),
            self.scored("S-NMT", Entry(BASELINE), metrics, block=1),
            self._beside_local("+src mem", Entry("src-context"), metrics),
            self._beside_local("+both mems", Entry("both-context"), metrics),
        ]
        return Table(
            "Table 4",
            "Memory-to-Context and baselines that read the sentences just before",
            (("", "BLEU"), ("", "METEOR")),
            tuple(mark_best(rows, range(2))),
            f"Mean {_SPREAD}. Bold: the best; significantly better than † S-NMT only, ♠ S-NMT and "
            "Jean et al., ♣ S-NMT and Wang et al., ♦ all three.",
            (paper.TABLE_4,),
        )

    def _beside_local(self, label: str, entry: Entry, metrics: Sequence[str]) -> Row:
        """A row whose one mark says which of three baselines it beats, as in the paper."""
        cells = []
        for metric in metrics:
            beaten = "".join(
                letter
                for letter, system in _LETTERS.items()
                if self.scores.is_better(entry, system, metric)
            )
            cells.append(self.cell(entry, metric, _SUITS.get(beaten, "")))
        return Row(label, tuple(cells), 1)

    def unigrams(self) -> Table:
        """Table 5."""
        blocks = (0, 0, 1, 1, 1)
        systems: tuple[SystemName, ...] = (
            "jean2017", "wang2017", BASELINE, "src-context", "both-context",
        )  # fmt: skip
        labels = (LABELS["jean2017"], LABELS["wang2017"], "S-NMT", "+src mem", "+both mems")
        rows = [
            self.scored(label, Entry(system), ("bleu1",), block=block)
            for label, system, block in zip(labels, systems, blocks, strict=True)
        ]
        return Table(
            "Table 5",
            "Unigram BLEU of Memory-to-Context and the local baselines",
            (("", "BLEU-1"),),
            tuple(mark_best(rows, range(1))),
            f"Mean {_SPREAD}. Bold: the best.",
            (paper.TABLE_5,),
        )

    def target_context(self) -> Table:
        """Table 6."""
        metrics = ("bleu", "meteor")
        against: dict[str, SystemName] = {"†": BASELINE}
        rows = [
            self.scored("S-NMT", Entry(BASELINE), metrics),
            self.scored("+prev trg", Entry("prevtrg"), metrics, against),
            self.scored("+trg mem", Entry("trg-context"), metrics, against),
        ]
        return Table(
            "Table 6",
            "Target context: the translation just before, or all of them",
            (("", "BLEU"), ("", "METEOR")),
            tuple(mark_best(rows, range(2))),
            f"Mean {_SPREAD}. Bold: the best; † significantly better than S-NMT (the paper marks "
            "nothing here). Memory-to-Context.",
            (paper.TABLE_6,),
        )

    def larger_corpus(self) -> Figure:
        """Figure 3."""
        metric = "meteor" if self.scores.measured(Entry(BASELINE), "meteor") else "bleu"
        charts = []
        for fusion, title in FUSIONS.items() if self.config.has_larger else ():
            entries = {"S-NMT": Entry(BASELINE)}
            entries |= {f"S-NMT+{m}": _memory(m)(fusion) for m in MEMORIES}
            series = [
                Series(label, self._sizes(entry, metric), _COLOURS[entry.system])
                for label, entry in entries.items()
            ]
            names = ("smaller corpus", "larger corpus")
            charts.append(Chart("bars", title, "", metric.upper(), tuple(series), names))
        return Figure(
            "Figure 3",
            "The sentence model trained on more sentence pairs",
            tuple(charts),
            "Stage 1 is trained on a smaller and on a larger corpus, stage 2 on the same documents."
            if charts
            else "This experiment has no larger corpus: name one in its section [larger].",
            (paper.FIGURE_3,),
        )

    def _sizes(self, entry: Entry, metric: str) -> tuple[tuple[float, float], ...]:
        """A measure on the smaller and on the larger corpus, where there is one."""
        found = [
            self.scores.measured(entry, metric),
            self.scores.measured(Entry(entry.system, "larger"), metric),
        ]
        return tuple((float(n), m.mean) for n, m in enumerate(found) if m is not None)

    # What the paper does not have.

    def artificial(self) -> Table:
        """The words of the artificial corpus that only the document settles."""
        key = self.results.experiment.key
        items = read_key(key) if key else []
        rows = []
        best = measure(items, self.results.references).kinds
        entries = [Entry(system) for system in self.config.systems]
        for entry in entries:
            found = [measure(items, lines).kinds for lines in self.scores.translations(entry)]
            cells = []
            for kind in KINDS:
                values = [100 * kinds[kind].accuracy for kinds in found]
                cells.append(_mean(values) if values else Cell(self.absence(entry)))
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

    def discourse(self) -> Table:
        """The paper's output analysis, counted instead of looked at."""
        data = self.results.config.data
        languages = (data.src_language, data.trg_language or self.scores.data.lang)
        test = Discourse(
            self.results.sources,
            self.results.references,
            self.results.sizes,
            splitters=(Splitter(languages[0]), Splitter(languages[1])),
        )
        base = self.results.of(BASELINE)
        rows = []
        for system in self.config.systems:
            outputs = self.scores.translations(Entry(system))
            found = [[row.value for row in test.measure(lines).rows()] for lines in outputs]
            errors = [
                test.compare(base_run.translations, run.translations).total.all.rates()
                for base_run, run in zip(base, self.results.of(system), strict=False)
                if base_run.job.seed == run.job.seed and system != BASELINE
            ]
            cells = [_share([values[n] for values in found]) for n in range(5)]
            cells.append(_mean([float(values[5] or 0) for values in found]) if found else _NONE)
            cells += [
                _share([e[name] for e in errors]) for name in ("corrected_share", "new_share")
            ]
            if not found:
                cells[0] = Cell(self.absence(Entry(system)))
            rows.append(Row(LABELS[system], tuple(cells)))
        names = ("of source words", "÷ reference’s", "right", "names", "terms", "<unk>")
        groups = ("consistency", "consistency", "pronouns", "kept", "kept", "")
        errors_of = (("errors of S-NMT", "corrected"), ("errors of S-NMT", "new"))
        return Table(
            "Output analysis",
            "Consistency, pronouns, names, and the errors of S-NMT",
            (*zip(groups, names, strict=True), *errors_of),
            tuple(rows),
            "Per cent, mean over the seeds; a dash where there is nothing to count. Consistency is "
            "the share of repeated source words translated alike, pronouns right and repeated names "
            "and terms kept are shares of the reference’s, new errors are per error of S-NMT. "
            f"How they are counted: {test.signature}. The paper looked at documents by hand: "
            "22 of 32 repeated words consistent against 16 of S-NMT; of 20 errors of S-NMT 85 % "
            "corrected, and 10 % new ones.",
        )

    def all_metrics(self) -> Table:
        """Every system under every metric."""
        names = {
            "bleu": "BLEU",
            "document_bleu": "doc BLEU",
            "chrf": "chrF",
            "ter": "TER ↓",
            "meteor": "METEOR",
        }
        against: dict[str, SystemName] = {"†": BASELINE}
        rows = [
            self.scored(LABELS[s], Entry(s), tuple(names), against) for s in self.config.systems
        ]
        rows = mark_best(mark_best(rows, (0, 1, 2, 4)), (3,), lowest=True)
        return Table(
            "All systems",
            "Every system under every measure",
            tuple(("", name) for name in names.values()),
            tuple(rows),
            f"Mean {_SPREAD}. Bold: the best; † significantly better than S-NMT.",
        )

    def learning(self) -> Figure:
        """Dev perplexity, epoch by epoch."""
        first = [
            Series(f"S-NMT, seed {run.job.seed}", tuple(_curve(run, "stage1")), n % 8)
            for n, run in enumerate(self.results.of(BASELINE))
        ]
        charts = [Chart("lines", "Stage 1", "epoch", "dev perplexity", tuple(first))]
        groups: dict[str, list[SystemName]] = {
            f"Stage 2, {title}": [s for s in MEMORY_SYSTEMS if s.endswith(fusion)]
            for fusion, title in FUSIONS.items()
        }
        groups["Stage 2, local context"] = ["jean2017", "wang2017", "prevtrg"]
        for title, systems in groups.items():
            series = [
                Series(LABELS[system], _mean_curve(self.results.of(system)), _COLOURS[system])
                for system in (*systems, "more")
                if self.results.of(system)
            ]
            charts.append(Chart("lines", title, "epoch", "dev perplexity", tuple(series)))
        return Figure(
            "Learning curves",
            "Perplexity of the dev set after each epoch",
            tuple(chart for chart in charts if chart.series),
            "Mean over the seeds. Stage 2 begins, at 0, with the sentence model of stage 1.",
        )

    def passes(self) -> Figure:
        """BLEU after each pass."""
        systems: list[SystemName] = [*MEMORY_SYSTEMS, "prevtrg"]
        references = self.results.references
        series = []
        for system in systems:
            runs = self.results.of(system)
            count = min((len(run.passes) for run in runs), default=0)
            points = []
            for number in range(count):
                found = [corpus_bleu(run.passes[number], references).value for run in runs]
                points.append((float(number), fsum(found) / len(found)))
            if points:
                dashed = system.endswith("output")
                series.append(Series(LABELS[system], tuple(points), _COLOURS[system], dashed))
        return Figure(
            "Passes",
            "BLEU after each pass over the document",
            (Chart("lines", "", "passes", "BLEU", tuple(series)),),
            "Mean over the seeds; 0 is the sentence model. What reads no translations is settled "
            "after one pass. The paper updates the translations once, and found more passes of no "
            "help.",
        )

    def resources(self) -> Table:
        """Speed and memory of every system."""
        rows = []
        for system in self.config.systems:
            runs = self.results.of(system)
            if not runs:
                absent = Cell(self.absence(Entry(system)))
                rows.append(Row(LABELS[system], (absent, *(_NONE,) * 4)))
                continue
            stage = "stage1" if system == BASELINE else "stage2"
            spent = [_spent(run, stage) for run in runs]
            cells = [
                _mean([seconds for seconds, _ in spent]),
                _mean([words / max(seconds, 1e-9) for seconds, words in spent], 0),
                _mean([run.figures["translation_seconds"] for run in runs]),
                _mean([run.figures["words_per_second"] for run in runs], 0),
                _mean([run.figures["peak_rss_mb"] for run in runs], 0),
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


_SPREAD = "± standard deviation over the seeds"
_LETTERS: dict[str, SystemName] = {"s": BASELINE, "j": "jean2017", "w": "wang2017"}
_SUITS = {"s": "†", "sj": "♠", "sw": "♣", "sjw": "♦"}
_INFORMATION = {"sentence": "the sentence", "source": "the source", "both": "both sides"}


def _memory(memory: str, shuffled: bool = False) -> "Callable[[str], Entry]":
    """The system with a memory, by its fusion."""
    systems = {system: system for system in MEMORY_SYSTEMS}
    return lambda fusion: Entry(
        next(s for s in systems if s == f"{memory}-{fusion}"), "shuffled" if shuffled else ""
    )


def _count(number: int) -> Cell:
    return Cell(f"{number:,}", number)


def _mean(values: Sequence[float], digits: int = 1) -> Cell:
    value = fsum(values) / len(values)
    return Cell(f"{value:,.{digits}f}", value)


def _share(values: Sequence[float | None]) -> Cell:
    """The mean of shares, in per cent; those that do not exist do not count."""
    known = [100 * value for value in values if value is not None]
    return _mean(known) if known else _NONE


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
