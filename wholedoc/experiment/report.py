"""The report of an experiment: one HTML page, Markdown and JSON, all from the same values.

A report is a function of what lies on disk.
"""

import json
import re
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

from wholedoc.experiment import tables
from wholedoc.experiment.grid import BASELINE, PAPER_SYSTEMS, Job, SystemName
from wholedoc.experiment.recall_tables import RecallTables
from wholedoc.experiment.results import Results, RunResults
from wholedoc.experiment.tables import FUSIONS, LABELS, CellMaker, read_printed
from wholedoc.files import write_atomically
from wholedoc.rendering.charts import Figure, draw_heat_map
from wholedoc.rendering.tables import Cell, Row, Table, escape, join_parts, make_page

_PIECE = re.compile(r"\w+|\W+")


@dataclass(frozen=True)
class Example:
    """A sentence of the test set in all its translations."""

    kind: str
    """Why it was chosen: "largest gain" or "largest loss"."""
    system: SystemName
    """Whose gain or loss it is."""
    seed: int
    document: int
    """The index of the document in the test set."""
    document_name: str
    sentence: int
    """The index of the sentence in its document."""
    change: float
    """chrF of the system's translation minus that of the sentence model's."""
    src: str
    trg: str
    translations: dict[SystemName, str]
    weights: dict[str, Tensor]
    """Which sentences each sentence of the document read, by memory."""

    def to_json(self) -> dict[str, Any]:
        """All but the weights of the sentences around it."""
        read = {side: matrix[self.sentence].tolist() for side, matrix in self.weights.items()}
        return {**vars(self), "weights": read}

    @property
    def choice(self) -> str:
        """Why it is shown."""
        return (
            f"{self.kind.capitalize()}: sentence {self.sentence + 1} of {self.document_name}, "
            f"chrF {self.change:+.1f} ({LABELS[self.system]} over S-NMT, seed {self.seed})."
        )

    def to_html(self) -> str:
        """The translations with their words marked, and the weights of the document."""
        rows = [("Source", escape(self.src)), ("Target", escape(self.trg))]
        everywhere = _words(self.trg).intersection(*map(_words, self.translations.values()))
        for system, text in self.translations.items():
            rows.append((LABELS[system], _marked(text, self.trg, everywhere)))
        body = "".join(f"<tr><th>{escape(name)}</th><td>{text}</td></tr>" for name, text in rows)
        maps = "".join(
            draw_heat_map(weights, f"{side.capitalize()} memory", side, self.sentence)
            for side, weights in self.weights.items()
        )
        return (
            f"<h3>{escape(self.choice)}</h3>"
            f'<div class="wide"><table class="example">{body}</table></div>'
            f'<div class="maps">{maps}</div>'
        )

    def to_markdown(self) -> str:
        """The translations as a table."""
        texts = {"Source": self.src, "Target": self.trg}
        texts |= {LABELS[system]: text for system, text in self.translations.items()}
        rows = [Row(name, (Cell(text),)) for name, text in texts.items()]
        return join_parts([self.choice, Table("", "", {"": [""]}, rows).to_markdown()])


def _marked(text: str, reference: str, everywhere: Set[str]) -> str:
    """A translation with the words marked that tell it from the reference and from others."""
    known = _words(reference)
    pieces = []
    for piece in _PIECE.findall(text):
        word, shown = piece.lower(), escape(piece)
        if piece[0].isalnum() and word not in everywhere:
            shown = f'<mark class="{"right" if word in known else "wrong"}">{shown}</mark>'
        pieces.append(shown)
    return "".join(pieces)


def _words(text: str) -> set[str]:
    return set(_PIECE.findall(text.lower()))


