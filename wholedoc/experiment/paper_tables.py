"""The tables and figures of the paper, filled by an experiment."""

from collections.abc import Sequence

from wholedoc.corpus.filters import Filters
from wholedoc.corpus.readers import read_corpus
from wholedoc.corpus.statistics import measure_corpus
from wholedoc.experiment import paper
from wholedoc.experiment.cells import (
    COLOURS,
    FUSIONS,
    LABELS,
    MEMORIES,
    NONE,
    SPREAD,
    CellMaker,
    count_cell,
)
from wholedoc.experiment.grid import BASELINE, Job, SystemName
from wholedoc.experiment.scores import Entry
from wholedoc.rendering.tables import Cell, Chart, Figure, Row, Series, Table, mark_best

_LETTERS: dict[str, SystemName] = {"s": BASELINE, "j": "jean2017", "w": "wang2017"}
_SUITS = {"s": "†", "sj": "♠", "sw": "♣", "sjw": "♦"}


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


def _vocabulary(make: CellMaker) -> tuple[Cell, Cell]:
    runs = make.results.of(BASELINE)
    if not runs:
        return NONE, NONE
    figures = runs[0].figures
    return count_cell(figures["src_vocabulary"]), count_cell(figures["trg_vocabulary"])


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
    columns = [(fusion, metric) for fusion in FUSIONS for metric in ("BLEU", "METEOR")]
    return Table(
        "Table 2",
        "The sentence model and the memories",
        tuple(columns),
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
    small = bool(base) and base[0].figures["parameters"] < 1_000_000
    unit = 1_000 if small else 1_000_000

    def cell(system: SystemName) -> Cell:
        runs = make.results.of(system)
        if not runs:
            return Cell(make.absence(Entry(system)))
        value = runs[0].figures["parameters"] / unit
        return Cell(f"{value:.1f}", value)

    rows = [Row("S-NMT", (cell(BASELINE),) * 2)]
    rows += [
        Row(label, tuple(cell(systems[memory]) for systems in FUSIONS.values()))
        for memory, label in zip(MEMORIES, ("+src mem", "+trg mem", "+both mems"), strict=True)
    ]
    local: tuple[SystemName, ...] = ("jean2017", "wang2017", "prevtrg")
    rows += [Row(LABELS[system], (cell(system), NONE), 1) for system in local]
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
    metrics = ("bleu", "meteor")
    rows = [
        make.scored(LABELS["jean2017"], Entry("jean2017"), metrics),
        make.scored(LABELS["wang2017"], Entry("wang2017"), metrics),
        make.scored("S-NMT", Entry(BASELINE), metrics, block=1),
        _beside_local(make, "+src mem", Entry("src-context"), metrics),
        _beside_local(make, "+both mems", Entry("both-context"), metrics),
    ]
    return Table(
        "Table 4",
        "Memory-to-Context and the local baselines",
        (("", "BLEU"), ("", "METEOR")),
        tuple(mark_best(rows, range(2))),
        f"Mean {SPREAD}. Bold: the best; significantly better than † S-NMT only, ♠ S-NMT and "
        "Jean et al., ♣ S-NMT and Wang et al., ♦ all three.",
        (paper.TABLE_4,),
    )


def _beside_local(make: CellMaker, label: str, entry: Entry, metrics: Sequence[str]) -> Row:
    """A row whose one mark says which of three baselines it beats, as in the paper."""
    cells = []
    for metric in metrics:
        beaten = "".join(
            letter
            for letter, system in _LETTERS.items()
            if make.scores.is_better(entry, system, metric)
        )
        cells.append(make.cell(entry, metric, _SUITS.get(beaten, "")))
    return Row(label, tuple(cells), 1)


def unigram_table(make: CellMaker) -> Table:
    """Table 5."""
    blocks = (0, 0, 1, 1, 1)
    systems: tuple[SystemName, ...] = (
        "jean2017", "wang2017", BASELINE, "src-context", "both-context",
    )  # fmt: skip
    labels = (LABELS["jean2017"], LABELS["wang2017"], "S-NMT", "+src mem", "+both mems")
    rows = [
        make.scored(label, Entry(system), ("bleu1",), block=block)
        for label, system, block in zip(labels, systems, blocks, strict=True)
    ]
    return Table(
        "Table 5",
        "Unigram BLEU of the same systems",
        (("", "BLEU-1"),),
        tuple(mark_best(rows, range(1))),
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
        (("", "BLEU"), ("", "METEOR")),
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
        series = [
            Series(label, _sizes(make, system, metric), COLOURS[system])
            for label, system in systems.items()
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


def _sizes(make: CellMaker, system: SystemName, metric: str) -> tuple[tuple[float, float], ...]:
    """A measure on the smaller and on the larger corpus, where there is one."""
    entries = (Entry(system), Entry(system, "larger"))
    found = [make.scores.measured(entry, metric) for entry in entries]
    return tuple((float(n), m.mean) for n, m in enumerate(found) if m is not None)