@dataclass(frozen=True)
class Examples:
    """The sentences that stand where the paper has its Table 7."""

    chosen: tuple[Example, ...]
    name: str = "Table 7"
    title: str = "Examples"
    note: str = ""
    rule: str = (
        "Chosen by rule, not by hand as in the paper: of all sentences of the test set, the one "
        "whose chrF rises most from S-NMT to the system with both memories, and the one whose chrF "
        "falls most."
    )

    def to_html(self) -> str:
        """Each sentence with its translations and the weights of its document."""
        note = f'<p class="note">{escape(self.rule)}</p>'
        if not self.chosen:
            return f"{note}<p>No translation differs.</p>"
        return (
            f'{note}<p class="note"><mark class="right">Blue</mark> words stand in the reference '
            'and not in every translation shown, <mark class="wrong">red</mark> ones not in the '
            "reference. The maps show which sentences each sentence reads in the last pass; the "
            "framed row is the sentence shown.</p>"
            f"{''.join(example.to_html() for example in self.chosen)}"
        )

    def to_markdown(self) -> str:
        """Each sentence with its translations."""
        return join_parts([self.rule, *(example.to_markdown() for example in self.chosen)])


Block = Table | Figure | Examples


@dataclass(frozen=True)
class Report:
    """All that the page shows, in order."""

    title: str
    facts: dict[str, str]
    """What was done, for the head of the page."""
    failed: dict[str, str]
    """The runs that failed, and why."""
    blocks: list[Block]
    signatures: dict[str, str]
    """How each measure was computed."""
    missing: dict[str, str]
    """Measures that could not be computed, and why."""

    def to_json(self) -> dict[str, Any]:
        """Every number of the report."""
        examples = [block.chosen for block in self.blocks if isinstance(block, Examples)]
        return {
            "title": self.title,
            "facts": self.facts,
            "failed": self.failed,
            "tables": [block.to_json() for block in self.blocks if isinstance(block, Table)],
            "figures": [block.to_json() for block in self.blocks if isinstance(block, Figure)],
            "examples": [example.to_json() for chosen in examples for example in chosen],
            "signatures": self.signatures,
            "missing": self.missing,
        }


def build_report(results: Results) -> Report:
    """Measure everything and put it where the paper has it."""
    make = CellMaker(results)
    blocks: list[Block] = [tables.corpora_table(make)]
    if set(make.config.systems) & set(PAPER_SYSTEMS[1:]):
        blocks += [
            tables.main_table(make),
            tables.parameter_table(make),
            *tables.local_context_tables(make),
            tables.larger_corpus_figure(make),
            Examples(tuple(choose_examples(results))),
        ]
    blocks += RecallTables(make).blocks()
    if make.config.synth:
        blocks.append(tables.artificial_table(make))
    blocks += [
        tables.discourse_table(make),
        tables.context_use_table(make),
        tables.distance_figure(make),
        tables.metric_table(make),
        tables.learning_figure(make),
        tables.passes_figure(make),
        tables.resource_table(make),
    ]
    return Report(
        title=make.config.title or results.experiment.out.name,
        facts=_facts(make),
        failed=results.failed,
        blocks=blocks,
        signatures=make.signatures,
        missing=dict(make.counts.missing),
    )


def _facts(make: CellMaker) -> dict[str, str]:
    """What was done."""
    jobs = make.results.experiment.jobs()
    config, data = make.results.config, make.results.config.data
    vocabulary = config.vocabulary
    kernels = sorted({run.figures.kernels for run in make.results.runs.values()} - {""})
    return {
        "runs": f"{len(make.results.runs)} of {len(jobs)} finished",
        "seeds": ", ".join(map(str, make.config.seeds)),
        "configuration": make.config.config,
        "model": f"{config.model.hidden} hidden, {config.model.embedding} embedding, "
        f"{config.model.alignment} alignment",
        "vocabulary": f"{vocabulary.kind}s, "
        + ("shared" if vocabulary.shared else "one for each side"),
        "test set": ("artificial" if make.config.synth else data.test.src)
        + (", references in lower case as the models' words" if make.results.lower_cased else ""),
        "translation": f"beam {config.search.beam}, {config.search.passes} "
        f"pass{'es' if config.search.passes != 1 else ''} after the first translations",
        "computed by": "; ".join(kernels),
    }


def choose_examples(results: Results) -> list[Example]:
    """The sentence that gains most from a memory and the one that loses most, in chrF.

    The system is the paper's best, with both memories to context, or the next that is there; the
    seed is the first with which it and the sentence model were trained. Of equals the first counts.
    """
    preferred = [fused[memory] for memory in ("both", "src", "trg") for fused in FUSIONS.values()]
    for run in [run for system in preferred for run in results.of(system)]:
        base = results.runs.get(Job(BASELINE, run.job.seed))
        if base is not None:
            return _extremes(results, run, base)
    return []


def _extremes(results: Results, run: RunResults, base: RunResults) -> list[Example]:
    metric = CHRF()
    changes = [
        metric.sentence_score(ours, [reference]).score
        - metric.sentence_score(theirs, [reference]).score
        for ours, theirs, reference in zip(
            run.translations, base.translations, results.references, strict=True
        )
    ]
    places = [(d, t) for d, size in enumerate(results.sizes) for t in range(size)]
    fusion = run.job.system.partition("-")[2]
    shown = (BASELINE, f"src-{fusion}", f"trg-{fusion}", f"both-{fusion}", "wang2017")
    chosen = {"largest gain": max(0.0, *changes), "largest loss": min(0.0, *changes)}
    examples = []
    for kind, change in chosen.items():
        if change == 0:
            continue
        line = changes.index(change)
        document, sentence = places[line]
        example = Example(
            kind=kind,
            system=run.job.system,
            seed=run.job.seed,
            document=document,
            document_name=results.documents[document].name,
            sentence=sentence,
            change=change,
            src=results.sources[line],
            trg=results.references[line],
            translations={
                job.system: found.translations[line]
                for job, found in results.runs.items()
                if job.seed == run.job.seed and not job.larger and job.system in shown
            },
            weights=run.document_weights(document),
        )
        examples.append(example)
    return examples


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
        parts += [f"## {block.name}: {block.title}", block.to_markdown(), block.note]
        for table in read_printed().get(block.name, ()):
            caption = f" ({table.title})" if table.title else ""
            parts += [f"The paper's numbers{caption}:", table.to_markdown()]
    parts += ["## Signatures", _bullets(report.signatures)]
    if report.missing:
        parts += ["## Missing measures", _bullets(report.missing)]
    return join_parts(parts) + "\n"


def _bullets(values: dict[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in values.items())


def format_html(report: Report) -> str:
    """The report as one page that needs nothing else."""
    contents = sections = failed = ""
    for block in report.blocks:
        anchor = block.name.lower().replace(" ", "-")
        heading = escape(f"{block.name}: {block.title}")
        contents += f'<li><a href="#{anchor}">{heading}</a></li>'
        sections += f'<section id="{anchor}"><h2>{heading}</h2>{block.to_html()}'
        sections += f"{_html_note(block)}</section>"
    if report.failed:
        failed = f'<div class="failed"><h2>Failed runs</h2>{_html_facts(report.failed)}</div>'
    missing = {name: f"missing: {reason}" for name, reason in report.missing.items()}
    body = (
        f"<h1>{escape(report.title)}</h1>\n{_html_facts(report.facts)}\n"
        f"{failed}\n<nav><h2>Contents</h2><ol>{contents}</ol></nav>\n{sections}\n"
        '<section id="signatures"><h2>Signatures</h2><p class="note">All that repeats the numbers '
        f"above.</p>{_html_facts(report.signatures | missing)}</section>"
    )
    return make_page(report.title, body, style="experiment.css")


def _html_note(block: Block) -> str:
    """What stands below a table or a figure: its note, and the paper's numbers behind a fold."""
    shown = f'<p class="note">{escape(block.note)}</p>' if block.note else ""
    printed = read_printed().get(block.name, ())
    tables = "".join(f"<p>{escape(table.title)}</p>{table.to_html()}" for table in printed)
    fold = f"<details><summary>The paper’s numbers</summary>{tables}</details>"
    return shown + (fold if tables else "")


def _html_facts(facts: dict[str, str]) -> str:
    rows = (f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    return f"<dl>{''.join(rows)}</dl>"
